"""Pictures on their way to a Thinker that sees: checked as they come, decoded for each prompt.

What a session keeps is what the client sent: samples are many times as large.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from realtime.commands import Picture
from realtime.errors import ClientError
from realtime.picture_limits import PictureLimits
from realtime.pictures import PictureError, decode_picture
from realtime.protocol import client
from realtime.protocol.items import InputImage, UserMessage
from realtime.protocol.responses import ResponseParams

Size = tuple[int, int]
"""Height and width."""


def images_in(event: client.ClientEvent) -> Iterator[tuple[str, str | None]]:
    """The pictures that an event brings, in order: their places, and what stands there."""
    named: Iterable[tuple[str, object]] = ()
    match event:
        case client.ConversationItemCreate(item=item):
            named = [("item", item)]
        case client.ResponseCreate(response=ResponseParams(input=tuple(given))):
            named = [(f"response.input[{index}]", item) for index, item in enumerate(given)]
    for place, message in named:
        if isinstance(message, UserMessage):
            for index, part in enumerate(message.content):
                if isinstance(part, InputImage):
                    yield f"{place}.content[{index}].image_url", part.image_url


def check_images(event: client.ClientEvent, limits: PictureLimits) -> tuple[Size, ...]:
    """The sizes of the pictures that an event brings, in order.

    Raises ClientError about the first that cannot be taken. It takes time: call it in a thread.
    """
    sizes: list[Size] = []
    pixels = nbytes = 0
    for count, (place, url) in enumerate(images_in(event), start=1):
        if url is None:
            message = f"Missing required parameter: '{place}'."
            raise ClientError("missing_required_parameter", message, place, event.event_id)
        nbytes += len(url)
        fault = limits.excess(count, pixels, nbytes)
        if not fault:
            try:
                height, width, _ = decode_picture(url, limits.pixels_of_one).shape
                pixels += height * width
                sizes.append((height, width))
                fault = limits.excess(count, pixels, nbytes)
            except PictureError as error:
                fault = str(error)
        if fault:
            message = f"Invalid '{place}': {fault}."
            raise ClientError("invalid_value", message, place, event.event_id)
    return tuple(sizes)


async def decoded(pictures: Sequence[Picture]) -> tuple[NDArray[np.uint8], ...]:
    """RGB samples [height, width, 3] of pictures that were checked."""
    if not pictures:
        return ()
    return await asyncio.to_thread(lambda: tuple(_samples(one) for one in pictures))


def _samples(picture: Picture) -> NDArray[np.uint8]:
    return decode_picture(picture.url, picture.height * picture.width)
