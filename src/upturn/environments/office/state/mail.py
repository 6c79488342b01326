"""Mails and the rules that sort them."""

from dataclasses import field
from typing import Literal

from upturn.environments.office.state.file import Content, Label
from upturn.records import record

MailFlag = Literal["none", "flagged", "done"]
FOLDERS = ("inbox", "archive", "drafts", "sent", "deleted", "junk")
"""Folders of every mailbox; others are possible. Deleted mails are in ``deleted`` and can be restored."""


@record
class Mail:
    """One message in one folder."""

    id: str
    folder: str
    sender: str
    """A person's id, or an external address."""
    to: tuple[str, ...]
    subject: str
    body: str
    at: str
    """When it was sent, or written if it is a draft."""
    thread: str = ""
    """Id of the first mail of the conversation; empty = this mail."""
    cc: tuple[str, ...] = ()
    is_read: bool = False
    flag: MailFlag = "none"
    attachments: tuple[str, ...] = ()
    """Ids of files."""
    label: Label = "general"
    on_behalf_of: str = ""
    """The person for whom it was sent; empty = the sender."""
    enclosed: tuple[Content | None, ...] = field(default=(), compare=False, repr=False)
    """Contents of the attachments when the mail was sent, for ``changes``; None = the file did not exist."""


@record
class Rule:
    """A rule for incoming mails; a mail matches if it matches every field that is not empty."""

    id: str
    sender: str
    """A person; empty = any."""
    subject: str
    """Words that the subject contains; empty = any."""
    folder: str
    """The target folder of matching mails."""
