"""Tasks on formats and texts: other correct solutions succeed, small deviations fail."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from upturn.environments.office.generation.family import FINISH, Scenario, call
from upturn.environments.office.generation.wording import CITIES
from upturn.environments.office.state.document import Document, Paragraph
from upturn.environments.office.state.file import File
from upturn.environments.office.state.workbook import Book
from upturn.records import Action, JsonValue, Task

from ...conftest import cases

FailedGates: TypeAlias = Callable[[Task, Iterable[Action]], list[str]]
LOOKS: dict[str, dict[str, JsonValue]] = {
    "bold": {"bold": True},
    "italic": {"italic": True},
    "filled with yellow": {"fill": "FFFF00"},
    "filled with green": {"fill": "green"},
    "filled with orange": {"fill": "#ffc000"},
}


def file_of(scenario: Scenario, slot: str, ending: str) -> File:
    """Returns the file that the task names, and not the older one in the archive."""
    name = f"{scenario.draft.slots[slot]}.{ending}"
    (file,) = [file for file in scenario.workspace.files.values() if file.name == name]
    return file


def texts_of(file: File) -> dict[int, str]:
    """Returns the texts of its paragraphs, by number."""
    assert isinstance(file.content, Document)
    blocks = enumerate(file.content.blocks, start=1)
    return {number: block.text for number, block in blocks if isinstance(block, Paragraph)}


def test_a_name_may_be_replaced_by_hand_but_not_in_paragraphs_only(failed_gates: FailedGates) -> None:
    for task, scenario in cases("name_replaced"):
        slots, file = scenario.draft.slots, file_of(scenario, "document", "docx")
        by_hand: list[Action] = []
        for number, text in texts_of(file).items():
            if slots["old"] in text:
                after = text.replace(slots["old"], slots["new"])
                by_hand.append(call("word.delete_paragraphs", id=file.id, first=number))
                by_hand.append(call("word.insert_text", id=file.id, at=number, text=after))
        rest = call("word.find_replace", id=file.id, find=slots["old"], replace=slots["new"])
        assert failed_gates(task, [*by_hand, rest, FINISH]) == []
        assert failed_gates(task, [*by_hand, FINISH]) == ["goal"]
        first_name = call("word.find_replace", id=file.id, find=slots["old"], replace=slots["new"].split(".")[0])
        assert failed_gates(task, [first_name, FINISH]) == ["goal"]


def test_only_the_cells_of_the_extremes_get_the_format(failed_gates: FailedGates) -> None:
    observed = set()
    for task, scenario in cases("cells_look", 12):
        slots, file = scenario.draft.slots, file_of(scenario, "book", "xlsx")
        assert isinstance(file.content, Book)
        cells = file.content.sheets["data"].cells
        letter = next(item for item in "BC" if cells[f"{item}1"] == slots["column"])
        numbers = {int(text): at for at, text in cells.items() if at[0] == letter and at != f"{letter}1"}
        order = [numbers[number] for number in sorted(numbers, reverse=slots["which"] == "highest")]
        count = {"two": 2, "three": 3}[slots["count"]]
        work = [call("excel.format", id=file.id, range=at, **LOOKS[slots["look"]]) for at in order[: count + 1]]
        assert failed_gates(task, [*work[:count], FINISH]) == []
        assert failed_gates(task, [*work, FINISH]) == ["untouched"]
        assert failed_gates(task, [*work[1:count], FINISH]) == ["goal"]
        observed.add((slots["which"], slots["count"]))
    assert len(observed) == 4


def test_the_paragraph_on_a_similar_topic_keeps_its_format(failed_gates: FailedGates) -> None:
    for task, scenario in cases("paragraph_look"):
        file, topic = file_of(scenario, "document", "docx"), scenario.draft.slots["topic"]
        action = scenario.draft.oracle[-2]
        look = {name: value for name, value in action.parameters.items() if name not in ("id", "first")}
        places = {text: number for number, text in texts_of(file).items()}
        (expected,) = [number for text, number in places.items() if topic in text]
        (near,) = [n for t, n in places.items() if topic not in t and f"{topic.rsplit(' ', 1)[0]} " in t]
        assert failed_gates(task, [call("word.format_section", id=file.id, first=expected, **look), FINISH]) == []
        assert failed_gates(task, [call("word.format_section", id=file.id, first=near, **look), FINISH]) == ["goal"]


def test_only_the_paragraph_named_in_the_right_mail_is_deleted(failed_gates: FailedGates) -> None:
    for task, scenario in cases("paragraph_outdated"):
        slots, file = scenario.draft.slots, file_of(scenario, "document", "docx")
        mails = [mail for mail in scenario.workspace.mails.values() if f'"{mail.subject}"' == slots["subject"]]
        (other,) = [mail.body for mail in mails if mail.sender != slots["name"]]
        (mail,) = [mail.body for mail in mails if mail.sender == slots["name"]]
        about = {number: text for number, text in texts_of(file).items() if number > 1}
        topics = {
            number: topic
            for number, text in about.items()
            for topic in _pieces(text)
            if topic in mail and topic not in slots["document"]
        }
        kept = next(number for number, topic in topics.items() if topic in other)
        deleted = next(number for number, topic in topics.items() if topic not in other)
        assert failed_gates(task, [call("word.delete_paragraphs", id=file.id, first=deleted), FINISH]) == []
        assert failed_gates(task, [call("word.delete_paragraphs", id=file.id, first=kept), FINISH]) == ["goal"]


def _pieces(text: str) -> list[str]:
    """Returns runs of two or three adjacent words whose last word is a city."""
    words = text.replace(":", " ").split()
    pairs = [" ".join(words[at : at + size]) for size in (3, 2) for at in range(len(words) - size + 1)]
    return [pair for pair in pairs if pair.split()[-1] in CITIES]
