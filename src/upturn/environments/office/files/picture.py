"""Pictures as image files: a card with the description as text, which is also in the metadata."""

import textwrap
from io import BytesIO
from typing import Literal

from upturn.environments.office.files.extra import extra
from upturn.environments.office.files.package import MAX_BYTES, parsing
from upturn.errors import FileFormatError

PictureFormat = Literal["PNG", "JPEG"]
_SIZE = (640, 400)
_PAPER, _FRAME, _INK = (233, 238, 246), (120, 140, 175), (40, 50, 75)
_KEY = "Description"
"""Of the text in a PNG file; it is a name that the format's specification proposes."""
_LONGEST = 60_000
"""Bytes that a comment of a JPEG file can have, about."""


def picture_bytes(text: str, format_: PictureFormat) -> bytes:
    """A picture of what ``text`` says; raises FileFormatError where the text is too long for one."""
    with extra("pictures"):
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
    """What the file says that it shows, or else its size; raises FileFormatError for what is no such picture."""
    with extra("pictures"):
        from PIL import Image
    if len(data) > MAX_BYTES:
        raise FileFormatError(f"it has {len(data)} bytes; at most {MAX_BYTES} are read")
    with parsing(f"{format_} picture"), Image.open(BytesIO(data), formats=[format_]) as picture:
        text = picture.info.get(_KEY if format_ == "PNG" else "comment")
        if isinstance(text, bytes):
            text = text.decode("utf-8", "replace").removeprefix(f"{_KEY}: ")
        return f"a picture of {picture.width} by {picture.height} points" if text is None else str(text)
