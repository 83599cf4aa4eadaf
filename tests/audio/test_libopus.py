"""Finding libopus: the system's, else the copy that comes with PyAV, else a clear error.

Each case runs in a process of its own, because opuslib can be imported only once.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from audio.libopus import bundled_copies

ROUND_TRIP = """
import numpy as np
from audio.codecs import get_decoder, get_encoder
from audio.formats import AudioFormat
packets = get_encoder(AudioFormat("audio/opus")).encode(np.zeros(480, np.int16))
assert get_decoder(AudioFormat("audio/opus")).decode(packets[0]).size == 480
import opuslib.api
print(opuslib.api.lib_location)
"""


def run(tmp_path: Path, system: str | None, code: str) -> str:
    """Run code where the system's libopus is at `system`, warnings being errors; its output.

    opuslib is compiled anew, as on the first start after an installation.
    """
    lookup = f"import ctypes.util\nctypes.util.find_library = lambda name: {system!r}\n"
    options = ["-W", "error", "-X", f"pycache_prefix={tmp_path / 'pycache'}"]
    result = subprocess.run(
        [sys.executable, *options, "-c", lookup + code], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_the_system_copy_is_used_when_there_is_one(tmp_path: Path) -> None:
    system = tmp_path / "libopus.so.0"
    shutil.copy(bundled_copies()[0], system)
    assert run(tmp_path, str(system), ROUND_TRIP) == str(system)


def test_without_a_system_copy_the_one_beside_pyav_is_used(tmp_path: Path) -> None:
    assert run(tmp_path, None, ROUND_TRIP) == str(bundled_copies()[0])


def test_a_system_copy_that_cannot_be_loaded_is_passed_over(tmp_path: Path) -> None:
    broken = tmp_path / "libopus.so.0"
    broken.write_text("not a library")
    assert run(tmp_path, str(broken), ROUND_TRIP) == str(bundled_copies()[0])


@pytest.mark.parametrize("half", ["get_encoder", "get_decoder"])
def test_with_neither_copy_the_error_names_what_to_install(tmp_path: Path, half: str) -> None:
    message = run(
        tmp_path,
        None,
        "import importlib.util\n"
        "find_spec = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name: None if name == 'av' else find_spec(name)\n"
        "import audio.codecs, audio.formats, audio.libopus\n"
        "try:\n"
        f"    audio.codecs.{half}(audio.formats.AudioFormat('audio/opus'))\n"
        "except audio.libopus.OpusUnavailable as error:\n"
        "    print(error)\n",
    )
    assert message == (
        "audio/opus needs libopus, and none was found: install it (Debian and Ubuntu: "
        "'apt install libopus0', Fedora: 'dnf install opus', macOS: 'brew install opus'), "
        "or 'pip install av', which brings a copy"
    )


def test_without_opuslib_the_error_names_it(tmp_path: Path) -> None:
    message = run(
        tmp_path,
        None,
        "import sys\nsys.modules['opuslib'] = None\nfrom audio.libopus import *\n"
        "try:\n    load_opuslib()\nexcept OpusUnavailable as error:\n    print(error)\n",
    )
    assert message == "audio/opus needs the package opuslib: 'pip install opuslib'"


def test_the_lookup_is_put_back_and_the_module_is_loaded_once(tmp_path: Path) -> None:
    code = (
        "from audio.libopus import load_opuslib\n"
        "lookup = ctypes.util.find_library\n"
        "first = load_opuslib()\n"
        "assert ctypes.util.find_library is lookup\n"
        "ctypes.util.find_library = None  # a second lookup would fail\n"
        "assert load_opuslib() is first\n"
    )
    assert run(tmp_path, None, code) == ""
