"""A rule-based office agent: patterns for the phrasings it knows, a fixed plan for each, refusal for the rest.

It adds numbers, which a small model cannot, and knows all training phrasings of the families that need it. Of the
other families it knows a few phrasings, like hand-written automation, so there it is a baseline and a source of
demonstrations, not an oracle. It reads no second page and never retries.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from upturn.environments.office.generation import FINISH, answer, call, refusal, with_agreement
from upturn.environments.office.instruction import CLOSERS, OPENERS, without_briefing
from upturn.environments.office.tasks import FAMILIES
from upturn.records import Action, Observation, Turn

_Words = Mapping[str, str]
_Plan = Callable[[_Words, list[str]], Action]
"""From the values of the phrasing's slots and the results so far to the next action."""
_SLOTS: Mapping[str, str] = {
    **dict.fromkeys(("name", "other"), r"\w+\.\w+"),
    **dict.fromkeys(("day", "after_day"), r"[\d-]+"),
    "cell": r"[A-Z]+\d+",
}
"""Patterns of slots; other slots match any words."""
_KNOWN = 4
"""Phrasings of a family that are known when not all are."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    plan: _Plan


def act(instruction: str, turns: Sequence[Turn], observation: Observation) -> Action:
    """The next action; refuses what it has no rule for and gives up after any error."""
    results = [turn.observation.text for turn in turns[1:]] + ([observation.text] if turns else [])
    if turns and observation.is_error:
        return refusal(f"stopped at {observation.code}")
    words = without_briefing(instruction)
    opener = max((phrase for phrase in OPENERS if words.startswith(phrase)), key=len)
    for rule in _rules():
        match = rule.pattern.fullmatch(words, len(opener))
        if match is not None:
            return rule.plan(match.groupdict(), results)
    return refusal("no rule for this")


def _ids(listing: str, word: str = "") -> list[str]:
    """The first words of the lines that contain ``word``."""
    return [line.split()[0] for line in listing.splitlines() if word in line and line[:1].isalpha()]


def _first(listing: str) -> str:
    return next(iter(_ids(listing)), "none")


def _number(text: str) -> str:
    """The first number that is no date, time or id."""
    match = re.search(r"(?<![\w:.-])\d+(?![\w:-])", text)
    return match.group() if match else "none"


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
    match = re.search(r"^\S+ \S+ \S+ ([\w.]+):", results[0])
    return answer(match.group(1) if match else "none")


def _asked_chat(words: _Words, results: list[str]) -> Action:
    if not results:
        return call("teams.search_chat", query=words["topic"], sender=words["name"])
    return answer(_number(results[0].partition(f"{words['name']}:")[2]))


def _asked_event(pattern: str) -> _Plan:
    """Answers with what the pattern matches in an event."""

    def plan(words: _Words, results: list[str]) -> Action:
        if not results:
            return call("calendar.list", day=words["day"], title=words["title"])
        if len(results) == 1:
            return call("calendar.read", id=_first(results[0]))
        match = re.search(pattern, results[1], re.MULTILINE)
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


def _agreed(action: Action, step: int) -> Action:
    """What comes at this step of an action that the user has to agree to, and then of the end."""
    return (*with_agreement(action), FINISH)[step]


def _sent(send: Callable[[str, _Words], Action]) -> _Plan:
    """A mail that is sent, with the user's agreement, because of the one that is found by sender and subject."""

    def plan(words: _Words, results: list[str]) -> Action:
        if not results:
            return call("outlook.search", sender=words["name"], subject=words["topic"])
        return _agreed(send(_first(results[0]), words), len(results) - 1)

    return plan


def _text(words: _Words) -> str:
    return words["phrase"].strip('"')


def _answered_post(words: _Words, results: list[str]) -> Action:
    if not results:
        return call("teams.search_chat", query=words["topic"])
    asking = re.search(r"^\S+ \S+ \S+ ([\w.]+):", results[0])
    to = asking.group(1) if asking else "none"
    return _agreed(call("teams.send_message", to=to, text=_text(words)), len(results) - 1)


def _moved_after(words: _Words, results: list[str]) -> Action:
    if not results:
        return call("calendar.list", day=words["day"], title=words["title"])
    if len(results) == 1:
        return call("calendar.list", day=words["after_day"], title=words["after"])
    end = re.search(r"-(\d\d:\d\d) ", results[1])
    start = f"{words['after_day']} {end.group(1) if end else 'none'}"
    return call("calendar.move", id=_first(results[0]), start=start) if len(results) == 2 else FINISH


