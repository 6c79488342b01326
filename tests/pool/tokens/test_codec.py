"""What is packed reads back exactly, and what rows share is stored once."""

import random
from array import array
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn.errors import RecordError
from upturn.pool.tokens import (
    PackedRows,
    blob_digest,
    pack_rows,
    pack_text,
    pack_unread,
    rows_json,
    serializer,
    unpack_rows,
)
from upturn.pool.tokens.codec import BLOB_TOKENS, references
from upturn.records import TokenRow, WrittenSpan

IDS = st.one_of(st.integers(0, 200_000), st.integers(-(2**63), 2**63 - 1))
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
SPANS = st.builds(WrittenSpan, st.integers(0, 9), st.integers(0, 400), st.integers(0, 400), TEXTS)
ROWS = st.builds(
    TokenRow,
    st.lists(IDS, max_size=400).map(tuple),
    st.lists(SPANS, max_size=3).map(tuple),
    st.lists(NUMBERS, max_size=20).map(tuple),
    st.none() | TEXTS,
    st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=20).map(tuple),
)


def json_of(rows: Sequence[TokenRow]) -> str:
    return serializer(tuple[TokenRow, ...]).to_json(tuple(rows)).decode()


def blobs_of(*packed: PackedRows) -> dict[bytes, bytes]:
    return {blob.digest: blob.data for rows in packed for blob in rows.blobs}


