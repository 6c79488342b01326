"""The libraries that read and write office files, which are no part of a plain installation."""

from collections.abc import Iterator
from contextlib import contextmanager

from upturn.errors import FileFormatError

INSTALL = "pip install 'upturn[files]'"


@contextmanager
def extra(needed_for: str) -> Iterator[None]:
    """Where such a library is imported: raises FileFormatError naming the cure where it is not installed.

    ``needed_for``: ``.xlsx files``
    """
    try:
        yield
    except ImportError as exc:
        raise FileFormatError(
            f"{needed_for} need the package {exc.name!r}, which is not installed: {INSTALL}"
        ) from exc
