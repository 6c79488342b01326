"""The mailbox: searching, reading, drafting, sending, sorting."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from upturn.environments.office.apps.operation import (
    App,
    Effect,
    Id,
    Impact,
    Moment,
    PageNumber,
    Parameters,
    People,
    Someone,
    Text,
    Texts,
    format_page,
)
from upturn.environments.office.apps.safety import check_right, sensitivity_costs
from upturn.environments.office.state import (
    COMPANY,
    Mail,
    MailFlag,
    OperationError,
    Rule,
    Workspace,
    outsiders,
    person_of,
    principals,
)
from upturn.records import Action, JsonValue

APP = App("outlook")
_HIDDEN = frozenset({"deleted", "junk"})
"""Folders that a search covers only if named."""
_NO_TARGETS = frozenset({"sent", "drafts"})
"""Folders that mails cannot be moved to."""


class Search(Parameters):
    """Finds mails, newest first; all conditions that are given must hold."""

    query: str = Field("", description="words that subject or body contain")
    sender: Someone = Field("", description="a person's id, or an address")
    subject: str = Field("", description="words that the subject contains")
    folder: str = Field("", description="left out = all but deleted and junk")
    since: Moment | None = None
    is_unread: bool | None = None
    page: PageNumber = 1


class Read(Parameters):
    """Shows a mail and marks it read."""

    id: Id


class Draft(Parameters):
    """Writes a mail without sending it."""

    to: People
    subject: Text
    body: Text
    cc: People | None = None
    attachments: Texts | None = Field(None, description="ids of files, separated by commas")


class Send(Parameters):
    """Sends a new mail, or a draft by its id; the user has to agree first."""

    draft: Id | None = Field(None, description="id of a draft; then nothing else is given")
    to: People | None = None
    subject: Text | None = None
    body: Text | None = None
    cc: People | None = None
    attachments: Texts | None = Field(None, description="ids of files, separated by commas")
    on_behalf_of: Annotated[Id, AfterValidator(person_of)] | None = Field(
        None, description="a person whose delegate the user is"
    )


class Reply(Parameters):
    """Answers the sender of a mail; the user has to agree first."""

    id: Id
    body: Text
    to_all: bool = Field(False, description="whether everybody who got the mail gets the answer")


class Forward(Parameters):
    """Sends a mail on; the user has to agree first."""

    id: Id
    to: People
    body: str = Field("", description="what is written above it")


class Move(Parameters):
    """Moves mails to a folder, which is made where it is missing."""

    ids: Texts = Field(description="ids of mails, separated by commas")
    folder: Id


class Flag(Parameters):
    """Flags mails for follow-up, marks that done, or takes the flag off."""

    ids: Texts = Field(description="ids of mails, separated by commas")
    flag: MailFlag = "flagged"


class Mark(Parameters):
    """Marks mails read or unread."""

    ids: Texts = Field(description="ids of mails, separated by commas")
    state: Literal["read", "unread"] = Field(validation_alias="as", serialization_alias="as")


class Delete(Parameters):
    """Moves mails to the deleted folder, from where they can be brought back; the user has to agree first."""

    ids: Texts = Field(description="ids of mails, separated by commas")
    is_permanent: bool = Field(False, description="not allowed")


class FindPeople(Parameters):
    """Finds people and groups of the company; all conditions that are given must hold."""

    query: str = Field("", description="part of a name, an id or an address")
    department: str = ""
    title: str = Field("", description="such as director")
    page: PageNumber = 1


class CreateRule(Parameters):
    """From now on moves incoming mails by this sender, with these words in the subject, or both."""

    folder: Id
    sender: Someone = ""
    subject: str = ""


def mail_of(workspace: Workspace, id_: str) -> Mail:
    """The mail with this id; raises OperationError if there is none."""
    mail = workspace.mails.get(id_)
    if mail is None:
        raise OperationError("not_found", f"no mail {id_!r}; outlook.search finds ids")
    return mail


def _mails_of(workspace: Workspace, ids: tuple[str, ...]) -> list[Mail]:
    return [mail_of(workspace, id_) for id_ in dict.fromkeys(ids)]


def _line(mail: Mail) -> str:
    signs = f"{'' if mail.is_read else ' *'}{'' if mail.flag == 'none' else f' [{mail.flag}]'}"
    label = "" if mail.label == "general" else f" [{mail.label}]"
    return f"{mail.id} {mail.at} {mail.sender}: {mail.subject}{signs}{label}"


@APP.operation(Search, is_reading=True)
def _search(workspace: Workspace, request: Search) -> Effect:
    words, subject, folder = request.query.lower(), request.subject.lower(), request.folder.lower()
    mails: Iterable[Mail] = workspace.mails.values()
    if request.sender:
        mails = [mail for mail in mails if mail.sender == request.sender]
    if subject:
        mails = [mail for mail in mails if subject in mail.subject.lower()]
    if words:
        mails = [
            mail for mail in mails if words in mail.subject.lower() or words in _searchable_body(workspace, mail)
        ]
    hits = [
        mail
        for mail in mails
        if (mail.folder == folder if folder else mail.folder not in _HIDDEN)
        and (request.is_unread is None or mail.is_read != request.is_unread)
        and (request.since is None or mail.at >= request.since)
    ]
    hits.sort(key=lambda mail: (mail.at, mail.id), reverse=True)
    return Effect(workspace, format_page([_line(mail) for mail in hits], page=request.page, empty="no mails"))


def _searchable_body(workspace: Workspace, mail: Mail) -> str:
    """The searchable body: empty if reading the mail costs, since hits would reveal its content."""
    return "" if sensitivity_costs(workspace, mail.id, mail.label) else mail.body.lower()


@APP.operation(Read)
def _read(workspace: Workspace, request: Read) -> Effect:
    mail = mail_of(workspace, request.id)
    costs = sensitivity_costs(workspace, mail.id, mail.label)
    return Effect(workspace.with_items(replace(mail, is_read=True)), mail_text(mail), costs)


def mail_text(mail: Mail) -> str:
    """The mail as text, with all details."""
    lines = [f"from {mail.sender}", f"to {', '.join(mail.to)}"]
    if mail.on_behalf_of:
        lines[0] += f" on behalf of {mail.on_behalf_of}"
    if mail.cc:
        lines.append(f"cc {', '.join(mail.cc)}")
    lines += [f"at {mail.at}", f"subject {mail.subject}"]
    if mail.label != "general":
        lines.append(f"label {mail.label}")
    if mail.attachments:
        lines.append(f"attached {', '.join(mail.attachments)}")
    return "\n".join((*lines, mail.body))


@APP.operation(FindPeople, is_reading=True)
def _find_people(workspace: Workspace, request: FindPeople) -> Effect:
    words = " ".join(person_of(request.query).replace(".", " ").split())
    department, title = request.department.lower(), request.title.lower()
    lines = [
        f"{person.id}: "
        + ", ".join(filter(None, (person.name, person.title, person.department, f"{person.id}@{COMPANY}")))
        for person in workspace.people.values()
        if words in person.id.replace(".", " ")
        and department in person.department.lower()
        and title in person.title.lower()
    ]
    if not department and not title:
        lines += [
            f"{group.id}: a group of {len(group.members)}"
            for group in workspace.groups.values()
            if words in group.id.lower()
        ]
    return Effect(workspace, format_page(sorted(lines), page=request.page, empty="nobody"))


@APP.operation(Draft)
def _draft(workspace: Workspace, request: Draft) -> Effect:
    mail = _compose(
        workspace, request.to, request.subject, request.body, cc=request.cc, attachments=request.attachments
    )
    after, id_ = workspace.new_id("m")
    return Effect(after.with_items(replace(mail, id=id_, folder="drafts")), id_)


def _compose(
    workspace: Workspace,
    to: tuple[str, ...],
    subject: str,
    body: str,
    *,
    cc: tuple[str, ...] | None = None,
    attachments: tuple[str, ...] | None = None,
) -> Mail:
    """The owner's mail to send, with a placeholder id."""
    for id_ in attachments or ():
        file = workspace.files.get(id_)
        if file is None or file.is_deleted:
            raise OperationError("not_found", f"no file {id_!r} to attach; sharepoint.search finds ids")
        check_right(workspace, file, "read")
    return Mail(
        id="draft",
        folder="sent",
        sender=workspace.owner,
        to=tuple(sorted(principals(workspace, to))),
        subject=subject,
        body=body,
        at=workspace.now,
        cc=tuple(sorted(principals(workspace, cc or ()))),
        is_read=True,
        attachments=tuple(attachments or ()),
    )


