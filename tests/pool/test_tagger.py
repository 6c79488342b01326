"""The tagger finds names, addresses and organisations, the same ones everywhere, and stands hostile texts."""

from pathlib import Path
from random import Random

import numpy as np
import pytest

from upturn.errors import ModelError
from upturn.pool.privacy import KEY_BYTES, SHIPPED_TAGGER, Pseudonymiser, findings, redact, replace_text
from upturn.pool.privacy.tagger import BUCKETS, FREQUENT, Lexicon, hash_of, load_tagger, made_name, names, tokens_of
from upturn.pool.privacy.tagger.decoding import Costs, spans_of
from upturn.pool.privacy.tagger.made_name import is_made_span, is_made_word, make_word

KEYED = Pseudonymiser(b"1" * KEY_BYTES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dear Maria Silva, your order is late.", "Dear <PERSON>, your order is late."),
        ("Ship it to 975 Sunset Drive, Austin, TX 78750 please.", "Ship it to <ADDRESS> please."),
        ('{"first_name": "Mia", "last_name": "Novak"}', '{"first_name": "<PERSON>", "last_name": "<PERSON>"}'),
        ("Mein Name ist Jürgen Schäfer.", "Mein Name ist <PERSON>."),
        ("She works at Schneider Maschinenbau GmbH now.", "She works at <ORGANISATION> now."),
        ("您好，我叫王小明。", "您好，我叫<PERSON>。"),
    ],
)
def test_names_addresses_and_organisations_are_replaced(text: str, expected: str) -> None:
    assert redact(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "The flight from New York to Seattle on May 20th costs $121.",
        "Run `upturn pool export` with Python 3.11 on Linux.",
        '{"status": "available", "origin": "JFK", "insurance": "no"}',
        "Die Rechnung und der Vertrag liegen bei.",
        "Renew my book, please. Summarise this page.",
        "def load_model(path: str) -> Model:\n    return Model(path)",
    ],
)
def test_other_words_stay(text: str) -> None:
    assert list(names(text)) == []


def test_same_person_has_the_same_pseudonym_in_every_spelling() -> None:
    first, last = (KEYED("person", word) for word in ("Maria", "Silva"))
    assert KEYED("person", "Maria Silva") == f"{first} {last}"
    assert KEYED("person", "SILVA, Maria") == f"{last.upper()}, {first}"
    assert KEYED("person", "maria silva") == f"{first} {last}".lower()
    assert KEYED("person", "maria_silva_3668").startswith(f"{first}_{last}_".lower())
    assert KEYED("person", "Ludwig van Beethoven").split()[1] == "van"
    assert Pseudonymiser(b"2" * KEY_BYTES)("person", "Maria") != first


def test_pseudonyms_of_names_are_not_found_again() -> None:
    text = "Dear Maria Silva, we ship to 975 Sunset Drive, Austin, TX 78750."
    made = replace_text(text, KEYED)
    assert "Silva" not in made
    assert "Sunset" not in made
    assert findings(made) == []
    assert replace_text(made, Pseudonymiser(b"2" * KEY_BYTES)) == made


def test_made_up_words_are_recognised_and_real_ones_are_not() -> None:
    words = [make_word(Random(number).randrange) for number in range(50)]
    assert all(is_made_word(word) and is_made_word(word.upper()) for word in words)
    assert is_made_span(f"{words[0].title()} M. van {words[1].title()}")
    assert is_made_span("<PERSON>")
    assert not is_made_span(f"{words[0]} Silva")
    assert not is_made_word("banana")
    made = made_name("address", "12 Elm Street", lambda _: lambda limit: limit - 1)
    assert is_made_span(made)
    assert made.startswith("99 ")
    assert made.endswith(" Street")


def test_tokens_are_words_numbers_and_signs() -> None:
    tokens = tokens_of('"first_name": "Mia Li", 王明, O\'Brien\\nx1')
    assert tokens.words == [
        '"', "first", "_", "name", '": "', "Mia", "Li", '", ', "王", "明", ", ", "O", "'", "Brien", "\\n", "x", "1",
    ]  # fmt: skip
    assert tokens.starts[:4] == [0, 1, 6, 7]
    assert tokens_of("a" * 100).words == ["a" * 40]


def test_features_say_what_a_word_is_known_as() -> None:
    dear, mia = (np.array([hash_of(word)], np.uint32) for word in ("dear", "mia"))
    lexicon = Lexicon(dear, dear, mia)
    assert lexicon.features("Dear")[0] == 0  # the first of the frequent words
    assert all(FREQUENT <= number < BUCKETS for number in lexicon.features("Dear", is_known=False))
    assert set(lexicon.features("Mia")) - set(lexicon.features("Mia", is_known=False))
    assert lexicon.features("2024") == lexicon.features("2024", is_known=False)


def test_sequence_of_labels_is_the_cheapest_one() -> None:
    scores = np.array([[0, 0, 3, 0, 9], [5, 5, 2, 5, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]], np.float32)
    spans = list(spans_of(scores, Costs(change=2, certain=6, label=(0, 0, 0, 0))))
    assert [tuple(span) for span in spans] == [(1, 0, 3)]  # two changes cost more than one weak token
    assert list(spans_of(scores[:, 4:], Costs(2, 6, (0, 0, 0, 0)))) == []


@pytest.mark.parametrize(
    "text",
    ["a" * 200_000, "A" * 200_000, "😀" * 50_000,
     "\ud800Maria\udfff" * 1_000, "_" * 100_000, "王" * 20_000, "\\" * 100_000,
     "\n" * 100_000, "1" * 200_000, ""],
)  # fmt: skip
def test_hostile_texts_are_read(text: str) -> None:
    assert all(0 <= start < stop <= len(text) for _, start, stop in names(text))


def test_long_text_has_the_same_findings_as_its_parts() -> None:
    sentence = "Dear Maria Silva, your order is late.\n\n"
    assert len(list(names(sentence * 3_000))) == 3_000 * len(list(names(sentence)))


def test_shipped_tagger_is_small_and_a_missing_one_is_named(tmp_path: Path) -> None:
    assert sum(file.stat().st_size for file in SHIPPED_TAGGER.iterdir()) <= 1_500_000
    with pytest.raises(ModelError, match=r"no tagger in .*upturn model build-tagger"):
        load_tagger(tmp_path)
