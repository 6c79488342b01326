"""Files of rows: JSON lines, and Parquet in row groups, so that memory is bounded.

In Parquet, messages are lists of JSON values (Arrow's ``arrow.json``): the arguments of calls have any keys, and a
struct would add every key of the file to every call. ``datasets`` reads both files as the same rows.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO

from upturn.dialects import Json
from upturn.errors import ConfigError
from upturn.pool.exports.formats.format import ColumnKind, Columns

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS_PER_GROUP = 1_000


def write_json_lines(rows: Iterable[Json], _columns: Columns, file: BinaryIO) -> None:
    """Writes one row a line."""
    for row in rows:
        file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")


def write_parquet(rows: Iterable[Json], columns: Columns, file: BinaryIO) -> None:
    """Writes a Parquet file; raises ConfigError without pyarrow."""
    try:
        import pyarrow as pa
        from pyarrow.parquet import ParquetWriter
    except ImportError as exc:
        raise ConfigError(
            ["a Parquet file needs pyarrow; install it with: pip install 'upturn[parquet]', or write .jsonl"]
        ) from exc
    schema = pa.schema([(name, _arrow_type(kind)) for name, kind in columns.items()])
    with ParquetWriter(file, schema) as writer:
        for group in _groups(iter(rows)):
            arrays = [_array([row[name] for row in group], kind) for name, kind in columns.items()]
            writer.write_table(pa.table(arrays, schema=schema))


WRITERS: dict[str, Callable[[Iterable[Json], Columns, BinaryIO], None]] = {
    ".jsonl": write_json_lines,
    ".parquet": write_parquet,
}
"""By the ending of the file's name."""


def _groups(rows: Iterator[Json]) -> Iterator[list[Json]]:
    while group := list(islice(rows, _ROWS_PER_GROUP)):
        yield group


def _arrow_type(kind: "ColumnKind | Columns") -> "pa.DataType":
    import pyarrow as pa

    if not isinstance(kind, str):
        return pa.struct([(name, _arrow_type(inner)) for name, inner in kind.items()])
    types = {
        "messages": pa.list_(pa.json_()),
        "prompt": pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())])),
        "text": pa.string(),
        "number": pa.float64(),
        "count": pa.int64(),
        "flag": pa.bool_(),
    }
    return types[kind]


def _array(values: Sequence[Any], kind: "ColumnKind | Columns") -> "pa.Array":
    import pyarrow as pa

    if kind != "messages":
        return pa.array(values, type=_arrow_type(kind))
    texts = pa.array(
        [[json.dumps(message, ensure_ascii=False) for message in messages] for messages in values],
        type=pa.list_(pa.string()),
    )
    return pa.ListArray.from_arrays(texts.offsets, pa.ExtensionArray.from_storage(pa.json_(), texts.values))
