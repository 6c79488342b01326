"""Workspaces as folders of real files."""

from dataclasses import replace
from pathlib import Path

import pytest

from upturn.environments.office.files import Host, find_zone, pack, read_folder, unpack, write_folder
from upturn.environments.office.files.paths import Places, safe_name
from upturn.environments.office.state import Table, Workspace, changes
from upturn.environments.office.state.chat import Channel, Chat, Post
from upturn.environments.office.state.deck import Deck, Slide
from upturn.environments.office.state.document import Document, Grid, Paragraph
from upturn.environments.office.state.event import Attendee, Event
from upturn.environments.office.state.file import Content, File, Page, PlainText, Version
from upturn.environments.office.state.mail import Mail, Rule
from upturn.environments.office.state.person import Group, Person
from upturn.environments.office.state.workbook import Book, Chart, Sheet
from upturn.environments.office.state.workspace import TABLES
from upturn.environments.office.tasks import compose, make_task
from upturn.errors import FileFormatError

for needed in ("openpyxl", "docx", "pptx", "icalendar"):
    pytest.importorskip(needed, reason="the extra files is not installed")

BERLIN = find_zone("Europe/Berlin")
NOW = "2026-03-02 09:00"
HOST = Host("Ann@Example.org", "Europe/Berlin", NOW)


def _file(number: int, path: str, content: Content, **further: object) -> File:
    fields: dict[str, object] = {"owner": "bob.ray", "by": "ann.lee", "at": "2026-02-10 10:00", **further}
    return File(f"f{number}", path, content, **fields)  # type: ignore[arg-type]  # by name, each of its type


@pytest.fixture
def office(book: Book, document: Document, deck: Deck) -> Workspace:
    """A workspace with items in every table, and names that are invalid in file systems."""
    mails = (
        Mail(
            "m1", "inbox", "bob.ray", ("ann.lee",), "budget?", "420", "2026-02-27 10:00", attachments=("f1", "f4")
        ),
        Mail("m2", "sent", "ann.lee", ("bob.ray",), "re: budget?", "fine", "2026-02-27 11:00", thread="m1"),
        Mail("m1003", "con/..", "eva@x.example", ("ann.lee",), "a/b:c", "hi", "2026-02-27 12:00", thread="m2"),
        Mail("m4", "inbox", "bob.ray", ("sales",), "lost", "first is gone", "2026-02-27 13:00", thread="m99"),
    )
    files = (
        _file(1, "/finance/q3.xlsx", book, rights={"sales": "read"}, label="confidential"),
        _file(2, "/finance/Q3.xlsx", book),
        _file(3, "/../plan?.docx", document),
        _file(4, "/talk.pptx", deck, owner="ann.lee"),
        _file(5, "/finance/q3.xlsx", book, is_deleted=True),
        _file(6, "/photo.png", PlainText("the team")),
        _file(7, "/notes.txt", PlainText("a\nb ☃")),
    )
    post = Post("bob.ray", "see you", "2026-02-27 09:00", is_delivered=False)
    event = Event("e1", "review/2", NOW, "2026-03-02 10:00", "ann.lee", (Attendee("bob.ray", "accepted"),), "room")
    people = ("ann.lee", "bob.ray")
    return Workspace(
        "ann.lee",
        NOW,
        people=Table({id_: Person(id_, id_.title(), "analyst", delegates=("cid",)) for id_ in people}),
        groups=Table({"sales": Group("sales", "Sales", people)}),
        mails=Table({mail.id: mail for mail in mails}),
        rules=Table({"r1": Rule("r1", "bob.ray", "", "projects")}),
        events=Table({"e1": event}),
        files=Table({file.id: file for file in files}),
        pages=Table({"p1": Page("p1", "welcome", "hello", "bob.ray", "2026-02-20 10:00")}),
        chats=Table({"c1": Chat("c1", people, (post,), "lunch")}),
        channels=Table({"c2": Channel("c2", "sales", "general", people, (post,))}),
        seed=7,
    )


def test_an_office_survives_a_round_trip_through_a_folder(office: Workspace, tmp_path: Path) -> None:
    places, notes = write_folder(office, tmp_path / "office", zone=BERLIN)
    assert notes == ()
    result = read_folder(tmp_path / "office")
    assert changes(office, result.workspace) == {}
    assert all(getattr(result.workspace, name) == getattr(office, name) for name in TABLES)
    assert (result.workspace.owner, result.workspace.started_at, result.workspace.seed) == ("ann.lee", NOW, 7)
    assert (result.zone, result.notes, result.left_out) == (BERLIN, (), ())
    assert "Files/finance/q3.xlsx" in places and "Files/finance/Q3 (f2).xlsx" in places
    assert all(".." not in path and not set('?:"<>|\\') & set(path) for path in places)
    assert result.workspace.new_id("m")[1] == "m1004"


