"""Tasks on presentations: themes, titles, layouts, deleted slides and pictures."""

from collections.abc import Sequence
from dataclasses import replace

from upturn.environments.office.generation import TITLES, Draft, Family, Scene, TaskFile, add_deck, call, find_file
from upturn.environments.office.state import THEMES, Layout, PlainText, ShapeKind, Slide

_LAYOUTS: tuple[Layout, ...] = ("two_content", "section", "blank")
"""Layouts that no generated slide has."""
_SHAPES: tuple[ShapeKind, ...] = ("rectangle", "ellipse", "arrow")
_CAPTIONS = ("taken last week", "this is new", "look here", "our favourite", "to be seen on friday")
_PICTURES = ("the house at night", "a room with a view", "everybody at the table", "the new machine")
_FOLDERS = ("pictures", "photos", "images")


def _add_slides(scene: Scene, titles: Sequence[str], about: Sequence[str]) -> TaskFile:
    """A presentation with one slide per topic; the topic is in the bullets, not in the title."""
    texts = scene.words.sentences(about)
    return add_deck(
        scene, *(Slide("title_content", *slide) for slide in zip(titles, ((text,) for text in texts), strict=True))
    )


def _theme(scene: Scene) -> Draft:
    deck, theme = add_deck(scene), scene.rng.choice([name for name in THEMES if name != "plain"])
    return Draft.with_finish(
        {"deck": deck.name, "theme": theme},
        find_file(deck.name),
        call("powerpoint.apply_theme", id=deck.file.id, theme=theme),
    )


def _slide_renamed(scene: Scene) -> Draft:
    rng = scene.rng
    old, new, *others = rng.sample(TITLES, 5)
    titles = rng.sample([old, *others], 4)
    deck = _add_slides(scene, titles, scene.words.topics(4))
    slide, layout = titles.index(old) + 2, rng.choice(_LAYOUTS)
    return Draft.with_finish(
        {"deck": deck.name, "old": f'"{old}"', "new": f'"{new}"', "layout": layout},
        find_file(deck.name),
        call("powerpoint.read_slides", id=deck.file.id),
        call("powerpoint.set_text", id=deck.file.id, slide=slide, title=new),
        call("powerpoint.set_layout", id=deck.file.id, slide=slide, layout=layout),
    )


def _slide_deleted(scene: Scene) -> Draft:
    rng = scene.rng
    topic, *others = scene.words.topics(3)
    about = rng.sample([topic, scene.words.similar(topic), *others], 4)
    deck = _add_slides(scene, rng.sample(TITLES, 4), about)
    return Draft.with_finish(
        {"deck": deck.name, "topic": topic},
        find_file(deck.name),
        call("powerpoint.read_slides", id=deck.file.id),
        call("powerpoint.delete_slide", id=deck.file.id, slide=about.index(topic) + 2),
    )


def _picture_placed(scene: Scene) -> Draft:
    rng, (sender, other) = scene.rng, scene.people(2)
    subject, *about = scene.words.topics(5)
    deck = _add_slides(scene, rng.sample(TITLES, 4), about)
    slide, kind, caption = rng.randrange(4), rng.choice(_SHAPES), rng.choice(_CAPTIONS)
    texts = ("the picture is attached", "here is the picture that you wanted", "this one, i think")
    shown = rng.sample(_PICTURES, 2)
    mails = []
    for person, description in zip((sender, other), shown, strict=True):
        path = f"/{rng.choice(_FOLDERS)}/{description}.png"
        picture = scene.add_file(path, PlainText(description), owner=person, rights={"everyone": "read"})
        mail = scene.add_mail(person, subject, rng.choice(texts))
        mails.append(replace(mail, attachments=(picture.id,)))
    scene.add(*mails)
    return Draft.with_finish(
        {
            **{"name": sender, "subject": f'"{subject}"', "deck": deck.name, "topic": about[slide]},
            **{"kind": kind, "caption": f'"{caption}"'},
        },
        call("outlook.search", sender=sender, subject=subject),
        call("outlook.read", id=mails[0].id),
        find_file(deck.name),
        call("powerpoint.read_slides", id=deck.file.id),
        call("powerpoint.add_image", id=deck.file.id, slide=slide + 2, image=mails[0].attachments[0]),
        call("powerpoint.insert_shape", id=deck.file.id, slide=slide + 2, kind=kind, text=caption),
    )


FAMILIES = (
    Family("deck_theme", 1, ("sharepoint", "powerpoint"), _theme),
    Family("slide_renamed", 2, ("sharepoint", "powerpoint"), _slide_renamed),
    Family("slide_deleted", 2, ("sharepoint", "powerpoint"), _slide_deleted),
    Family("picture_placed", 3, ("outlook", "sharepoint", "powerpoint"), _picture_placed),
)
