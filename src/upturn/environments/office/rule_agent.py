"""A rule-based office agent: patterns of known phrasings with a fixed plan for each; it refuses other tasks.

It covers all training phrasings of the families that need sums, which a small model cannot compute. Of other
families it covers a few phrasings, like hand-written automation: there it is a baseline and a source of
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

_Slots = Mapping[str, str]
_Plan = Callable[[_Slots, list[str]], Action]
"""The next action, from the values of the phrasing's slots and the results so far."""
_SLOTS: Mapping[str, str] = {
    **dict.fromkeys(("name", "other"), r"\w+\.\w+"),
    **dict.fromkeys(("day", "after_day"), r"[\d-]+"),
    "cell": r"[A-Z]+\d+",
}
"""Patterns of slots; other slots match any text."""
_KNOWN_PHRASINGS = 4
"""Number of known phrasings of a partly covered family."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    plan: _Plan


def act(instruction: str, turns: Sequence[Turn], observation: Observation) -> Action:
    """The next action; refuses instructions without a rule and gives up after any error."""
    results = [turn.observation.text for turn in turns[1:]] + ([observation.text] if turns else [])
    if turns and observation.is_error:
        return refusal(f"stopped at {observation.code}")
    request = without_briefing(instruction)
    opener = max((phrase for phrase in OPENERS if request.startswith(phrase)), key=len)
    for rule in _rules():
        match = rule.pattern.fullmatch(request, len(opener))
        if match is not None:
            return rule.plan(match.groupdict(), results)
    return refusal("no rule for this")


def _ids(listing: str) -> list[str]:
    """The first words of the lines that start with a letter."""
    return [line.split()[0] for line in listing.splitlines() if line[:1].isalpha()]


def _first(listing: str) -> str:
    return next(iter(_ids(listing)), "none")


def _number(text: str) -> str:
    """The first number that is no date, time or id."""
    match = re.search(r"(?<![\w:.-])\d+(?![\w:-])", text)
    return match.group() if match else "none"


def _body(mail: str) -> str:
    return mail.partition("\nsubject ")[2].partition("\n")[2]


def _answer_from_mail(slots: _Slots, results: list[str]) -> Action:
    if not results:
        return call("outlook.search", sender=slots["name"], subject=slots["topic"])
    if len(results) == 1:
        return call("outlook.read", id=_first(results[0]))
    return answer(_number(_body(results[1])))


def _unread_sum(slots: _Slots, results: list[str]) -> Action:
    if not results:
        return call("outlook.search", sender=slots["name"], subject=slots["topic"], is_unread="true")
    listed, *read = results
    unread = _ids(listed)[len(read) :]
    if unread:
        return call("outlook.read", id=unread[0])
    return answer(str(sum(int(number) for number in map(_number, map(_body, read)) if number.isdecimal())))


def _last_writer(slots: _Slots, results: list[str]) -> Action:
    if not results:
        return call("outlook.search", subject=slots["topic"])
    match = re.search(r"^\S+ \S+ \S+ ([\w.]+):", results[0])
    return answer(match.group(1) if match else "none")


def _answer_from_chat(slots: _Slots, results: list[str]) -> Action:
    if not results:
        return call("teams.search_chat", query=slots["topic"], sender=slots["name"])
    return answer(_number(results[0].partition(f"{slots['name']}:")[2]))


def _answer_from_event(pattern: str) -> _Plan:
    """Answers with the pattern's match in an event."""

    def plan(slots: _Slots, results: list[str]) -> Action:
        if not results:
            return call("calendar.list", day=slots["day"], title=slots["title"])
        if len(results) == 1:
            return call("calendar.read", id=_first(results[0]))
        match = re.search(pattern, results[1], re.MULTILINE)
        return answer(match.group(1) if match else "none")

    return plan


def _change_event(change: Callable[[str, _Slots], Action]) -> _Plan:
    """One operation on the event with this day and title."""

    def plan(slots: _Slots, results: list[str]) -> Action:
        if not results:
            return call("calendar.list", day=slots["day"], title=slots["title"])
        return change(_first(results[0]), slots) if len(results) == 1 else FINISH

    return plan


def _change_mails(change: Callable[[list[str], _Slots], Action]) -> _Plan:
    """One operation on the mails with this sender and subject."""

    def plan(slots: _Slots, results: list[str]) -> Action:
        if not results:
            return call("outlook.search", sender=slots["name"], subject=slots["topic"])
        return change(_ids(results[0]), slots) if len(results) == 1 else FINISH

    return plan


def _use_book(work: Callable[[str, _Slots], Action], *, is_answer: bool = False) -> _Plan:
    """One operation on the workbook of this name; ``is_answer``: its result is the answer."""

    def plan(slots: _Slots, results: list[str]) -> Action:
        if not results:
            return call("sharepoint.search", query=slots["book"])
        if len(results) == 1:
            return work(_first(results[0]), slots)
        return answer(results[1].rpartition(": ")[2]) if is_answer else FINISH

    return plan


def _agreement_step(action: Action, step: int) -> Action:
    """This step of previewing an action, waiting for agreement, taking the action and finishing."""
    return (*with_agreement(action), FINISH)[step]


def _send_about_mail(send: Callable[[str, _Slots], Action]) -> _Plan:
    """Sends a mail, with the user's agreement, about the mail with this sender and subject."""

    def plan(slots: _Slots, results: list[str]) -> Action:
        if not results:
            return call("outlook.search", sender=slots["name"], subject=slots["topic"])
        return _agreement_step(send(_first(results[0]), slots), len(results) - 1)

    return plan


def _text(slots: _Slots) -> str:
    return slots["phrase"].strip('"')


