"""The operations of errands as tools with descriptions."""

from collections.abc import Mapping

from benchmarks.errands.environment import OPERATIONS
from benchmarks.errands.operation import Kind, Operation
from benchmarks.errands.workspace import CLOSING_HOUR, DAYS, FOLDERS, OPENING_HOUR
from upturn.records import JsonValue, Tool

_KINDS: Mapping[Kind, dict[str, JsonValue]] = {
    "text": {"type": "string"},
    "people": {"type": "string", "description": "names, separated by commas"},
    "hour": {"type": "integer", "minimum": OPENING_HOUR, "maximum": CLOSING_HOUR},
    "day": {"type": "string", "enum": list(DAYS)},
    "folder": {"type": "string", "enum": list(FOLDERS)},
    "cell": {"type": "string", "description": "such as B3"},
    "range": {"type": "string", "description": "a cell or a range such as A1:B4"},
    "flag": {"type": "string", "enum": ["read", "unread"]},
}

_DESCRIPTIONS = {
    "mail.list": "Lists the mails of a folder.",
    "mail.search": "Finds mails by sender, subject or both.",
    "mail.read": "Shows a mail and marks it read.",
    "mail.send": "Sends a mail.",
    "mail.reply": "Answers the sender of a mail.",
    "mail.forward": "Sends a mail on.",
    "mail.move": "Moves a mail to another folder.",
    "mail.mark": "Marks a mail read or unread.",
    "calendar.list": "Lists the events of a day.",
    "calendar.read": "Shows an event.",
    "calendar.create": "Enters an event.",
    "calendar.move": "Moves an event; it keeps its length.",
    "calendar.cancel": "Cancels an event.",
    "sheet.read": "Shows a sheet or a part of it.",
    "sheet.find": "Finds the cells that hold a text.",
    "sheet.write": "Writes a text, a number or a formula into a cell.",
    "user.answer": "Tells the user the answer; ends the task.",
    "user.ask": "Asks the user.",
    "user.refuse": "Tells the user why the task cannot be done; ends the task.",
    "user.finish": "Says that all is done; ends the task.",
}


def errands_tools() -> tuple[Tool, ...]:
    """One tool per operation, in the order of the apps."""
    return tuple(_tool(name, operation) for name, operation in OPERATIONS.items())


def _tool(name: str, operation: Operation) -> Tool:
    return Tool(
        operation.target,
        operation.name,
        _DESCRIPTIONS[name],
        {parameter.name: dict(_KINDS[parameter.kind]) for parameter in operation.parameters},
        tuple(parameter.name for parameter in operation.parameters if parameter.is_required),
    )
