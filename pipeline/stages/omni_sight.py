"""Pictures in the prompt of a Qwen omni model: as patches, and as so many tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from pipeline.messages import Start
from pipeline.stage import Array
from pipeline.stages.omni_checkpoint import CheckpointError
from pipeline.stages.omni_hearing import spread

CHANNELS = 3


class OmniSight:
    """Of one Thinker. token: the id that stands for a piece of a picture.

    Raises CheckpointError if the folder does not tell how pictures are made ready.
    """

    def __init__(self, folder: Path, config: Any, device: torch.device, dtype: torch.dtype) -> None:
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import (
            Qwen2VLImageProcessorPil,
        )

        self.token: int = config.image_token_id
        self._device = device
        self._dtype = dtype
        self._merge = config.vision_config.spatial_merge_size**2
        try:
            self._process: Any = Qwen2VLImageProcessorPil.from_pretrained(
                folder, local_files_only=True
            )
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{folder}: preprocessor_config.json: {error}") from error

    def take_in(
        self, ids: list[int], start: Start, parts: list[Array]
    ) -> tuple[list[int], dict[str, Any]]:
        """The prompt with as many tokens for each picture as it has pieces, and the model's inputs.

        parts: uint8 RGB rows of all pictures, one after the other.
        """
        sizes = [size for item in start.items for size in item.pictures]
        if not sizes:
            return spread(ids, self.token, [], start, "pictures"), {}
        pixels = np.concatenate([np.ravel(part) for part in parts])
        ends = np.cumsum([height * width * CHANNELS for height, width in sizes])
        pictures = [
            piece.reshape(height, width, CHANNELS)
            for piece, (height, width) in zip(np.split(pixels, ends[:-1]), sizes, strict=True)
        ]
        seen = self._process(
            images=pictures, input_data_format="channels_last", return_tensors="pt"
        )
        grid = seen["image_grid_thw"]
        counts = [int(one.prod()) // self._merge for one in grid]
        return spread(ids, self.token, counts, start, "pictures"), {
            "pixel_values": seen["pixel_values"].to(self._device, self._dtype),
            "image_grid_thw": grid.to(self._device),
        }
