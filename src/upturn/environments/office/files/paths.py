"""Paths in an exported folder: top folders, and names that every file system accepts."""

import re

MAIL, CALENDAR, FILES, BIN = "Mail", "Calendar", "Files", "Recycle bin"
"""Top folders."""
_LONGEST = 100
"""Bytes of a name; file systems allow 255, and paths add up."""
_UNSAFE = re.compile(r'[\x00-\x1f<>:"/\\|?*\x7f]')
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)
"""Reserved names on Windows."""


def safe_name(text: str) -> str:
    """The text as a name of a file or folder; valid names do not change."""
    name = _UNSAFE.sub("_", text).strip()
    if len(name.encode()) > _LONGEST:
        stem, point, ending = name.rpartition(".")
        tail = f"{point}{ending}" if stem and len(ending) <= 5 else ""
        room = _LONGEST - len(tail.encode())
        name = name.encode()[:room].decode(errors="ignore").strip() + tail
    name = name.rstrip(".") if name.strip(".") else ""
    name = f"_{name}" if name.startswith(".") or _RESERVED.fullmatch(name) else name
    return name or "_"


class Places:
    """Gives every item a unique path, also on case-insensitive file systems."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def free(self, *parts: str, id_: str) -> str:
        """``Files/finance/q3.xlsx``, or ``Files/finance/q3 (f12).xlsx`` where that is taken."""
        *folders, name = map(safe_name, parts)
        place = "/".join((*folders, name))
        if place.casefold() in self._taken:
            stem, point, ending = name.rpartition(".")
            name = f"{stem} ({id_}){point}{ending}" if stem else f"{name} ({id_})"
            place = "/".join((*folders, name))
        self._taken.add(place.casefold())
        return place
