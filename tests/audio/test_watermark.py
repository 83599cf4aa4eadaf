"""The hook of the watermark, without one."""

from __future__ import annotations

import numpy as np

from audio.watermark import NoWatermark, Watermark


def test_without_a_watermark_samples_pass_untouched() -> None:
    mark: Watermark = NoWatermark()
    samples = np.linspace(-1, 1, 100, dtype=np.float32)
    assert mark.process(samples) is samples
    mark.reset()
    assert mark.process(samples[:7]).size == 7