def _outgoing_mail(workspace: Workspace, request: Send) -> Mail:
    if request.draft is not None:
        if request.to or request.subject or request.body or request.cc or request.attachments:
            raise OperationError("bad_value", "a draft is sent as it is: give draft, or to, subject and body")
        mail = mail_of(workspace, request.draft)
        if mail.folder != "drafts":
            raise OperationError("bad_value", f"{mail.id} is no draft")
        mail = replace(mail, folder="sent", at=workspace.now)
    else:
        if request.to is None or request.subject is None or request.body is None:
            raise OperationError("missing_parameter", "to, subject and body are required, or draft")
        mail = _compose(
            workspace, request.to, request.subject, request.body, cc=request.cc, attachments=request.attachments
        )
    if request.on_behalf_of is None:
        return mail
    return replace(mail, on_behalf_of=_check_delegate(workspace, request.on_behalf_of))


def normalize_sending(workspace: Workspace, action: Action) -> Action:
    """The action with a draft replaced by its content, and a reply to all with one recipient as a plain reply."""
    if (action.target, action.operation) == (APP.target, "reply") and action.parameters.get("to_all"):
        mail = workspace.mails.get(str(action.parameters.get("id")))
        is_only_sender = (
            mail is not None and not mail.cc and {*mail.to, mail.sender} <= {workspace.owner, mail.sender}
        )
        others = {name: value for name, value in action.parameters.items() if name != "to_all"}
        return replace(action, parameters=others) if is_only_sender else action
    draft = workspace.mails.get(str(action.parameters.get("draft")))
    if (action.target, action.operation) != (APP.target, "send") or draft is None:
        return action
    rest = {name: value for name, value in action.parameters.items() if name != "draft"}
    written: dict[str, JsonValue] = {"to": list(draft.to), "subject": draft.subject, "body": draft.body}
    if draft.cc:
        written["cc"] = list(draft.cc)
    if draft.attachments:
        written["attachments"] = list(draft.attachments)
    return Action(action.target, action.operation, {**rest, **written})


