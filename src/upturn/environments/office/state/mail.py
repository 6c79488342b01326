"""Mails and the rules that sort them."""

from dataclasses import field
from typing import Literal

from upturn.environments.office.state.file import Content, Label
from upturn.records import record

MailFlag = Literal["none", "flagged", "done"]
FOLDERS = ("inbox", "archive", "drafts", "sent", "deleted", "junk")
"""Which every mailbox has; there may be others. What is deleted lies in ``deleted`` and can be brought back."""


@record
class Mail:
    """One message in one folder."""

    id: str
    folder: str
    sender: str
    """A person's id, or an address outside."""
    to: tuple[str, ...]
    subject: str
    body: str
    at: str
    """When it was sent, or written where it is a draft."""
    thread: str = ""
    """Id of the mail that began the conversation; empty = this one did."""
    cc: tuple[str, ...] = ()
    is_read: bool = False
    flag: MailFlag = "none"
    attachments: tuple[str, ...] = ()
    """Ids of files."""
    label: Label = "general"
    on_behalf_of: str = ""
    """Whose mail it is when somebody else sent it; empty = the sender's own."""
    enclosed: tuple[Content | None, ...] = field(default=(), compare=False, repr=False)
    """What the attachments held when an agent sent it, for ``changes``; None = there was no such file."""


@record
class Rule:
    """What happens to mails that come in; a mail fits when it has everything that is not empty."""

    id: str
    sender: str
    """A person; empty = any."""
    subject: str
    """Words that the subject contains; empty = any."""
    folder: str
    """Where fitting mails go."""
