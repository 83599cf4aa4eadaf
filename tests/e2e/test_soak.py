"""A short soak: everything goes wrong for a while, and afterwards nothing is left of it.

Memory is not compared here: so short a time does not show whether it grows. `sori bench soak` does.
"""

from __future__ import annotations

from bench.restless import ACTS
from bench.server import start_server
from bench.soak import POOL_THREADS, Soak, build_parser, scripted_stages
from pipeline.config import STAGE_NAMES

STOPPED_S = 1.0


async def test_nothing_is_left_of_turns_that_went_wrong_in_every_way() -> None:
    arguments = build_parser().parse_args(["--turns", "300", "--disconnects", "40"])
    with start_server({"stages": scripted_stages(), "log_level": "error"}) as server:
        soak = Soak(server, arguments)
        await soak.run()
        assert soak.killed == list(STAGE_NAMES)
        assert set(soak.tally.acts) >= {act.__name__ for act in ACTS[0]} | {"http"}
        assert set(soak.tally.ends) >= {"completed", "cancelled", "failed", "http 200"}
        assert soak.tally.hung == []
        assert soak.left == []
        assert max(soak.rest_s[-arguments.disconnects :]) < STOPPED_S
        first, last = soak.looks[0].counts(), soak.looks[-1].counts()
        assert last.pop("threads") <= first.pop("threads") + POOL_THREADS
        assert last.pop("descriptors") <= first.pop("descriptors")
        assert last == first
        assert server.stop() == 0
        assert "Traceback" not in server.log()
