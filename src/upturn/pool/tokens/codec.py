"""Token rows as bytes, and back: exactly the rows that were packed, log-probabilities to the last bit.

Tokens that several rows share are stored once:

- The prompt of a row, up to its first written token, becomes blobs of ``BLOB_TOKENS`` ids, counted from the start
  of the row. So a group has one copy of its prompt, and tasks with the same system prompt share its full blobs.
- A later row of the same trajectory is stored as a copy of the longest beginning that it has in common with an
  earlier row, and the ids after that.

Everything else, which is different in every trajectory, is packed beside the references: ids as the byte planes of
32-bit integers; log-probabilities as float32 where that is exact, otherwise as float64. All is deflated but the low
halves of log-probabilities, which are as good as random. Rows that do not fit this form are kept as deflated JSON.

A blob is addressed by the hash of its stored bytes, so that a changed bit is noticed without unpacking.
"""

import hashlib
import struct
import sys
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain, islice
from typing import Any, NamedTuple

from pydantic import TypeAdapter
from pydantic_core import CoreConfig, SchemaSerializer, from_json, to_json

from upturn.errors import RecordError
from upturn.records import TokenRow, WrittenSpan

BLOB_TOKENS = 256
"""Ids in a blob. Fewer share more between different prompts, but every blob costs some 60 bytes of keys."""
_SMALLEST_BLOB = 64
"""Fewer ids of a prompt are packed with the trajectory: they take about as many bytes as the key of a blob."""
_SHORTEST_COPY = 16
"""A shorter common beginning of two rows is not worth a reference."""
_LEVEL, _WINDOW_BITS, _MEMORY_LEVEL = 1, 12, 5
"""Of zlib. Its defaults take up to four times as long for so few bytes, most of it to clear 256 kB of memory, and
save at most 2 % (docs/decisions.md)."""
_DIGEST_BYTES = 16

_LENGTHS = struct.Struct("<III")
_JSON, _PACKED = b"\x00", b"\x01"
"""The first byte: the form of what follows. A stored form never changes; another one gets a new number."""


class TokenBlob(NamedTuple):
    """Ids that several rows may share."""

    digest: bytes
    data: bytes


class PackedRows(NamedTuple):
    """The token rows of one trajectory as they are stored."""

    data: bytes
    blobs: tuple[TokenBlob, ...]
    """What ``data`` refers to, without repetitions."""


class _Part(NamedTuple):
    """How one row is stored; an item of the JSON at the start of packed rows."""

    source: int
    """Index of the earlier row whose beginning is copied; -1 = none."""
    copied: int
    """Number of ids that are copied."""
    blobs: int
    """Number of blobs with the next ids."""
    rest: int
    """Number of ids after those."""
    spans: list[int]
    """``turn``, ``start`` and ``stop`` of all spans, one after the other."""
    versions: list[str]
    """Model versions of the spans; empty = they have none."""
    fork_cause: str | None
    logprobs: int
    """Number of log-probabilities."""
    sampling_logprobs: int


class _Content(NamedTuple):
    """What packed rows consist of, for all rows one after the other."""

    digests: list[bytes]
    parts: list[_Part]
    ids: "array[int]"
    numbers: "array[float]"


@cache
def serializer(shape: Any) -> SchemaSerializer:
    """Returns the serializer of parts of records. As in the codec of records, a NaN does not become null."""
    return SchemaSerializer(TypeAdapter(shape).core_schema, CoreConfig(ser_json_inf_nan="constants"))


@cache
def _reader() -> TypeAdapter[tuple[TokenRow, ...]]:
    return TypeAdapter(tuple[TokenRow, ...])


def pack_rows(rows: Sequence[TokenRow], text: str) -> PackedRows:
    """Returns rows as they were read; ``text`` is their JSON, which ``rows_json`` returns unchanged."""
    try:
        return _pack(rows)
    except OverflowError:  # ids beyond 64 bits
        return _kept(text)


def pack_unread(rows: Sequence[TokenRow], text: str) -> PackedRows | None:
    """Returns rows whose JSON certainly reads back as they are; None = read ``text`` first.

    ``text`` is their JSON, written without warnings. What it may hide nevertheless is None for a value that must
    not be None, and numbers of other classes. Reading takes as long as packing.
    """
    numbers = {type(number) for row in rows for span in row.spans for number in (span.turn, span.start, span.stop)}
    nulls = sum(row.fork_cause is None for row in rows)
    if not numbers <= {int} or text.count("null") != nulls or not has_only_floats(rows):
        return None
    try:
        return _pack(rows)
    except (TypeError, ValueError, OverflowError):
        return None


def pack_text(text: str) -> PackedRows:
    """Returns the rows with this JSON, which ``rows_json`` returns unchanged.

    A text that the rows do not have themselves, such as one with a log-probability of ``0`` instead of ``0.0``, is
    kept as it is, and so is text that is no JSON of rows.
    """
    try:
        rows = _reader().validate_json(text, strict=True)
    except ValueError:
        return _kept(text)
    return pack_rows(rows, text) if _json(rows) == text else _kept(text)


