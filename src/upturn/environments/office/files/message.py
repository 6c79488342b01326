"""Mails as .eml files: addresses with names, moments with their zone, threads by ids, attachments with their bytes.

Fields without a standard header have one of their own (``X-Upturn-Read`` and so on). Line ends become ``\\n``, and
spaces in subjects. Foreign mails: the text part, or the text of the HTML part; seconds are dropped; a date that
cannot be read is missing. Refused: encrypted and truncated mails, files without a sender, and mails with more than
1,000 addresses or very long headers.
"""

import re
from collections.abc import Iterator, Sequence
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
from io import BytesIO
from typing import Any, NamedTuple, get_args

from upturn.environments.office.files.directory import Directory, id_in, message_id
from upturn.environments.office.files.html_text import html_text
from upturn.environments.office.files.package import MAX_BYTES, parse_errors
from upturn.environments.office.state import LABELS, Mail, MailFlag, format_moment, parse_moment
from upturn.errors import FileFormatError

_POLICY = policy.compat32.clone(linesep="\r\n", max_line_length=None)
"""Writes encoded headers and bodies unchanged."""
_FLAGS: tuple[MailFlag, ...] = get_args(MailFlag)
_PLAIN_BODY = re.compile(r"[\x20-\x7e\t\n]*")
_PLAIN_SUBJECT = re.compile(r"[!-<>-~]+(?: [!-<>-~]+)*")
"""Other subjects are encoded, since their spacing, or text that looks encoded, would change."""
_LINE, _BODY_LINE = 70, 900
_CLOSING = {'"': '"', "(": ")", "<": ">"}
_IDS = re.compile(r"<[^<>\s]+>")
_LINE_ENDS = re.compile(r"[\r\n]+")
_MAX_PEOPLE = 1_000
"""Addresses in the headers of a mail, as in Exchange Online."""
_LONGEST_ADDRESS = 2_000
"""Characters of one address with its name."""
_LONGEST_HEADER = 32_768
"""Characters of other headers. The library's parser takes quadratic time: 0.1 s for this, 34 s for 600,000."""
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


class _BoundedPolicy(policy.EmailPolicy):
    """The library's policy, which refuses to parse very long headers."""

    def header_fetch_parse(self, name: str, value: str) -> Any:  # Any: as the library has it
        """The parsed header; raises FileFormatError if it is too long."""
        if len(value) > _LONGEST_HEADER:
            raise FileFormatError(
                f"its header {name[:60]} has {len(value)} characters; at most {_LONGEST_HEADER} are read"
            )
        return super().header_fetch_parse(name, value)


_READ_POLICY = _BoundedPolicy()


class Attachment(NamedTuple):
    """A file in a mail."""

    name: str
    content: bytes


class Letter(NamedTuple):
    """A mail that was read; its thread is not resolved yet."""

    mail: Mail
    """Without id, folder and thread if the file is foreign; ``at`` is empty if it has no date that can be read."""
    key: str
    """Its message id; empty = none."""
    root: str
    """The key of the first mail of the conversation, or the oldest one named; empty = this mail."""
    folder: str
    """Its folder in an export; empty = a foreign mail."""
    attachments: tuple[Attachment, ...]
    names: dict[str, str]
    """Names of its people by id."""


def message_bytes(
    mail: Mail, directory: Directory, *, before: Sequence[str] = (), attachments: Sequence[Attachment] = ()
) -> bytes:
    """The mail as an .eml file, equal for equal mails; raises FileFormatError for content that it cannot hold.

    ``before``: ids of the earlier mails of the conversation, oldest first.
    """
    message: Message = _body(mail.body)
    if attachments:
        text, message = message, MIMEMultipart("mixed", boundary=f"=_{mail.id}_upturn")
        for part in (text, *map(_attachment_part, attachments)):
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
    message["Message-ID"] = f"<{message_id(mail.id)}>"
    if mail.thread:
        chain = list(dict.fromkeys((mail.thread, *before)))
        message["In-Reply-To"] = f"<{message_id(chain[-1])}>"
        message["References"] = "\r\n ".join(f"<{message_id(id_)}>" for id_ in chain)
    _put_own_headers(message, mail)
    target = BytesIO()
    BytesGenerator(target, mangle_from_=False, policy=_POLICY).flatten(message)
    return target.getvalue()


def _body(text: str) -> Message:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    is_plain = _PLAIN_BODY.fullmatch(text) and max(map(len, text.split("\n"))) <= _BODY_LINE
    return MIMEText(text, "plain", "us-ascii" if is_plain else "utf-8")


def _attachment_part(attachment: Attachment) -> Message:
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


def _put_own_headers(message: Message, mail: Mail) -> None:
    is_plain = _PLAIN_SUBJECT.fullmatch(mail.folder)
    message["X-Upturn-Folder"] = mail.folder if is_plain else Header(mail.folder, "utf-8").encode()
    message["X-Upturn-Read"] = "yes" if mail.is_read else "no"
    if mail.flag != "none":
        message["X-Upturn-Flag"] = mail.flag
    if mail.label != "general":
        message["X-Upturn-Label"] = mail.label
    if mail.attachments:
        message["X-Upturn-Attachments"] = " ".join(map(message_id, mail.attachments))
    if mail.folder == "drafts":
        message["X-Unsent"] = "1"  # so that mail programs open it for writing


