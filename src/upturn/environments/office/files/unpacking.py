"""Converts files in memory to a workspace: all of them, or none and a list of problems."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from string import ascii_lowercase
from typing import NamedTuple, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from upturn.environments.office.files.calendar_file import read_events
from upturn.environments.office.files.content import read_content
from upturn.environments.office.files.directory import Directory, id_in
from upturn.environments.office.files.manifest import FORM, MANIFEST, Manifest, read_manifest
from upturn.environments.office.files.message import Letter, read_message
from upturn.environments.office.files.paths import BIN, CALENDAR, FILES, MAIL, safe_name
from upturn.environments.office.state import (
    COMPANY,
    Channel,
    Chat,
    Event,
    File,
    Group,
    Mail,
    OperationError,
    Page,
    Person,
    Rule,
    Table,
    Workspace,
    format_moment,
    is_outside,
    parse_moment,
)
from upturn.errors import FileFormatError

_SHOWN = 20
"""Problems listed in the error; the others are counted."""
_NAMED = 3
"""Mails without a date that are named; the others are counted."""
_DIGITS = re.compile(r"([0-9]{1,18})")
_NUMBERED = re.compile(r"[a-z]+[0-9]{1,9}")
ItemT = TypeVar("ItemT", Mail, Event, File)
NamedT = TypeVar("NamedT", Person, Group, Mail, Rule, Event, File, Page, Chat, Channel)


class Imported(NamedTuple):
    """The result of an import."""

    workspace: Workspace
    zone: ZoneInfo
    """The time zone of its times."""
    domain: str
    """The domain of the addresses of the company's people, who have ids in the workspace."""
    notes: tuple[str, ...]
    """Differences from the files."""
    left_out: tuple[str, ...]
    """Files that were skipped, with the reasons."""


class Host(NamedTuple):
    """The owner of foreign files, which have no manifest."""

    owner: str
    """An address, such as ann@example.org; people with the same domain belong to the company."""
    zone: str
    """``Europe/Berlin``"""
    now: str
    """The current moment of the office."""


def unpack(parts: Mapping[str, bytes], *, host: Host | None = None, leave_out: bool = False) -> Imported:
    """The workspace of files by path. Files that cannot be read are skipped with ``leave_out``; otherwise they
    raise FileFormatError.

    ``host``: required without a ``workspace.json``, and only then.
    """
    if MANIFEST in parts:
        if host is not None:
            raise FileFormatError(
                f"the owner stands in {MANIFEST}; leave out the one that was given, {host.owner!r}"
            )
        manifest = read_manifest(parts[MANIFEST])
    elif host is None:
        raise FileFormatError(f"there is no {MANIFEST}, so say whose files these are: an address of the owner")
    else:
        manifest = _manifest_of_host(host)
    directory = Directory(domain=manifest.domain, zone=find_zone(manifest.zone))
    unpacking = _Unpacking(manifest, directory)
    for place, data in sorted(parts.items()):
        if place != MANIFEST:
            unpacking.take(place, data)
    if unpacking.problems and not leave_out:
        raise FileFormatError(_problem_text(unpacking.problems))
    workspace = unpacking.workspace()
    notes, problems = tuple(unpacking.notes), tuple(unpacking.problems)
    return Imported(workspace, directory.zone, directory.domain, notes, problems)


