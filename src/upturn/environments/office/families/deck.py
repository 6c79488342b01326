"""Tasks on presentations: their theme, titles and layouts, slides that go, pictures that come."""

from collections.abc import Sequence
from dataclasses import replace

from upturn.environments.office.families.cross_app import found
from upturn.environments.office.generation import (
    FINISH,
    TITLES,
    Draft,
    Family,
    Scene,
    TaskFile,
    add_deck,
    call,
    joined,
    near,
    sayings,
    topics,
)
from upturn.environments.office.state import THEMES, Layout, PlainText, ShapeKind, Slide

_LAYOUTS: tuple[Layout, ...] = ("two_content", "section", "blank")
"""That no slide here has at first."""
_SHAPES: tuple[ShapeKind, ...] = ("rectangle", "ellipse", "arrow")
_CAPTIONS = ("taken last week", "this is new", "look here", "our favourite", "to be seen on friday")
_PICTURES = ("the house at night", "a room with a view", "everybody at the table", "the new machine")
_FOLDERS = ("pictures", "photos", "images")


def _add_slides(scene: Scene, titles: Sequence[str], about: Sequence[str]) -> TaskFile:
    """A presentation with a slide about each of these things, which its bullets say and its titles do not."""
    texts = sayings(scene.rng, about)
    return add_deck(
        scene, *(Slide("title_content", *each) for each in zip(titles, ((one,) for one in texts), strict=True))
    )


def _theme(scene: Scene) -> Draft:
    deck, theme = add_deck(scene), scene.rng.choice([each for each in THEMES if each != "plain"])
    return Draft(
        {"deck": deck.name, "theme": theme},
        (found(deck.name), call("powerpoint.apply_theme", id=deck.file.id, theme=theme), FINISH),
    )


def _slide_renamed(scene: Scene) -> Draft:
    rng = scene.rng
    old, new, *others = rng.sample(TITLES, 5)
    titles = rng.sample([old, *others], 4)
    deck = _add_slides(scene, titles, topics(rng, 4))
    slide, layout = titles.index(old) + 2, rng.choice(_LAYOUTS)
    return Draft(
        {"deck": deck.name, "old": f'"{old}"', "new": f'"{new}"', "layout": layout},
        (
            found(deck.name),
            call("powerpoint.read_slides", id=deck.file.id),
            call("powerpoint.set_text", id=deck.file.id, slide=slide, title=new),
            call("powerpoint.set_layout", id=deck.file.id, slide=slide, layout=layout),
            FINISH,
        ),
    )


def _slide_deleted(scene: Scene) -> Draft:
    rng = scene.rng
    topic, *others = topics(rng, 3)
    about = rng.sample([topic, near(rng, topic), *others], 4)
    deck = _add_slides(scene, rng.sample(TITLES, 4), about)
    return Draft(
        {"deck": deck.name, "topic": topic},
        (
            found(deck.name),
            call("powerpoint.read_slides", id=deck.file.id),
            call("powerpoint.delete_slide", id=deck.file.id, slide=about.index(topic) + 2),
            FINISH,
        ),
    )


def _picture_placed(scene: Scene) -> Draft:
    rng, (sender, other) = scene.rng, scene.people(2)
    subject, *about = topics(rng, 5)
    deck = _add_slides(scene, rng.sample(TITLES, 4), about)
    slide, kind, caption = rng.randrange(4), rng.choice(_SHAPES), rng.choice(_CAPTIONS)
    texts = ("the picture is attached", "here is the picture that you wanted", "this one, i think")
    shown = rng.sample(_PICTURES, 2)
    mails = []
    for who, what in zip((sender, other), shown, strict=True):
        path = f"/{rng.choice(_FOLDERS)}/{what}.png"
        picture = scene.add_file(path, PlainText(what), owner=who, rights={"everyone": "read"})
        mail = scene.add_mail(who, subject, rng.choice(texts))
        mails.append(replace(mail, attachments=(picture.id,)))
    scene.add(*mails)
    return Draft(
        {
            **{"name": sender, "subject": f'"{subject}"', "deck": deck.name, "topic": about[slide]},
            **{"kind": kind, "caption": f'"{caption}"'},
        },
        (
            call("outlook.search", sender=sender, subject=subject),
            call("outlook.read", id=mails[0].id),
            found(deck.name),
            call("powerpoint.read_slides", id=deck.file.id),
            call("powerpoint.add_image", id=deck.file.id, slide=slide + 2, image=mails[0].attachments[0]),
            call("powerpoint.insert_shape", id=deck.file.id, slide=slide + 2, kind=kind, text=caption),
            FINISH,
        ),
    )