def has_only_floats(rows: Sequence[TokenRow]) -> bool:
    """Whether all log-probabilities are floats and not integers, whose JSON is different."""
    return all({float}.issuperset(map(type, (*row.logprobs, *row.sampling_logprobs))) for row in rows)


def _json(rows: tuple[TokenRow, ...]) -> str:
    return serializer(tuple[TokenRow, ...]).to_json(rows).decode()


def _kept(text: str) -> PackedRows:
    return PackedRows(_JSON + zlib.compress(text.encode(errors="surrogatepass"), _LEVEL), ())


def _pack(rows: Sequence[TokenRow]) -> PackedRows:
    blobs: dict[bytes, TokenBlob] = {}
    digests: list[bytes] = []
    parts: list[_Part] = []
    rest: list[int] = []
    numbers: list[float] = []
    texts: list[bytes] = []
    arrays = _id_arrays([row.token_ids for row in rows])
    width = arrays[0].itemsize if arrays else 1
    for row, ids in zip(rows, arrays, strict=True):
        raw = ids.tobytes()
        source, copied = _longest_copy(raw, width, texts)
        texts.append(raw)
        cuts = [] if copied else list(_cuts(row))
        used = [_blob(width, raw[width * start : width * stop]) for start, stop in cuts]
        blobs.update((blob.digest, blob) for blob in used)
        digests += (blob.digest for blob in used)
        tail = row.token_ids[cuts[-1][1] if cuts else copied :]
        rest += tail
        numbers += row.logprobs
        numbers += row.sampling_logprobs
        parts.append(_part(row, (source, copied), len(used), len(tail)))
    return PackedRows(
        _packed(_Content(digests, parts, _id_arrays([rest])[0], _float_array(numbers))), tuple(blobs.values())
    )


def _part(row: TokenRow, copy: tuple[int, int], blobs: int, rest: int) -> _Part:
    versions = [span.model_version for span in row.spans]
    return _Part(
        *copy,
        blobs,
        rest,
        [number for span in row.spans for number in (span.turn, span.start, span.stop)],
        versions if any(versions) else [],
        row.fork_cause,
        len(row.logprobs),
        len(row.sampling_logprobs),
    )


def _longest_copy(raw: bytes, width: int, earlier: Sequence[bytes]) -> tuple[int, int]:
    """Returns the earlier row with the longest common beginning, and its number of ids; (-1, 0) = none."""
    lengths = [_common(raw, other, width) for other in earlier]
    longest = max(lengths, default=0)
    return (lengths.index(longest), longest) if longest >= _SHORTEST_COPY else (-1, 0)


def _common(first: bytes, second: bytes, width: int) -> int:
    """Returns the number of ids, of ``width`` bytes, at the start that are the same."""
    low, high = 0, min(len(first), len(second)) // width
    while low < high:
        middle = (low + high + 1) // 2
        if first[width * low : width * middle] == second[width * low : width * middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _cuts(row: TokenRow) -> Iterator[tuple[int, int]]:
    """Yields the start and stop of each blob of the row's prompt."""
    stop = row.spans[0].start if row.spans else len(row.token_ids)
    for start in range(0, min(stop, len(row.token_ids)), BLOB_TOKENS):
        if stop - start >= _SMALLEST_BLOB:
            yield start, min(start + BLOB_TOKENS, stop, len(row.token_ids))


def _id_arrays(rows: Sequence[Sequence[int]]) -> "list[array[int]]":
    """Returns ids as 32-bit integers; all of them as 64-bit ones where those are too small."""
    try:
        return [array("I", ids) for ids in rows]
    except OverflowError:
        return [array("q", ids) for ids in rows]


def _float_array(values: list[float]) -> "array[float]":
    """Returns them as float32 if that is exact, otherwise as float64."""
    single = array("f", values)
    return single if single.tolist() == values else array("d", values)


@lru_cache(maxsize=1024)
def _blob(width: int, raw: bytes) -> TokenBlob:
    """Returns the blob with these ids of ``width`` bytes. Trajectories of a group come one after the other."""
    ids: array[int] = array("I" if width == array("I").itemsize else "q")
    ids.frombytes(raw)
    data = ids.typecode.encode() + _deflated(_planes(ids))
    return TokenBlob(blob_digest(data), data)


@lru_cache(maxsize=1024)
def _blob_ids(data: bytes) -> tuple[int, ...]:
    return tuple(_from_planes(chr(data[0]), zlib.decompress(data[1:])))


def blob_digest(data: bytes) -> bytes:
    """Returns the address of a blob with these bytes: the first 128 bits of their SHA-256."""
    return hashlib.sha256(data).digest()[:_DIGEST_BYTES]


def _packed(content: _Content) -> bytes:
    head, planes = to_json(content.parts), _planes(content.numbers)
    low = len(planes) // 2
    deflated = _deflated(b"".join((head, _planes(content.ids), planes[low:])))
    types = (content.ids.typecode + content.numbers.typecode).encode()
    lengths = _LENGTHS.pack(len(content.digests), len(head), len(deflated))
    return b"".join((_PACKED, types, lengths, *content.digests, deflated, planes[:low]))


def _unpacked(data: bytes) -> _Content:
    """Returns what ``_packed`` got."""
    digests = references(data)
    _, head, deflated = _LENGTHS.unpack_from(data, 3)
    start = 3 + _LENGTHS.size + _DIGEST_BYTES * len(digests)
    body, low = zlib.decompress(data[start : start + deflated]), data[start + deflated :]
    parts = [_Part(*part) for part in from_json(body[:head])]
    high = len(body) - len(low)
    numbers = _from_planes(chr(data[2]), low + body[high:])
    return _Content(digests, parts, _from_planes(chr(data[1]), body[head:high]), numbers)


def _deflated(data: bytes) -> bytes:
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL)
    return deflate.compress(data) + deflate.flush()


