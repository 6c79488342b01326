"""Messages of chats and channels."""

from upturn.records import record


@record
class Post:
    """One message."""

    sender: str
    text: str
    at: str
    is_delivered: bool = True
    """False = the recipient was offline when it was sent; only in chats of two."""


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
    """A channel of a team, read by all its members."""

    id: str
    team: str
    name: str
    members: tuple[str, ...]
    posts: tuple[Post, ...] = ()
