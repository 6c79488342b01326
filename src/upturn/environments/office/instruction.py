"""The text of an instruction: the agent's user, the date, and the request, more or less polite."""

from random import Random

from upturn.environments.office.state import COMPANY, Workspace, parse_moment

OPENERS = ("", "", "please ", "hi, ", "when you can: ", "quick one: ", "one more thing: ")
CLOSERS = ("", "", ", thanks", ", please", ", thank you")
"""Drawn independently of the template."""
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_ORDERS = frozenset(
    (
        *("add", "allow", "answer", "append", "apply", "arrange", "ask", "bin", "book", "bring", "build"),
        *("call", "cancel", "change", "check", "clean", "clear", "close", "collect", "compute", "copy"),
        *("correct", "create", "cut", "decline", "delete", "do", "draft", "draw", "dress", "drop", "duplicate"),
        *("edit", "empty", "end", "enter", "extend", "file", "fill", "filter", "find", "finish", "flag"),
        *("follow", "forward", "get", "give", "go", "grant", "have", "help", "hide", "insert", "invite"),
        *("leave", "let", "limit", "look", "mail", "make", "mark", "message", "move", "multiply", "name"),
        *("narrow", "open", "order", "pass", "pivot", "plan", "post", "publish", "put", "rank", "re-order"),
        *("read", "remind", "remove", "rename", "replace", "reply", "reschedule", "reserve", "respond"),
        *("restore", "return", "roll", "run", "save", "say", "search", "see", "send", "set", "share", "shift"),
        *("shorten", "show", "sort", "sum", "summarise", "swap", "take", "tell", "throw", "tidy", "total"),
        *("transfer", "try", "turn", "type", "undo", "update", "upload", "use", "welcome", "write"),
    )
)
"""Imperatives that may start a phrasing; only these can follow ``please``."""


def briefing(workspace: Workspace) -> str:
    """The line that names the agent's user and the date."""
    owner, now = workspace.people[workspace.owner], parse_moment(workspace.started_at)
    who = f"{owner.id} ({owner.name}, {owner.id}@{COMPANY})"
    return f"you work for {who}. it is {_WEEKDAYS[now.weekday()]}, {workspace.started_at}."


def without_briefing(instruction: str) -> str:
    """The request of an instruction, without the line of ``briefing``."""
    return instruction.rpartition("\n")[2]


def polite_request(rng: Random, request: str) -> str:
    """The phrasing with an opener and a closer that fit it."""
    opener, closer = rng.choice(OPENERS), rng.choice(CLOSERS)
    if opener == "please " and (request.split(maxsplit=1)[0] not in _ORDERS or "please" in request):
        opener = ""
    if request.endswith("?") or ("please" in closer and "please" in f"{opener}{request}"):
        closer = ""
    return f"{opener}{request}{closer}"
