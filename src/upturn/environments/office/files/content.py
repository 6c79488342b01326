"""The format of a file of the drive, by the ending of its name."""

from typing import NamedTuple

from upturn.environments.office.files.deck import deck_bytes, read_deck
from upturn.environments.office.files.document import document_bytes, read_document
from upturn.environments.office.files.package import MAX_BYTES
from upturn.environments.office.files.picture import PictureFormat, picture_bytes, read_picture
from upturn.environments.office.files.workbook import read_workbook, workbook_bytes
from upturn.environments.office.state import Book, Content, Deck, Document, PlainText
from upturn.errors import FileFormatError

ENDINGS = ("xlsx", "docx", "pptx", "txt", "md", "png", "jpg")
_PICTURES: dict[str, PictureFormat] = {"png": "PNG", "jpg": "JPEG", "jpeg": "JPEG"}
_INSTEAD = {
    **dict.fromkeys(("xlsm", "docm", "pptm", "xltm", "dotm", "potm"), "has macros, which are never run or kept"),
    **dict.fromkeys(("xls", "doc", "ppt"), "is in the binary format of before 2007"),
    **dict.fromkeys(("ods", "odt", "odp", "csv", "rtf"), "is of another program"),
}


class ReadContent(NamedTuple):
    """The content read from a file."""

    content: Content
    notes: tuple[str, ...]
    """Descriptions of differences from the file."""


def ending_of(name: str) -> str:
    """The ending in lower case, without the dot; empty = none."""
    return name.rpartition("/")[2].rpartition(".")[2].lower() if "." in name else ""


def content_bytes(name: str, content: Content) -> bytes:
    """The content in the format of the name's ending; raises FileFormatError for unsupported content."""
    match content, ending_of(name):
        case Book(), "xlsx":
            return workbook_bytes(content)
        case Document(), "docx":
            return document_bytes(content)
        case Deck(), "pptx":
            return deck_bytes(content)
        case PlainText(), "png" | "jpg" | "jpeg" as ending:
            return picture_bytes(content.text, _PICTURES[ending])
        case PlainText(), "txt" | "md":
            return content.text.encode()
    raise FileFormatError(f"a {type(content).__name__} is no file that ends in {name.rpartition('.')[2]!r}")


def read_content(name: str, data: bytes) -> ReadContent:
    """The content of a file of that name; raises FileFormatError with the problem."""
    match ending_of(name):
        case "xlsx":
            book, notes = read_workbook(data)
            return ReadContent(book, notes)
        case "docx":
            return ReadContent(*read_document(data))
        case "pptx":
            return ReadContent(*read_deck(data))
        case "png" | "jpg" | "jpeg" as ending:
            return ReadContent(PlainText(read_picture(data, _PICTURES[ending])), ())
        case "txt" | "md":
            return ReadContent(PlainText(_text(data)), ())
        case other:
            reason = _INSTEAD.get(other, "is of a kind that this office has not")
            raise FileFormatError(f"it {reason}; files end in .{', .'.join(ENDINGS)}")


def _text(data: bytes) -> str:
    if len(data) > MAX_BYTES:
        raise FileFormatError(f"it has {len(data)} bytes; at most {MAX_BYTES} are read")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise FileFormatError("it is no text in UTF-8; save it as such") from exc
