"""A name that a record states is found in all its texts, whole, in parts, and in identifiers."""

from collections.abc import Callable
from dataclasses import replace

from upturn.pool.privacy import KEY_BYTES, KnownNames, Pseudonymiser, anonymise, names_of
from upturn.pool.privacy.known_name import names_in
from upturn.records import Evaluation, Observation, Task, Trajectory

MakePoint = Callable[..., tuple[Task, Trajectory, Evaluation]]


def _found(known: KnownNames, text: str) -> list[str]:
    return [text[start:stop] for _, start, stop in known.findings(text)]


def test_parts_and_identifiers_of_a_known_name_are_found() -> None:
    known = KnownNames(["Mia Novak", "SILVA, Maria", "Will"])
    text = "Thanks Mia, your id mia_novak_3668 is fine. MIA is here, mia is not. will Will stay?"
    assert _found(known, text) == ["Mia", "mia_novak_3668", "MIA"]
    assert _found(known, "maria silva and Silva's car, Maria-Silva, Mariana, silva") == [
        "maria silva",
        "Silva",
        "Maria-Silva",
    ]
    assert not KnownNames([])
    assert _found(KnownNames([]), "Mia") == []


def test_names_are_stated_by_headers_closings_and_fields() -> None:
    mail = "From: Peter Müller\n\nThe parcel is late, says Laura Schmidt.\n\nBest regards,\nPeter"
    assert set(names_in(mail)) == {"Peter Müller", "Peter"}
    assert list(names_in({"name": {"first_name": "Maria", "last_name": "Silva"}})) == ["Maria", "Silva"]
    assert list(names_in({"city": "Berlin", "count": 3, "ok": True, "none": None})) == []


def test_known_names_are_replaced_in_the_whole_record(make_point: MakePoint) -> None:
    _, trajectory, _ = make_point("a")
    turn = trajectory.turns[0]
    stated = replace(turn, text='{"first_name": "Maria", "last_name": "Silva"}')
    other = replace(turn, text="ok", observation=Observation("my id is maria_silva_3668"))
    record = replace(
        trajectory, turns=(stated, other), final_observation=Observation("The parcel of Maria is here.")
    )
    clean = anonymise(record)
    assert clean.turns[1].observation.text == "my id is <PERSON>"
    assert clean.final_observation.text == "The parcel of <PERSON> is here."
    made = anonymise(record, Pseudonymiser(b"1" * KEY_BYTES))
    first = made.final_observation.text.split()[3]
    assert made.turns[1].observation.text.startswith(f"my id is {first.lower()}_")
    assert f'"first_name": "{first}"' in made.turns[0].text
    alone = anonymise(replace(record, turns=(other,)), known=names_of(record))
    assert alone.turns[0].observation.text == "my id is <PERSON>"