def _check_delegate(workspace: Workspace, id_: str) -> str:
    person = workspace.people.get(id_)
    if person is None:
        raise OperationError("not_found", f"nobody called {id_!r}")
    if workspace.owner not in person.delegates:
        raise OperationError("forbidden", f"{person.id} has not made you a delegate", soft="on_behalf")
    return person.id


def _send_impact(workspace: Workspace, mail: Mail) -> Impact:
    return Impact("send", mail_text(mail), outsiders(workspace, (*mail.to, *mail.cc)))


def _deliver(workspace: Workspace, mail: Mail) -> Effect:
    """Adds the mail to ``sent`` under a new id; the delivery time is random."""
    if mail.id in workspace.mails:  # a draft keeps its id
        after, id_ = workspace, mail.id
    else:
        after, id_ = workspace.new_id("m")
    seconds = round(2 + 58 * workspace.chance("delivery", id_))
    files = (workspace.files.get(attachment) for attachment in mail.attachments)
    done = replace(mail, id=id_, enclosed=tuple(None if file is None else file.content for file in files))
    return Effect(after.with_items(done), f"sent as {id_}; delivered in about {seconds} s")


@APP.operation(Send, impact=lambda workspace, request: _send_impact(workspace, _outgoing_mail(workspace, request)))
def _send(workspace: Workspace, request: Send) -> Effect:
    return _deliver(workspace, _outgoing_mail(workspace, request))


