from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upturn.pool.privacy import findings, has_findings, redact, redact_json
from upturn.records import Action, Evaluation, JsonValue, Observation, Task, Trajectory

MakePoint = Callable[..., tuple[Task, Trajectory, Evaluation]]

# Concatenated so that no secret scanner reports this file.
AMAZON = "AKIA" + "ABCDEFGHIJKLMNOP"
OPENAI = "sk-" + "proj-" + "a1B2" * 8
UPTURN = "up-" + "0a1b2c3d4e5f-" + "aB3_-" * 8 + "xyz"
GITHUB = "ghp_" + "a1B2c3" * 6
PEM_START, PEM_END = "-----BEGIN RSA " + "PRIVATE KEY-----", "-----END RSA " + "PRIVATE KEY-----"
WEB_TOKEN = "eyJ" + "hbGciOiJIUzI1" + ".eyJ" + "zdWIiOiIxMjM0" + ".c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("write to ruth.klein@gmail.com now", "write to <EMAIL> now"),
        ("Ruth <ruth+x@mail.uni-bonn.de>, or r@a.io.", "Ruth <<EMAIL>>, or <EMAIL>."),
        ("a line\nada@corp.de", "a line\n<EMAIL>"),
        ("call +49 30 1234567 or +1 (415) 555-2671", "call <PHONE> or <PHONE>"),
        ("(415) 555-2671, 415-555-2671, 415.555.2671", "<PHONE>, <PHONE>, <PHONE>"),
        ("card 4111 1111 1111 1111, exp 12/27", "card <CARD>, exp 12/27"),
        ("5500005555555559 and 3782-822463-10005", "<CARD> and <CARD>"),
        (f"key={AMAZON} token {OPENAI}", "key=<KEY> token <KEY>"),
        (f"{GITHUB}; {WEB_TOKEN}", "<KEY>; <KEY>"),
        (f"Bearer {UPTURN}.", "Bearer <KEY>."),
        (f"a\n{PEM_START}\nMIIE+/=\nabcd\n{PEM_END}\nb", "a\n<KEY>\nb"),
        (f"cut: {PEM_START}\nMIIE+/=\nabcd", "cut: <KEY>"),
    ],
)
def test_personal_data_and_secrets_are_found_and_replaced(text: str, expected: str) -> None:
    assert redact(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ada@example.com, bob@mail.example.org, eve@corp.example, x@y.test, root@localhost, z@a.invalid",
        "mail me @ home, @ada, user@host",
        "415-555-0123 is fiction",
        "on 2024-05-20 at 10:30, 2024-05-20 2024-05-21",
        "reservation 4421486, order 1234567890, flight HAT136, 192.168.10.12",
        "4111 1111 1111 1112 fails the checksum",
        "card_id 20240520202405202024, 1.2345678901234567",
        "sk-short, AKIASHORT, eyJ.eyJ",
        "version 10.20.3040.5060 costs 1.299,00 EUR",
        "nano@1, imported:gpt-4o@tau-bench, thompson@v2",
        "sha 0f8fad5b-d9cb-469f-a165-70867728950e",
    ],
)
def test_text_without_findings_stays_unchanged(text: str) -> None:
    assert findings(text) == []
    assert redact(text) == text


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="ab1234567890@.+-() \nskeyJAKI_", max_size=60))
def test_redacted_text_has_no_findings(text: str) -> None:
    redacted = redact(text)
    matches = findings(text)
    assert all(earlier.stop <= later.start for earlier, later in pairwise(matches))
    assert findings(redacted) == []
    assert (redacted == text) == (not matches)


def test_every_text_of_a_json_value_is_redacted_and_its_shape_stays() -> None:
    value: JsonValue = {"to": ["ruth@gmail.com", 7, None, {"cc": "eve@corp.de"}], "n": 1.5, "b": True}
    assert redact_json(value) == {"to": ["<EMAIL>", 7, None, {"cc": "<EMAIL>"}], "n": 1.5, "b": True}


def test_findings_are_searched_in_all_written_fields(make_point: MakePoint) -> None:
    task, trajectory, _ = make_point("a")
    secret = "ruth@gmail.com"
    turn = trajectory.turns[0]
    points: list[tuple[Task, Trajectory]] = [
        (replace(task, instruction=secret), trajectory),
        (replace(task, context={"people": [secret]}), trajectory),
        (task, replace(trajectory, turns=(replace(turn, text=secret),))),
        (task, replace(trajectory, turns=(replace(turn, observation=Observation(secret)),))),
        (task, replace(trajectory, turns=(replace(turn, action=Action("mail", "send", {"to": [secret]})),))),
        (task, replace(trajectory, turns=(replace(turn, action=Action("mail", "send", thought=secret)),))),
        (task, replace(trajectory, final_observation=Observation(secret))),
        (task, replace(trajectory, final_state={"mail": {"to": secret}})),
        (task, replace(trajectory, error=secret)),
    ]
    assert not has_findings(task, trajectory)
    assert [has_findings(*point) for point in points] == [True] * len(points)
