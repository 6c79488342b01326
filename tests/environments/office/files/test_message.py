"""Mails as .eml files."""

from dataclasses import replace
from email import message_from_bytes, policy
from email.utils import parsedate_to_datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upturn.environments.office.files import message
from upturn.environments.office.files.directory import Directory
from upturn.environments.office.files.message import Attachment, message_bytes, read_message
from upturn.environments.office.state.mail import Mail
from upturn.errors import FileFormatError

DIRECTORY = Directory({"ann.lee": "Ann Lee", "bob.ray": 'Böb, "B" Ray'}, zone=ZoneInfo("Europe/Berlin"))
MAIL = Mail(
    id="m12",
    folder="pröjects",
    sender="bob.ray",
    to=("ann.lee", "eva@fabrikam.example"),
    subject="re: budget  für q3",
    body="hello\nFrom me\n\n.\n bye ☃\n",
    at="2026-03-29 01:30",
    thread="m3",
    cc=("sales",),
    is_read=True,
    flag="flagged",
    attachments=("f12", "f9"),
    label="privileged",
    on_behalf_of="ann.lee",
)


def round_trip(mail: Mail) -> Mail:
    """Returns the mail after writing and reading, in the same folder."""
    letter = read_message(message_bytes(mail, DIRECTORY), DIRECTORY)
    return replace(letter.mail, folder=letter.folder)


def test_a_mail_survives_a_round_trip_with_its_attachments() -> None:
    attached = [Attachment("bü\ndget.xlsx", b"PK\x00\xff\r\n" * 50), Attachment("notes.txt", b"a\nb")]
    written = message_bytes(MAIL, DIRECTORY, before=["m3", "m7"], attachments=attached)
    letter = read_message(written, DIRECTORY)
    assert replace(letter.mail, folder=letter.folder) == MAIL
    assert letter.attachments == tuple(attached)
    assert letter.names == {"ann.lee": "Ann Lee", "bob.ray": 'Böb, "B" Ray'}
    assert message_bytes(MAIL, DIRECTORY, before=["m3", "m7"], attachments=attached) == written


def test_mail_programs_see_threads_addresses_and_the_moment_with_its_zone() -> None:
    read = message_from_bytes(message_bytes(MAIL, DIRECTORY, before=["m3", "m7"]), policy=policy.default)
    assert (read["message-id"], read["in-reply-to"]) == ("<m12@upturn.invalid>", "<m7@upturn.invalid>")
    assert read["references"].split() == ["<m3@upturn.invalid>", "<m7@upturn.invalid>"]
    assert read["from"] == "Ann Lee <ann.lee@contoso.example>"
    assert read["sender"].address.addr_spec == "bob.ray@contoso.example"
    # The clocks go forward half an hour later, so this is winter time.
    assert parsedate_to_datetime(read["date"]).isoformat() == "2026-03-29T01:30:00+01:00"


words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=60)


@settings(max_examples=30, deadline=None)
@given(
    words.map(lambda text: " ".join(text.splitlines())),
    words,
    st.datetimes().map(lambda at: f"{at.year:04d}-01-{at.day:02d} {at.hour:02d}:{at.minute:02d}"),
)
def test_any_text_survives_a_round_trip(subject: str, body: str, at: str) -> None:
    mail = Mail("m1", "inbox", "bob.ray", ("ann.lee",), subject, body, max(at, "1900"))
    mail = replace(mail, at=f"2026{at[4:]}")
    assert round_trip(mail) == mail


def test_a_subject_of_several_lines_becomes_one_and_line_ends_become_one_kind() -> None:
    result = round_trip(replace(MAIL, subject="a\nb", body="x\r\ny\rz"))
    assert (result.subject, result.body) == ("a b", "x\ny\nz")


FOREIGN = b"""\
From: "Ray, Bob" <Bob.Ray@Contoso.example>
To: undisclosed-recipients:;
Cc: Eva <eva@FABRIKAM.example>
Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=
Date: Mon, 2 Mar 2026 23:30:59 -0500
Message-ID: <abc@mail.fabrikam.example>
In-Reply-To: <first@mail.fabrikam.example>
MIME-Version: 1.0
Content-Type: text/html; charset=iso-8859-1
Content-Transfer-Encoding: quoted-printable

<html><head><title>no</title><style>p {}</style></head><body><p>Hello&nbsp;there=\r
, Ann</p><div>caf=E9<br>bye</div></body></html>
"""


