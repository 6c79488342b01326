"""Sketches: what of a text they keep."""

import pytest

from upturn.arbiter.texts import BUCKETS, buckets_of, encode_buckets, text_buckets


def test_a_sketch_has_the_words_in_any_order_and_case() -> None:
    assert text_buckets("Move the mail, MOVE it") == text_buckets("it mail the move")
    assert len(text_buckets("Move the mail")) == 3
    assert text_buckets("a 1 22 _ !") == ()
    assert text_buckets("") == ()


def test_a_sketch_is_bounded_and_survives_its_encoding() -> None:
    words = " ".join(f"{chr(97 + first)}{chr(97 + second)}" for first in range(26) for second in range(26))
    buckets = text_buckets(words)
    assert 90 < len(buckets) <= 128
    assert len(encode_buckets(buckets)) == BUCKETS // 4
    assert buckets_of(encode_buckets(buckets)) == buckets
    assert encode_buckets(()) == ""
    assert buckets_of(encode_buckets((0, 511))) == (0, 511)


def test_an_impossible_sketch_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 128 hexadecimal digits, got 130"):
        buckets_of("ff" * 65)
