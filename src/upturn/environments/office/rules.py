"""An office worker made of rules: patterns for the wordings it knows, a fixed plan for each, refusal for the rest.

It adds up numbers, which a small model cannot, and knows those families in all wordings that are practised. Of the
others it knows some wordings only, as hand-written automation does, so it is a baseline and a source of
demonstrations there, not an oracle. It looks at no second page, asks nobody and tries nothing twice.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from upturn.environments.office.family import FINISH, answer, call, refusal
from upturn.environments.office.request import CLOSERS, OPENERS, without_briefing
from upturn.environments.office.tasks import FAMILIES
from upturn.records import Action, Observation, Turn

_Words = Mapping[str, str]
_Plan = Callable[[_Words, list[str]], Action]
"""From what the wording's slots hold and the results so far to the next action."""
_SLOTS: Mapping[str, str] = {"day": r"[\d-]+", "name": r"\w+\.\w+", "cell": r"[A-Z]+\d+"}
"""What is known of slots; the others hold any words."""
_KNOWN = 4
"""Wordings of a family, where not all are known."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    plan: _Plan


def act(instruction: str, turns: Sequence[Turn], observation: Observation) -> Action:
    """The next action; refuses what it has no rule for and gives up after any error."""
    results = [turn.observation.text for turn in turns[1:]] + ([observation.text] if turns else [])
    if turns and observation.is_error:
        return refusal(f"stopped at {observation.code}")
    words = without_briefing(instruction)
    opener = max((each for each in OPENERS if words.startswith(each)), key=len)
    for rule in _rules():
        match = rule.pattern.fullmatch(words, len(opener))
        if match is not None:
            return rule.plan(match.groupdict(), results)
    return refusal("no rule for this")


def _ids(listing: str, word: str = "") -> list[str]:
    """What the lines begin with that hold the word."""
    return [line.split()[0] for line in listing.splitlines() if word in line and line[:1].isalpha()]


def _first(listing: str) -> str:
    return next(iter(_ids(listing)), "none")


def _number(text: str) -> str:
    """The first number that is no date, time or id."""
    found = re.search(r"(?<![\w:.-])\d+(?![\w:-])", text)
    return found.group() if found else "none"


def _body(mail: str) -> str:
    return mail.partition("\nsubject ")[2].partition("\n")[2]


def _asked_mail(words: _Words, results: list[str]) -> Action:
    if not results:
        return call("outlook.search", sender=words["name"], subject=words["topic"])
    if len(results) == 1:
        return call("outlook.read", id=_first(results[0]))
    return answer(_number(_body(results[1])))


def _unread_sum(words: _Words, results: list[str]) -> Action:
    if not results:
        return call("outlook.search", sender=words["name"], subject=words["topic"], is_unread="true")
    listed, *read = results
    left = _ids(listed)[len(read) :]
    if left:
        return call("outlook.read", id=left[0])
    return answer(str(sum(int(number) for number in map(_number, map(_body, read)) if number.isdecimal())))


def _last_writer(words: _Words, results: list[str]) -> Action:
    if not results:
        return call("outlook.search", subject=words["topic"])
    found = re.search(r"^\S+ \S+ \S+ ([\w.]+):", results[0])
    return answer(found.group(1) if found else "none")


def _asked_chat(words: _Words, results: list[str]) -> Action:
    if not results:
        return call("teams.search_chat", query=words["topic"], sender=words["name"])
    return answer(_number(results[0].partition(f"{words['name']}:")[2]))


def _asked_event(found: str) -> _Plan:
    """What a pattern finds in an event."""

    def plan(words: _Words, results: list[str]) -> Action:
        if not results:
            return call("calendar.list", day=words["day"], title=words["title"])
        if len(results) == 1:
            return call("calendar.read", id=_first(results[0]))
        match = re.search(found, results[1], re.MULTILINE)
        return answer(match.group(1) if match else "none")

    return plan


def _changed_event(change: Callable[[str, _Words], Action]) -> _Plan:
    """One operation on the event that is found by day and title."""

    def plan(words: _Words, results: list[str]) -> Action:
        if not results:
            return call("calendar.list", day=words["day"], title=words["title"])
        return change(_first(results[0]), words) if len(results) == 1 else FINISH

    return plan


def _changed_mail(change: Callable[[list[str], _Words], Action]) -> _Plan:
    """One operation on the mails that are found by sender and subject."""

    def plan(words: _Words, results: list[str]) -> Action:
        if not results:
            return call("outlook.search", sender=words["name"], subject=words["topic"])
        return change(_ids(results[0]), words) if len(results) == 1 else FINISH

    return plan


def _on_book(work: Callable[[str, _Words], Action], *, is_asked: bool = False) -> _Plan:
    """One operation on the workbook that is found by its name; ``is_asked``: its result is the answer."""

    def plan(words: _Words, results: list[str]) -> Action:
        if not results:
            return call("sharepoint.search", query=words["book"])
        if len(results) == 1:
            return work(_first(results[0]), words)
        return answer(results[1].rpartition(": ")[2]) if is_asked else FINISH

    return plan


_WHOLE: Mapping[str, _Plan] = {"mail_unread_sum": _unread_sum, "mail_last_writer": _last_writer}
_PARTLY: Mapping[str, _Plan] = {
    "mail_number": _asked_mail,
    "mail_newest": _asked_mail,
    "chat_number": _asked_chat,
    "event_room": _asked_event(r"at room (\S+)$"),
    "event_organizer": _asked_event(r"^by (\S+)$"),
    "event_move": _changed_event(lambda found, words: call("calendar.move", id=found, start=words["start"])),
    "event_invite": _changed_event(
        lambda found, words: call("calendar.invite", id=found, people=words["people"].replace(" and ", ","))
    ),
    "mail_move": _changed_mail(
        lambda found, words: call("outlook.move", ids=",".join(found), folder=words["folder"])
    ),
    "mail_flag": _changed_mail(lambda found, _: call("outlook.flag", ids=found[0] if found else "none")),
    "cell_say": _on_book(
        lambda found, words: call("excel.read_range", id=found, range=words["cell"]), is_asked=True
    ),
    "cell_set": _on_book(
        lambda found, words: call("excel.write_range", id=found, at=words["cell"], rows=words["value"])
    ),
    "table_total": _on_book(lambda found, _: Action("excel", "run_macro", {"id": found, "name": "total_row"})),
}


@cache
def _rules() -> tuple[_Rule, ...]:
    whole = [(FAMILIES[name].templates, plan) for name, plan in _WHOLE.items()]
    partly = [(FAMILIES[name].templates[:_KNOWN], plan) for name, plan in _PARTLY.items()]
    return tuple(_Rule(_pattern(words), plan) for templates, plan in (*whole, *partly) for words in templates)


def _pattern(template: str) -> re.Pattern[str]:
    """A wording as a pattern, with what politeness may follow it."""
    parts = re.split(r"\{(\w+)\}", template)
    words = "".join(
        f"(?P<{part}>{_SLOTS.get(part, '.+?')})" if place % 2 else re.escape(part)
        for place, part in enumerate(parts)
    )
    return re.compile(f"{words}(?:{'|'.join(map(re.escape, CLOSERS))})")
