"""Tasks on presentations: other correct solutions succeed, small deviations fail."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from upturn.environments.office.generation.family import FINISH, Scenario, call
from upturn.environments.office.state.deck import Deck, Slide
from upturn.records import Action, Task

from ...conftest import cases

FailedGates: TypeAlias = Callable[[Task, Iterable[Action]], list[str]]


def deck_of(scenario: Scenario, prefix: str = "") -> tuple[str, dict[int, Slide]]:
    """Returns the id and the slides, by number, of the presentation that the task names."""
    name = f"{prefix}{scenario.draft.slots['deck']}.pptx"
    (file,) = [file for file in scenario.workspace.files.values() if file.name == name]
    assert isinstance(file.content, Deck)
    return file.id, dict(enumerate(file.content.slides, start=1))


def test_the_older_presentation_keeps_its_theme(failed_gates: FailedGates) -> None:
    for task, scenario in cases("deck_theme"):
        theme, other = scenario.draft.slots["theme"], "plain"
        expected, old = deck_of(scenario)[0], deck_of(scenario, "old ")[0]
        tried = call("powerpoint.apply_theme", id=expected, theme=other)
        done = call("powerpoint.apply_theme", id=expected, theme=theme)
        assert failed_gates(task, [done, tried, done, FINISH]) == []
        assert failed_gates(task, [done, tried, FINISH]) == ["goal"]
        assert failed_gates(task, [call("powerpoint.apply_theme", id=old, theme=theme), FINISH]) == [
            "goal",
            "untouched",
        ]


def test_a_slide_gets_title_and_layout_in_any_order_and_keeps_its_bullets(failed_gates: FailedGates) -> None:
    for task, scenario in cases("slide_renamed"):
        slots, (id_, slides) = scenario.draft.slots, deck_of(scenario)
        (number,) = [number for number, slide in slides.items() if f'"{slide.title}"' == slots["old"]]
        title = call("powerpoint.set_text", id=id_, slide=number, title=slots["new"].strip('"'))
        layout = call("powerpoint.set_layout", id=id_, slide=number, layout=slots["layout"])
        emptied = call("powerpoint.set_text", id=id_, slide=number, content="")
        assert failed_gates(task, [layout, title, FINISH]) == []
        assert failed_gates(task, [title, FINISH]) == ["goal"]
        assert failed_gates(task, [layout, title, emptied, FINISH]) == ["goal"]


def test_the_slide_on_a_similar_topic_stays(failed_gates: FailedGates) -> None:
    for task, scenario in cases("slide_deleted"):
        topic, (id_, slides) = scenario.draft.slots["topic"], deck_of(scenario)
        texts = {number: slide.content[0] for number, slide in slides.items() if slide.content}
        (expected,) = [number for number, text in texts.items() if topic in text]
        thing = topic.rsplit(" ", 1)[0]
        (near,) = [number for number, text in texts.items() if f"the {thing} " in text and number != expected]
        assert failed_gates(task, [call("powerpoint.delete_slide", id=id_, slide=expected), FINISH]) == []
        assert failed_gates(task, [call("powerpoint.delete_slide", id=id_, slide=near), FINISH]) == ["goal"]


def test_the_picture_is_the_one_of_the_named_sender_and_comes_before_the_shape(failed_gates: FailedGates) -> None:
    for task, scenario in cases("picture_placed"):
        slots, (id_, slides) = scenario.draft.slots, deck_of(scenario)
        (number,) = [n for n, slide in slides.items() if any(slots["topic"] in text for text in slide.content)]
        mails = [mail for mail in scenario.workspace.mails.values() if f'"{mail.subject}"' == slots["subject"]]
        images = {
            mail.sender: call("powerpoint.add_image", id=id_, slide=number, image=mail.attachments[0])
            for mail in mails
        }
        expected = images.pop(slots["name"])
        (wrong,) = images.values()
        caption = slots["caption"].strip('"')
        shape = call("powerpoint.insert_shape", id=id_, slide=number, kind=slots["kind"], text=caption)
        assert failed_gates(task, [expected, shape, FINISH]) == []
        assert failed_gates(task, [wrong, shape, FINISH]) == ["goal"]
        assert failed_gates(task, [shape, expected, FINISH]) == ["goal"]
        assert failed_gates(task, [expected, shape, shape, FINISH]) == ["goal"]
