"""`sori bench barge_in`: people talk into a reply; how soon is it noticed, how soon is it quiet?

Onset to `speech_started`: from the start of the voice in the recording to the event. Quiet: from
that event to the last audio delta of the reply; none may come after its `response.done`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.client import Gone, Late, open_client
from bench.clips import DEFAULT_FOLDER, Clip, ClipsError, load_clips
from bench.machine import describe_machine
from bench.report import print_report, render_table, summaries_json, summarise
from bench.server import ServerError, end_on_sigterm, start_server
from bench.turn import Received

REQUEST = "Explain in five long sentences how bread is made."
INTO_THE_REPLY_S = 1.0
DEADLINE_S = 20.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark. Returns the exit code: 1 if nothing could run."""
    arguments = build_parser().parse_args(argv)
    try:
        clips = load_clips(arguments.clips)
        end_on_sigterm()
        print("starting a server …", file=sys.stderr)
        with start_server(arguments.config) as server:
            cuts = asyncio.run(measure(server.realtime_url, clips, arguments.turns))
    except (ClipsError, ServerError, OSError, Late, Gone) as error:
        print(f"sori bench barge_in: {error}", file=sys.stderr)
        return 1
    rows = {
        "onset_to_speech_started": summarise(cut.noticed_ms for cut in cuts),
        "speech_started_to_last_audio": summarise(cut.quiet_ms for cut in cuts),
        "speech_started_to_done": summarise(cut.done_ms for cut in cuts),
    }
    late = sum(cut.audio_after_done for cut in cuts)
    print_report(
        [f"{len(cuts)} interruptions", render_table(rows, "ms"), f"audio after the end: {late}"],
        {
            "bench": "barge_in",
            "machine": describe_machine(),
            "interruptions": len(cuts),
            "ms": summaries_json(rows),
            "audio_after_done": late,
        },
    )
    return 0


def build_parser() -> argparse.ArgumentParser:
    """The options of `sori bench barge_in`."""
    parser = argparse.ArgumentParser(prog="sori bench barge_in", description=__doc__)
    parser.add_argument("--config", type=Path, help="configuration of the server")
    parser.add_argument("--turns", type=int, default=21, help="interruptions")
    parser.add_argument("--clips", type=Path, default=DEFAULT_FOLDER, help="folder of recordings")
    return parser


@dataclass(frozen=True, slots=True)
class Cut:
    """One interruption. Milliseconds; quiet_ms is 0 if no audio came after the notice."""

    noticed_ms: float
    quiet_ms: float
    done_ms: float
    audio_after_done: int


async def measure(url: str, clips: Sequence[Clip], turns: int) -> list[Cut]:
    """Each interruption in a session of its own."""
    cuts = []
    for turn in range(turns):
        cut = await _interrupt(url, clips[turn % len(clips)])
        print(f"  {cut.noticed_ms:5.0f} ms  {cut.quiet_ms:5.1f} ms", file=sys.stderr)
        cuts.append(cut)
    return cuts


async def _interrupt(url: str, clip: Clip) -> Cut:
    async with open_client(url) as client:
        client.switch_on()
        content = [{"type": "input_text", "text": REQUEST}]
        message = {"type": "message", "role": "user", "content": content}
        await client.send({"type": "conversation.item.create", "item": message})
        await client.send({"type": "response.create"})
        await client.wait_for("response.output_audio.delta", DEADLINE_S)
        await asyncio.sleep(INTO_THE_REPLY_S)
        since = len(client.events)
        spoken_at_s = client.queue_speech(client.wire.from_clip(clip.samples))
        await client.wait_for("response.done", DEADLINE_S, since)
        await asyncio.sleep(0.2)  # for what must not come
        return read_cut(client.events[since:], spoken_at_s + clip.speech_start_ms / 1000)


def read_cut(events: Sequence[Received], onset_at_s: float) -> Cut:
    """From the events since the clip was queued."""
    noticed = next(got for got in events if got.type == "input_audio_buffer.speech_started")
    done = next(got for got in events if got.type == "response.done")
    audio = [got for got in events if got.type == "response.output_audio.delta"]
    stale = [got.at_s for got in audio if noticed.at_s < got.at_s <= done.at_s]
    response_id = done.event["response"]["id"]
    after = [g for g in audio if g.at_s > done.at_s and g.event["response_id"] == response_id]
    return Cut(
        noticed_ms=(noticed.at_s - onset_at_s) * 1000,
        quiet_ms=(max(stale, default=noticed.at_s) - noticed.at_s) * 1000,
        done_ms=(done.at_s - noticed.at_s) * 1000,
        audio_after_done=len(after),
    )
