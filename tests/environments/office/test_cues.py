"""No constant rule finds the right search hit more often than chance.

The oracle's searches are repeated, also without the parameters that narrow them. In each result, the hits that the
oracle goes on to use are right. A rule such as "the newest hit" takes one hit of every result. If right hits are
placed at random among the others, a rule's number of successes is a sum of independent Bernoulli variables with
probabilities (right hits / hits), so its upper tail is exact. Holm's correction covers all rules of all searches of
all families: over new seeds, the whole test would fail in at most ``ALPHA`` of cases without any cue. The seeds are
fixed, so it never fails by chance.

Not covered: rules that compare hits with the instruction, such as "the file whose name is exactly this".
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import pytest

from upturn.environments.office.apps import apply, operation_of
from upturn.environments.office.environment import OfficeEnvironment
from upturn.environments.office.generation import task_file
from upturn.environments.office.state import OperationError, Workspace
from upturn.environments.office.tasks import FAMILIES, compose, forget, make_task
from upturn.records import Action

ALPHA = 0.01
LISTINGS: Mapping[str, tuple[str, ...]] = {
    "outlook.search": ("sender", "is_unread"),
    "outlook.find_people": ("department", "title"),
    "sharepoint.search": (),
    "sharepoint.list_files": (),
    "sharepoint.versions": (),
    "calendar.list": ("until",),
    "teams.search_chat": ("sender",),
    "word.read_paragraphs": ("text",),
    "powerpoint.read_slides": (),
}
"""Operations that list hits, with the parameters that are also omitted."""
ASKED_FOR: Mapping[str, str] = {
    "mail_newest outlook.search": "the newest mail",
    "mail_last_writer outlook.search": "who wrote last",
    "channel_last_writer teams.search_chat": "who wrote last",
    "mail_unread_sum outlook.search without is_unread": "all unread mails",
    "mail_reply_each outlook.search without is_unread": "all unread mails",
}
"""Searches by wording and operation in which the instruction itself asks for a rule."""
_MARK = re.compile(r"(?: \*| \[\w+\])+$")
"""Marks at the end of a mail: unread, flagged, sensitive."""
_TOKEN = re.compile(r"[a-z]+\d+|\w+[.@][\w.@-]*\w|\d[\d:-]*")
"""Ids, people, addresses, numbers and times; words say nothing about the hit they are in."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d)?")
_ID = re.compile(r"[a-z](\d+)\b")
_PATH = re.compile(r" (/[^/]+)/")


class Choice(NamedTuple):
    """A result with at least one right and one wrong hit."""

    hits: tuple[str, ...]
    """As shown, in order."""
    right: frozenset[int]
    """Indices of hits."""


Rule: TypeAlias = Callable[[Sequence[str]], int | None]
"""Returns the index of the hit that it takes; None = it does not apply."""


def position(index: int) -> Rule:
    """Takes the hit at this index; negative = from the end."""
    return lambda hits: index % len(hits) if -len(hits) <= index < len(hits) else None


def extreme(key: Callable[[str], object], *, is_greatest: bool) -> Rule:
    """Takes the hit with the greatest or least key, the first of several; does not apply where a key is missing or
    all are equal."""

    def take(hits: Sequence[str]) -> int | None:
        keys = [key(hit) for hit in hits]
        if None in keys or len(set(keys)) == 1:
            return None
        return keys.index((max if is_greatest else min)(keys))  # type: ignore[type-var]  # comparable, not None

    return take


def first_with(is_wanted: Callable[[str], bool]) -> Rule:
    """Takes the first hit of this kind; does not apply where none or all are."""

    def take(hits: Sequence[str]) -> int | None:
        wanted = [index for index, hit in enumerate(hits) if is_wanted(hit)]
        return wanted[0] if 0 < len(wanted) < len(hits) else None

    return take


def first_in(folder: str | None, *, is_inside: bool) -> Rule:
    """Takes the first hit in the folder, or outside it."""
    return first_with(lambda hit: (folder_of(hit) == folder) == is_inside)


def date_of(hit: str) -> str | None:
    match = _DATE.search(hit)
    return match[0] if match else None


def id_of(hit: str) -> int | None:
    match = _ID.match(hit)
    return int(match[1]) if match else None


def length_of(hit: str) -> int:
    return len(_MARK.sub("", hit))


def folder_of(hit: str) -> str | None:
    match = _PATH.search(hit)
    return match[1] if match else None


