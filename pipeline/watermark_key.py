"""The watermark's key: from the configuration, or made once and kept beside the models."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
from pathlib import Path

from pipeline.config import EngineConfig
from pipeline.errors import StartFailed

log = logging.getLogger(__name__)

NAME = "watermark.key"
MODE = 0o600


def watermark_key(config: EngineConfig) -> bytes:
    """The key to mark and to detect with. Raises StartFailed if it can be neither read nor kept."""
    if config.watermark.key:
        return config.watermark.key.encode()
    path = config.home / NAME
    try:
        return _kept(path)
    except OSError as error:
        raise StartFailed(
            f"watermark: the key cannot be kept in {path} ({error.strerror}); set watermark.key, "
            "or home to a folder that can be written"
        ) from error


def _kept(path: Path) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Linked into place, so that of several servers that start at once one makes the key.
    if not path.exists():
        new = path.with_name(f"{NAME}.{secrets.token_hex(4)}")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE)
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(32) + "\n")
        try:
            with contextlib.suppress(FileExistsError):
                os.link(new, path)
                log.info("watermark: made a key, %s", path)
        finally:
            new.unlink()
    key = path.read_bytes().strip()
    if not key:
        raise StartFailed(f"watermark: {path} is empty; put a key into it, or remove it")
    return key