def test_the_office_of_a_task_round_trips_and_equal_offices_give_equal_bytes() -> None:
    workspace = compose(make_task("mail_move", 3)).workspace
    workspace = replace(workspace, mails=Table(dict(list(workspace.mails.items())[:30])))
    parts = pack(workspace, find_zone("UTC")).parts
    result = unpack(parts)
    assert all(getattr(result.workspace, name) == getattr(workspace, name) for name in TABLES)
    assert pack(result.workspace, find_zone("UTC")) == (parts, ())


def test_content_that_a_folder_cannot_hold_is_dropped(office: Workspace) -> None:
    file = office.files["f7"]
    changed = replace(file, versions=(Version(PlainText("before"), "ann.lee", "2026-01-01 09:00"),))
    used = replace(office.with_items(changed), elapsed=3_600.0, created=3)
    result = unpack(pack(used, BERLIN).parts).workspace
    assert (result.files["f7"].versions, result.started_at, result.elapsed) == ((), "2026-03-02 10:00", 0.0)
    assert not result.persona.wishes and not result.messages


def test_edits_of_an_exported_folder_are_imported(office: Workspace) -> None:
    parts = pack(office, BERLIN).parts
    mail = next(path for path in parts if "(m2)" in path)
    moved = {path.replace("Mail/sent", "Mail/archive") if path == mail else path: parts[path] for path in parts}
    reply = (
        b"From: Cid Moe <cid.moe@contoso.example>\nTo: ann.lee@contoso.example\nSubject: re\nMessage-ID: <9@x>\n"
        b"Date: Mon, 2 Mar 2026 08:30:00 +0000\nIn-Reply-To: <m2@upturn.invalid>\n\nyes\n"
    )
    moved |= {"Mail/Inbox/answer.eml": reply, "Files/new/todo.md": b"one"}
    del moved["Files/photo.png"]
    result = unpack(moved)
    workspace = result.workspace
    assert workspace.mails["m2"].folder == "archive"
    assert workspace.mails["m1004"] == Mail(
        "m1004", "inbox", "cid.moe", ("ann.lee",), "re", "yes\n", "2026-03-02 09:30", thread="m1"
    )
    assert workspace.people["cid.moe"] == Person("cid.moe", "Cid Moe")
    assert workspace.files["f8"] == File("f8", "/new/todo.md", PlainText("one"), "ann.lee", "ann.lee", NOW)
    assert "f6" not in workspace.files
    assert result.notes == ("1 of the files that workspace.json names are not there any more",)


def _mail(key: str, minute: int, *headers: str, body: str = "hi") -> bytes:
    lines = ("From: bob@example.org", "To: ann@example.org, eva@x.example", f"Message-ID: <{key}>", *headers)
    return "\n".join((*lines, f"Date: Mon, 2 Mar 2026 08:{minute:02d}:00 +0100", "", body)).encode()


def test_a_foreign_folder_is_read_for_its_owner() -> None:
    attached = _mail(
        "4@x",
        40,
        "MIME-Version: 1.0",
        "Content-Type: multipart/mixed; boundary=b",
        body="--b\n\nsee\n--b\nContent-Disposition: attachment; filename=n.txt\n\nten\n--b--\n",
    )
    parts = {
        "Mail/inbox/c.eml": _mail("3@x", 30, "References: <1@x> <2@x>", "In-Reply-To: <2@x>"),
        "Mail/inbox/b.eml": _mail("2@x", 20, "In-Reply-To: <1@x>"),
        "Mail/inbox/a.eml": attached,
        "Mail/old/d.eml": _mail("5@x", 50),
        "Files/notes.txt": b"x",
    }
    workspace = unpack(parts, host=HOST).workspace
    # a, b, c, d are m1 to m4; the first of the conversation is not there, so the oldest that is began it.
    assert {id_: mail.thread for id_, mail in workspace.mails.items()} == {"m1": "", "m2": "", "m3": "m2", "m4": ""}
    assert (workspace.owner, workspace.started_at) == ("ann", NOW)
    assert workspace.mails["m2"].to == ("ann", "eva@x.example")
    assert list(workspace.people) == ["ann", "bob"]
    [attachment] = workspace.mails["m1"].attachments
    assert workspace.files[attachment].path == "/attachments/a/n.txt"
    assert workspace.files[attachment].content == PlainText("ten")


