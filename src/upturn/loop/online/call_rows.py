"""What is stored of a call and known before its answer: it is made while the upstream works."""

from typing import NamedTuple

from upturn.dialects import Conversation, ModelRequest, Toolbox
from upturn.loop.online.episode import Placement
from upturn.pool import ReadyRow, ready_row
from upturn.records import Decision, fields_json


class CallRows(NamedTuple):
    """The decision's row, and the contents of the request as JSON."""

    decision: ReadyRow
    messages: str
    """Those that the call it extends does not have."""
    tools: str
    """Empty = there are none, or those of the call it extends."""


def call_rows(decision: Decision, request: ModelRequest, placement: Placement) -> CallRows:
    """Raises RecordError for what cannot be stored, such as NaN in a tool's schema."""
    tools = "" if placement.has_same_tools or not request.tools else fields_json(Toolbox(request.tools))
    return CallRows(ready_row(decision), fields_json(Conversation(request.messages[placement.shared :])), tools)