def read_message(data: bytes, directory: Directory) -> Letter:
    """The mail in an .eml file; raises FileFormatError for other, encrypted, truncated and too large files."""
    if len(data) > MAX_BYTES:
        raise FileFormatError(f"it has {len(data)} bytes; at most {MAX_BYTES} are read")
    if b"\x00" in data[:4_000]:
        raise FileFormatError("it is no mail: it is not text")
    with parse_errors("mail"):
        message = BytesParser(_class=EmailMessage, policy=_READ_POLICY).parsebytes(data)
        assert isinstance(message, EmailMessage)  # the types of the library give the policy's class
        _check(message)
        names: dict[str, str] = {}
        people = _people(message, directory, names)
        if not people["from"]:
            raise FileFormatError("it is no mail: it has no From with an address")
        author = people["from"][0]
        writer = (people["sender"] or people["from"])[0]
        key = str(message["message-id"] or "").strip()
        references = _IDS.findall(str(message["references"] or "")) or _IDS.findall(
            str(message["in-reply-to"] or "")
        )
        root = references[0] if references else ""
        mail = Mail(
            id=id_in(key),
            folder="",
            sender=writer,
            to=people["to"],
            subject=str(message["subject"] or ""),
            body=_text(message),
            at=_moment(message, directory),
            thread=id_in(root),
            cc=people["cc"],
            is_read=_own_header(message, "Read", "no") == "yes",
            flag=next((flag for flag in _FLAGS if flag == _own_header(message, "Flag", "none")), "none"),
            attachments=tuple(filter(None, map(id_in, _own_header(message, "Attachments", "").split()))),
            label=next((label for label in LABELS if label == _own_header(message, "Label", "general")), "general"),
            on_behalf_of=author if writer != author else "",
        )
        return Letter(mail, key, root, _own_header(message, "Folder", ""), tuple(_attachments(message)), names)


def _check(message: EmailMessage) -> None:
    if message.get_content_type() in ("multipart/encrypted", "application/pkcs7-mime"):
        raise FileFormatError("it is encrypted; save it decrypted")
    for part in message.walk():
        if not part.is_multipart():
            part.get_payload(decode=True)  # records defects
        for defect in part.defects:
            if isinstance(defect, _CUT_OFF):
                raise FileFormatError(f"it is damaged or cut off ({type(defect).__name__})")


def _people(message: EmailMessage, directory: Directory, names: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """Ids of the people in each address header, by its name in lower case; adds their names to ``names``.

    Linear in the length of the headers.
    """
    people: dict[str, list[str]] = {"from": [], "sender": [], "to": [], "cc": []}
    count = 0
    for header, value in message.raw_items():
        listed = people.get(header.lower())
        if listed is None:
            continue
        for mailbox in _split_addresses(_LINE_ENDS.sub("", str(value))):
            count += 1
            if count > _MAX_PEOPLE:
                raise FileFormatError(f"it has more than {_MAX_PEOPLE} addresses; at most {_MAX_PEOPLE} are read")
            for address in _READ_POLICY.header_factory("To", mailbox).addresses:
                if address.username and address.domain:
                    person = directory.id_of(f"{address.username}@{address.domain}")
                    listed.append(person)
                    if address.display_name:
                        names[person] = address.display_name
    return {header: tuple(listed) for header, listed in people.items()}


def _split_addresses(value: str) -> Iterator[str]:
    """The parts of an address header (RFC 5322, 3.4) between commas; names of groups are left out."""
    start, closing = 0, ""  # closing: the ends of the open quote, comments or angle brackets, innermost last
    is_escaped = False
    for at, sign in enumerate(f"{value},"):
        if at - start > _LONGEST_ADDRESS:
            raise FileFormatError(f"it has an address of more than {_LONGEST_ADDRESS} characters")
        is_end = at == len(value)
        if is_escaped and not is_end:
            is_escaped = False
        elif sign == "\\" and closing[-1:] in ('"', ")"):
            is_escaped = True
        elif sign == closing[-1:]:
            closing = closing[:-1]
        elif sign in _CLOSING and closing[-1:] != '"' and (sign == "(" or closing[-1:] != ")"):
            closing += _CLOSING[sign]
        elif is_end or (sign in ",;:" and not closing):
            if sign != ":" and (mailbox := value[start:at].strip()):
                yield mailbox
            start = at + 1


def _moment(message: EmailMessage, directory: Directory) -> str:
    """When it was sent, in the office's zone; empty = it has no date, or one that cannot be read."""
    sent: datetime | None = message["date"].datetime if message["date"] is not None else None
    if sent is None:
        return ""
    aware = sent if sent.tzinfo is not None else sent.replace(tzinfo=directory.zone)
    return format_moment(aware.astimezone(directory.zone).replace(tzinfo=None, second=0, microsecond=0))


def _own_header(message: EmailMessage, name: str, default: str) -> str:
    value = message[f"X-Upturn-{name}"]
    return default if value is None else str(value)


def _text(message: EmailMessage) -> str:
    part = message.get_body(("plain", "html"))
    if part is None:
        return ""
    text = str(part.get_content()).replace("\r\n", "\n")
    return html_text(text) if part.get_content_type() == "text/html" else text


def _attachments(message: EmailMessage) -> list[Attachment]:
    attachments = []
    for part in message.iter_attachments():
        content = (
            part.get_content() if part.get_content_type() == "message/rfc822" else part.get_payload(decode=True)
        )
        if isinstance(content, bytes):
            attachments.append(Attachment(part.get_filename() or "attachment", content))
    return attachments
