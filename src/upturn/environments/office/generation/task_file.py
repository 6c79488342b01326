"""Documents and presentations of tasks, drawn for each task, each with an older version as a lookalike.

Files are shown by path, so folders decide the order of hits. ``two_folders`` draws them such that neither folder,
position nor length of a path tells a file from its lookalike; only the name does.
"""

from collections.abc import Mapping
from typing import NamedTuple

from upturn.environments.office.generation.family import call
from upturn.environments.office.generation.grammar import RULES
from upturn.environments.office.generation.profile import ITEMS
from upturn.environments.office.generation.scene import Scene
from upturn.environments.office.state import Block, Deck, Document, File, Grid, Paragraph, Right, Slide
from upturn.records import Action

TOPICS = RULES["thing"]
"""Subjects of mails."""
REASONS = ("contract", "licence", "waiver", "permit", "visa", "addendum")
"""Documents whose absence prevents a mail."""
DOCUMENTS = (
    *("price guide", "travel rules", "house handbook", "event notes", "safety manual"),
    *("supplier sheet", "campaign brief", "service terms", "welcome guide", "office rules"),
)
DECKS = (
    "board deck",
    "sales pitch",
    "kick-off slides",
    "quarter review",
    "team update",
    "product tour",
    "launch deck",
)
NOTES = ("the doors close at ten", "keys are at the desk", "call before you come", "new badges are blue")
"""Texts of paragraphs and mails."""
TITLES = ("numbers", "at a glance", "what we know", "where we stand", "for the record", "in short", "key facts")
"""Titles of slides that tasks add."""
_ROLES = ("keys", "the door", "guests", "the post", "first aid", "parking")
_MENTIONS = ("{who} has the keys", "ask {who} before you come", "lunch is with {who}", "{who} opens at eight")
SHORT_FOLDERS = ("team", "work", "desk", "sales")
LONG_FOLDERS = ("departments", "operations", "publications", "correspondence")
"""Folders of files and their lookalikes. Long ones are at least five letters longer, which is more than the prefix
``old `` of a lookalike."""
_SECTIONS = ("progress", "risks", "people", "next steps")


class TaskFile(NamedTuple):
    """A file of a task."""

    name: str
    """Without path and ending, as instructions name it."""
    file: File


class PriceList(NamedTuple):
    """A document with a table of prices."""

    name: str
    file: File
    prices: Mapping[str, str]
    """By item; all different, and different from those in the older document."""


def two_folders(scene: Scene) -> list[str]:
    """Folders for a file and its lookalike: a short and a long one, in random order."""
    folders = [scene.rng.choice(SHORT_FOLDERS), scene.rng.choice(LONG_FOLDERS)]
    scene.rng.shuffle(folders)
    return folders


def find_file(name: str) -> Action:
    """Searches for a file by its name."""
    return call("sharepoint.search", query=name)


def add_document(
    scene: Scene, *blocks: Block, owner: str | None = None, rights: Mapping[str, Right] | None = None
) -> TaskFile:
    """A document that starts with its title, and an older one of the owner's with the title only."""
    name = scene.rng.choice(DOCUMENTS)
    title = Paragraph(name, "title")
    folder, further = two_folders(scene)
    scene.add_file(f"/{further}/old {name}.docx", Document((title,)))
    file = scene.add_file(f"/{folder}/{name}.docx", Document((title, *blocks)), owner=owner, rights=rights)
    return TaskFile(name, file)


def add_price_list(scene: Scene, *notes: str) -> PriceList:
    """Another person's document that everybody may read: prices, and these notes below them."""
    rng = scene.rng
    items = rng.sample(ITEMS, rng.randint(4, 7))
    numbers = [str(number) for number in rng.sample(range(100, 1_000), 2 * len(items))]
    prices, others = dict(zip(items, numbers, strict=False)), dict(zip(items, reversed(numbers), strict=False))
    name = rng.choice(DOCUMENTS)
    title = Paragraph(name, "title")
    below = [Paragraph(note) for note in notes]
    owner = scene.people(1)[0]
    folder, further = two_folders(scene)
    paths = (f"/{further}/old {name}.docx", f"/{folder}/{name}.docx")
    files = [
        scene.add_file(
            path,
            Document((title, Grid((("item", "price"), *listed.items())), *below)),
            owner=owner,
            rights={"everyone": "read"},
        )
        for path, listed in zip(paths, (others, prices), strict=True)
    ]
    return PriceList(name, files[1], prices)


def add_contacts(scene: Scene, person: str, absent: str) -> TaskFile:
    """A document that names a person several times, in paragraphs and in a table of who does what; other people
    too, but not the ``absent`` one."""
    rng = scene.rng
    texts = [text.format(who=person) for text in rng.sample(_MENTIONS, rng.randint(1, 3))]
    texts = rng.sample([*texts, *rng.sample(NOTES, 2)], len(texts) + 2)
    others = [other for other in scene.people(5) if other not in (person, absent)][:3]
    rows = zip(rng.sample(_ROLES, 4), rng.sample([person, *others], 4), strict=True)
    return add_document(scene, *map(Paragraph, texts), Grid((("for", "who"), *rows)))


def add_deck(scene: Scene, *slides: Slide) -> TaskFile:
    """A presentation of the owner's with these slides after its title, or random ones if there are none; and an
    older one."""
    name = scene.rng.choice(DECKS)
    if not slides:
        sections = scene.rng.sample(_SECTIONS, scene.rng.randint(1, 3))
        slides = tuple(Slide("title_content", section, ("to be filled",)) for section in sections)
    slides = (Slide("title", name), *slides)
    folder, further = two_folders(scene)
    scene.add_file(f"/{further}/old {name}.pptx", Deck(slides[:1]))
    return TaskFile(name, scene.add_file(f"/{folder}/{name}.pptx", Deck(slides)))
