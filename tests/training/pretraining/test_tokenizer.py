"""Tokenizers of the shipped models: which pieces are one token, and round trips of any text."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from benchmarks.errands.pretraining.recipe import PATTERN as ERRANDS_PATTERN
from upturn.models import ERROR_TOKEN, GLUE
from upturn.models.shipped import load_local
from upturn.training.pretraining.office_recipe import PATTERN
from upturn.training.pretraining.tokenizer import new_tokenizer

TEXTS = [
    "please move m275 to archive, thanks",
    "outlook.move ids=m275,m396; folder=archive",
    "m275 2026-02-23 17:10 will.wolf: poster leeds *",
    "calendar.move id=e12; start=2026-02-10 17:45",
    "outlook.reply id=m27; body=ok",
    "f1 plan.xlsx, list.xlsx",
] * 50


@pytest.fixture(scope="module")
def glued() -> Tokenizer:
    return new_tokenizer(TEXTS, PATTERN, 600, is_glued=True)


def test_ids_hours_and_amounts_are_one_token_each() -> None:
    texts = ["move m27 to archive", "mail.move id=m27; folder=archive", "from 9 to 17", "B3"] * 50
    tokenizer = new_tokenizer(texts, ERRANDS_PATTERN, 600)
    pieces = tokenizer.encode("mail.move id=m27; folder=archive 17").tokens
    assert pieces.count("27") == 1
    assert pieces.count("17") == 1
    text = 'reply "ok, see you"\nB4 é 好'
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


def test_a_word_is_the_same_token_in_every_position(glued: Tokenizer) -> None:
    (archive,) = glued.encode("archive").ids
    texts = ("to archive", "folder=archive", "a,archive", '"archive"', "is it\narchive", "(archive)", "x/archive")
    for text in texts:
        assert archive in glued.encode(text).ids, text
    # An id in a list, after an equals sign and at the start of a line: the same tokens.
    ids = glued.encode("m275").ids
    for text in ("ids=m396,m275", "id=m275", "m396\nm275", "m275 x"):
        text_ids = glued.encode(text).ids
        assert any(text_ids[start : start + len(ids)] == ids for start in range(len(text_ids))), text


def test_names_and_operations_are_one_token(glued: Tokenizer) -> None:
    for text, count in (("will.wolf", 1), ("outlook.move", 1), ("2026-02-10", 2), ("17:10", 2), ("m275", 2)):
        assert len(glued.encode(text).ids) == count, text
    assert glued.encode("plan.xlsx").ids[-1] == glued.encode("list.xlsx").ids[-1], "an ending is no surname"
    assert glued.token_to_id(ERROR_TOKEN) is not None


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "  two  spaces ", "=", "a=b", "a= b", "\n", "\na\n b", "é 好 🙂", "id\\=m27\\; x\\n", "A1:B2"),
        *("12:30-14:00", "<|act|>", f"a{GLUE}b"),
    ],
)
def test_texts_round_trip(glued: Tokenizer, text: str) -> None:
    assert glued.decode(glued.encode(text).ids, skip_special_tokens=False) == text


shipped = cache(load_local)


@given(st.text().filter(lambda text: f"{GLUE} " not in text))
def test_any_text_round_trips(text: str) -> None:
    tokenizer = shipped("nano").tokenizer
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False).ids, skip_special_tokens=False) == text