FAMILIES = (
    Family(
        "deck_theme",
        1,
        ("sharepoint", "powerpoint"),
        _theme,
        templates=(
            "give the {deck} the theme {theme}",
            "apply the theme {theme} to the {deck}",
            "the {deck} should have the theme {theme}",
            "set the theme of the {deck} to {theme}",
            "change the {deck} to the {theme} theme",
            "let the {deck} look like the others: theme {theme}",
            "use the {theme} theme for the {deck}",
            "the {deck} still looks plain, take the theme {theme} for it",
            "i want to show the {deck} in the {theme} theme",
            "put the {deck} into the {theme} theme",
        ),
        heldout=(
            "the {deck} needs another look, namely {theme}",
            "dress the {deck} in {theme}",
            "{theme} is the theme that the {deck} ought to have",
            "for the {deck}, pick {theme} as its theme",
        ),
    ),
    Family(
        "slide_renamed",
        2,
        ("sharepoint", "powerpoint"),
        _slide_renamed,
        templates=joined(
            (
                "rename the slide {old} of the {deck} to {new}",
                "in the {deck}, change the title of the slide {old} to {new}",
                "the slide {old} in the {deck} should be called {new}",
                "give the slide {old} of the {deck} the title {new}",
            ),
            (
                " and give it the layout {layout}",
                ", and set its layout to {layout}",
                "; its layout becomes {layout}",
            ),
        ),
        heldout=joined(
            (
                "{new} is a better title for the slide {old} of the {deck}",
                "what the {deck} calls {old} on a slide is {new} from now on",
            ),
            (", and {layout} the better layout", ": change that, and the slide's layout to {layout}"),
        ),
    ),
    Family(
        "slide_deleted",
        2,
        ("sharepoint", "powerpoint"),
        _slide_deleted,
        templates=(
            "delete the slide about the {topic} from the {deck}",
            "take the slide on the {topic} out of the {deck}",
            "the {deck} has a slide about the {topic}: remove it",
            "drop the slide of the {deck} that is about the {topic}",
            "find the slide in the {deck} that speaks of the {topic} and delete it",
            "we do not show the {topic} any more, so its slide has to leave the {deck}",
            "the {deck} should do without its slide about the {topic}",
            "in the {deck}, the slide with the {topic} on it can go",
            "throw the slide about the {topic} out of the {deck}",
            "remove what the {deck} has on the {topic}, which is one slide",
        ),
        heldout=(
            "shorten the {deck} by the slide about the {topic}",
            "no slide of the {deck} should be about the {topic}; there is one",
            "the one about the {topic} is a slide too many in the {deck}",
            "cut the {topic} slide from the {deck}",
        ),
    ),
    Family(
        "picture_placed",
        3,
        ("outlook", "sharepoint", "powerpoint"),
        _picture_placed,
        templates=joined(
            (
                "put the picture that {name} attached to the mail {subject} on the slide about the {topic} in the "
                "{deck}",
                "{name} mailed a picture under {subject}: place it on the slide of the {deck} about the {topic}",
                "the slide of the {deck} that is about the {topic} gets the picture from {name}'s mail {subject}",
                "take the picture attached to {name}'s {subject} mail, add it to the {topic} slide of the {deck}",
            ),
            (
                ", and then a shape, kind {kind}, that says {caption}",
                "; after the picture add the shape {kind} with the text {caption}",
                " first, then a shape ({kind}) with {caption} in it",
            ),
        ),
        heldout=joined(
            (
                "the picture in {name}'s mail {subject} belongs on the slide about the {topic} in the {deck}",
                "where the {deck} comes to the {topic}, show the picture that {name} sent as {subject}",
            ),
            (
                ", followed by a shape of the kind {kind} that reads {caption}",
                "; once it is there, insert the shape {kind}, text {caption}",
            ),
        ),
    ),
)
