"""Cutting of JSON arrays into items without loading them."""

import io
import json
from typing import Any, BinaryIO, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn.pool.ingestion.formats import json_text
from upturn.pool.ingestion.formats.conversation import LineError
from upturn.pool.ingestion.formats.json_text import array_items, stream_lines

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def items_of(text: bytes, block: int = 2**18) -> list[bytes | LineError]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(json_text, "_BLOCK", block)
        items = array_items(buffered(text))
        assert items is not None
        return [item.text for item in items]


def buffered(text: bytes) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, io.BytesIO(text))))


@given(st.lists(VALUES, max_size=6), st.booleans(), st.integers(1, 40), st.sampled_from([None, 2]))
def test_items_are_those_of_the_array(values: list[Any], is_ascii: bool, size: int, indent: int | None) -> None:
    text = json.dumps(values, ensure_ascii=is_ascii, indent=indent).encode(errors="surrogatepass")
    assert [json.loads(cast(bytes, item).decode(errors="surrogatepass")) for item in items_of(text, size)] == values


@pytest.mark.parametrize(
    ("text", "items", "problem"),
    [
        (b"[]", [], ""),
        (b" [ ] \n", [], ""),
        (b"[1, 2", [b"1", b"2"], "the array does not end"),
        (b"[1,", [b"1"], "the array does not end"),
        (b'["a]', [], "the array does not end"),
        (b"[1] x", [b"1"], "expected the end of the file after the array, got b'x'"),
        (b"[1]]", [b"1"], "got b']'"),
        (b"[" + b"[" * 100_000, [], "the array does not end"),
    ],
)
def test_what_is_no_array_ends_with_an_error(text: bytes, items: list[bytes], problem: str) -> None:
    found = items_of(text)
    if problem:
        assert problem in str(found.pop())
    assert found == items


def test_empty_items_are_errors() -> None:
    assert [str(item) for item in items_of(b"[1,,]")] == [
        "b'1'",
        "not JSON: the array has an empty item",
        "not JSON: the array has an empty item",
    ]


def test_only_arrays_have_items() -> None:
    assert array_items(buffered(b'{"a": 1}')) is None
    assert array_items(buffered(b"")) is None


def test_gigantic_items_and_lines_are_errors_and_the_rest_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "LONGEST_LINE", 300)
    assert [str(item)[:32] for item in items_of(json.dumps(["a", "x" * 1000, "b"]).encode(), 50)] == [
        "b'\"a\"'",
        "the item is longer than 300 byte",
        "b'\"b\"'",
    ]
    lines = stream_lines(io.BytesIO(b"1\n" + b"x" * 1000 + b"\n\n2\n"))
    assert [(line.number, str(line.text)[:8]) for line in lines] == [(1, "b'1'"), (2, "the line"), (4, "b'2'")]
