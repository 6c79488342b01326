"""Chats and channels: writing, searching, meeting, members."""

from dataclasses import replace
from typing import Literal

from pydantic import Field

from upturn.environments.office.apps.calendar import Create, new_event, register_event_operation
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
    format_page,
    parse_parameters,
)
from upturn.environments.office.state import (
    Channel,
    Chat,
    Event,
    OperationError,
    Post,
    Workspace,
    is_outside,
    outsiders,
    principals,
)
from upturn.records import Action, JsonValue

APP = App("teams")
Presence = Literal["available", "busy", "away", "offline"]
_SHARES: tuple[tuple[float, Presence], ...] = ((0.6, "available"), (0.8, "busy"), (0.9, "away"), (1.0, "offline"))
"""Cumulative probabilities of the presence of people without a meeting."""


class SendMessage(Parameters):
    """Writes to people in a chat of their own, or into a chat by its id; the user has to agree first."""

    text: Text
    to: People | None = None
    chat: Id | None = None


class PostToChannel(Parameters):
    """Writes into a channel; the user has to agree first."""

    channel: Id
    text: Text


class SearchChat(Parameters):
    """Finds messages in the user's chats and channels, newest first."""

    query: str = Field("", description="words that the message contains")
    sender: Someone = Field("", description="a person's id")
    place: str = Field("", description="id of one chat or channel; left out = all")
    page: PageNumber = 1


class ListChannels(Parameters):
    """Shows the user's chats and channels with their members."""

    name: str = Field("", description="words of a team's or channel's name, or of who is in a chat")
    page: PageNumber = 1


class AddMembers(Parameters):
    """Adds people to a chat or channel."""

    place: Id = Field(description="id of a chat or channel")
    people: People


class CreateMeeting(Parameters):
    """Enters an online meeting into the user's calendar and invites people to it."""

    title: Text
    start: Moment
    end: Moment
    people: People


class ShowPresence(Parameters):
    """Shows whether people are available, busy, away or offline now."""

    people: People


def presence(workspace: Workspace, person: str) -> Presence:
    """Busy during a meeting; otherwise random per hour, the same in every call."""
    now = workspace.now
    after = f"{now}~"  # sorts after this minute and before the next one
    if any(event.overlaps(now, after) and event.concerns(person) for event in workspace.events.values()):
        return "busy"
    number = workspace.chance("presence", person, now[:13])
    return next(state for limit, state in _SHARES if number < limit)


def _people(workspace: Workspace, people: tuple[str, ...]) -> tuple[str, ...]:
    """The people and the members of these groups, sorted; raises OperationError for external addresses."""
    ids = principals(workspace, people)
    outside = [id_ for id_ in ids if is_outside(id_)]
    if outside:
        raise OperationError("forbidden", f"only people of the company can be in chats: {', '.join(outside)}")
    return tuple(sorted(frozenset().union(*(workspace.members(id_) for id_ in ids))))


def _conversation(workspace: Workspace, id_: str) -> Chat | Channel:
    """A chat or channel of the owner; raises OperationError for any other id."""
    place: Chat | Channel | None = workspace.chats.get(id_) or workspace.channels.get(id_)
    if place is None or workspace.owner not in place.members:
        raise OperationError("not_found", f"you are in no chat or channel {id_!r}; teams.list_channels shows them")
    return place


def _target_chat(workspace: Workspace, request: SendMessage) -> Chat:
    """The chat to write to; a new one with a placeholder id if these people have none."""
    if (request.to is None) == (request.chat is None):
        raise OperationError("missing_parameter", "give either to or chat")
    if request.chat is not None:
        place = _conversation(workspace, request.chat)
        if isinstance(place, Channel):
            raise OperationError("bad_value", f"{place.id} is a channel; teams.post_to_channel writes there")
        return place
    assert request.to is not None
    members = tuple(sorted({*_people(workspace, request.to), workspace.owner}))
    if len(members) < 2:
        raise OperationError("bad_value", "a chat needs somebody beside yourself")
    return next((chat for chat in workspace.chats.values() if chat.members == members), Chat("chat", members))


def swap_chat_address(workspace: Workspace, action: Action) -> Action:
    """A message to people as a message to their chat, and the reverse; other actions unchanged."""
    if (action.target, action.operation) != (APP.target, "send_message"):
        return action
    chat = _target_chat(workspace, parse_parameters(APP.operations["send_message"], action))
    if chat.id not in workspace.chats:
        return action
    rest = {name: value for name, value in action.parameters.items() if name not in ("to", "chat")}
    others: list[JsonValue] = [member for member in chat.members if member != workspace.owner]
    return replace(
        action, parameters={**rest, **({"to": others} if "chat" in action.parameters else {"chat": chat.id})}
    )


def _send_impact(workspace: Workspace, request: SendMessage) -> Impact:
    chat = _target_chat(workspace, request)
    others = ", ".join(member for member in chat.members if member != workspace.owner)
    return Impact("send", f"to {others}\n{request.text}", outsiders(workspace, chat.members))


