"""Messages of chats and channels."""

from upturn.records import record


@record
class Post:
    """One message."""

    sender: str
    text: str
    at: str
    is_delivered: bool = True
    """False = whoever it is for was offline when it was sent; only messages in chats of two wait."""


@record
class Chat:
    """A conversation of a few people."""

    id: str
    members: tuple[str, ...]
    posts: tuple[Post, ...] = ()
    """Oldest first."""
    topic: str = ""


@record
class Channel:
    """A topic of a team, which all its members read."""

    id: str
    team: str
    name: str
    members: tuple[str, ...]
    posts: tuple[Post, ...] = ()
