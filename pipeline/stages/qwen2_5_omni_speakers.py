"""The speakers of a Qwen2.5-Omni: what the checkpoint has in a file of its own, beside the weights.

Each is a token that speech begins with, a vector, and a piece of speech to sound like.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from pipeline.stages.omni_checkpoint import CheckpointError

FILE = "spk_dict.pt"


class Speakers:
    """Of one checkpoint. voices: which of them a voice of the server is; others share them out.

    Raises CheckpointError if the file is not there or cannot be used, or a voice names no speaker.
    """

    def __init__(self, folder: Path, voices: Mapping[str, Any]) -> None:
        if not (folder / FILE).is_file():
            raise CheckpointError(f"{folder}: {FILE} is missing (the speakers of the model)")
        try:
            found = torch.load(folder / FILE, map_location="cpu", weights_only=True)
            self._known: dict[str, Any] = {str(name).lower(): one for name, one in found.items()}
            self._bos = {name: int(one["bos_token"]) for name, one in self._known.items()}
        except Exception as error:
            raise CheckpointError(f"{folder / FILE}: cannot be read ({error})") from error
        self._voices = {str(voice): str(name).lower() for voice, name in voices.items()}
        for voice, name in self._voices.items():
            if name not in self._known:
                known = ", ".join(self._known)
                raise CheckpointError(f"options.voices.{voice}: no {name!r}; there are {known}")

    def named(self, voice: str) -> str:
        """The speaker of this name, the configured one, or any."""
        name = self._voices.get(voice, voice.lower())
        others = sorted(self._known)
        return name if name in self._known else others[sum(voice.encode()) % len(others)]

    def begins(self) -> list[int]:
        """All tokens that speech begins with, in ascending order."""
        return sorted(set(self._bos.values()))

    def begin(self, speaker: str) -> int:
        """The token that this speaker's speech begins with."""
        return self._bos[speaker]

    def sound(self, speaker: str) -> tuple[torch.Tensor, torch.Tensor]:
        """(vector [1, width], mel spectrogram [1, frames, bins]), float32."""
        one = self._known[speaker]
        return one["cond"].float(), one["ref_mel"].float()