RULES: Mapping[str, Rule] = {
    **{f"hit {index}": position(index) for index in (0, 1, 2, -3, -2, -1)},
    **{
        f"{word} {name}": extreme(key, is_greatest=is_greatest)
        for name, key in (("date", date_of), ("length", length_of), ("id", id_of))
        for word, is_greatest in (("greatest", True), ("least", False))
    },
    "unread": first_with(lambda hit: " *" in hit),
    "read": first_with(lambda hit: " *" not in hit),
}


def rules_for(choices: Iterable[Choice]) -> dict[str, Rule]:
    """Returns ``RULES`` and two rules for each folder of the hits: in it, and outside it."""
    folders = {folder_of(hit) for choice in choices for hit in choice.hits} - {None}
    inside = {f"in {folder}": first_in(folder, is_inside=True) for folder in folders}
    outside = {f"not in {folder}": first_in(folder, is_inside=False) for folder in folders}
    return {**RULES, **inside, **outside}


def tokens(*values: object) -> set[str]:
    """Returns the ids, people, addresses, numbers and times in these values."""
    return {token for value in values for token in _TOKEN.findall(str(value))}


def hits_of(action: Action, text: str) -> list[str]:
    """Returns the hits of an observation; a slide or paragraph with all its lines is one hit. Titles and tables are
    none, and files that contain the words in their text only are none, since they are listed after the others."""
    lines = text.split("\n")
    if action.target in ("word", "powerpoint"):
        blocks: list[str] = []
        for line in lines:
            if re.match(r"\d+ ", line):
                blocks.append(line)
            elif blocks:
                blocks[-1] += f"\n{line}"
        return [block for block in blocks if not re.match(r"1 |\d+ table", block)]
    if action.name == "sharepoint.search":
        lines = [line for line in lines if str(action.parameters["query"]).lower() in line.lower()]
    return [line for line in lines if re.match(r"[a-z]?\d+ |\S+\.\w+: ", line)]


def used_tokens(actions: Sequence[Action], hits: Sequence[str]) -> set[str]:
    """Returns the tokens of hits that later actions write or answer; else those of the last read that uses one."""
    shown = tokens(*hits)
    calls = [action for action in actions if action.name != "user.preview"]
    writes = [action for action in calls if not operation_of(action).is_reading and action.operation != "read"]
    if used := shown & tokens(*(value for action in writes for value in action.parameters.values())):
        return used
    reads = [tokens(*action.parameters.values()) & shown for action in calls]
    return next((used for used in reversed(reads) if used), set())


def identifying_parts(hit: str) -> list[str]:
    """Returns the number of a slide, paragraph or version; a post without its place; else the whole hit."""
    words = hit.split()
    if hit[0].isdigit():
        return words[:1]
    return words[1:] if hit[0] == "c" else words


def choice_of(hits: Sequence[str], used: set[str], known: set[str]) -> Choice | None:
    """The choice among these hits; None where nothing or everything is right."""
    held = [tokens(*identifying_parts(hit)) for hit in hits]
    common = set.intersection(*held) if held else set()
    right = frozenset(index for index, item in enumerate(held) if item & used - known - common)
    return Choice(tuple(hits), right) if 0 < len(right) < len(hits) else None


def searches(action: Action) -> Iterator[tuple[str, Action]]:
    """Yields the action, and the action without each parameter that narrows it."""
    yield action.name, action
    for omitted in LISTINGS[action.name]:
        if omitted in action.parameters and len(action.parameters) > 1:
            rest = {name: value for name, value in action.parameters.items() if name != omitted}
            yield f"{action.name} without {omitted}", Action(action.target, action.operation, rest)


def listed(workspace: Workspace, action: Action) -> list[str]:
    try:
        return hits_of(action, apply(workspace, action).text)
    except OperationError:
        return []


def choices_of(family: str, tasks: int) -> dict[str, list[Choice]]:
    """Returns the choices in the oracle's searches of the family's first training tasks, by search."""
    result: dict[str, list[Choice]] = defaultdict(list)
    for number in range(tasks):
        task = make_task(family, number)
        oracle, environment = compose(task).draft.oracle, OfficeEnvironment()
        environment.reset(task)
        known = tokens(task.instruction)
        counts: dict[str, int] = defaultdict(int)
        for index, action in enumerate(oracle):
            if action.name in LISTINGS:
                counts[action.name] += 1
                for name, search in searches(action):
                    hits = listed(environment.workspace, search)
                    choice = choice_of(hits, used_tokens(oracle[index + 1 :], hits), known)
                    if choice is not None:
                        result[f"{name} {counts[action.name]}"].append(choice)
            environment.step(action)
    return result


