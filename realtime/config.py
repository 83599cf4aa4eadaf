"""The configuration: the engine's keys and the server's, from one YAML file and `SORI_…` variables.

Later sources win: defaults, file, environment, command line. A key that nobody knows is an error
that names it, because a setting that silently does nothing is worse than a server that won't start.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    SettingsConfigDict,
    SettingsError,
)

from pipeline.config import EngineConfig, StagesConfig, default_home
from realtime.interruption import BACKCHANNELS

ENV_PREFIX = "SORI_"
ENV_NESTING = "__"

INSTRUCTIONS = (
    "You are a helpful voice assistant. Talk with the user in short, plain English sentences."
)
"""What the embedded model follows best: longer instructions confuse its 135 million parameters."""

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})


class ConfigError(Exception):
    """The configuration cannot be used. The message names every key at fault."""


def _split_at_commas(value: object) -> object:
    """Let an environment variable hold a list as `a,b,c`."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split_at_commas)]

HomePath = Annotated[Path, AfterValidator(Path.expanduser)]


class Config(EngineConfig):
    """Every key of the configuration. Times and sizes in the unit of their suffix."""

    home: HomePath = Field(default_factory=default_home)

    host: str = "127.0.0.1"
    port: int = Field(8000, ge=0, le=65535)
    tls_cert: Path | None = None
    tls_key: Path | None = None

    api_keys: Names = ()
    allow_anonymous: bool = False
    client_secret_key: str = Field("", pattern=r"^$|^.{16,}$")
    allowed_origins: Names = ()

    model: str = "sori"
    model_aliases: Names = ("gpt-*", "chatgpt-*", "whisper-*", "tts-*")
    instructions: str = INSTRUCTIONS
    voice: str = "marin"
    backchannels: Names = BACKCHANNELS

    max_sessions: int = Field(256, ge=1)
    max_rest_requests: int = Field(32, ge=1)
    max_body_bytes: int = Field(32 * 1024 * 1024, ge=64 * 1024)
    max_file_bytes: int = Field(512 * 1024 * 1024, ge=64 * 1024)
    max_input_audio_s: float = Field(600.0, gt=0)
    max_image_pixels: int = Field(16_777_216, ge=1, le=1 << 28)
    max_prompt_pixels: int = Field(33_554_432, ge=1, le=1 << 30)
    max_seen_images: int = Field(4, ge=1, le=16)
    max_kept_image_bytes: int = Field(8 * 1024 * 1024, ge=1024)
    max_item_image_bytes: int = Field(700_000, ge=0, le=16 * 1024 * 1024)
    accept_any_model: bool = False
    max_session_s: float = Field(3600.0, gt=0)
    idle_timeout_s: float = Field(900.0, gt=0)
    max_buffer_s: float = Field(600.0, gt=0)
    max_heard_s: float = Field(120.0, gt=0)
    max_turn_s: float = Field(60.0, ge=1)
    max_append_bytes: int = Field(1024 * 1024, ge=1024, le=15 * 1024 * 1024)
    ws_max_size: int = Field(32 * 1024 * 1024, ge=64 * 1024)
    max_item_audio_bytes: int = Field(480_000, ge=0, le=16 * 1024 * 1024)
    max_kept_audio_bytes: int = Field(4 * 1024 * 1024, ge=0)
    max_outgoing_bytes: int = Field(8 * 1024 * 1024, ge=64 * 1024)

    pacing_lead_ms: int = Field(2000, ge=100, le=60_000)
    drain_timeout_s: float = Field(10.0, ge=0)
    shutdown_timeout_s: int = Field(5, ge=1)
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @model_validator(mode="after")
    def _check(self) -> Config:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key go together: give both or neither")
        if self.synthesis_lead_ms <= self.pacing_lead_ms:
            # Synthesis would wait for a playhead that waits for synthesis.
            raise ValueError("synthesis_lead_ms must be greater than pacing_lead_ms")
        return self

    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return self.host in LOOPBACK_HOSTS or self.host.startswith("127.")

    def require_safe_bind(self) -> None:
        """Refuse to serve strangers without keys. Raises ConfigError."""
        if self.is_loopback() or self.api_keys or self.allow_anonymous:
            return
        raise ConfigError(
            f"host {self.host!r} can be reached from other machines: set api_keys (or "
            f"{ENV_PREFIX}API_KEYS), or pass --allow-anonymous if everyone there may use it"
        )

    def knows_model(self, name: str) -> bool:
        """Whether a client may ask for this model: the server's own name or an alias."""
        return (
            self.accept_any_model
            or name == self.model
            or any(fnmatchcase(name, alias) for alias in self.model_aliases)
        )


