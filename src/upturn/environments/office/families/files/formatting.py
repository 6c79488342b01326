"""Tasks on formatted cells and paragraphs, replaced names and deleted paragraphs."""

from collections.abc import Mapping

from upturn.environments.office.generation import (
    Draft,
    Family,
    Scene,
    add_contacts,
    add_document,
    call,
    find_file,
    open_mail,
    plain_table,
)
from upturn.environments.office.state import Paragraph
from upturn.records import JsonValue

_CELL_LOOKS: Mapping[str, Mapping[str, JsonValue]] = {
    "bold": {"bold": True},
    "italic": {"italic": True},
    **{f"filled with {colour}": {"fill": colour} for colour in ("yellow", "green", "orange")},
}
_PARAGRAPH_LOOKS: Mapping[str, Mapping[str, JsonValue]] = {
    "bold": {"is_bold": True},
    "italic": {"is_italic": True},
    **{f"a {style}": {"style": style} for style in ("quote", "bullet", "heading1", "heading2")},
}
"""Formats by the user's words for them."""
_COUNTS = {"two": 2, "three": 3}


def _cells_look(scene: Scene) -> Draft:
    rng, table = scene.rng, plain_table(scene)
    count, which, look = rng.choice(list(_COUNTS)), rng.choice(("highest", "lowest")), rng.choice(list(_CELL_LOOKS))
    column = rng.randrange(1, 3)
    rows = sorted(range(1, len(table.rows)), key=lambda row: int(table.amount(row, column)))
    chosen = (rows[::-1] if which == "highest" else rows)[: _COUNTS[count]]
    return Draft.with_finish(
        {"book": table.name, "column": table.rows[0][column], "count": count, "which": which, "look": look},
        find_file(table.name),
        call("excel.read_range", id=table.file.id),
        *(
            call("excel.format", id=table.file.id, range=table.address(row, column), **_CELL_LOOKS[look])
            for row in sorted(chosen)
        ),
    )


def _paragraph_look(scene: Scene) -> Draft:
    rng, look = scene.rng, scene.rng.choice(list(_PARAGRAPH_LOOKS))
    topic, *others = scene.words.topics(3)
    about = rng.sample([topic, scene.words.similar(topic), *others], 4)
    document = add_document(scene, *map(Paragraph, scene.words.sentences(about)))
    paragraph = about.index(topic) + 2
    return Draft.with_finish(
        {"document": document.name, "topic": topic, "look": look},
        find_file(document.name),
        call("word.read_paragraphs", id=document.file.id),
        call("word.format_section", id=document.file.id, first=paragraph, **_PARAGRAPH_LOOKS[look]),
    )


def _name_replaced(scene: Scene) -> Draft:
    old, new = scene.people(2)
    document = add_contacts(scene, old, new)
    return Draft.with_finish(
        {"document": document.name, "old": old, "new": new},
        find_file(document.name),
        call("word.find_replace", id=document.file.id, find=old, replace=new),
    )


def _paragraph_outdated(scene: Scene) -> Draft:
    rng, (sender, other) = scene.rng, scene.people(2)
    subject, topic, other_topic = scene.words.topics(3)
    alike = scene.words.similar(topic)
    about = rng.sample([topic, alike, other_topic], 3)
    document = add_document(scene, *map(Paragraph, scene.words.sentences(about)))
    texts = (
        "what the {document} says about the {topic} is out of date. the {alike} is still right",
        "in the {document} the {alike} can stay, but not the {topic}: that was last year",
        "i have read the {document}: the part on the {topic} has to go, the one on the {alike} is fine",
    )
    body = rng.choice(texts).format(document=document.name, topic=topic, alike=alike)
    mail = scene.add_mail(sender, subject, body)
    scene.add_mail(other, subject, f"the {alike} in the {document.name} is out of date, i think")
    return Draft.with_finish(
        {"name": sender, "subject": f'"{subject}"', "document": document.name},
        *open_mail(mail),
        find_file(document.name),
        call("word.read_paragraphs", id=document.file.id),
        call("word.delete_paragraphs", id=document.file.id, first=about.index(topic) + 2),
    )


FAMILIES = (
    Family("name_replaced", 1, ("sharepoint", "word"), _name_replaced),
    Family("cells_look", 2, ("sharepoint", "excel"), _cells_look),
    Family("paragraph_look", 2, ("sharepoint", "word"), _paragraph_look),
    Family("paragraph_outdated", 3, ("outlook", "sharepoint", "word"), _paragraph_outdated),
)
