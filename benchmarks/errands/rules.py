"""An office worker made of rules: patterns for the phrasings it knows, a fixed plan for each, refusal for the rest.

It solves ``unread_count`` and ``day_clash`` whole. Of the families that a model is to learn it knows some phrasings
only, as hand-written automation does, so it is a baseline and a source of demonstrations there, not an oracle.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from benchmarks.errands.family import FINISH, call
from upturn.records import Action, Observation, Turn

_Words = Mapping[str, str]
_Plan = Callable[[_Words, list[str]], Action]
"""From the pattern's groups and the results so far to the next action."""


def act(instruction: str, turns: Sequence[Turn], observation: Observation) -> Action:
    """The next action; refuses what it has no rule for and gives up after any error."""
    results = [turn.observation.text for turn in turns[1:]] + ([observation.text] if turns else [])
    if turns and observation.is_error:
        return call("user.refuse", text=f"stopped at {observation.code}")
    for pattern, plan in _RULES:
        match = pattern.search(instruction)
        if match is not None:
            return plan(match.groupdict(), results)
    return call("user.refuse", text="no rule for this")


def _id_of(listing: str, wanted: str) -> str:
    """The id at the start of the line that holds the wanted word; ``none`` when no line does."""
    for line in listing.splitlines():
        if wanted in re.split(r"[ :]+", line)[1:]:
            return line.split()[0]
    return "none"


def _unread(_words: _Words, results: list[str]) -> Action:
    if not results:
        return call("mail.list", folder="inbox")
    return call("user.answer", text=str(sum(line.endswith("*") for line in results[0].splitlines())))


def _clash(words: _Words, results: list[str]) -> Action:
    if not results:
        return call("calendar.list", day=words["day"])
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


def _file(words: _Words, results: list[str]) -> Action:
    return FINISH if results else call("mail.move", id=words["mail"], folder=words["folder"])


def _look_up(words: _Words, results: list[str]) -> Action:
    if not results:
        return call("sheet.read", sheet=words["sheet"], range=words["cell"])
    return call("user.answer", text=results[0])


def _reply(words: _Words, results: list[str]) -> Action:
    if not results:
        return call("mail.search", from_=words["name"], subject=words["topic"])
    if len(results) == 1:
        return call("mail.reply", id=_id_of(results[0], words["topic"]), body=words["phrase"])
    return FINISH


def _shift(words: _Words, results: list[str]) -> Action:
    if not results:
        return call("calendar.list", day=words["day"], title=words["title"])
    if len(results) == 1:
        event = _id_of(results[0], words["title"])
        return call("calendar.move", id=event, day=words["new_day"], start=words["start"])
    return FINISH


_FUNCTIONS = {"total": "SUM", "average": "AVERAGE", "highest": "MAX", "lowest": "MIN"}


def _aggregate(words: _Words, results: list[str]) -> Action:
    if not results:
        return call("sheet.read", sheet=words["sheet"])
    if len(results) == 1:
        last = len(results[0].splitlines())
        formula = f"={_FUNCTIONS.get(words['what'], 'SUM')}(B2:B{last})"
        return call("sheet.write", sheet=words["sheet"], cell=f"B{last + 1}", value=formula)
    return FINISH


def _book(words: _Words, results: list[str]) -> Action:
    if len(results) < 2:
        return _open(words, results)
    if len(results) == 2:
        slot = re.search(r"(mon|tue|wed|thu|fri)\D+(\d+)", results[1].splitlines()[-1])
        day, hour = (slot[1], int(slot[2])) if slot else ("mon", 8)
        return call(
            "calendar.create",
            title=words["title"],
            day=day,
            start=str(hour),
            end=str(hour + 1),
            with_=words["name"],
        )
    if len(results) == 3:
        return call("mail.reply", id=_id_of(results[0], words["topic"]), body=words["phrase"])
    return FINISH


def _update(words: _Words, results: list[str]) -> Action:
    if len(results) < 2:
        return _open(words, results)
    body = results[1].splitlines()[-1]
    number = re.search(r"\d+", body)
    if len(results) == 2:
        item = re.search(r"(\w+) (?:is now|to \d)|(?:for) (\w+)", body)
        return call("sheet.find", sheet=words["sheet"], text=(item[1] or item[2]) if item else "none")
    if len(results) == 3:
        cell = results[2].replace("A", "B")
        return call("sheet.write", sheet=words["sheet"], cell=cell, value=number[0] if number else "0")
    if len(results) == 4:
        return call("mail.move", id=_id_of(results[0], words["topic"]), folder="archive")
    return FINISH


def _open(words: _Words, results: list[str]) -> Action:
    """Finds and reads the mail of a person about a topic."""
    if not results:
        return call("mail.search", from_=words["name"], subject=words["topic"])
    return call("mail.read", id=_id_of(results[0], words["topic"]))


def _call_off(words: _Words, results: list[str]) -> Action:
    if not results:
        return call("calendar.list", day=words["day"], title=words["title"])
    if len(results) in (1, 2):
        verb = "calendar.read" if len(results) == 1 else "calendar.cancel"
        return call(verb, id=_id_of(results[0], words["title"]))
    if len(results) == 3:
        people = results[1].rsplit(" ", 1)[-1]
        return call("mail.send", to=people, subject=words["title"], body=words["phrase"])
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
