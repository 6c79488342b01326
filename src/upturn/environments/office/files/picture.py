"""Pictures as image files: a card with the description as text, which is also in the metadata."""

import textwrap
from io import BytesIO
from typing import Literal

from upturn.environments.office.files.package import MAX_BYTES, parse_errors, require_extra
from upturn.errors import FileFormatError

PictureFormat = Literal["PNG", "JPEG"]
_SIZE = (640, 400)
_PAPER, _FRAME, _INK = (233, 238, 246), (120, 140, 175), (40, 50, 75)
_KEY = "Description"
"""Keyword of the text in a PNG file, as the format's specification suggests."""
_LONGEST = 60_000
"""Approximate limit on the bytes of a JPEG comment."""


def picture_bytes(text: str, format_: PictureFormat) -> bytes:
    """A picture of the text; raises FileFormatError if the text is too long."""
    with require_extra("pictures"):
        from PIL import Image, ImageDraw, ImageFont, PngImagePlugin
    if len(text.encode()) > _LONGEST:
        raise FileFormatError(f"a picture's description has at most {_LONGEST} bytes, got {len(text.encode())}")
    picture = Image.new("RGB", _SIZE, _PAPER)
    pen = ImageDraw.Draw(picture)
    pen.rectangle((12, 12, _SIZE[0] - 12, _SIZE[1] - 12), outline=_FRAME, width=4)
    font = ImageFont.load_default(44)
    caption = "\n".join(textwrap.wrap(text, 24)[:6])
    pen.multiline_text((_SIZE[0] / 2, _SIZE[1] / 2), caption, _INK, font, anchor="mm", align="center")
    target = BytesIO()
    if format_ == "PNG":
        words = PngImagePlugin.PngInfo()
        words.add_itxt(_KEY, text)
        picture.save(target, "PNG", pnginfo=words)
    else:
        picture.save(target, "JPEG", quality=90, comment=f"{_KEY}: {text}".encode())
    return target.getvalue()


def read_picture(data: bytes, format_: PictureFormat) -> str:
    """The description in the file, or else its size; raises FileFormatError for other files."""
    with require_extra("pictures"):
        from PIL import Image
    if len(data) > MAX_BYTES:
        raise FileFormatError(f"it has {len(data)} bytes; at most {MAX_BYTES} are read")
    with parse_errors(f"{format_} picture"), Image.open(BytesIO(data), formats=[format_]) as picture:
        text = picture.info.get(_KEY if format_ == "PNG" else "comment")
        if isinstance(text, bytes):
            text = text.decode("utf-8", "replace").removeprefix(f"{_KEY}: ")
        return f"a picture of {picture.width} by {picture.height} points" if text is None else str(text)