def find_zone(name: str) -> ZoneInfo:
    """The time zone; raises FileFormatError for unknown names."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        raise FileFormatError(f"time zones are such as UTC or Europe/Berlin, got {name!r}") from exc


def _manifest_of_host(host: Host) -> Manifest:
    local, at, domain = host.owner.strip().lower().rpartition("@")
    if not (local and at and domain):
        raise FileFormatError(f"the owner is an address such as ann@example.org, got {host.owner!r}")
    try:
        parse_moment(host.now)
    except OperationError as exc:
        raise FileFormatError(str(exc)) from exc
    return Manifest(FORM, local, host.now, host.zone, domain)


def _problem_text(problems: list[str]) -> str:
    more = [f"and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
    noun = "file" if len(problems) == 1 else "files"
    return "\n  - ".join((f"{len(problems)} {noun} cannot be read, so nothing was:", *problems[:_SHOWN], *more))


class _Unpacking:
    """Collects files one by one and builds a workspace; single use."""

    def __init__(self, manifest: Manifest, directory: Directory) -> None:
        self.directory = directory
        self.problems: list[str] = []
        self.notes: list[str] = []
        self._manifest = manifest
        self._entries = {entry.place: entry for entry in manifest.files}
        self._files: list[File] = []
        self._letters: list[Letter] = []
        self._letter_places: list[str] = []
        self._attached: list[list[int]] = []
        """For each letter, the indices of its attachments among the files."""
        self._events: list[Event] = []
        self._names: dict[str, str] = {}
        self._seen: set[str] = set()

    def take(self, place: str, data: bytes) -> None:
        """Reads one file; adds its errors to ``problems``."""
        self._seen.add(place)
        top, _, rest = place.partition("/")
        try:
            if top == MAIL and rest:
                self._take_mail(place, data)
            elif top == CALENDAR and rest:
                self._take_events(place, data)
            elif top in (FILES, BIN) and rest:
                self._take_file(place, data)
            else:
                raise FileFormatError(f"files lie in one of the folders {', '.join((MAIL, CALENDAR, FILES, BIN))}")
        except FileFormatError as exc:
            self.problems.append(f"{place}: {exc}")

    def _take_mail(self, place: str, data: bytes) -> None:
        folder, _, name = place.partition("/")[2].rpartition("/")
        if not folder or not name.lower().endswith(".eml"):
            raise FileFormatError(f"mails are .eml files in folders of {MAIL}, such as {MAIL}/inbox")
        letter = read_message(data, self.directory)
        target = letter.folder if safe_name(letter.folder) == folder else folder.lower()
        self._names |= letter.names
        self._letters.append(letter._replace(mail=replace(letter.mail, folder=target)))
        self._letter_places.append(place)
        self._attached.append([])
        for attachment in letter.attachments if not letter.mail.attachments else ():
            path = f"/attachments/{safe_name(name[:-4])}/{safe_name(attachment.name)}"
            self._attached[-1].append(len(self._files))
            try:
                self._add_file(f"{place}, attachment {attachment.name}", path, attachment.content)
            except FileFormatError as exc:
                self._attached[-1].pop()
                self.problems.append(f"{place}, attachment {attachment.name}: {exc}")

    def _take_events(self, place: str, data: bytes) -> None:
        if not place.lower().endswith(".ics"):
            raise FileFormatError("calendar entries are .ics files")
        for invitation in read_events(data, self.directory, owner=self._manifest.owner):
            self._names |= invitation.names
            self._events.append(invitation.event)

    def _take_file(self, place: str, data: bytes) -> None:
        top, _, rest = place.partition("/")
        is_deleted = top == BIN
        self._add_file(place, f"/{rest.rpartition('/')[2] if is_deleted else rest}", data, is_deleted=is_deleted)

    def _add_file(self, place: str, path: str, data: bytes, *, is_deleted: bool = False) -> None:
        read = read_content(path, data)
        self.notes += [f"{place}: {note}" for note in read.notes]
        owner, now = self._manifest.owner, self._manifest.begun
        file = File("", path, read.content, owner, by=owner, at=now, is_deleted=is_deleted)
        entry = self._entries.get(place)
        self._files.append(file if entry is None else entry.file(file))

    def workspace(self) -> Workspace:
        """The workspace of all files read."""
        manifest = self._manifest
        self._date_letters()
        if manifest.domain != COMPANY:
            self.notes.append(
                f"people of @{manifest.domain} have ids here, such as {manifest.owner}; calls name them by id, and "
                f"an export writes their addresses with @{manifest.domain} again"
            )
        files, events = _with_ids(self._files, "f"), _with_ids(self._events, "e")
        mails = self._mails(files)
        missing = len(self._entries.keys() - self._seen)
        if missing:
            self.notes.append(f"{missing} of the files that {MANIFEST} names are not there any more")
        workspace = Workspace(
            manifest.owner,
            manifest.begun,
            people=_table((*manifest.people, *self._strangers(mails, events))),
            groups=_table(manifest.groups),
            mails=_table(sorted(mails, key=_id_key)),
            rules=_table(manifest.rules),
            events=_table(sorted(events, key=_id_key)),
            files=_table(sorted(files, key=_id_key)),
            pages=_table(manifest.pages),
            chats=_table(manifest.chats),
            channels=_table(manifest.channels),
            seed=manifest.seed,
        )
        return replace(workspace, created=_used_ids(workspace))

    def _date_letters(self) -> None:
        """Gives a moment to each letter without one: by the order of the files in its folder."""
        undated = [
            place for place, letter in zip(self._letter_places, self._letters, strict=True) if not letter.mail.at
        ]
        if not undated:
            return
        folders: dict[str, list[int]] = {}
        for index in sorted(range(len(self._letters)), key=lambda index: _natural_key(self._letter_places[index])):
            folders.setdefault(self._letter_places[index].rpartition("/")[0], []).append(index)
        for indices in folders.values():
            moments = _moments_in_order([self._letters[index].mail.at for index in indices], self._manifest.begun)
            for index, at in zip(indices, moments, strict=True):
                letter = self._letters[index]
                self._letters[index] = letter._replace(mail=replace(letter.mail, at=at))
        shown = ", ".join(undated[:_NAMED]) + (
            f" and {len(undated) - _NAMED} more" if len(undated) > _NAMED else ""
        )
        have = "1 mail has" if len(undated) == 1 else f"{len(undated)} mails have"
        self.notes.append(
            f"{have} no Date that can be read; the order of the files in the folder gave the time, one minute from "
            f"file to file: {shown}"
        )

    def _mails(self, files: Sequence[File]) -> list[Mail]:
        mails = _with_ids([letter.mail for letter in self._letters], "m")
        threads = _threads(self._letters, mails)
        known = {file.id for file in files}
        resolved = []
        for mail, thread, places in zip(mails, threads, self._attached, strict=True):
            attached = tuple(files[at].id for at in places) or tuple(
                id_ for id_ in mail.attachments if id_ in known
            )
            if len(attached) < len(mail.attachments):
                self.notes.append(f"mail {mail.id}: files that were attached are not there any more")
            resolved.append(replace(mail, thread=thread, attachments=attached))
        return resolved

    def _strangers(self, mails: Iterable[Mail], events: Iterable[Event]) -> Iterator[Person]:
        """The owner, and people of the company who occur only in mails and events, if the manifest lacks them."""
        manifest = self._manifest
        known = {person.id for person in manifest.people} | {group.id for group in manifest.groups}
        named = {manifest.owner}
        for mail in mails:
            named |= {mail.sender, *mail.to, *mail.cc, mail.on_behalf_of or mail.sender}
        for event in events:
            named |= {event.organizer, *(attendee.person for attendee in event.attendees)}
        for who in sorted(named - known):
            if not is_outside(who):
                yield Person(who, self._names.get(who) or re.sub(r"[._]+", " ", who).title())


def _natural_key(place: str) -> list[tuple[int, str]]:
    """A key that sorts 9.eml before 10.eml."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(place)]