def _planes(values: "array[Any]") -> bytes:
    """Returns the lowest bytes of all values, then the next ones …, since alike bytes deflate better together."""
    raw, width = _little_endian(values).tobytes(), values.itemsize
    return b"".join(raw[byte::width] for byte in range(width))


def _from_planes(typecode: str, planes: bytes) -> "array[Any]":
    values: array[Any] = array(typecode)
    width, raw = values.itemsize, bytearray(len(planes))
    count = len(planes) // width
    for byte in range(width):
        raw[byte::width] = planes[byte * count : (byte + 1) * count]
    values.frombytes(raw)
    return _little_endian(values)


def _little_endian(values: "array[Any]") -> "array[Any]":
    """Returns the values in the byte order of the stored form, or back."""
    if sys.byteorder == "little":
        return values
    swapped = values[:]
    swapped.byteswap()
    return swapped


def references(data: bytes) -> list[bytes]:
    """Returns the digests of the blobs that packed rows refer to; raises RecordError for damaged ones."""
    if data[:1] == _JSON:
        return []
    if data[:1] != _PACKED:
        raise RecordError(f"its token rows have form {data[:1]!r}; only a later version of Upturn can read them")
    if len(data) < 3 + _LENGTHS.size:
        raise RecordError(f"its token rows are cut off after {len(data)} bytes")
    start = 3 + _LENGTHS.size
    stop = start + _DIGEST_BYTES * _LENGTHS.unpack_from(data, 3)[0]
    return [data[first : first + _DIGEST_BYTES] for first in range(start, min(stop, len(data)), _DIGEST_BYTES)]


def unpack_rows(data: bytes, blobs: Mapping[bytes, bytes]) -> tuple[TokenRow, ...]:
    """Returns the rows; ``blobs`` has the data of those that they refer to, by digest.

    Raises RecordError for damaged rows and for a blob that is missing.
    """
    try:
        if data[:1] == _JSON:
            return _reader().validate_json(_text(data), strict=True)
        return tuple(_rows(data, blobs))
    except RecordError:
        raise
    except KeyError as exc:
        raise RecordError(f"the token blob {exc.args[0].hex()} is not stored") from exc
    except (ValueError, TypeError, IndexError, struct.error, zlib.error) as exc:
        raise RecordError(f"its token rows cannot be unpacked: {exc}") from exc


def rows_json(data: bytes, blobs: Mapping[bytes, bytes]) -> str:
    """Returns the JSON that the rows were packed from; raises as ``unpack_rows``."""
    try:
        if data[:1] == _JSON:
            return _text(data)
    except zlib.error as exc:
        raise RecordError(f"its token rows cannot be unpacked: {exc}") from exc
    return _json(unpack_rows(data, blobs))


def _text(data: bytes) -> str:
    return zlib.decompress(data[1:]).decode(errors="surrogatepass")


def _rows(data: bytes, blobs: Mapping[bytes, bytes]) -> Iterator[TokenRow]:
    listed, parts, rest, numbers = _unpacked(data)
    digests = iter(listed)
    rows: list[tuple[int, ...]] = []
    id_start = number_start = 0
    for part in parts:
        pieces = [rows[part.source][: part.copied]] if part.copied else []
        pieces += [_blob_ids(blobs[digest]) for digest in islice(digests, part.blobs)]
        pieces.append(tuple(rest[id_start : id_start + part.rest]))
        id_start += part.rest
        rows.append(tuple(chain.from_iterable(pieces)))
        middle = number_start + part.logprobs
        stop = middle + part.sampling_logprobs
        logprobs, sampling = tuple(numbers[number_start:middle]), tuple(numbers[middle:stop])
        number_start = stop
        yield TokenRow(rows[-1], tuple(_spans(part)), logprobs, part.fork_cause, sampling)


def _spans(part: _Part) -> Iterator[WrittenSpan]:
    for index, first in enumerate(range(0, len(part.spans), 3)):
        turn, start, stop = part.spans[first : first + 3]
        yield WrittenSpan(turn, start, stop, part.versions[index] if part.versions else "")