def single(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(array("f", values))


def sampled(prompt: Sequence[int], seed: int, *, written: int = 200) -> TokenRow:
    """A row of a prompt and of sampled ids, with float32 log-probs."""
    draw = random.Random(seed)
    ids = (*prompt, *draw.choices(range(150_000), k=written))
    logprobs = single([-draw.expovariate(2.0) for _ in range(written)])
    return TokenRow(ids, (WrittenSpan(0, len(prompt), len(ids)),), logprobs)


PROMPT = tuple(random.Random(0).choices(range(150_000), k=1000))


@given(st.lists(ROWS, max_size=3))
def test_any_rows_read_back_to_the_last_bit(rows: list[TokenRow]) -> None:
    packed = pack_rows(rows, json_of(rows))
    read = unpack_rows(packed.data, blobs_of(packed))
    assert read == tuple(rows)
    assert rows_json(packed.data, blobs_of(packed)) == json_of(rows), "also the sign of a zero"
    assert set(references(packed.data)) == blobs_of(packed).keys()


@given(st.lists(ROWS, max_size=3))
def test_rows_that_need_not_be_read_are_packed_as_those_that_were_read(rows: list[TokenRow]) -> None:
    words = json_of(rows)
    packed = pack_unread(rows, words)
    assert packed in (None, pack_rows(rows, words))
    assert packed is not None or "null" in words.replace('"fork_cause":null', "")


@pytest.mark.parametrize(
    "row",
    [
        TokenRow((1,), (WrittenSpan(True, 0, 1),), (-1.0,)),
        TokenRow((1, None), (), ()),  # type: ignore[arg-type]
        TokenRow((1,), (WrittenSpan(0, None, 1),), (-1.0,)),  # type: ignore[arg-type]
        TokenRow((1,), (WrittenSpan(0, 0, 1, None),), (-1.0,)),  # type: ignore[arg-type]
        TokenRow((1,), (), (np.float64(-1.0),)),
        TokenRow((1,), (), (-1,)),
        TokenRow((1,), (), (None,)),  # type: ignore[arg-type]
        TokenRow((1,), (WrittenSpan(np.int64(0), 0, 1),), (-1.0,)),  # type: ignore[arg-type]
    ],
)
def test_rows_with_values_of_other_classes_must_be_read(row: TokenRow) -> None:
    text = serializer(tuple[TokenRow, ...]).to_json((row,), warnings=False).decode()
    assert pack_unread((row,), text) is None


@pytest.mark.parametrize(
    "text",
    [
        '[{"token_ids":[1],"spans":[],"logprobs":[0],"fork_cause":null,"sampling_logprobs":[]}]',
        '[{"token_ids":[99999999999999999999],"spans":[],"logprobs":[],"fork_cause":null,"sampling_logprobs":[]}]',
        "[]",
        "[ ]",
        '[{"token_ids":[1]',
        '"\ud800"',
    ],
)
def test_any_text_reads_back_as_it_was(text: str) -> None:
    """A log-prob that is an integer, an id beyond 64 bits, and stored text that something else has damaged."""
    assert rows_json(pack_text(text).data, {}) == text


def test_a_group_has_one_copy_of_its_prompt() -> None:
    """Its 1,000 ids are four blobs, which all eight trajectories refer to."""
    rows = [sampled(PROMPT, seed) for seed in range(8)]
    packed = [pack_rows([row], json_of([row])) for row in rows]
    assert len(blobs_of(*packed)) == 4
    assert all(len(references(one.data)) == 4 for one in packed)
    stored = sum(len(one.data) for one in packed) + sum(len(data) for data in blobs_of(*packed).values())
    as_json = sum(len(json_of([row])) for row in rows)
    assert stored < 0.2 * as_json
    whole = [pack_rows([replace(row, spans=())], "") for row in rows]
    as_rows = sum(len(one.data) + sum(len(blob.data) for blob in one.blobs) for one in whole)
    assert stored < 0.45 * as_rows


def test_prompts_share_the_full_blobs_before_they_differ() -> None:
    other = (*PROMPT[:700], *PROMPT[:300])
    first, second = (set(blobs_of(pack_rows([sampled(ids, 1)], ""))) for ids in (PROMPT, other))
    assert len(first & second) == 700 // BLOB_TOKENS


def test_a_later_row_refers_to_the_beginning_it_has_in_common() -> None:
    first = sampled(PROMPT, 1)
    later = TokenRow((*first.token_ids[:1100], 5, 6), (WrittenSpan(1, 1101, 1102),), (-0.5,), "history was cut")
    alone, both = pack_rows([first], ""), pack_rows([first, later], "")
    assert len(both.data) - len(alone.data) < 100
    assert both.blobs == alone.blobs
    assert unpack_rows(both.data, blobs_of(both)) == (first, later)


def test_a_short_prompt_has_no_blob() -> None:
    assert pack_rows([sampled(PROMPT[:63], 1)], "").blobs == ()
    assert len(pack_rows([sampled(PROMPT[:64], 1)], "").blobs) == 1


def test_every_changed_bit_of_a_blob_changes_its_address() -> None:
    (blob,) = pack_rows([sampled(PROMPT[:64], 1)], "").blobs
    for bit in range(8 * len(blob.data)):
        changed = bytearray(blob.data)
        changed[bit // 8] ^= 1 << bit % 8
        assert blob_digest(bytes(changed)) != blob.digest


def test_every_changed_bit_of_packed_rows_is_an_error_or_reads_as_other_rows() -> None:
    """Or as the same: a few bits after the end of deflated data mean nothing."""
    row = sampled(PROMPT[:20], 1, written=40)
    packed = pack_rows([row], "")
    harmless = 0
    for bit in range(8 * len(packed.data)):
        changed = bytearray(packed.data)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            harmless += rows_json(bytes(changed), {}) == json_of([row])
        except RecordError:
            continue
    assert harmless <= 16


def test_a_missing_blob_is_named() -> None:
    packed = pack_rows([sampled(PROMPT, 1)], "")
    with pytest.raises(RecordError, match=f"the token blob {packed.blobs[0].digest.hex()} is not stored"):
        unpack_rows(packed.data, {})


def test_a_form_of_a_later_version_is_refused() -> None:
    with pytest.raises(RecordError, match="only a later version of Upturn can read them"):
        unpack_rows(b"\x07abc", {})
