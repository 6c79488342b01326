"""A rule-based agent: patterns for known phrasings, a fixed plan for each, and refusal of all other instructions.

It solves all tasks of ``unread_count`` and ``day_clash``. In the families of ``LEARNED`` it has rules for some
phrasings only, like hand-written automation: there it is a baseline and a source of demonstrations, not an oracle.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from benchmarks.errands.family import FINISH, call
from benchmarks.errands.level2 import FUNCTIONS
from upturn.records import Action, Observation, Turn

_Slots = Mapping[str, str]
_Plan = Callable[[_Slots, list[str]], Action]
"""From the pattern's groups and the results so far to the next action."""


def act(instruction: str, turns: Sequence[Turn], observation: Observation) -> Action:
    """The next action; refuses unknown instructions and stops after any error."""
    results = [turn.observation.text for turn in turns[1:]] + ([observation.text] if turns else [])
    if turns and observation.is_error:
        return call("user.refuse", text=f"stopped at {observation.code}")
    for pattern, plan in _RULES:
        match = pattern.search(instruction)
        if match is not None:
            return plan(match.groupdict(), results)
    return call("user.refuse", text="no rule for this")


def _id_of(listing: str, word: str) -> str:
    """The id at the start of the line that contains the word; ``none`` when there is no such line."""
    for line in listing.splitlines():
        if word in re.split(r"[ :]+", line)[1:]:
            return line.split()[0]
    return "none"


def _unread(_slots: _Slots, results: list[str]) -> Action:
    if not results:
        return call("mail.list", folder="inbox")
    return call("user.answer", text=str(sum(line.endswith("*") for line in results[0].splitlines())))


def _clash(slots: _Slots, results: list[str]) -> Action:
    if not results:
        return call("calendar.list", day=slots["day"])
    spans = {
        name: (int(start), int(end))
        for name, start, end in re.findall(r"^(\w+) .*?(\d+)-(\d+)$", results[0], re.MULTILINE)
    }
    clashing = sorted(
        name
        for name, (start, end) in spans.items()
        if any(other != name and start < span[1] and span[0] < end for other, span in spans.items())
    )
    return call("user.answer", text=" ".join(clashing) or "none")


def _file(slots: _Slots, results: list[str]) -> Action:
    return FINISH if results else call("mail.move", id=slots["mail"], folder=slots["folder"])


def _look_up(slots: _Slots, results: list[str]) -> Action:
    if not results:
        return call("sheet.read", sheet=slots["sheet"], range=slots["cell"])
    return call("user.answer", text=results[0])


def _reply(slots: _Slots, results: list[str]) -> Action:
    if not results:
        return call("mail.search", from_=slots["name"], subject=slots["topic"])
    if len(results) == 1:
        return call("mail.reply", id=_id_of(results[0], slots["topic"]), body=slots["phrase"])
    return FINISH


def _shift(slots: _Slots, results: list[str]) -> Action:
    if not results:
        return call("calendar.list", day=slots["day"], title=slots["title"])
    if len(results) == 1:
        event = _id_of(results[0], slots["title"])
        return call("calendar.move", id=event, day=slots["new_day"], start=slots["start"])
    return FINISH


def _aggregate(slots: _Slots, results: list[str]) -> Action:
    if not results:
        return call("sheet.read", sheet=slots["sheet"])
    if len(results) == 1:
        last = len(results[0].splitlines())
        formula = f"={FUNCTIONS.get(slots['what'], 'SUM')}(B2:B{last})"
        return call("sheet.write", sheet=slots["sheet"], cell=f"B{last + 1}", value=formula)
    return FINISH


def _book(slots: _Slots, results: list[str]) -> Action:
    if len(results) < 2:
        return _open_mail(slots, results)
    if len(results) == 2:
        slot = re.search(r"(mon|tue|wed|thu|fri)\D+(\d+)", results[1].splitlines()[-1])
        day, hour = (slot[1], int(slot[2])) if slot else ("mon", 8)
        return call(
            "calendar.create",
            title=slots["title"],
            day=day,
            start=str(hour),
            end=str(hour + 1),
            with_=slots["name"],
        )
    if len(results) == 3:
        return call("mail.reply", id=_id_of(results[0], slots["topic"]), body=slots["phrase"])
    return FINISH


def _update(slots: _Slots, results: list[str]) -> Action:
    if len(results) < 2:
        return _open_mail(slots, results)
    body = results[1].splitlines()[-1]
    number = re.search(r"\d+", body)
    if len(results) == 2:
        item = re.search(r"(\w+) (?:is now|to \d)|(?:for) (\w+)", body)
        return call("sheet.find", sheet=slots["sheet"], text=(item[1] or item[2]) if item else "none")
    if len(results) == 3:
        cell = results[2].replace("A", "B")
        return call("sheet.write", sheet=slots["sheet"], cell=cell, value=number[0] if number else "0")
    if len(results) == 4:
        return call("mail.move", id=_id_of(results[0], slots["topic"]), folder="archive")
    return FINISH