def test_a_foreign_mail_is_read_in_the_zone_of_the_office() -> None:
    letter = read_message(FOREIGN, DIRECTORY)
    mail = letter.mail
    assert (mail.id, mail.sender, mail.to, mail.cc) == ("", "bob.ray", (), ("eva@fabrikam.example",))
    assert (mail.subject, mail.at, mail.thread) == ("Grüße", "2026-03-03 05:30", "")
    assert mail.body == "Hello there, Ann\ncafé\nbye"
    assert (letter.key, letter.root) == ("<abc@mail.fabrikam.example>", "<first@mail.fabrikam.example>")
    assert letter.names == {"bob.ray": "Ray, Bob", "eva@fabrikam.example": "Eva"}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it has no From with an address"),
        (b"Date: Mon, 2 Mar 2026 23:30:59 -0500\n\nhello", "it has no From with an address"),
        (b"From: Ann\n\nhello", "it has no From with an address"),
        (
            FOREIGN.replace(b"<first@", b"<" + b"a." * 20_000 + b"@"),
            "In-Reply-To has 40024 characters; at most 32768",
        ),
        (FOREIGN.replace(b"text/html", b"text/html; a=" + b"b." * 20_000), "Content-Type has"),
        (FOREIGN.replace(b"Eva", b"E" * 2_001), "an address of more than 2000 characters"),
        (b"\x89PNG\r\n\x00\x00", "it is not text"),
        (FOREIGN.replace(b"text/html;", b"application/pkcs7-mime;"), "it is encrypted"),
        (message_bytes(MAIL, DIRECTORY, attachments=[Attachment("a.txt", b"x" * 99)])[:-30], "damaged or cut off"),
        (b"x" * (32 * 2**20 + 1), "at most 33554432 are read"),
    ],
    ids=range(10),
)
def test_errors_name_the_problem(data: bytes, reason: str) -> None:
    with pytest.raises(FileFormatError, match=reason):
        read_message(data, DIRECTORY)


@pytest.mark.parametrize("who", ["eva@", "@x", "eva@münchen.example", "a@b c"])
def test_invalid_addresses_are_refused(who: str) -> None:
    with pytest.raises(FileFormatError, match="cannot be written as an address"):
        message_bytes(replace(MAIL, to=(who,)), DIRECTORY)


def _mail_to(header: str) -> bytes:
    return f"From: ann@x.example\nTo: {header}\n\nhello\n".encode()


def test_a_mail_has_at_most_a_thousand_addresses_in_all_headers() -> None:
    people = [f"p{number}@x.example" for number in range(999)]
    assert read_message(_mail_to(", ".join(people)), DIRECTORY).mail.to == tuple(people)
    with pytest.raises(FileFormatError, match="it has more than 1000 addresses; at most 1000 are read"):
        read_message(_mail_to(f"{', '.join(people)}\nCc: eva@x.example"), DIRECTORY)


def test_a_long_list_of_addresses_is_not_parsed_as_one_header() -> None:
    """The library takes quadratic time for a header, and refuses to parse one of this length here."""
    people = [f"{'p' * 60}{number}@x.example" for number in range(900)]
    assert len(", ".join(people)) > message._LONGEST_HEADER
    assert read_message(_mail_to(", ".join(people)), DIRECTORY).mail.to == tuple(people)


@pytest.mark.parametrize(
    ("header", "people"),
    [
        ("a@x.example, b@x.example", ("a@x.example", "b@x.example")),
        ('"Ray, Bob" <b@x.example>,\r\n a@x.example', ("b@x.example", "a@x.example")),
        (r'"a \", <no@x.example>" <b@x.example>, a@x.example', ("b@x.example", "a@x.example")),
        ("b@x.example (one, (two), <three>), a@x.example", ("b@x.example", "a@x.example")),
        ("undisclosed-recipients:;", ()),
        ("Team: a@x.example, B <b@x.example>;, c@x.example", ("a@x.example", "b@x.example", "c@x.example")),
        ("=?utf-8?q?M=C3=BCller=2C_A?= <a@x.example>, , b@x.example", ("a@x.example", "b@x.example")),
        ("nobody", ()),
        ('"open <a@x.example>, b@x.example', ()),
    ],
)
def test_addresses_are_separated_by_commas_outside_of_quotes_and_comments(
    header: str, people: tuple[str, ...]
) -> None:
    assert read_message(_mail_to(header), DIRECTORY).mail.to == people


@pytest.mark.parametrize("date", ["", "Date: late\n", "Date:\n"])
def test_a_mail_without_a_date_that_can_be_read_has_no_moment(date: str) -> None:
    assert read_message(f"From: ann@x.example\n{date}\nhello".encode(), DIRECTORY).mail.at == ""
