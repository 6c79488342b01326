"""Pseudonyms are the same everywhere for a key, differ between keys, keep their form and are no findings."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upturn.pool import Pool, PoolExport
from upturn.pool.access import admin_acts, delete_pseudonym_key, has_pseudonym_key, pseudonym_key
from upturn.pool.privacy import KEY_BYTES, Pseudonymiser, findings, redact, replace_json, replace_text
from upturn.pool.privacy.checksum import has_iban_checksum, has_luhn
from upturn.records import Evaluation, JsonValue, Task, Trajectory

MakePoint = Callable[..., tuple[Task, Trajectory, Evaluation]]

FIRST, SECOND = Pseudonymiser(b"1" * KEY_BYTES), Pseudonymiser(b"2" * KEY_BYTES)


@pytest.mark.parametrize(
    ("spellings", "form"),
    [
        (("Ann@Corp.de", "ann%40corp.de", "ann [at] corp [dot] de"), r"u[a-z2-7]{12}(@|%40)example\.com"),
        (("(415) 867-5309", "415.867.5309", "+1 415 867 5309"), r"(\+1 )?\(?[2-9]\d\d(\) |[. ])555[. -]01\d\d"),
        (
            ("4111 1111 1111 1111", "4111111111111111", "4111-1111-1111-1111"),
            r"4242[ -]?42\d\d[ -]?\d{4}[ -]?\d{4}",
        ),
        (("DE89 3704 0044 0532 0130 00", "DE89370400440532013000"), r"DE\d\d ?0000 ?\d{4} ?\d{4} ?\d{4} ?\d\d"),
        (("078-05-1120", "078 05 1120"), r"99\d[ -]\d\d[ -]\d{4}"),
        (("54.12.33.7",), r"198\.1[89]\.\d{1,3}\.\d{1,3}"),
        (("2a00:1450:4001:81b::200e",), r"2001:db8(:[0-9a-f]{1,4}){6}"),
        (("a4:5e:60:c2:11:09", "A4-5E-60-C2-11-09"), r"02[:-]00[:-]00([:-][0-9a-fA-F]{2}){3}"),
        (("sk_" + "live_" + "a1B2" * 6,), r"key-[0-9a-f]{12}"),
    ],
)
def test_spellings_of_an_identifier_have_one_pseudonym_in_their_form(spellings: tuple[str, ...], form: str) -> None:
    made = [replace_text(text, FIRST) for text in spellings]
    assert all(re.fullmatch(form, text) for text in made), made

    def plain(text: str) -> str:
        return re.sub(r"[^a-z0-9]|^1(?=\d{10}$)", "", re.sub(r"\W", "", text.lower().replace("%40", "@")))

    assert len({plain(text) for text in made}) == 1, made
    others = [replace_text(text, SECOND) for text in spellings]
    assert not {plain(text) for text in made} & {plain(text) for text in others}


def test_checksums_hold_where_programs_check_them() -> None:
    card = replace_text("4111 1111 1111 1111", FIRST).replace(" ", "")
    assert len(card) == 16
    assert has_luhn(card)
    assert has_iban_checksum(replace_text("GB82WEST12345698765432", FIRST))


def test_pseudonyms_are_no_findings_also_in_context() -> None:
    text = (
        "SSN: 078-05-1120, passport no. X1234567, phone: 4158675309, IBAN DE89 3704 0044 0532 0130 00, "
        "password=hunter2, card 4111 1111 1111 1111, born on March 12, 1980, from 54.12.33.7, postgres://bob:pw@db.corp.com/x"
    )
    made = replace_text(text, FIRST)
    assert findings(made) == []
    assert "<" not in made, made
    assert replace_text(made, SECOND) == made
    assert "born on 1980-01-01" in made
    assert re.search(r"postgres://key-[0-9a-f]{12}@db\.corp\.com/x", made)


def test_famous_test_numbers_are_found() -> None:
    assert (
        redact("4242 4242 4242 4242, DE00000000000000000000, 555-555-5555")
        == "<CARD>, DE00000000000000000000, <PHONE>"
    )


def test_numbers_stay_numbers_and_names_of_fields_are_replaced() -> None:
    value: JsonValue = {"card": 4111111111111111, "a@corp.de": [{"phone": 4158675309}]}
    made = replace_json(value, FIRST)
    assert isinstance(made, dict)
    (card_name, card), (name, phones) = made.items()
    assert (card_name, name) == ("card", FIRST("email", "a@corp.de"))
    assert isinstance(card, int)
    assert has_luhn(str(card))
    assert phones == [{"phone": int(FIRST("phone", "4158675309"))}]
    assert replace_json(made, FIRST) == made


@settings(max_examples=60, deadline=None)
@given(
    st.from_regex(
        r"[a-z]{1,9}@[a-z]{1,9}\.de|4[0-9]{15}|\+49 [0-9]{2} [0-9]{7}|[0-9]{3}-[0-9]{2}-[0-9]{4}", fullmatch=True
    )
)
def test_pseudonymised_text_has_no_findings(text: str) -> None:
    assert findings(replace_text(f"to {text}.", FIRST)) == []


def _exported(pool: Pool, key: bytes) -> str:
    return "".join(PoolExport(pool, tenant="default", replacer=Pseudonymiser(key)).lines())


def test_deleted_key_leaves_nothing_that_links_pseudonyms(tmp_path: Path, make_point: MakePoint) -> None:
    path = tmp_path / "pool.db"
    task, trajectory, evaluation = make_point("a")
    with Pool.open(path) as pool:
        pool.append(replace(task, instruction="write to ann@corp.de, then ann@corp.de"), trajectory, evaluation)
        assert not has_pseudonym_key(path, tenant="default")
        key = pseudonym_key(path, tenant="default", who="ada", when=1.0)
        assert pseudonym_key(path, tenant="default", who="bob", when=2.0) == key
        assert pseudonym_key(path, tenant="other", who="ada", when=2.0) != key
        first = _exported(pool, key)
        (name,) = set(re.findall(r"u[a-z2-7]{12}@example\.com", first))
        assert first.count(name) == 2
        assert delete_pseudonym_key(path, tenant="default", who="ada", why="asked", when=3.0)
        assert not delete_pseudonym_key(path, tenant="default", who="ada", why="again", when=4.0)
        later = _exported(pool, pseudonym_key(path, tenant="default", who="ada", when=5.0))
        assert name not in later
        whats = [(act.what, act.why) for act in admin_acts(pool.engine, tenant="default")]
        assert whats == [("pseudonym key add", ""), ("pseudonym key delete", "asked"), ("pseudonym key add", "")]
    assert key not in b"".join(file.read_bytes() for file in tmp_path.iterdir())
