"""Pictures that clients send: what is taken, upright and opaque, and what is refused."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from realtime.pictures import PictureError, decode_picture

MAX_PIXELS = 10_000


def encoded(picture: Image.Image, kind: str = "PNG", **options: Any) -> str:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return base64.b64encode(file.getvalue()).decode()


def halves(mode: str = "RGB") -> Image.Image:
    """Black on the left, white on the right, 20 wide and 10 high."""
    picture = Image.new("RGB", (20, 10), "black")
    picture.paste("white", (10, 0, 20, 10))
    return picture.convert(mode)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP"])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_common_formats_are_rgb(kind: str, mode: str) -> None:
    rgb = decode_picture(encoded(halves(mode), kind), MAX_PIXELS)
    assert rgb.shape == (10, 20, 3)
    assert rgb.dtype == np.uint8
    assert rgb[:, :8].max() < 40
    assert rgb[:, 12:].min() > 215


def test_data_uris_and_broken_lines_are_taken() -> None:
    text = encoded(halves())
    plain = decode_picture(text, MAX_PIXELS)
    lines = "\r\n".join(text[at : at + 60] for at in range(0, len(text), 60))
    for other in (f"data:image/png;base64,{text}", f"DATA:image/png;BASE64,{text}", lines):
        assert np.array_equal(decode_picture(other, MAX_PIXELS), plain)


def test_a_picture_is_turned_as_its_camera_was_held() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn clockwise
    rgb = decode_picture(encoded(halves(), "JPEG", exif=exif), MAX_PIXELS)
    assert rgb.shape == (20, 10, 3)
    assert rgb[:8].max() < 40
    assert rgb[12:].min() > 215


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_what_is_transparent_is_white(mode: str) -> None:
    picture = Image.new("RGBA", (8, 8), (0, 0, 0, 0)).convert(mode)
    assert decode_picture(encoded(picture), MAX_PIXELS).min() == 255


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no picture"),
        ("%%", "not Base64"),
        ("AAAA", "none of PNG"),
        ("https://example.com/a.png", "not fetched"),
        ("file:///etc/passwd", "not fetched"),
        (encoded(Image.new("RGB", (101, 100))), "101 x 100 pixels"),
        (encoded(Image.new("L", (1000, 2))), "times as long"),
        (encoded(halves(), "TIFF"), "none of PNG"),
        (base64.b64encode(base64.b64decode(encoded(halves()))[:60]).decode(), "damaged"),
    ],
)
def test_what_is_no_picture_is_refused_with_a_reason(text: str, told: str) -> None:
    with pytest.raises(PictureError, match=told):
        decode_picture(text, MAX_PIXELS)
