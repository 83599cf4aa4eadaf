"""How many pictures a prompt may have, and how large they may be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PictureLimits:
    """For a Thinker that sees; nothing for one that does not.

    count: in one prompt. pixels, nbytes: of all of them, as samples and as they were sent.
    pixels_of_one: of any. shown_nbytes: of an item's, that a client may have back.
    """

    count: int = 0
    pixels: int = 0
    nbytes: int = 0
    pixels_of_one: int = 0
    shown_nbytes: int = 0

    def excess(self, count: int, pixels: int, nbytes: int = 0) -> str:
        """What of so many pictures is too much, in words; empty if nothing is."""
        if count > self.count:
            return f"at most {self.count} images are taken"
        if pixels > self.pixels:
            return f"all images together have {pixels} pixels; {self.pixels} are taken"
        if nbytes > self.nbytes:
            return f"all images together have {nbytes} bytes; {self.nbytes} are taken"
        return ""
