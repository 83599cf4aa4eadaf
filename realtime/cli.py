"""The `sori` command. Nothing heavy is imported here: the engine's workers import it again."""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.config import STAGE_NAMES

if TYPE_CHECKING:
    from realtime.config import Config

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

BENCHES = (
    "voice",
    "cascade",
    "restarts",
    "pauses",
    "noises",
    "barge_in",
    "overhead",
    "threads",
    "watermark",
    "users",
    "beside",
    "handoff",
    "soak",
    "roundtrip",
    "quality",
    "omni",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. Errors are one line on stderr."""
    arguments = build_parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except tuple(_expected_errors()) as error:
        print(f"sori: {error}", file=sys.stderr)
        return EXIT_USAGE if type(error).__name__ == "ConfigError" else EXIT_FAILED
    return code


def build_parser() -> argparse.ArgumentParser:
    """Every command and its options."""
    parser = argparse.ArgumentParser(prog="sori", description="A voice you can talk to.")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    config = argparse.ArgumentParser(add_help=False)
    config.add_argument("--config", type=Path, metavar="FILE", help="YAML configuration")

    serve = commands.add_parser("serve", parents=[config], help="run the server")
    serve.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    serve.add_argument("--port", type=int, help="port to listen on (default 8000)")
    serve.add_argument(
        "--allow-anonymous",
        action="store_true",
        default=None,
        help="let other machines in without API keys",
    )
    serve.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate, PEM")
    serve.add_argument("--tls-key", type=Path, metavar="FILE", help="its private key, PEM")
    serve.add_argument(
        "--tls-self-signed", action="store_true", help="make a certificate and use it"
    )
    # Known from other servers; refused with the reason instead of "unrecognized arguments".
    serve.add_argument("--reload", action="store_true", help=argparse.SUPPRESS)
    serve.add_argument("--workers", type=int, default=1, help=argparse.SUPPRESS)
    serve.set_defaults(run=_serve)

    models = commands.add_parser("models", parents=[config], help="the embedded models, and others")
    models.add_argument("action", choices=("fetch", "list", "verify", "tiny"))
    models.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="fetch: ids of the Hugging Face hub instead of the embedded models; "
        "tiny: a family (qwen3-omni, qwen2.5-omni) and the folder for a random checkpoint of it",
    )
    models.set_defaults(run=_models)

    voices = commands.add_parser("voices", help="list the voices")
    voices.set_defaults(run=_voices)

    say = commands.add_parser("say", parents=[config], help="speak a text into a WAV file")
    say.add_argument("text")
    say.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    say.add_argument("--voice", help="one of `sori voices`")
    say.add_argument("--speed", type=float, default=1.0, help="0.25 to 4 (default 1)")
    say.set_defaults(run=_say)

    transcribe = commands.add_parser("transcribe", parents=[config], help="write down a recording")
    transcribe.add_argument("file", type=Path)
    transcribe.add_argument("--language", help="ISO 639-1 code, if known")
    transcribe.set_defaults(run=_transcribe)

    mark = commands.add_parser("watermark", help="read a recording's mark, or put one in")
    actions = mark.add_subparsers(dest="action", required=True, metavar="ACTION")
    detect = actions.add_parser("detect", parents=[config], help="exit code 0 if it is marked")
    detect.add_argument("file", type=Path)
    detect.add_argument("--threshold", type=float, default=1e-6, metavar="P")
    detect.set_defaults(run=_detect)
    embed = actions.add_parser("embed", parents=[config], help="into a 24 kHz WAV file")
    embed.add_argument("file", type=Path)
    embed.add_argument("output", type=Path)
    embed.add_argument("--payload", type=int, help="0 to 65535, instead of the configuration's")
    embed.set_defaults(run=_embed)

    bench = commands.add_parser("bench", help="measure", add_help=False)
    bench.add_argument("bench", choices=BENCHES)
    bench.add_argument("rest", nargs=argparse.REMAINDER)
    bench.set_defaults(run=_bench)
    return parser


def _expected_errors() -> list[type[Exception]]:
    """What is reported as one line; anything else is a bug and shows its traceback."""
    from pipeline.errors import EngineError
    from pipeline.models.store import ModelError
    from realtime.config import ConfigError
    from realtime.marking import MarkingError
    from realtime.oneshot import OneShotError
    from realtime.serving import BindError

    return [ConfigError, ModelError, EngineError, OneShotError, MarkingError, BindError]


def _serve(arguments: argparse.Namespace) -> int:
    from realtime.config import ConfigError, load_config

    if arguments.reload:
        raise ConfigError("--reload is not supported: models and sessions live in this process")
    if arguments.workers != 1:
        raise ConfigError(
            f"--workers {arguments.workers} is not supported: one server process holds all "
            "sessions; models run in processes of their own"
        )
    config = load_config(
        arguments.config,
        host=arguments.host,
        port=arguments.port,
        allow_anonymous=arguments.allow_anonymous,
        tls_cert=arguments.tls_cert,
        tls_key=arguments.tls_key,
    )
    if arguments.tls_self_signed:
        from realtime.certificate import make_self_signed

        certificate, key = make_self_signed(config.home / "tls", config.host)
        config = config.model_copy(update={"tls_cert": certificate, "tls_key": key})
    config.require_safe_bind()

    from realtime import serving

    listener = serving.bind(config.host, config.port)
    with listener:
        _fetch_missing(config)
        return serving.run(config, listener)


def _models(arguments: argparse.Namespace) -> int:
    from pipeline.models import hub, store
    from realtime.config import load_config

    if arguments.action == "tiny":
        return _tiny(arguments.names)
    home = load_config(arguments.config).home
    if arguments.names and arguments.action == "fetch":
        for name in arguments.names:
            print(hub.fetch_from_hub(home, name))
        return 0
    if arguments.names:
        raise store.ModelError(f"sori models {arguments.action} takes no names")
    if arguments.action == "fetch":
        store.fetch(home)
    rows = store.verify(home) if arguments.action == "verify" else store.list_models(home)
    for row in rows:
        print(
            f"{row.name:24} {row.role:12} {row.nbytes / 1e6:6.1f} MB  {row.licence:13} {row.state}"
        )
    print(f"in {home / 'models'}")
    return EXIT_FAILED if arguments.action != "list" and not all(r.ok for r in rows) else 0


def _tiny(names: Sequence[str]) -> int:
    from pipeline.models import store

    families = ("qwen3-omni", "qwen2.5-omni")
    if len(names) != 2 or names[0] not in families:
        raise store.ModelError(f"say: sori models tiny {'|'.join(families)} FOLDER")
    family = re.sub(r"\W", "_", names[0])
    try:
        # By name: the server, which this is the command of, imports no model runtime.
        module = importlib.import_module(f"pipeline.models.tiny_{family}")
        getattr(module, f"make_tiny_{family}")(Path(names[1]))
    except ImportError as error:
        raise store.ModelError(f"{error}; pip install 'sori[omni]'") from error
    print(f"a random {names[0]} of 400,000 weights at most is in {names[1]}")
    return 0


def _voices(arguments: argparse.Namespace) -> int:
    from pipeline.voices import ALIASES, VOICES

    for voice in VOICES.values():
        print(f"{voice.name:10} {voice.f0_hz:5.0f} Hz  {voice.description}")
    for alias, name in ALIASES.items():
        print(f"{alias:10} the same as {name}")
    return 0


def _fetch_missing(config: Config, stages: Sequence[str] = STAGE_NAMES) -> None:
    """Bring in the embedded models that these stages use; on a first start, with a progress bar."""
    from pipeline.models import store
    from pipeline.stages import models_of

    wanted = [name for stage in stages for name in models_of(getattr(config.stages, stage))]
    if missing := store.missing(config.home, wanted):
        print(f"sori: fetching models into {config.home / 'models'} (once)", file=sys.stderr)
        store.fetch(config.home, missing)
    store.check(config.home, wanted)


def _say(arguments: argparse.Namespace) -> int:
    from realtime import oneshot
    from realtime.config import load_config

    config = load_config(arguments.config)
    _fetch_missing(config, oneshot.SPEAKING)
    oneshot.say(
        config,
        arguments.text,
        arguments.output,
        voice=arguments.voice or config.voice,
        speed=arguments.speed,
    )
    return 0


def _transcribe(arguments: argparse.Namespace) -> int:
    from realtime import oneshot
    from realtime.config import load_config

    config = load_config(arguments.config)
    _fetch_missing(config, oneshot.HEARING)
    print(oneshot.transcribe(config, arguments.file, language=arguments.language))
    return 0


def _detect(arguments: argparse.Namespace) -> int:
    from realtime import marking
    from realtime.config import load_config

    found = marking.detect(load_config(arguments.config), arguments.file, arguments.threshold)
    if not found.detected:
        print(f"no mark of this key (p = {found.p_value:.2g})")
        return EXIT_FAILED
    for one in found.ranges:
        where = f"{one.start_s:8.1f} to {one.end_s:8.1f} s"
        print(f"{where}: payload {one.payload} (p = {one.p_value:.2g})")
    return 0


def _embed(arguments: argparse.Namespace) -> int:
    from realtime import marking
    from realtime.config import load_config

    marking.embed(
        load_config(arguments.config), arguments.file, arguments.output, arguments.payload
    )
    return 0


def _bench(arguments: argparse.Namespace) -> int:
    # By name: the server does not depend on its benchmarks.
    code: int | None = importlib.import_module(f"bench.{arguments.bench}").main(arguments.rest)
    return code or 0


if __name__ == "__main__":
    sys.exit(main())