def upper_tail(successes: int, chances: Sequence[float]) -> float:
    """P(at least this many successes) of independent trials with these probabilities."""
    distribution = np.ones(1)
    for chance in chances:
        distribution = np.convolve(distribution, (1 - chance, chance))
    return float(distribution[successes:].sum())


class Finding(NamedTuple):
    """How often a rule was right in a family's search."""

    family: str
    search: str
    rule: str
    successes: int
    choices: int
    expected: float
    p_value: float

    @property
    def asked_for(self) -> str | None:
        """The key of ``ASKED_FOR`` that covers it; None = the instruction does not ask for the rule."""
        name = f"{FAMILIES[self.family].worded_as or self.family} {self.search}"
        return next((key for key in ASKED_FOR if name.startswith(key)), None)


def findings_of(family: str, tasks: int) -> Iterator[Finding]:
    """Yields the finding of every rule in every search of the family."""
    for search, choices in choices_of(family, tasks).items():
        for name, rule in rules_for(choices).items():
            trials = [(taken, choice) for choice in choices if (taken := rule(choice.hits)) is not None]
            if trials:
                chances = [len(choice.right) / len(choice.hits) for _, choice in trials]
                successes = sum(taken in choice.right for taken, choice in trials)
                p_value = upper_tail(successes, chances)
                yield Finding(family, search, name, successes, len(trials), sum(chances), p_value)


def significant(findings: Iterable[Finding]) -> list[Finding]:
    """Returns the findings that Holm's procedure rejects at ``ALPHA``."""
    ordered = sorted(findings, key=lambda finding: finding.p_value)
    for rank, finding in enumerate(ordered):
        if finding.p_value * (len(ordered) - rank) > ALPHA:
            return ordered[:rank]
    return ordered


def unexplained(findings: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in significant(findings) if finding.asked_for is None]


@pytest.mark.slow
def test_no_constant_rule_finds_the_right_hit_more_often_than_chance() -> None:
    """40 tasks a family: a rule is noticed that is right in 90 % of choices between two."""
    families = [name for name, family in FAMILIES.items() if "faults" not in family.atoms]
    findings = [finding for family in families for finding in findings_of(family, 40)]
    assert len({(finding.family, finding.search) for finding in findings}) > 80
    assert unexplained(findings) == []


@pytest.mark.slow
def test_no_constant_rule_beats_chance_in_any_family_and_no_exception_is_out_of_date() -> None:
    """200 tasks a family: a rule is noticed that is right in 68 % of choices between two."""
    findings = [finding for family in FAMILIES for finding in findings_of(family, 200)]
    assert unexplained(findings) == []
    assert {finding.asked_for for finding in significant(findings)} == set(ASKED_FOR)


@pytest.mark.parametrize("folders", [("team", "archive"), ("archive", "team")])
def test_lookalikes_in_a_constant_folder_are_noticed(
    folders: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_file, "two_folders", lambda _: folders)
    forget()
    rules = {finding.rule: finding for finding in significant(findings_of("deck_theme", 20))}
    forget()
    assert {"in /team", "in /archive"} & set(rules) == {f"in /{folders[0]}"}
    rule = rules["hit 0" if folders[0] == "archive" else "hit 1"]
    assert (rule.successes, rule.choices, rule.expected) == (20, 20, 10.0)


def test_upper_tails_are_exact() -> None:
    assert upper_tail(0, [0.5, 0.25]) == 1.0
    assert upper_tail(1, [0.5, 0.25]) == pytest.approx(1 - 0.5 * 0.75)
    assert upper_tail(2, [0.5, 0.25]) == pytest.approx(0.125)
    assert upper_tail(20, [0.5] * 20) == pytest.approx(2**-20)


def test_holm_rejects_in_order_until_a_p_value_is_too_large() -> None:
    findings = [Finding("", "", "", 1, 1, 1.0, p_value) for p_value in (0.004, 0.02, 0.0001, 0.5)]
    assert [finding.p_value for finding in significant(findings)] == [0.0001]
    findings[0] = findings[0]._replace(p_value=0.003)
    assert [finding.p_value for finding in significant(findings)] == [0.0001, 0.003]
    assert significant(findings[1:2]) == []
