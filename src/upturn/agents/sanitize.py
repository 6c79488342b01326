"""An agent's answer made fit to be acted on and recorded: whatever an agent sends, nothing of it can raise later.

Order of checks: it is a Reply with a text; the text is short enough and Unicode; the action is a record that reads
back equal. What fails the first is refused; what fails another is recorded as text that is no action, so that the
environment answers with an error observation and the agent may go on. Not covered: code that patches this process.
"""

from typing import Any

from upturn.agents.agent import Reply
from upturn.environments import recordable_action, recordable_text


def recordable(reply: Any) -> Reply:  # Any: agents are foreign code
    """The reply with a text and an action of its own, shared with nobody; raises TypeError for what is no Reply."""
    if not isinstance(reply, Reply) or not isinstance(reply.text, str):
        raise TypeError(f"an agent must answer with a Reply that has a text, got a {type(reply).__name__}")
    text = recordable_text(reply.text)
    action = None if reply.action is None or text != reply.text else recordable_action(reply.action)
    return Reply(text, action, reply.usage)
