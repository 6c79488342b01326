import json
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
STRIPE = "sk_" + "live_" + "a1B2" * 6
SLACK = "xoxb-" + "123456789012-" + "a1B2" * 6
TELEGRAM = "123456789" + ":AA" + "a1B2-c3" * 4 + "abcde"
SENDGRID = "SG." + "a1B2" * 5 + "ab." + "a1B2" * 10 + "abc"
WEB_TOKEN = "eyJ" + "hbGciOiJIUzI1" + ".eyJ" + "zdWIiOiIxMjM0" + ".c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("write to ruth.klein@gmail.com now", "write to <EMAIL> now"),
        ("Ruth <ruth+x@mail.uni-bonn.de>, or r@a.io.", "<PERSON> <<EMAIL>>, or <EMAIL>."),
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
        ("jürgen@müller.de, иван@почта.рф", "<EMAIL>, <EMAIL>"),
        ("ann%40corp.de and ann&#64;corp.de", "<EMAIL> and <EMAIL>"),
        ("\\nann@corp.de said \\u0061nn@corp.de", "\\n<EMAIL> said <EMAIL>"),
        ("ann [at] corp [dot] de", "<EMAIL>"),
        ("a\u200bnn@cor\u00adp.de, ａｎｎ＠ｃｏｒｐ.ｄｅ", "<EMAIL>, <EMAIL>"),
        ("(415) 867 5309 or 415 867 5309 ext. 12", "<PHONE> or <PHONE>"),
        ("020 7946 0958, 030/1234567, 06 12 34 56 78", "<PHONE>, <PHONE>, <PHONE>"),
        ("0049 30 1234567; +33.6.12.34.56.78; +49 (0)30 1234567", "<PHONE>; <PHONE>; <PHONE>"),
        ("call me at 8675309, phone: 4158675309", "call me at <PHONE>, phone: <PHONE>"),
        ("98765 43210, 138 1234 5678, 8 (495) 123-45-67", "<PHONE>, <PHONE>, <PHONE>"),
        ("4111.1111.1111.1111 12/27, 4111\u00a01111\u00a01111\u00a01111", "<CARD> 12/27, <CARD>"),
        ("DE89 3704 0044 0532 0130 00 and GB82WEST12345698765432", "<IBAN> and <IBAN>"),
        ("SSN 078-05-1120, ITIN 912-50-1234, ssn: 078051120", "SSN <ID>, ITIN <ID>, ssn: <ID>"),
        ("12345678Z, 529.982.247-25, AB 12 34 56 C", "<ID>, <ID>, <ID>"),
        ("RSSMRA85T10A562S, 11010519491231002X", "<ID>, <ID>"),
        ("passport number is X1234567 and mine", "passport number is <ID> and mine"),
        ("passport no. X1234567, driver's license D1234567", "passport no. <ID>, driver's license <ID>"),
        ("from 54.12.33.7 and 2a00:1450:4001:81b::200e", "from <IP> and <IP>"),
        ("http://54.12.33.7:80/x a4:5e:60:c2:11:09", "http://<IP>:80/x <MAC>"),
        ("born on March 12, 1980; geboren am 12. März 1980", "born on <BIRTH_DATE>; geboren am <BIRTH_DATE>"),
        ('"dob": "1980-03-12", 12/03/1980 (date of birth)', '"dob": "<BIRTH_DATE>", <BIRTH_DATE> (date of birth)'),
        (f"{STRIPE} {SLACK} {TELEGRAM} {SENDGRID}", "<KEY> <KEY> <KEY> <KEY>"),
        ("password=hunter2, the password is Tr0ub4dor&3.", "password=<KEY>, the password is <KEY>."),
        ("Authorization: Bearer abc123def456ghi7", "Authorization: Bearer <KEY>"),
        ("postgres://bob:pw@db/x", "postgres://<KEY>@db/x"),
        ("api_key = 'a1b2c3d4e5f6a7b8c9'", "api_key = '<KEY>'"),
        ('{"to": "a@corp.de", "card": 4111111111111111}', '{"to": "<EMAIL>", "card": "<CARD>"}'),
        ('{"q":"{\\"to\\":\\"a@corp.de\\"}"}', '{"q":"{\\"to\\":\\"<EMAIL>\\"}"}'),
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
        "10.0.0.1, 127.0.0.1, 192.0.2.7, 2001:db8::1, ::1, 8.8.8.8, version 5.4.3.2, Chrome/120.0.0.0, 10:30:45",
        "the password is wrong; password: str; token = tokenizer.encode(text); max_tokens: 4096",
        "200 300 4000 500, 2024/05/20 10:30, 01.02.2024 1030, 1,299.00, 1716200000, 1716200000123",
        "item_id 7706410293, product 6086499569, text: 6086499569",
        "std::vector<int> a::b, 00:00:00:00:00:00, git@github.com:team/app.git",
        "created 1980-03-12, born to run, birth rate 12.3",
        "DE00 3704 0044 0532 0130 00 has a wrong checksum",
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