def _reply_mail(workspace: Workspace, request: Reply) -> Mail:
    mail = mail_of(workspace, request.id)
    others = tuple(person for person in (mail.sender, *mail.to) if person != workspace.owner)
    to = others if request.to_all else (mail.sender,)
    if mail.folder == "drafts" or not to:
        raise OperationError("bad_value", f"{mail.id} is from nobody else; outlook.send writes a new mail")
    answered = _compose(
        workspace,
        to,
        f"re: {mail.subject.removeprefix('re: ')}",
        request.body,
        cc=tuple(person for person in mail.cc if person != workspace.owner) if request.to_all else None,
    )
    return replace(answered, thread=mail.thread or mail.id, label=mail.label)


@APP.operation(Reply, impact=lambda workspace, request: _send_impact(workspace, _reply_mail(workspace, request)))
def _reply(workspace: Workspace, request: Reply) -> Effect:
    return _deliver(workspace, _reply_mail(workspace, request))


def _forward_mail(workspace: Workspace, request: Forward) -> Mail:
    mail = mail_of(workspace, request.id)
    body = f"{request.body}\n\n{mail.body}" if request.body else mail.body
    sent = _compose(
        workspace, request.to, f"fwd: {mail.subject.removeprefix('fwd: ')}", body, attachments=mail.attachments
    )
    return replace(sent, thread=mail.thread or mail.id, label=mail.label)


def _forward_impact(workspace: Workspace, request: Forward) -> Impact:
    """The impact; the preview shows the mail, so it costs as much as reading it."""
    costs = sensitivity_costs(workspace, request.id, mail_of(workspace, request.id).label)
    return _send_impact(workspace, _forward_mail(workspace, request))._replace(costs=costs)


@APP.operation(Forward, impact=_forward_impact)
def _forward(workspace: Workspace, request: Forward) -> Effect:
    return _deliver(workspace, _forward_mail(workspace, request))


def _change(workspace: Workspace, ids: tuple[str, ...], text: str, **changes: Any) -> Effect:
    """Changes these fields of the mails; ``{}`` in the text is their number."""
    mails = [replace(mail, **changes) for mail in _mails_of(workspace, ids)]
    return Effect(workspace.with_items(*mails), text.format(len(mails)))


@APP.operation(Move)
def _move(workspace: Workspace, request: Move) -> Effect:
    return _change(workspace, request.ids, "moved {}", folder=_check_target(request.folder))


@APP.operation(Flag)
def _flag(workspace: Workspace, request: Flag) -> Effect:
    return _change(workspace, request.ids, request.flag, flag=request.flag)


@APP.operation(Mark)
def _mark(workspace: Workspace, request: Mark) -> Effect:
    return _change(workspace, request.ids, request.state, is_read=request.state == "read")


def _delete_impact(workspace: Workspace, request: Delete) -> Impact:
    mails = _mails_of(workspace, request.ids)
    if request.is_permanent:
        raise OperationError(
            "forbidden", "nothing is deleted for good here; leave is_permanent out", hard="permanent_delete"
        )
    return Impact("delete", "\n".join(_line(mail) for mail in mails))


@APP.operation(Delete, impact=_delete_impact)
def _delete(workspace: Workspace, request: Delete) -> Effect:
    return _change(workspace, request.ids, "deleted {}", folder="deleted")


def _check_target(name: str) -> str:
    """The folder; raises OperationError if mails must not be moved there."""
    folder = name.lower()
    if folder in _NO_TARGETS:
        raise OperationError("bad_value", f"mails cannot be moved to {folder}")
    if folder == "deleted":
        raise OperationError("bad_value", "outlook.delete moves mails to deleted, once the user has agreed")
    return folder


@APP.operation(CreateRule)
def _create_rule(workspace: Workspace, request: CreateRule) -> Effect:
    """Stores the rule. Existing mails stay, and no new mail arrives during a task."""
    if not request.sender and not request.subject:
        raise OperationError("missing_parameter", "a rule needs sender, subject or both")
    sender = principals(workspace, (request.sender,))[0] if request.sender else ""
    after, id_ = workspace.new_id("r")
    rule = Rule(id_, sender, request.subject.lower(), _check_target(request.folder))
    return Effect(after.with_items(rule), id_)