def _open_mail(slots: _Slots, results: list[str]) -> Action:
    """Finds and reads the mail of a person about a topic."""
    if not results:
        return call("mail.search", from_=slots["name"], subject=slots["topic"])
    return call("mail.read", id=_id_of(results[0], slots["topic"]))


def _call_off(slots: _Slots, results: list[str]) -> Action:
    if not results:
        return call("calendar.list", day=slots["day"], title=slots["title"])
    if len(results) in (1, 2):
        verb = "calendar.read" if len(results) == 1 else "calendar.cancel"
        return call(verb, id=_id_of(results[0], slots["title"]))
    if len(results) == 3:
        people = results[1].rsplit(" ", 1)[-1]
        return call("mail.send", to=people, subject=slots["title"], body=slots["phrase"])
    return FINISH


def _rule(pattern: str, plan: _Plan) -> tuple[re.Pattern[str], _Plan]:
    """``{name}`` in a pattern is a word, ``{phrase}`` a quoted text."""
    source = re.sub(
        r"\{(\w+)\}", lambda m: f"(?P<{m[1]}>\\w+)" if m[1] != "phrase" else '"(?P<phrase>[^"]+)"', pattern
    )
    return re.compile(source), plan


_RULES = (
    _rule(r"unread|have i not read|have not read", _unread),
    _rule(r"(?:clash|overlap)\w* on {day}", _clash),
    _rule(r"clashing events on {day}", _clash),
    _rule(r"move {mail} to {folder}", _file),
    _rule(r"file {mail} under {folder}", _file),
    _rule(r"put mail {mail} into the {folder} folder", _file),
    _rule(r"what is in {cell} of {sheet}", _look_up),
    _rule(r"look up {cell} in the {sheet} sheet", _look_up),
    _rule(r"reply to {name}'s mail about the {topic}: {phrase}", _reply),
    _rule(r"answer {name} on the {topic} with {phrase}", _reply),
    _rule(r"respond to the {topic} mail from {name} saying {phrase}", _reply),
    _rule(r"tell {name} {phrase} in reply to the {topic} mail", _reply),
    _rule(r"write back to {name} about the {topic}: {phrase}", _reply),
    _rule(r"move the {title} on {day} to {new_day} at {start}", _shift),
    _rule(r"reschedule the {title} from {day} to {new_day} {start}", _shift),
    _rule(r"shift {day}'s {title} to {new_day} {start}", _shift),
    _rule(r"{day}'s {title} moves to {new_day} at {start}", _shift),
    _rule(r"take the {title} on {day} and move it to {new_day} {start}", _shift),
    _rule(r"put the {what} under the amounts in {sheet}", _aggregate),
    _rule(r"add the {what} below the {sheet} table", _aggregate),
    _rule(r"write the {what} of the amounts at the end of {sheet}", _aggregate),
    _rule(r"work out the {what} at the bottom of {sheet}", _aggregate),
    _rule(r"finish the {sheet} table with the {what}", _aggregate),
    _rule(r"read {name}'s {topic} mail, book a {title} with \w+ at that time, reply {phrase}", _book),
    _rule(r"book the {title} that {name} asks for in the {topic} mail, then reply {phrase}", _book),
    _rule(r"from the {topic} mail of {name} make a {title} with \w+ and write back {phrase}", _book),
    _rule(r"see when {name} can meet in the {topic} mail, add a {title} with \w+ and answer {phrase}", _book),
    _rule(r"the {topic} mail from {name} names a time, put a {title} with \w+ there and reply {phrase}", _book),
    _rule(r"{name} sent a new amount in the {topic} mail: update {sheet}", _update),
    _rule(r"update the {sheet} sheet from {name}'s {topic} mail", _update),
    _rule(r"enter what {name} writes in the {topic} mail into {sheet}", _update),
    _rule(r"bring {sheet} up to date with the {topic} mail from {name}", _update),
    _rule(r"copy the new amount in {name}'s {topic} mail to {sheet}", _update),
    _rule(r"call off the {title} on {day} and tell everyone in it {phrase}", _call_off),
    _rule(r"cancel {day}'s {title} and write {phrase} to all", _call_off),
    _rule(r"the {title} on {day} is off, cancel it and let its people know: {phrase}", _call_off),
    _rule(r"drop the {day} {title} and mail the attendees {phrase}", _call_off),
    _rule(r"cancel the {title} of {day}, then send everyone in it {phrase}", _call_off),
)
