"""Pictures that clients send: out of data URIs or raw Base64, as RGB samples within bounds."""

from __future__ import annotations

import base64
import binascii
import io
import re
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

_DATA_URI = re.compile(r"^data:[^,]{0,200};base64,", re.IGNORECASE)
_ADDRESS = re.compile(r"^[a-z][a-z0-9+.-]{0,20}://", re.IGNORECASE)
_SPACE = re.compile(r"\s+")
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
MAX_RATIO = 100
"""Longest side to shortest; thinner ones the models' own processors refuse."""


class PictureError(ValueError):
    """What a client sent is no picture that can be taken. The message tells why."""


def decode_picture(text: str, max_pixels: int) -> NDArray[np.uint8]:
    """RGB samples [height, width, 3], upright, what is transparent on white. Of several frames the
    first. Raises PictureError. It takes time: call it in a thread.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError  # of the `omni` extra

    if _ADDRESS.match(text):
        raise PictureError("pictures are not fetched; send a data URI, or Base64")
    try:
        content = base64.b64decode(_SPACE.sub("", _DATA_URI.sub("", text)), validate=True)
    except (ValueError, binascii.Error) as error:
        raise PictureError(f"it is not Base64 ({error})") from error
    if not content:
        raise PictureError("there is no picture in it")
    try:
        with warnings.catch_warnings():
            # Pillow warns of pictures that are large in its own opinion; ours is checked below.
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(content), formats=FORMATS) as picture:
                width, height = picture.size
                if width * height > max_pixels:
                    raise PictureError(f"it has {width} x {height} pixels; {max_pixels} are taken")
                if max(width, height) > MAX_RATIO * min(width, height):
                    raise PictureError(f"it is more than {MAX_RATIO} times as long as it is wide")
                return np.asarray(_on_white(ImageOps.exif_transpose(picture)), np.uint8)
    except UnidentifiedImageError as error:
        known = ", ".join(FORMATS)
        raise PictureError(f"it is none of {known}") from error
    except PictureError:
        raise
    # Damaged files make Pillow's decoders raise almost anything.
    except Exception as error:
        raise PictureError(f"it is damaged ({error})") from error


def _on_white(picture: Any) -> Any:
    """RGB, without transparency."""
    from PIL import Image

    if not picture.has_transparency_data:
        return picture.convert("RGB")
    picture = picture.convert("RGBA")
    white = Image.new("RGBA", picture.size, "white")
    return Image.alpha_composite(white, picture).convert("RGB")