def test_texts_names_and_numbers_of_a_json_value_are_redacted() -> None:
    value: JsonValue = {"to": ["ruth@gmail.com", 7, None, {"cc": "eve@corp.de"}], "n": 1.5, "b": True}
    assert redact_json(value) == {"to": ["<EMAIL>", 7, None, {"cc": "<EMAIL>"}], "n": 1.5, "b": True}
    named: JsonValue = {"maria@corp.de": 1, "4111 1111 1111 1111": [2], STRIPE: {"x": 3}}
    assert redact_json(named) == {"<EMAIL>": 1, "<CARD>": [2], "<KEY>": {"x": 3}}
    numbers: JsonValue = {"card": 4111111111111111, "phone": 4158675309, "order": 4158675309, "count": 12}
    assert redact_json(numbers) == {"card": "<CARD>", "phone": "<PHONE>", "order": 4158675309, "count": 12}


def test_names_that_become_equal_keep_their_values() -> None:
    value: JsonValue = {"a@corp.de": 1, "b@corp.de": 2, "<EMAIL>": 3, "<EMAIL> 2": 4}
    assert redact_json(value) == {"<EMAIL>": 3, "<EMAIL> 2": 4, "<EMAIL> 3": 1, "<EMAIL> 4": 2}


def test_name_of_a_field_says_what_its_value_is() -> None:
    value: JsonValue = {"dob": "1980-03-12", "password": "hunter", "phones": ["8675309"], "date": "1980-03-12"}
    masked: JsonValue = {"dob": "<BIRTH_DATE>", "password": "<KEY>", "phones": ["<PHONE>"], "date": "1980-03-12"}
    assert redact_json(value) == masked


def test_json_in_a_text_stays_json() -> None:
    text = '{"a@corp.de": {"to": "b@corp.de", "n": 4111111111111111, "ok": true}, "c@corp.de": null}'
    masked = {"<EMAIL>": {"to": "<EMAIL>", "n": "<CARD>", "ok": True}, "<EMAIL> 2": None}
    assert json.loads(redact(text)) == masked
    assert redact('{"ok": 1,  "x": [2]}') == '{"ok": 1,  "x": [2]}'
    deep = "[" * 50_000 + '"a@corp.de"' + "]" * 50_000
    assert redact(deep) == deep.replace("a@corp.de", "<EMAIL>")


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="pasword born:=\"'{}[]%&#;64\\nu0@.-+<>12ABKxé\u200b", max_size=60))
def test_redacted_text_with_context_and_encodings_has_no_findings(text: str) -> None:
    assert findings(redact(text)) == []


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
        (replace(task, context={"people": {secret: 1}}), trajectory),
        (task, replace(trajectory, final_state={"card": 4111111111111111})),
    ]
    assert not has_findings(task, trajectory)
    assert [has_findings(*point) for point in points] == [True] * len(points)