def test_mails_without_a_date_take_the_order_of_their_files() -> None:
    letter = b"From: bob@example.org\n\nhi"
    dated = b"From: bob@example.org\nDate: Fri, 27 Feb 2026 10:00:00 +0100\n\nhi"
    parts = {f"Mail/all/{number}.eml": letter for number in (8, 9, 10)}
    parts |= {f"Mail/some/{name}.eml": letter for name in "abd"} | {"Mail/some/c.eml": dated}
    result = unpack(parts, host=HOST)
    listed = sorted((mail.folder, mail.at, id_) for id_, mail in result.workspace.mails.items())
    assert listed == [
        ("all", "2026-03-02 08:58", "m2"),  # ids follow the alphabet: 10, 8, 9, a, b, c, d
        ("all", "2026-03-02 08:59", "m3"),
        ("all", NOW, "m1"),
        ("some", "2026-02-27 09:58", "m4"),
        ("some", "2026-02-27 09:59", "m5"),
        ("some", "2026-02-27 10:00", "m6"),
        ("some", "2026-02-27 10:01", "m7"),
    ]
    assert result.notes[0] == (
        "6 mails have no Date that can be read; the order of the files in the folder gave the time, one minute "
        "from file to file: Mail/all/10.eml, Mail/all/8.eml, Mail/all/9.eml and 3 more"
    )


def test_no_mail_is_dated_after_the_last_year() -> None:
    last = b"From: bob@example.org\nDate: Fri, 31 Dec 9999 23:59:00 +0100\n\nhi"
    parts = {"Mail/inbox/1.eml": last, "Mail/inbox/2.eml": b"From: bob@example.org\n\nhi"}
    mails = unpack(parts, host=HOST).workspace.mails
    assert [mail.at for mail in mails.values()] == ["9999-12-31 23:59"] * 2


def test_the_company_of_an_imported_folder_keeps_its_domain() -> None:
    parts = {
        "Mail/inbox/a.eml": _mail("1@x", 10, "Cc: Eva <eva@contoso.example>"),
        "Calendar/a.ics": b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:1\r\nSUMMARY:s\r\nDTSTART:20260302T090000Z\r\n"
        b"ORGANIZER:mailto:bob@example.org\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n",
    }
    first = unpack(parts, host=HOST)
    assert (first.domain, first.workspace.mails["m1"].sender) == ("example.org", "bob")
    assert first.notes == (
        "people of @example.org have ids here, such as ann; calls name them by id, and an export writes their "
        "addresses with @example.org again",
    )
    written = pack(first.workspace, first.zone, domain=first.domain).parts
    [mail] = (content for place, content in written.items() if place.endswith(".eml"))
    assert all(
        line in mail for line in (b"bob@example.org>\r\n", b"ann@example.org>,", b"Cc: eva@contoso.example\r\n")
    )
    [event] = (content for place, content in written.items() if place.endswith(".ics"))
    assert b"mailto:bob@example.org" in event
    again = unpack(written)
    assert again.domain == "example.org"
    assert all(getattr(again.workspace, name) == getattr(first.workspace, name) for name in TABLES)


def test_one_unreadable_file_refuses_the_folder_and_all_are_named() -> None:
    parts = {"Files/a.txt": b"x", "Files/b.xlsm": b"", "Files/c.xlsx": b"no", "Mail/x.eml": b"", "notes.txt": b""}
    with pytest.raises(FileFormatError) as error:
        unpack(parts, host=HOST)
    lines = str(error.value).splitlines()
    assert lines[0] == "4 files cannot be read, so nothing was:"
    assert [line.split(": ")[0] for line in lines[1:]] == [
        "  - Files/b.xlsm",
        "  - Files/c.xlsx",
        "  - Mail/x.eml",
        "  - notes.txt",
    ]
    result = unpack(parts, host=HOST, leave_out=True)
    assert [file.path for file in result.workspace.files.values()] == ["/a.txt"]
    assert len(result.left_out) == 4


@pytest.mark.parametrize(
    ("parts", "host", "reason"),
    [
        ({}, None, "say whose files these are"),
        ({"workspace.json": b"{}"}, HOST, r"the owner stands in workspace\.json"),
        ({"workspace.json": b"{}"}, None, r"workspace.json cannot be read \(not a Manifest: form: Field required"),
        (
            {"workspace.json": b'{"form":1,"owner":"a","begun":"b","zone":"UTC","domain":"@x"}'},
            None,
            "domain is one such as contoso.example, in lower case; got '@x'",
        ),
        (
            {"workspace.json": b'{"form":1,"owner":"a","begun":"b","zone":"UTC"}'},
            None,
            "begun cannot be read: moments are written 2026-03-02 09:30",
        ),
        ({"workspace.json": b'{"form":2,"owner":"a","begun":"b","zone":"UTC"}'}, None, "form 2; known: 1"),
        ({}, HOST._replace(owner="ann"), "the owner is an address"),
        ({}, HOST._replace(now="today"), "moments are written 2026-03-02 09:30"),
        ({}, HOST._replace(zone="Mars/Olympus"), "time zones are such as UTC or Europe/Berlin"),
    ],
)
def test_folders_without_manifest_or_host_are_refused(
    parts: dict[str, bytes], host: Host | None, reason: str
) -> None:
    with pytest.raises(FileFormatError, match=reason):
        unpack(parts, host=host)