def _moments_in_order(moments: Sequence[str], end: str) -> list[str]:
    """The moments, with values for empty ones: one minute after the moment before, or else before the next one.

    ``end``: the last moment if all are empty.
    """
    dated = [index for index, at in enumerate(moments) if at]
    first, anchor = (dated[0], moments[dated[0]]) if dated else (len(moments) - 1, end)
    filled = [_later(anchor, index - first) for index in range(first + 1)]
    for at in moments[first + 1 :]:
        filled.append(at or _later(filled[-1], 1))
    return filled


def _later(moment: str, minutes: int) -> str:
    try:
        return format_moment(parse_moment(moment) + timedelta(minutes=minutes))
    except OverflowError:  # after the year 9999
        return moment


def _with_ids(items: Sequence[ItemT], prefix: str) -> list[ItemT]:
    """The items with unique ids; existing ids are kept where they are unique."""
    ids = [item.id for item in items]
    number = max((int(match[1]) for id_ in ids if (match := re.fullmatch(r"[a-z]+([0-9]{1,9})", id_))), default=0)
    used: set[str] = set()
    unique_items = []
    for item in items:
        id_ = item.id
        if not id_ or id_ in used:
            number += 1
            id_ = f"{prefix}{number}"
        used.add(id_)
        unique_items.append(item if id_ == item.id else replace(item, id=id_))
    return unique_items


def _threads(letters: Sequence[Letter], mails: Sequence[Mail]) -> list[str]:
    """For each mail the id of the first mail of its conversation; empty = it is the first.

    If the first mail is missing, the oldest one counts as first, unless an export named another.
    """
    parents = {letter.key: letter.root for letter in letters if letter.key}
    roots = [_root(letter.root or letter.key, parents) for letter in letters]
    firsts: dict[str, Mail] = {}
    for letter, mail, root in sorted(zip(letters, mails, roots, strict=True), key=lambda row: row[1].at):
        if root and (root not in firsts or letter.key == root):
            firsts[root] = mail
    threads = []
    for letter, mail, root in zip(letters, mails, roots, strict=True):
        first = id_in(root) or (firsts[root].id if root else mail.id)
        answers = letter.root and first != mail.id
        threads.append(letter.mail.thread if letter.mail.id else first if answers else "")
    return threads


def _root(key: str, parents: Mapping[str, str]) -> str:
    seen = set()
    while parents.get(key) and key not in seen:  # damaged or forged mails may reply to each other in a cycle
        seen.add(key)
        key = parents[key]
    return key


def _id_key(item: Mail | Event | File) -> tuple[int, str]:
    """A key that sorts m9 before m10."""
    return len(item.id), item.id


def _table(items: Iterable[NamedT]) -> Table[NamedT]:
    return Table({item.id: item for item in items})


def _used_ids(workspace: Workspace) -> int:
    """The number of ids for new items that are used."""
    first = int(Workspace("", workspace.started_at).new_id("")[1])
    tables = (workspace.mails, workspace.rules, workspace.events, workspace.files, workspace.pages, workspace.chats)
    numbers = [int(id_.lstrip(ascii_lowercase)) for table in tables for id_ in table if _NUMBERED.fullmatch(id_)]
    return max(0, max(numbers, default=0) - first + 1)
