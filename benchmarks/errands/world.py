"""Random worlds: people, mails, events and a sheet, drawn from one generator."""

from random import Random

from benchmarks.errands.mail import OWNER
from benchmarks.errands.workspace import DAYS, Event, Mail, Sheet, Workspace

NAMES = (
    "ann", "bob", "cid", "dan", "eve", "fay", "gus", "hal", "ida", "jon", "kim", "leo", "mia", "ned", "ola", "pam",
)  # fmt: skip
TOPICS = (
    "budget", "travel", "offer", "invoice", "launch", "menu", "survey", "poster", "contract", "visit", "report",
    "photos",
)  # fmt: skip
TITLES = ("review", "standup", "lunch", "demo", "planning", "interview", "workshop", "call", "training", "retro")
FILING_FOLDERS = ("archive", "finance", "projects", "personal")
SHEETS = ("costs", "stock", "sales", "supplies")
ITEMS = (
    "rent", "food", "paper", "coffee", "phones", "chairs", "lamps", "desks", "pens", "books", "cables", "plants",
)  # fmt: skip
PHRASES = (
    "yes please", "no thanks", "see you there", "i agree", "not this week", "sounds good", "will do", "on my way",
    "call me", "well done", "thank you", "all good",
)  # fmt: skip
_CHATTER = ("hope you are well", "more on this soon", "let me know", "as discussed", "have a look", "talk later")


class World:
    """A workspace under construction; single use. Ids are unique."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self._numbers = rng.sample(range(10, 100), 40)
        self.mails: list[Mail] = []
        self.events: list[Event] = []
        self.sheets: list[Sheet] = []
        self._is_filled = False

    def add_mail(self, sender: str, subject: str, body: str = "") -> Mail:
        """Adds a mail to the inbox, read or unread."""
        rng = self.rng
        mail = Mail(
            f"m{self._numbers.pop()}",
            "inbox",
            sender,
            (OWNER,),
            subject,
            body or rng.choice(_CHATTER),
            is_read=rng.random() < 0.5,
        )
        self.mails.append(mail)
        return mail

    def add_event(self, title: str, day: str, attendees: tuple[str, ...] | None = None) -> Event:
        """Adds an event of one or two hours; ``attendees``: None = two random people."""
        rng = self.rng
        start = rng.randint(8, 15)
        people = tuple(rng.sample(NAMES, 2)) if attendees is None else attendees
        event = Event(
            f"e{self._numbers.pop()}", title, day, start, start + rng.randint(1, 2), tuple(sorted(people))
        )
        self.events.append(event)
        return event

    def add_sheet(self, rows: int | None = None) -> Sheet:
        """Adds a sheet with a header and ``rows`` (None = 3 to 5) items in A with numbers in B."""
        rng = self.rng
        used = {sheet.name for sheet in self.sheets}
        name = rng.choice([name for name in SHEETS if name not in used])
        cells = {"A1": "item", "B1": "amount"}
        for row, item in enumerate(rng.sample(ITEMS, rows or rng.randint(3, 5)), start=2):
            cells[f"A{row}"] = item
            cells[f"B{row}"] = str(rng.randint(10, 99))
        sheet = Sheet(name, cells)
        self.sheets.append(sheet)
        return sheet

    def fill(self) -> Workspace:
        """The finished workspace: the added items and chatter, in shuffled order."""
        self.add_chatter()
        return Workspace(
            {mail.id: mail for mail in self.mails},
            {event.id: event for event in self.events},
            {sheet.name: sheet for sheet in self.sheets},
            NAMES,
        )

    def add_chatter(self) -> None:
        """Adds items that the task does not need, in the first call only; a family calls it early to count them."""
        if self._is_filled:
            return
        self._is_filled = True
        rng = self.rng
        for _ in range(rng.randint(2, 4)):
            sender, subject = rng.choice(NAMES), rng.choice(TOPICS)
            if all(sender != mail.sender for mail in self.mails):
                self.add_mail(sender, subject)
        for _ in range(rng.randint(2, 4)):
            day, title = rng.choice(DAYS), rng.choice(TITLES)
            if all((day, title) != (event.day, event.title) for event in self.events):
                self.add_event(title, day)
        if not self.sheets:
            self.add_sheet()
        rng.shuffle(self.mails)
        rng.shuffle(self.events)