@APP.operation(SendMessage, impact=_send_impact)
def _send_message(workspace: Workspace, request: SendMessage) -> Effect:
    """In a chat of two, delivered at once unless the other person is offline."""
    chat = _target_chat(workspace, request)
    others = [member for member in chat.members if member != workspace.owner]
    is_delivered = len(others) > 1 or presence(workspace, others[0]) != "offline"
    after, id_ = (workspace, chat.id) if chat.id in workspace.chats else workspace.new_id("c")
    post = Post(workspace.owner, request.text, workspace.now, is_delivered=is_delivered)
    done = after.with_items(replace(chat, id=id_, posts=(*chat.posts, post)))
    return Effect(done, f"sent in {id_}" + ("" if is_delivered else f"; {others[0]} is offline and gets it later"))


def _channel(workspace: Workspace, id_: str) -> Channel:
    place = _conversation(workspace, id_)
    if isinstance(place, Chat):
        raise OperationError("bad_value", f"{id_} is a chat; teams.send_message writes there")
    return place


def _post_impact(workspace: Workspace, request: PostToChannel) -> Impact:
    channel = _channel(workspace, request.channel)
    return Impact(
        "send", f"to {channel.team} / {channel.name}\n{request.text}", outsiders(workspace, channel.members)
    )


@APP.operation(PostToChannel, impact=_post_impact)
def _post_to_channel(workspace: Workspace, request: PostToChannel) -> Effect:
    channel = _channel(workspace, request.channel)
    post = Post(workspace.owner, request.text, workspace.now)
    return Effect(workspace.with_items(replace(channel, posts=(*channel.posts, post))), "posted")


@APP.operation(SearchChat, is_reading=True)
def _search_chat(workspace: Workspace, request: SearchChat) -> Effect:
    places = [_conversation(workspace, request.place)] if request.place else _conversations(workspace)
    words = request.query.lower()
    hits = [
        (post.at, number, f"{place.id} {post.at} {post.sender}: {post.text}")
        for place in places
        for number, post in enumerate(place.posts)
        if words in post.text.lower() and (not request.sender or post.sender == request.sender)
    ]
    hits.sort(reverse=True)
    return Effect(workspace, format_page([line for _, _, line in hits], page=request.page, empty="no messages"))


def _conversations(workspace: Workspace) -> list[Chat | Channel]:
    """The owner's channels by team, then the owner's chats by members."""
    channels = sorted(workspace.channels.values(), key=lambda channel: (channel.team, channel.name, channel.id))
    everything: list[Chat | Channel] = [*channels, *sorted(workspace.chats.values(), key=lambda chat: chat.members)]
    return [place for place in everything if workspace.owner in place.members]


@APP.operation(ListChannels, is_reading=True)
def _list_channels(workspace: Workspace, request: ListChannels) -> Effect:
    words = request.name.lower()
    titles = [(place, _title(workspace, place)) for place in _conversations(workspace)]
    lines = [
        f"{place.id} {title}: {len(place.members)} members"
        if isinstance(place, Channel)
        else f"{place.id} chat: {title}"
        for place, title in titles
        if words in title.lower()
    ]
    return Effect(workspace, format_page(lines, page=request.page, empty="no chats or channels"))


def _title(workspace: Workspace, place: Chat | Channel) -> str:
    """A channel's team and name; a chat's other members."""
    if isinstance(place, Channel):
        return f"{place.team} / {place.name}"
    return ", ".join(member for member in place.members if member != workspace.owner)


def _with_members(workspace: Workspace, request: AddMembers) -> Chat | Channel:
    place = _conversation(workspace, request.place)
    return replace(place, members=tuple(sorted({*place.members, *_people(workspace, request.people)})))


def _share_impact(workspace: Workspace, request: AddMembers) -> Impact | None:
    """Agreement is needed if members are or become external."""
    place = _with_members(workspace, request)
    outside = outsiders(workspace, place.members)
    return Impact("share", f"{place.id}: {', '.join(place.members)}", outside) if outside else None


@APP.operation(AddMembers, impact=_share_impact)
def _add_members(workspace: Workspace, request: AddMembers) -> Effect:
    place = _with_members(workspace, request)
    return Effect(workspace.with_items(place), f"{len(place.members)} members")


def _meeting_event(workspace: Workspace, request: CreateMeeting) -> Event:
    create = Create(
        title=request.title, start=request.start, end=request.end, people=request.people, is_online=True
    )
    return new_event(workspace, create)


register_event_operation(APP, CreateMeeting, _meeting_event)


@APP.operation(ShowPresence, is_reading=True)
def _show_presence(workspace: Workspace, request: ShowPresence) -> Effect:
    return Effect(
        workspace,
        "\n".join(f"{person} {presence(workspace, person)}" for person in _people(workspace, request.people)),
    )
