"""Mails as .eml files: addresses with names, moments with their zone, threads by ids, attachments with their bytes.

What mail programs have no header for stands in headers of our own (``X-Upturn-Read`` and so on). Line ends become
``\\n``, a line end in a subject a blank. Foreign mails: the text part, or what the HTML says; moments to the
minute. Refused: encrypted ones, ones that are cut off, files that have no sender or no date.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from email import encoders, policy
from email.errors import CloseBoundaryNotFoundDefect, InvalidBase64LengthDefect, InvalidBase64PaddingDefect
from email.generator import BytesGenerator
from email.header import Header
from email.headerregistry import Address
from email.message import EmailMessage, Message
from email.mime.base import MIMEBase
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from email.parser import BytesParser
from email.utils import format_datetime
from html.parser import HTMLParser
from io import BytesIO
from typing import NamedTuple, get_args

from upturn.environments.office.files.directory import Directory, net_id, own_id
from upturn.environments.office.files.package import MAX_BYTES, parsing
from upturn.environments.office.state import LABELS, Mail, MailFlag, format_moment, parse_moment
from upturn.errors import FileFormatError

_POLICY = policy.compat32.clone(linesep="\r\n", max_line_length=None)
"""The one that writes encoded headers and bodies exactly as they were given."""
_FLAGS: tuple[MailFlag, ...] = get_args(MailFlag)
_PLAIN_BODY = re.compile(r"[\x20-\x7e\t\n]*")
_PLAIN_SUBJECT = re.compile(r"[!-<>-~]+(?: [!-<>-~]+)*")
"""Others are encoded: what stands between words would not come back, nor what looks like encoding."""
_LINE, _BODY_LINE = 70, 900
_IDS = re.compile(r"<[^<>\s]+>")
_CUT_OFF = (CloseBoundaryNotFoundDefect, InvalidBase64PaddingDefect, InvalidBase64LengthDefect)
_TYPES = {
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "png": "image/png",
    "jpg": "image/jpeg",
    "txt": "text/plain",
    "md": "text/markdown",
}


class Attachment(NamedTuple):
    """A file in a mail."""

    name: str
    content: bytes


class Letter(NamedTuple):
    """A mail that was read, before its thread is resolved."""

    mail: Mail
    """Without id, folder and thread where it comes from elsewhere."""
    key: str
    """Its message id; empty = none."""
    root: str
    """The key of the mail that began the conversation, or the oldest that is named; empty = this one did."""
    folder: str
    """Its folder if an office exported it; empty = a foreign mail."""
    attachments: tuple[Attachment, ...]
    names: dict[str, str]
    """Of everybody in it who has one, by id."""


def message_bytes(
    mail: Mail, directory: Directory, *, before: Sequence[str] = (), attachments: Sequence[Attachment] = ()
) -> bytes:
    """The mail as an .eml file, equal for equal mails; raises FileFormatError for what none can hold.

    ``before``: ids of the mails of the conversation that it follows, oldest first.
    """
    message: Message = _body(mail.body)
    if attachments:
        text, message = message, MIMEMultipart("mixed", boundary=f"=_{mail.id}_upturn")
        for part in (text, *map(_attached, attachments)):
            message.attach(part)
    writer, author = mail.sender, mail.on_behalf_of or mail.sender
    _address(message, "From", (author,), directory)
    if writer != author:
        _address(message, "Sender", (writer,), directory)
    _address(message, "To", mail.to, directory)
    _address(message, "Cc", mail.cc, directory)
    subject = " ".join(mail.subject.splitlines())
    is_plain = len(subject) <= _LINE and _PLAIN_SUBJECT.fullmatch(subject)
    message["Subject"] = subject if is_plain else Header(subject, "utf-8").encode(maxlinelen=_LINE, linesep="\r\n")
    message["Date"] = format_datetime(parse_moment(mail.at).replace(tzinfo=directory.zone))
    message["Message-ID"] = f"<{net_id(mail.id)}>"
    if mail.thread:
        chain = list(dict.fromkeys((mail.thread, *before)))
        message["In-Reply-To"] = f"<{net_id(chain[-1])}>"
        message["References"] = "\r\n ".join(f"<{net_id(id_)}>" for id_ in chain)
    _put_own(message, mail)
    target = BytesIO()
    BytesGenerator(target, mangle_from_=False, policy=_POLICY).flatten(message)
    return target.getvalue()


def _body(text: str) -> Message:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    is_plain = _PLAIN_BODY.fullmatch(text) and max(map(len, text.split("\n"))) <= _BODY_LINE
    return MIMEText(text, "plain", "us-ascii" if is_plain else "utf-8")


def _attached(attachment: Attachment) -> Message:
    kind = _TYPES.get(attachment.name.rpartition(".")[2].lower(), "application/octet-stream")
    part = MIMEBase(*kind.split("/"))
    part.set_payload(attachment.content)
    encoders.encode_base64(part)
    name = attachment.name
    is_plain = _PLAIN_SUBJECT.fullmatch(name)
    part.add_header("Content-Disposition", "attachment", filename=name if is_plain else ("utf-8", "", name))
    return part


def _address(message: Message, header: str, people: Sequence[str], directory: Directory) -> None:
    if people:
        message[header] = ",\r\n ".join(_mailbox(directory.address(person)) for person in people)


def _mailbox(address: Address) -> str:
    name = address.display_name
    return str(address) if name.isascii() else f"{Header(name, 'utf-8').encode()} <{address.addr_spec}>"


def _put_own(message: Message, mail: Mail) -> None:
    is_plain = _PLAIN_SUBJECT.fullmatch(mail.folder)
    message["X-Upturn-Folder"] = mail.folder if is_plain else Header(mail.folder, "utf-8").encode()
    message["X-Upturn-Read"] = "yes" if mail.is_read else "no"
    if mail.flag != "none":
        message["X-Upturn-Flag"] = mail.flag
    if mail.label != "general":
        message["X-Upturn-Label"] = mail.label
    if mail.attachments:
        message["X-Upturn-Attachments"] = " ".join(map(net_id, mail.attachments))
    if mail.folder == "drafts":
        message["X-Unsent"] = "1"  # so that mail programs open it for writing


def read_message(data: bytes, directory: Directory) -> Letter:
    """The mail in an .eml file; raises FileFormatError for what is none, encrypted, cut off or too large."""
    if len(data) > MAX_BYTES:
        raise FileFormatError(f"it has {len(data)} bytes; at most {MAX_BYTES} are read")
    if b"\x00" in data[:4_000]:
        raise FileFormatError("it is no mail: it is not text")
    with parsing("mail"):
        message = BytesParser(_class=EmailMessage, policy=policy.default).parsebytes(data)
        _check(message)
        names: dict[str, str] = {}
        people = {header: _people(message, header, directory, names) for header in ("from", "sender", "to", "cc")}
        author = people["from"][0]
        writer = (people["sender"] or people["from"])[0]
        key = str(message["message-id"] or "").strip()
        references = _IDS.findall(str(message["references"] or "")) or _IDS.findall(
            str(message["in-reply-to"] or "")
        )
        root = references[0] if references else ""
        mail = Mail(
            id=own_id(key),
            folder="",
            sender=writer,
            to=people["to"],
            subject=str(message["subject"] or ""),
            body=_text(message),
            at=_moment(message, directory),
            thread=own_id(root),
            cc=people["cc"],
            is_read=_own(message, "Read", "no") == "yes",
            flag=next((flag for flag in _FLAGS if flag == _own(message, "Flag", "none")), "none"),
            attachments=tuple(filter(None, map(own_id, _own(message, "Attachments", "").split()))),
            label=next((label for label in LABELS if label == _own(message, "Label", "general")), "general"),
            on_behalf_of=author if writer != author else "",
        )
        return Letter(mail, key, root, _own(message, "Folder", ""), tuple(_attachments(message)), names)


def _check(message: EmailMessage) -> None:
    if message.get_content_type() in ("multipart/encrypted", "application/pkcs7-mime"):
        raise FileFormatError("it is encrypted; save it decrypted")
    if not message["from"] or not message["from"].addresses or not message["date"]:
        raise FileFormatError("it is no mail: it has no From, or no Date")
    for part in message.walk():
        if not part.is_multipart():
            part.get_payload(decode=True)  # which finds what is wrong with it
        for defect in part.defects:
            if isinstance(defect, _CUT_OFF):
                raise FileFormatError(f"it is damaged or cut off ({type(defect).__name__})")


def _people(message: EmailMessage, header: str, directory: Directory, names: dict[str, str]) -> tuple[str, ...]:
    people = []
    for value in message.get_all(header, ()):
        for address in getattr(value, "addresses", ()):
            if address.username and address.domain:
                who = directory.who(f"{address.username}@{address.domain}")
                people.append(who)
                if address.display_name:
                    names[who] = address.display_name
    return tuple(people)


def _moment(message: EmailMessage, directory: Directory) -> str:
    sent: datetime | None = message["date"].datetime
    if sent is None:
        raise FileFormatError(f"its date cannot be read: {str(message['date'])[:60]!r}")
    aware = sent if sent.tzinfo is not None else sent.replace(tzinfo=directory.zone)
    return format_moment(aware.astimezone(directory.zone).replace(tzinfo=None, second=0, microsecond=0))


def _own(message: EmailMessage, name: str, default: str) -> str:
    value = message[f"X-Upturn-{name}"]
    return default if value is None else str(value)


def _text(message: EmailMessage) -> str:
    part = message.get_body(("plain", "html"))
    if part is None:
        return ""
    text = str(part.get_content()).replace("\r\n", "\n")
    return _without_tags(text) if part.get_content_type() == "text/html" else text


def _attachments(message: EmailMessage) -> list[Attachment]:
    attachments = []
    for part in message.iter_attachments():
        content = (
            part.get_content() if part.get_content_type() == "message/rfc822" else part.get_payload(decode=True)
        )
        if isinstance(content, bytes):
            attachments.append(Attachment(part.get_filename() or "attachment", content))
    return attachments


class _Words(HTMLParser):
    """Extracts the text of an HTML page; single use."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002  # the library's signature
        """Blocks begin on lines of their own."""
        self._hidden += tag in ("script", "style", "head")
        if tag in ("p", "br", "div", "tr", "li", "h1", "h2", "h3"):
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        """What is hidden ends."""
        self._hidden = max(0, self._hidden - (tag in ("script", "style", "head")))

    def handle_data(self, data: str) -> None:
        """Text with collapsed whitespace."""
        if not self._hidden:
            self.parts.append(re.sub(r"\s+", " ", data))


def _without_tags(html: str) -> str:
    words = _Words()
    words.feed(html)
    words.close()
    lines = [line.strip() for line in "".join(words.parts).split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
