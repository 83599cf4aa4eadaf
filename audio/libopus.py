"""The one place that imports opuslib, after finding a libopus for it.

opuslib looks up libopus while it is imported and knows only the system's. Most machines without
one still have the copy inside the wheel of PyAV, so that is the second choice.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib
import importlib.util
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

_lock = threading.Lock()


class OpusUnavailable(RuntimeError):
    """There is no libopus on this machine, or no opuslib."""


def load_opuslib() -> ModuleType:
    """Import opuslib; later calls return the same module. Raises OpusUnavailable.

    The first call may run the system's linker tools and take some 100 ms: make it at start.
    """
    with _lock:
        loaded = sys.modules.get("opuslib")
        return loaded if loaded is not None else _import_with(_find_libopus())


def _find_libopus() -> str:
    for location in _candidates():
        try:
            ctypes.CDLL(location)
        except OSError:  # found, but for another machine or without what it links to
            continue
        return location
    raise OpusUnavailable(
        "audio/opus needs libopus, and none was found: install it (Debian and Ubuntu: "
        "'apt install libopus0', Fedora: 'dnf install opus', macOS: 'brew install opus'), "
        "or 'pip install av', which brings a copy"
    )


def _candidates() -> Iterator[str]:
    system = ctypes.util.find_library("opus")
    if system is not None:
        yield system
    yield from map(str, bundled_copies())


def bundled_copies() -> list[Path]:
    """Copies of libopus in PyAV's wheel. PyAV itself is not imported: it loads all of FFmpeg."""
    spec = importlib.util.find_spec("av")
    copies: list[Path] = []
    for folder in map(Path, (spec.submodule_search_locations or []) if spec else []):
        copies += sorted(folder.with_name("av.libs").glob("libopus-*.so*"))  # Linux
        copies += sorted((folder / ".dylibs").glob("libopus*.dylib"))  # macOS
        copies += sorted(folder.with_name("av.libs").glob("*opus*.dll"))  # Windows
    return copies


def _import_with(location: str) -> ModuleType:
    """Import opuslib while the lookup of 'opus', and of nothing else, answers `location`."""
    find_library = ctypes.util.find_library
    ctypes.util.find_library = lambda name: location if name == "opus" else find_library(name)
    try:
        with warnings.catch_warnings():
            # opuslib compares ints with 'is', which Python warns of when it compiles the file.
            warnings.simplefilter("ignore", SyntaxWarning)
            opuslib = importlib.import_module("opuslib")
            encoder = importlib.import_module("opuslib.api.encoder")
    except ImportError as error:
        raise OpusUnavailable(
            "audio/opus needs the package opuslib: 'pip install opuslib'"
        ) from error
    finally:
        ctypes.util.find_library = find_library
    # opus_encoder_ctl takes variable arguments. On Apple silicon those travel differently, and
    # ctypes can know which they are only when the fixed ones are declared.
    encoder.libopus_ctl.argtypes = (encoder.EncoderPointer, ctypes.c_int)
    return opuslib
