"""Opening of recorded files: plain, gzip or zstd, read as a stream.

A damaged or truncated compressed file gives its readable beginning and then DamagedFileError. Not here: zip files,
which are formats of their own.
"""

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import zstandard

from upturn.errors import IngestError

if TYPE_CHECKING:
    from typing_extensions import Buffer

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"

_OTHER_KINDS = {
    b"PAR1": "a Parquet file; write it as JSON lines first",
    b"SQLite format 3\0": "a SQLite database; recorded conversations are JSON",
    b"\xff\xfe": "UTF-16 text; save it as UTF-8 first",
    b"\xfe\xff": "UTF-16 text; save it as UTF-8 first",
}
"""Kinds of files that no format has, by their first bytes; without this check all lines would be quarantined."""

_ZSTD_INPUT = 4096
"""Bytes that are decompressed at once; they become at most some 130 MB, however well they are compressed."""
_ZSTD_WINDOW = 2**27
"""Bytes; a frame that needs more memory is refused."""
_BUFFER = 2**18


class DamagedFileError(ValueError):
    """A compressed file ends early or is damaged; the message says how."""


def check_kind(path: Path) -> None:
    """Raises IngestError for a file of a kind that is never imported, or that cannot be read."""
    try:
        with path.open("rb") as file:
            start = file.read(16)
    except OSError as exc:
        raise unreadable(path, exc) from exc
    for prefix, kind in _OTHER_KINDS.items():
        if start.startswith(prefix):
            raise IngestError(f"{printable(path)!r} is {kind}")


def unreadable(path: Path, exc: OSError) -> IngestError:
    """Returns the error for a file that the system does not read."""
    return IngestError(f"{printable(path)!r} cannot be read: {exc.strerror or exc}; name a file that exists")


def printable(name: str | Path) -> str:
    """Returns the file name as Unicode text; a name may have any bytes."""
    return str(name).encode("utf-8", "replace").decode()


@contextmanager
def open_recording(path: Path, on_read: Callable[[int], object] = lambda _: None) -> Iterator[BinaryIO]:
    """The file's content, decompressed. ``on_read`` gets the number of bytes of the file with each block.

    Reading raises OSError, and DamagedFileError for a compressed file that is damaged or ends early.
    """
    with path.open("rb") as file:
        start = file.read(4)
        file.seek(0)
        counted = _Counted(file, on_read)
        if start.startswith(_GZIP):
            content: io.RawIOBase = _Checked(gzip.GzipFile(fileobj=cast(BinaryIO, io.BufferedReader(counted))))
        elif start == _ZSTD:
            content = _Zstd(counted)
        else:
            content = counted
        yield cast(BinaryIO, io.BufferedReader(content, _BUFFER))


class _Counted(io.RawIOBase):
    def __init__(self, file: BinaryIO, on_read: Callable[[int], object]) -> None:
        self._file, self._on_read = file, on_read

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._file.seek(offset, whence)

    def readinto(self, buffer: "Buffer", /) -> int:
        view = memoryview(buffer).cast("B")
        block = self._file.read(len(view))
        view[: len(block)] = block
        if block:
            self._on_read(len(block))
        return len(block)


class _Checked(io.RawIOBase):
    """A gzip file whose damage is one error."""

    def __init__(self, file: gzip.GzipFile) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "Buffer", /) -> int:
        view = memoryview(buffer).cast("B")
        try:
            block = self._file.read1(len(view))
        except (EOFError, zlib.error, gzip.BadGzipFile) as exc:
            raise DamagedFileError(f"the gzip file is damaged or ends early ({exc})") from exc
        view[: len(block)] = block
        return len(block)


class _Zstd(io.RawIOBase):
    """A zstd file of one or more frames."""

    def __init__(self, file: io.RawIOBase) -> None:
        self._file = file
        self._context = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
        self._frame = self._context.decompressobj()
        self._is_inside = False
        """Whether the frame has begun."""
        self._input = b""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "Buffer", /) -> int:
        view = memoryview(buffer).cast("B")
        while not self._ready:
            if not self._decompress():
                return 0
        count = min(len(view), len(self._ready))
        view[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _decompress(self) -> bool:
        """Makes some content ready; returns False at the end of the file."""
        block = self._input or self._file.read(_ZSTD_INPUT) or b""
        if not block:
            if self._is_inside:
                raise DamagedFileError("the zstd file ends early")
            return False
        try:
            self._ready = memoryview(self._frame.decompress(block))
        except zstandard.ZstdError as exc:
            raise DamagedFileError(f"the zstd file is damaged ({exc})") from exc
        self._is_inside, self._input = not self._frame.eof, self._frame.unused_data
        if self._frame.eof:
            self._frame = self._context.decompressobj()
        return True
