from collections.abc import Sequence

import pytest

from upturn.models.engine.sampling.stop_strings import StopStrings


def by_bytes(ids: Sequence[int]) -> str:
    """Each id is a byte, so that a character may take several tokens."""
    return bytes(ids).decode(errors="replace")


class Counted:
    """Counts the ids that are decoded."""

    def __init__(self) -> None:
        self.decoded = 0

    def __call__(self, ids: Sequence[int]) -> str:
        self.decoded += len(ids)
        return by_bytes(ids)


def first_stop(text: bytes, *strings: str) -> int | None:
    """Index of the token that ends the text."""
    watcher = StopStrings(strings, by_bytes)
    return next((index for index, token in enumerate(text) if watcher.push(token)), None)


@pytest.mark.parametrize(
    ("text", "strings", "expected"),
    [
        ("abcabd", ["abd"], 5),
        ("aab", ["ab"], 2),
        ("no stop", ["abd"], None),
        ("x</call> </call>", ["</call>"], 7),
        ("one\ntwo\n\n", ["\n\n", "two"], 6),
        ("a€b", ["€"], 3),
        ("é€ä", ["€ä"], 6),
        ("z", ["z"], 0),
    ],
)
def test_the_earliest_token_that_completes_a_string_stops(
    text: str, strings: list[str], expected: int | None
) -> None:
    data = text.encode()
    assert first_stop(data, *strings) == expected
    # the slow way: decode everything after each token
    found = (index for index in range(len(data)) if any(part in by_bytes(data[: index + 1]) for part in strings))
    assert next(found, None) == expected


def test_a_string_before_the_bytes_of_an_incomplete_character_is_seen() -> None:
    words = {0: b"ab", 1: b"c\xe2", 2: b"\x82\xac"}

    def decode(ids: Sequence[int]) -> str:
        return b"".join(words[token] for token in ids).decode(errors="replace")

    watcher = StopStrings(["bc"], decode)
    assert [watcher.push(token) for token in (0, 1)] == [False, True]


def test_invalid_bytes_do_not_accumulate() -> None:
    decode = Counted()
    watcher = StopStrings(["xyz"], decode)
    for _ in range(400):
        assert not watcher.push(0xFF)
    assert decode.decoded < 400 * 24, "linear in the number of tokens"
    assert [watcher.push(token) for token in b"xyz"] == [False, False, True]


def test_the_cost_of_a_token_does_not_grow_with_the_text() -> None:
    decode = Counted()
    watcher = StopStrings(["</call>"], decode)
    for token in b"a long text " * 100:
        watcher.push(token)
    assert decode.decoded < 1200 * 4