class _Environment(Config, BaseSettings):
    """Tells pydantic-settings how variables map to keys; never instantiated."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, env_nested_delimiter=ENV_NESTING, env_ignore_empty=True
    )


def load_config(path: Path | None = None, **overrides: Any) -> Config:
    """Read the layers and validate them together.

    overrides: keys from the command line; None means not given. Raises ConfigError.
    """
    document = _read_yaml(path) if path is not None else {}
    _refuse_unknown_variables()
    try:
        environment = EnvSettingsSource(_Environment)()
    except SettingsError as error:
        raise ConfigError(f"environment: {error}") from error
    given = {key: value for key, value in overrides.items() if value is not None}
    # The dumped defaults let a file set one key of one stage and keep the rest.
    layers = ({"stages": StagesConfig().model_dump()}, document, environment, given)
    merged: dict[str, Any] = {}
    for layer in layers:
        merged = _merge(merged, layer)
    try:
        return Config.model_validate(merged)
    except ValidationError as error:
        raise ConfigError(_explain(error, path, document)) from error


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            merged[key] = _merge(old, value)
        else:
            merged[key] = value
    return merged


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not YAML: {error}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: expected keys and values at the top level")
    return {str(key): value for key, value in document.items()}


def _refuse_unknown_variables() -> None:
    for name in sorted(os.environ):
        if not name.startswith(ENV_PREFIX):
            continue
        key = name.removeprefix(ENV_PREFIX).split(ENV_NESTING)[0].lower()
        if key not in Config.model_fields:
            hint = _suggest(key, Config.model_fields)
            hint = f" (did you mean {ENV_PREFIX}{hint.upper()}?)" if hint else ""
            raise ConfigError(f"unknown environment variable {name}{hint}")


def _explain(error: ValidationError, path: Path | None, document: Mapping[str, Any]) -> str:
    """One line for each key at fault, saying where it was set."""
    lines = []
    for problem in error.errors():
        location = [str(part) for part in problem["loc"]]
        key = ".".join(location)
        source = _source(location, path, document)
        if problem["type"] == "extra_forbidden":
            hint = _suggest(location[-1], _fields_at(location[:-1]))
            lines.append(
                f"{source}unknown key {key!r}" + (f" (did you mean {hint!r}?)" if hint else "")
            )
        else:
            reason = problem["msg"].removeprefix("Value error, ")
            lines.append(f"{source}{key}: {reason}" if key else f"{source}{reason}")
    return "\n".join(lines)


def _source(location: Sequence[str], path: Path | None, document: Mapping[str, Any]) -> str:
    variable = ENV_PREFIX + ENV_NESTING.join(location).upper()
    if location and variable in os.environ:
        return f"{variable}: "
    return f"{path}: " if path is not None and location and location[0] in document else ""


def _fields_at(location: Sequence[str]) -> Sequence[str]:
    model: type[BaseModel] = Config
    for part in location:
        field = model.model_fields.get(part)
        if field is None or not isinstance(field.annotation, type):
            return ()
        if not issubclass(field.annotation, BaseModel):
            return ()
        model = field.annotation
    return tuple(model.model_fields)


def _suggest(key: str, known: Iterable[str]) -> str:
    return next(iter(difflib.get_close_matches(key, list(known), n=1)), "")
