"""Base profiles: offices before a task is added to them. Each is generated once and shared.

The owner works in a company of about forty people; it is Monday, 2 March 2026, 9:00. There are more than 500 mails
in threads, more than 20 files, two weeks of events, chats and channels. All text comes from a grammar.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from random import Random

from upturn.environments.office.generation.grammar import composed
from upturn.environments.office.state import (
    Attendee,
    Book,
    Channel,
    Chat,
    Content,
    Deck,
    Document,
    Event,
    File,
    Grid,
    Group,
    Mail,
    Page,
    Paragraph,
    Person,
    PlainText,
    Post,
    Response,
    Sheet,
    Slide,
    Table,
    Workspace,
)

START = "2026-03-02 09:00"
FIRST = (
    *("ann", "bob", "cid", "dana", "eve", "fay", "gus", "hal", "ida", "jon", "kim", "leo", "mia", "ned", "ola"),
    *("pam", "quin", "rob", "sue", "tom", "una", "vic", "will", "yan", "zoe"),
)
LAST = ("lee", "ray", "moe", "fox", "kay", "orr", "day", "may", "poe", "rae", "sol", "tan", "voss", "wolf", "york")
TITLES = ("assistant", "manager", "analyst", "designer", "engineer", "director")
DEPARTMENTS = ("sales", "finance", "design", "support", "legal")
PROJECTS = ("alder", "birch", "cedar", "dogwood", "elm", "fir", "hazel", "juniper", "larch", "maple", "oak", "pine")
OUTSIDE = ("fabrikam.example", "northwind.example", "tailspin.example")
"""Domains of other companies."""
MEETINGS = ("standup", "review", "planning", "one on one", "retro", "demo", "budget round", "lunch", "interview")
ITEMS = (
    *("rent", "travel", "paper", "phones", "chairs", "lamps", "desks", "books", "cables", "plants"),
    *("food", "post"),
)
_STAFF = 40
_MAILS = 540
"""Least number of mails; the last thread may add a few."""
_FOLDERS = ("archive", "archive", "inbox", "projects", "finance")
DRAWN = "suite"
"""Prefix of all seeds: the environment's first name. It stays so that measured and frozen tasks do not change."""
IDS = range(100, 1_000)
"""Numbers of ids, drawn at random for all generated items, so that an id reveals neither that an item belongs to a
task nor the order of items."""


@cache
def profile(number: int) -> Workspace:
    """The workspace of base profile ``number``; cached, so equal numbers give the same object."""
    generator = _Generator(Random(f"{DRAWN}/profile/1/{number}"), Random(f"{DRAWN}/profile/1/{number}/ids"))
    return Workspace(
        generator.owner,
        START,
        people=Table(generator.people),
        groups=Table(generator.groups),
        mails=Table({mail.id: mail for mail in generator.mails()}),
        events=Table({event.id: event for event in generator.events()}),
        files=Table({file.id: file for file in generator.files()}),
        pages=Table({page.id: page for page in generator.pages()}),
        chats=Table({chat.id: chat for chat in generator.chats()}),
        channels=Table({channel.id: channel for channel in generator.channels()}),
    )