def _booked_mail(words: _Words, results: list[str]) -> Action:
    """A number in a mail, written into the row and column that the mail names."""
    if not results:
        return call("outlook.search", sender=words["name"], subject=words["topic"])
    if len(results) == 1:
        return call("outlook.read", id=_first(results[0]))
    if len(results) == 2:
        return call("sharepoint.search", query=words["book"])
    named = re.search(r"new (\w+) of (\w+) is (\d+)", results[1])
    column, item, number = named.groups() if named else ("none", "none", "0")
    book = _first(results[2])
    if len(results) in {3, 4}:
        return call("excel.find", id=book, text=(item, column)[len(results) - 3], is_whole="true")
    row, column_match = re.search(r"!A(\d+)", results[3]), re.search(r"!([A-Z])1:", results[4])
    cell = f"{column_match.group(1) if column_match else 'A'}{row.group(1) if row else 1}"
    return call("excel.write_range", id=book, at=cell, rows=[[number]]) if len(results) == 5 else FINISH


def _posted(words: _Words, results: list[str]) -> Action:
    if not results:
        return call("teams.list_channels", name=words["team"])
    return _agreed(call("teams.post_to_channel", channel=_first(results[0]), text=_text(words)), len(results) - 1)


def _answered_chat(words: _Words, results: list[str]) -> Action:
    """A number that somebody asks for in a chat, from the mail that they name."""
    name, city = words["name"], words["city"]
    if not results:
        return call("teams.search_chat", query=city, sender=name)
    question = results[0].partition(f"{name}:")[2]
    writer, topic = re.search(r"\w+\.\w+", question), re.search(rf"the (\w+(?: \w+)? {city})", question)
    if len(results) == 1:
        sender, subject = (match.group(match.lastindex or 0) if match else "none" for match in (writer, topic))
        return call("outlook.search", sender=sender, subject=subject)
    if len(results) == 2:
        return call("outlook.read", id=_first(results[1]))
    return _agreed(call("teams.send_message", to=name, text=_number(_body(results[2]))), len(results) - 3)


_WHOLE: Mapping[str, _Plan] = {"mail_unread_sum": _unread_sum, "mail_last_writer": _last_writer}
_PARTLY: Mapping[str, _Plan] = {
    "mail_number": _asked_mail,
    "mail_newest": _asked_mail,
    "chat_number": _asked_chat,
    "event_room": _asked_event(r"at room (\S+)$"),
    "event_organizer": _asked_event(r"^by (\S+)$"),
    "event_move": _changed_event(lambda id_, words: call("calendar.move", id=id_, start=words["start"])),
    "event_invite": _changed_event(
        lambda id_, words: call("calendar.invite", id=id_, people=words["people"].replace(" and ", ","))
    ),
    "mail_move": _changed_mail(lambda ids, words: call("outlook.move", ids=",".join(ids), folder=words["folder"])),
    "mail_flag": _changed_mail(lambda ids, _: call("outlook.flag", ids=ids[0] if ids else "none")),
    "cell_say": _on_book(lambda id_, words: call("excel.read_range", id=id_, range=words["cell"]), is_asked=True),
    "cell_set": _on_book(
        lambda id_, words: call("excel.write_range", id=id_, at=words["cell"], rows=words["value"])
    ),
    "mail_reply": _sent(lambda id_, words: call("outlook.reply", id=id_, body=_text(words))),
    "mail_forward": _sent(lambda id_, words: call("outlook.forward", id=id_, to=words["other"], body=_text(words))),
    "chat_message": _answered_post,
    "event_move_after": _moved_after,
    "mail_to_book": _booked_mail,
    "chat_answer": _answered_chat,
    "channel_post": _posted,
    "table_total": _on_book(lambda id_, _: Action("excel", "run_macro", {"id": id_, "name": "total_row"})),
}


@cache
def _rules() -> tuple[_Rule, ...]:
    whole = [(FAMILIES[name].templates, plan) for name, plan in _WHOLE.items()]
    partly = [(FAMILIES[name].templates[:_KNOWN], plan) for name, plan in _PARTLY.items()]
    return tuple(_Rule(_pattern(words), plan) for templates, plan in (*whole, *partly) for words in templates)


def _pattern(template: str) -> re.Pattern[str]:
    """A phrasing as a pattern that also accepts a polite closing."""
    words, seen = "", set[str]()
    for index, part in enumerate(re.split(r"\{(\w+)\}", template)):
        if index % 2 == 0:
            words += re.escape(part)
        else:
            words += f"(?P={part})" if part in seen else f"(?P<{part}>{_SLOTS.get(part, '.+?')})"
            seen.add(part)
    return re.compile(f"{words}(?:{'|'.join(map(re.escape, CLOSERS))})")
