"""Tasks in the shared library: other correct solutions succeed, small deviations fail."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from upturn.environments.office.generation.family import FINISH, Scenario, call, with_agreement
from upturn.environments.office.state.file import File, PlainText
from upturn.records import Action, Task

from ...conftest import cases, looks_of

FailedGates: TypeAlias = Callable[[Task, Iterable[Action]], list[str]]


def file_of(scenario: Scenario, stem: str) -> File:
    """Returns the only file of that name, with any extension."""
    (file,) = [file for file in scenario.workspace.files.values() if file.name.rsplit(".", 1)[0] == stem]
    return file


def test_a_file_may_take_a_detour_but_keeps_its_name(failed_gates: FailedGates) -> None:
    for task, scenario in cases("file_moved"):
        folder, file = scenario.draft.slots["folder"], file_of(scenario, scenario.draft.slots["file"])
        there = call("sharepoint.move", id=file.id, path=f"{folder}/{file.name}")
        detour = call("sharepoint.move", id=file.id, path=f"/elsewhere/{file.name}")
        renamed = call("sharepoint.move", id=file.id, path=f"{folder}/my {file.name}")
        assert failed_gates(task, [detour, there, FINISH]) == []
        assert failed_gates(task, [renamed, FINISH]) == ["goal"]
        assert failed_gates(task, [there, detour, FINISH]) == ["goal"]


def test_a_page_is_created_once_with_the_expected_text(failed_gates: FailedGates) -> None:
    for task, scenario in cases("page_created"):
        title, text = (scenario.draft.slots[slot].strip('"') for slot in ("title", "text"))
        page = call("sharepoint.create_page", title=title, text=text)
        assert failed_gates(task, [page, FINISH]) == []
        assert failed_gates(task, [page, page, FINISH]) == ["goal"]
        assert failed_gates(task, [call("sharepoint.create_page", title=text, text=title), FINISH]) == ["goal"]


def test_the_text_is_that_of_the_newer_file_to_the_last_line(failed_gates: FailedGates) -> None:
    for task, scenario in cases("text_copied"):
        name, path = (scenario.draft.slots[slot].strip('"') for slot in ("file", "path"))
        texts = {}
        for prefix in ("", "old "):
            content = file_of(scenario, f"{prefix}{name.removesuffix('.txt')}").content
            assert isinstance(content, PlainText)
            texts[prefix] = content.text
        expected = call("sharepoint.upload", path=path, text=f"{texts['']}\n")
        assert failed_gates(task, [expected, FINISH]) == []
        for wrong in (texts["old "], texts[""].splitlines()[0]):
            assert failed_gates(task, [call("sharepoint.upload", path=path, text=wrong), FINISH]) == ["goal"]


def test_the_version_is_that_of_the_named_author_also_when_another_one_was_tried_before(
    failed_gates: FailedGates,
) -> None:
    for task, scenario in cases("file_version"):
        slots = scenario.draft.slots
        file = file_of(scenario, slots["document"])
        authors = [version.by for version in file.versions]
        assert sorted(map(authors.count, authors)) == [1, 1, 2, 2]
        restore = [call("sharepoint.restore", id=file.id, version=number) for number in range(1, 5)]
        expected = restore.pop(authors.index(slots["name"]))
        assert failed_gates(task, [restore[0], expected, FINISH]) == []
        for wrong in restore:
            assert failed_gates(task, [wrong, FINISH]) == ["goal"]


def test_two_files_of_the_folder_go_one_by_one_and_none_of_the_same_name_elsewhere(
    failed_gates: FailedGates,
) -> None:
    for task, scenario in cases("folder_tidied"):
        slots, files = scenario.draft.slots, scenario.workspace.files.values()
        mails = [mail for mail in scenario.workspace.mails.values() if f'"{mail.subject}"' == slots["subject"]]
        (body,) = [mail.body for mail in mails if mail.sender == slots["name"]]
        (kept,) = [mail.body for mail in mails if mail.sender != slots["name"]]
        named = {file.path: file.id for file in files if file.name.rsplit(".", 1)[0] in body}
        inside = {path: id_ for path, id_ in named.items() if path.startswith(f"{slots['folder']}/")}
        deleted = [id_ for path, id_ in inside.items() if path.rsplit("/", 1)[1].rsplit(".", 1)[0] not in kept]
        assert (len(deleted), len(inside)) == (2, 3)
        (channel,) = [
            channel.id for channel in scenario.workspace.channels.values() if channel.team == slots["team"]
        ]
        post = [
            *with_agreement(call("teams.post_to_channel", channel=channel, text=slots["phrase"].strip('"'))),
            FINISH,
        ]
        one_by_one = [
            step for id_ in reversed(deleted) for step in with_agreement(call("sharepoint.delete", ids=id_))
        ]
        assert failed_gates(task, [*looks_of(scenario), *post[:-1], *one_by_one, FINISH]) == []
        look = looks_of(scenario)
        assert failed_gates(task, [*look, *one_by_one[:3], *post]) == ["goal"]
        elsewhere = [id_ for path, id_ in named.items() if path not in inside]
        for wrong in (list(inside.values()), [*deleted, elsewhere[0]]):
            delete = with_agreement(call("sharepoint.delete", ids=[*wrong]))
            assert failed_gates(task, [*look, *delete, *post]) == ["goal"]