class _Generator:
    """Draws one profile. Single use; parts are drawn in the order of ``profile``."""

    def __init__(self, rng: Random, id_rng: Random) -> None:
        """``id_rng``: for ids only."""
        self.rng = rng
        self._id_rng = id_rng
        self.people = dict(self._staff())
        self.owner = rng.choice(list(self.people))
        self.others = [id_ for id_ in self.people if id_ != self.owner]
        self._place_ids = self._ids("c")
        self.projects = rng.sample(PROJECTS, 4)
        self.groups = {
            name: Group(
                name, name.title(), tuple(id_ for id_, person in self.people.items() if person.department == name)
            )
            for name in DEPARTMENTS
        }
        self.partners = [f"{rng.choice(FIRST)}.{rng.choice(LAST)}@{domain}" for domain in OUTSIDE for _ in range(2)]

    def _ids(self, prefix: str) -> Iterator[str]:
        """All ids with this prefix, in random order."""
        return (f"{prefix}{number}" for number in self._id_rng.sample(IDS, len(IDS)))

    def _staff(self) -> Iterator[tuple[str, Person]]:
        rng = self.rng
        names = rng.sample([(first, last) for first in FIRST for last in LAST], _STAFF)
        for first, last in sorted(names):
            id_ = f"{first}.{last}"
            yield id_, Person(id_, f"{first} {last}".title(), rng.choice(TITLES), rng.choice(DEPARTMENTS))

    def _text(self, symbol: str, *, you: str = "all", me: str = "") -> str:
        symbols: dict[str, Sequence[str]] = {
            "you": (you.split(".", maxsplit=1)[0],),
            "me": (me.split(".", maxsplit=1)[0],),
            "who": [person.split(".")[0] for person in self.others],
            "project": self.projects,
        }
        return composed(self.rng, symbol, symbols)

    def mails(self) -> Iterator[Mail]:
        """Threads of one to six mails over two months, between the owner and others."""
        rng, number, ids = self.rng, 0, self._ids("m")
        while number < _MAILS:
            other = rng.choice(self.partners) if rng.random() < 0.1 else rng.choice(self.others)
            subject = f"{self._text('thing')} {rng.choice((*self.projects, ''))}".strip()
            folder, thread = rng.choice(_FOLDERS), ""
            minute = rng.randint(0, 8 * 7 * 24 * 60 // 3)
            for turn in range(rng.randint(1, 6)):
                number += 1
                minute += rng.randint(5, 700)
                mine = turn % 2 == 1
                sender, to = (self.owner, other) if mine else (other, self.owner)
                id_ = next(ids)
                yield Mail(
                    id=id_,
                    folder="sent" if mine else folder,
                    sender=sender,
                    to=(to,),
                    subject=f"re: {subject}" if turn else subject,
                    body=self._text("answer" if turn else "mail", you=to, me=sender),
                    at=_moment(minute),
                    thread=thread,
                    is_read=mine or folder != "inbox" or rng.random() < 0.7,
                )
                thread = thread or id_

    def events(self) -> Iterator[Event]:
        """Events of two weeks from today, of the owner and of others."""
        rng = self.rng
        for id_ in islice(self._ids("e"), 60):
            day, hour = rng.choice((2, 3, 4, 5, 6, 9, 10, 11, 12, 13)), rng.randint(8, 16)
            organizer = self.owner if rng.random() < 0.4 else rng.choice(self.others)
            invited = rng.sample([person for person in self.others if person != organizer], rng.randint(1, 3))
            if organizer != self.owner and rng.random() < 0.5:
                invited.append(self.owner)
            answers: tuple[Response, ...] = ("none", "accepted", "accepted", "tentative")
            yield Event(
                id=id_,
                title=rng.choice(MEETINGS),
                start=f"2026-03-{day:02d} {hour:02d}:{rng.choice(('00', '30'))}",
                end=f"2026-03-{day:02d} {hour + 1:02d}:{rng.choice(('00', '30'))}",
                organizer=organizer,
                attendees=tuple(Attendee(person, rng.choice(answers)) for person in sorted(invited)),
                is_online=rng.random() < 0.3,
            )

    def files(self) -> Iterator[File]:
        """Budgets, plans, presentations, notes and pictures: shared, the owner's, and other people's."""
        for id_, (path, content) in zip(self._ids("f"), self._contents(), strict=False):
            rng = self.rng
            owner = self.owner if path.startswith(f"/people/{self.owner}/") else rng.choice(self.others)
            if path.startswith("/people/") and owner != self.owner:
                owner = path.split("/")[2]
            shared = not path.startswith("/people/")
            yield File(
                id=id_,
                path=path,
                content=content,
                owner=owner,
                by=owner,
                at=_moment(rng.randint(0, 50 * 24 * 60)),
                rights={"everyone": rng.choice(("read", "edit", "edit"))} if shared else {},
                label="confidential" if path.startswith("/legal/") else "general",
            )

    def _contents(self) -> Iterator[tuple[str, Content]]:
        rng = self.rng
        for project in self.projects:
            yield f"/projects/{project}/budget.xlsx", self._budget()
            yield f"/projects/{project}/plan.docx", self._plan(project)
            yield f"/projects/{project}/status.pptx", self._status(project)
            yield f"/projects/{project}/notes.txt", PlainText("\n".join(self._text("note") for _ in range(4)))
        yield "/finance/ledger.xlsx", self._ledger(rng.randint(40, 120))
        yield "/legal/agreement.docx", self._plan("agreement")
        yield "/pictures/office.png", PlainText("the office from outside")
        yield "/pictures/team.png", PlainText("the whole team")
        for name in ("tasks.xlsx", "diary.docx", "ideas.txt"):
            content: Content = PlainText(self._text("note"))
            if name.endswith("xlsx"):
                content = self._budget()
            elif name.endswith("docx"):
                content = self._plan("diary")
            yield f"/people/{self.owner}/{name}", content
        for other in rng.sample(self.others, 3):
            yield f"/people/{other}/private.txt", PlainText(self._text("note"))

    def _budget(self) -> Book:
        rng = self.rng
        cells = {"A1": "item", "B1": "amount"}
        for row, item in enumerate(rng.sample(ITEMS, rng.randint(4, 9)), start=2):
            cells[f"A{row}"], cells[f"B{row}"] = item, str(rng.randint(10, 990))
        return Book({"Budget": Sheet(cells)})

    def _ledger(self, rows: int) -> Book:
        rng = self.rng
        cells = dict(zip(("A1", "B1", "C1", "D1"), ("date", "department", "item", "amount"), strict=True))
        for row in range(2, rows + 2):
            day = f"2026-{rng.randint(1, 2):02d}-{rng.randint(1, 28):02d}"
            values = (day, rng.choice(DEPARTMENTS), rng.choice(ITEMS), str(rng.randint(10, 990)))
            cells |= {f"{column}{row}": value for column, value in zip("ABCD", values, strict=True)}
        return Book({"Ledger": Sheet(cells)})

    def _plan(self, name: str) -> Document:
        rows = tuple((item, self._text("state")) for item in self.rng.sample(ITEMS, 3))
        return Document(
            (
                Paragraph(name, "title"),
                Paragraph("where we are", "heading1"),
                *(Paragraph(self._text("point")) for _ in range(self.rng.randint(2, 5))),
                Grid((("what", "state"), *rows)),
                Paragraph("what comes next", "heading1"),
                *(Paragraph(self._text("plan"), "bullet") for _ in range(self.rng.randint(2, 4))),
            )
        )

    def _status(self, project: str) -> Deck:
        slides = [Slide("title", project)]
        for topic in self.rng.sample(("progress", "risks", "budget", "people", "next steps"), 3):
            bullets = tuple(self._text("point") for _ in range(self.rng.randint(1, 3)))
            slides.append(Slide("title_content", topic, bullets))
        return Deck(tuple(slides))

    def pages(self) -> Iterator[Page]:
        """News on the site."""
        for id_, title in zip(self._ids("p"), ("welcome", "holidays", "house rules"), strict=False):
            author = self.rng.choice(self.others)
            yield Page(id_, title, self._text("note"), author, _moment(self.rng.randint(0, 40_000)))

    def chats(self) -> Iterator[Chat]:
        """Chats of the owner with one other person."""
        for id_, other in zip(self._place_ids, self.rng.sample(self.others, 8), strict=False):
            posts = tuple(self._post(self.rng.choice((other, self.owner))) for _ in range(self.rng.randint(1, 8)))
            members = tuple(sorted((other, self.owner)))
            yield Chat(id_, members, tuple(sorted(posts, key=lambda post: post.at)))

    def channels(self) -> Iterator[Channel]:
        """One channel per project."""
        for id_, project in zip(self._place_ids, self.projects, strict=False):
            members = tuple(sorted({self.owner, *self.rng.sample(self.others, 6)}))
            posts = tuple(self._post(self.rng.choice(members)) for _ in range(self.rng.randint(3, 12)))
            yield Channel(id_, project, "general", members, tuple(sorted(posts, key=lambda post: post.at)))

    def _post(self, sender: str) -> Post:
        return Post(sender, self._text("chat", me=sender), _moment(self.rng.randint(0, 50 * 24 * 60)))


def _moment(minute: int) -> str:
    """The moment this many minutes after 5 January, at most on 28 February."""
    day = min(minute // (24 * 60), 54)
    month, date = (1, 5 + day) if day <= 26 else (2, day - 26)
    return f"2026-{month:02d}-{date:02d} {minute % (24 * 60) // 60:02d}:{minute % 60:02d}"