def _message_to_asker(slots: _Slots, results: list[str]) -> Action:
    if not results:
        return call("teams.search_chat", query=slots["topic"])
    asking = re.search(r"^\S+ \S+ \S+ ([\w.]+):", results[0])
    to = asking.group(1) if asking else "none"
    return _agreement_step(call("teams.send_message", to=to, text=_text(slots)), len(results) - 1)


def _move_after(slots: _Slots, results: list[str]) -> Action:
    if not results:
        return call("calendar.list", day=slots["day"], title=slots["title"])
    if len(results) == 1:
        return call("calendar.list", day=slots["after_day"], title=slots["after"])
    end = re.search(r"-(\d\d:\d\d) ", results[1])
    start = f"{slots['after_day']} {end.group(1) if end else 'none'}"
    return call("calendar.move", id=_first(results[0]), start=start) if len(results) == 2 else FINISH


def _copy_mail_to_book(slots: _Slots, results: list[str]) -> Action:
    """Writes a number from a mail into the row and column that the mail names."""
    if not results:
        return call("outlook.search", sender=slots["name"], subject=slots["topic"])
    if len(results) == 1:
        return call("outlook.read", id=_first(results[0]))
    if len(results) == 2:
        return call("sharepoint.search", query=slots["book"])
    named = re.search(r"new (\w+) of (\w+) is (\d+)", results[1])
    column, item, number = named.groups() if named else ("none", "none", "0")
    book = _first(results[2])
    if len(results) in {3, 4}:
        return call("excel.find", id=book, text=(item, column)[len(results) - 3], is_whole="true")
    row, column_match = re.search(r"!A(\d+)", results[3]), re.search(r"!([A-Z])1:", results[4])
    cell = f"{column_match.group(1) if column_match else 'A'}{row.group(1) if row else 1}"
    return call("excel.write_range", id=book, at=cell, rows=[[number]]) if len(results) == 5 else FINISH


def _post_to_team(slots: _Slots, results: list[str]) -> Action:
    if not results:
        return call("teams.list_channels", name=slots["team"])
    return _agreement_step(
        call("teams.post_to_channel", channel=_first(results[0]), text=_text(slots)), len(results) - 1
    )


def _answer_chat_from_mail(slots: _Slots, results: list[str]) -> Action:
    """Answers a question in a chat with a number from the mail that it names."""
    name, city = slots["name"], slots["city"]
    if not results:
        return call("teams.search_chat", query=city, sender=name)
    question = results[0].partition(f"{name}:")[2]
    writer, topic = re.search(r"\w+\.\w+", question), re.search(rf"the (\w+(?: \w+)? {city})", question)
    if len(results) == 1:
        sender, subject = (match.group(match.lastindex or 0) if match else "none" for match in (writer, topic))
        return call("outlook.search", sender=sender, subject=subject)
    if len(results) == 2:
        return call("outlook.read", id=_first(results[1]))
    return _agreement_step(call("teams.send_message", to=name, text=_number(_body(results[2]))), len(results) - 3)


_WHOLE: Mapping[str, _Plan] = {"mail_unread_sum": _unread_sum, "mail_last_writer": _last_writer}
_PARTLY: Mapping[str, _Plan] = {
    "mail_number": _answer_from_mail,
    "mail_newest": _answer_from_mail,
    "chat_number": _answer_from_chat,
    "event_room": _answer_from_event(r"at room (\S+)$"),
    "event_organizer": _answer_from_event(r"^by (\S+)$"),
    "event_move": _change_event(lambda id_, slots: call("calendar.move", id=id_, start=slots["start"])),
    "event_invite": _change_event(
        lambda id_, slots: call("calendar.invite", id=id_, people=slots["people"].replace(" and ", ","))
    ),
    "mail_move": _change_mails(lambda ids, slots: call("outlook.move", ids=",".join(ids), folder=slots["folder"])),
    "mail_flag": _change_mails(lambda ids, _: call("outlook.flag", ids=ids[0] if ids else "none")),
    "cell_say": _use_book(lambda id_, slots: call("excel.read_range", id=id_, range=slots["cell"]), is_answer=True),
    "cell_set": _use_book(
        lambda id_, slots: call("excel.write_range", id=id_, at=slots["cell"], rows=slots["value"])
    ),
    "mail_reply": _send_about_mail(lambda id_, slots: call("outlook.reply", id=id_, body=_text(slots))),
    "mail_forward": _send_about_mail(
        lambda id_, slots: call("outlook.forward", id=id_, to=slots["other"], body=_text(slots))
    ),
    "chat_message": _message_to_asker,
    "event_move_after": _move_after,
    "mail_to_book": _copy_mail_to_book,
    "chat_answer": _answer_chat_from_mail,
    "channel_post": _post_to_team,
    "table_total": _use_book(lambda id_, _: Action("excel", "run_macro", {"id": id_, "name": "total_row"})),
}


@cache
def _rules() -> tuple[_Rule, ...]:
    whole = [(FAMILIES[name].templates, plan) for name, plan in _WHOLE.items()]
    partly = [(FAMILIES[name].templates[:_KNOWN_PHRASINGS], plan) for name, plan in _PARTLY.items()]
    return tuple(_Rule(_pattern(text), plan) for templates, plan in (*whole, *partly) for text in templates)


def _pattern(template: str) -> re.Pattern[str]:
    """A pattern of the phrasing, with an optional polite closing."""
    pattern, seen = "", set[str]()
    for index, part in enumerate(re.split(r"\{(\w+)\}", template)):
        if index % 2 == 0:
            pattern += re.escape(part)
        else:
            pattern += f"(?P={part})" if part in seen else f"(?P<{part}>{_SLOTS.get(part, '.+?')})"
            seen.add(part)
    return re.compile(f"{pattern}(?:{'|'.join(map(re.escape, CLOSERS))})")
