"""Errors for missing libraries of office files, which only the extra ``files`` installs."""

from collections.abc import Iterator
from contextlib import contextmanager

from upturn.errors import FileFormatError

INSTALL = "pip install 'upturn[files]'"


@contextmanager
def require_extra(needed_for: str) -> Iterator[None]:
    """Wraps the import of a library: raises FileFormatError with the install command if it is missing.

    ``needed_for``: such as ``.xlsx files``.
    """
    try:
        yield
    except ImportError as exc:
        raise FileFormatError(
            f"{needed_for} need the package {exc.name!r}, which is not installed: {INSTALL}"
        ) from exc