def test_a_folder_is_written_whole_or_not_at_all(office: Workspace, tmp_path: Path) -> None:
    spoiled = office.with_items(replace(office.files["f7"], path="/a.docx"))
    with pytest.raises(FileFormatError, match=r"/a\.docx: a PlainText is no file that ends in 'docx'"):
        write_folder(spoiled, tmp_path / "office", zone=BERLIN)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "kept.txt").write_text("x")
    with pytest.raises(FileFormatError, match="is there already"):
        write_folder(office, tmp_path, zone=BERLIN)
    assert [item.name for item in tmp_path.iterdir()] == ["kept.txt"]


def test_unsupported_characters_are_replaced_and_reported(office: Workspace, tmp_path: Path) -> None:
    spoiled = office.with_items(
        replace(office.files["f3"], content=Document((Paragraph("a\x07b\x0c"), Grid((("\ufffe", "c\r\nd"),))))),
        replace(
            office.files["f2"], content=Book({"s": Sheet({"A1": "\x07"}, charts=(Chart("bar", "A1:A2", "\x07"),))})
        ),
        replace(office.files["f4"], content=Deck((Slide("title", "\x1b[0m", ("e\x0b",)),))),
        replace(office.files["f7"], content=PlainText("f\x07\x00")),
        replace(
            office.mails["m2"], folder="s\x0b", subject="g\x07\x0bh", body="i\x0b\x00", to=("x\x07@y\x00.example",)
        ),
        replace(office.events["e1"], title="j\x07", place="\x7fk", body="l\nm"),
    )
    _, notes = write_folder(spoiled, tmp_path / "office", zone=BERLIN)
    instead = "became \ufffd, since such a file cannot hold them"
    assert notes == (
        f"Files/finance/Q3 (f2).xlsx: 1 character {instead}",
        f"Files/_/plan_.docx: 3 characters {instead}",
        f"Files/talk.pptx: 2 characters {instead}",
        f"Mail/s\ufffd/2026-02-27 1100 g__h (m2).eml: 2 characters {instead}",
        "Mail/s\ufffd/2026-02-27 1100 g__h (m2).eml: 2 characters became -, since an address cannot hold them",
        f"Calendar/2026-03-02 0900 j_ (e1).ics: 2 characters {instead}",
    )
    result = read_folder(tmp_path / "office").workspace
    assert result.files["f3"].content == Document((Paragraph("a\ufffdb\ufffd"), Grid((("\ufffd", "c\nd"),))))
    assert result.files["f4"].content == Deck((Slide("title", "\ufffd[0m", ("e\ufffd",)),))
    assert result.files["f7"] == spoiled.files["f7"]
    sheet = Sheet({"A1": "\x07"}, charts=(Chart("bar", "A1:A2", "\ufffd"),))
    assert result.files["f2"].content == Book({"s": sheet})
    mail = replace(spoiled.mails["m2"], folder="s\ufffd", subject="g\x07\ufffdh", to=("x-@y-.example",))
    assert result.mails["m2"] == mail
    assert result.events["e1"] == replace(spoiled.events["e1"], title="j\ufffd", place="\ufffdk")


def test_links_are_refused_and_hidden_files_ignored(tmp_path: Path) -> None:
    (tmp_path / "Files").mkdir()
    (tmp_path / "Files" / ".DS_Store").write_bytes(b"\0")
    assert not read_folder(tmp_path, host=HOST).workspace.files
    (tmp_path / "Files" / "passwd.txt").symlink_to("/etc/passwd")
    with pytest.raises(FileFormatError, match="is a link"):
        read_folder(tmp_path, host=HOST)
    with pytest.raises(FileFormatError, match="is no folder"):
        read_folder(tmp_path / "nowhere", host=HOST)


def test_file_names_are_safe_and_unique() -> None:
    assert safe_name("q3 budget.xlsx") == "q3 budget.xlsx"
    assert [safe_name(item) for item in ("..", "a/b", "CON", ".hidden", "")] == [
        "_",
        "a_b",
        "_CON",
        "_.hidden",
        "_",
    ]
    long = safe_name("é" * 80 + ".xlsx")
    assert len(long.encode()) <= 100 and long.endswith("é.xlsx")
    places = Places()
    assert [places.free("A", "x.txt", id_="f1"), places.free("a", "X.txt", id_="f2")] == ["A/x.txt", "a/X (f2).txt"]
