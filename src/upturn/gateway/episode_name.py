"""The names that a client gives: of an episode, in this order: URL, key of an attempt, header, body; of a family
and tags.

Harnesses set a base URL and a key, and some send a session's id in a header of their own. Names only relate calls;
they are scoped to tenant and API key.
"""

from collections.abc import Mapping

from starlette.types import Scope

from upturn.dialects import RequestError
from upturn.pool import MOST_TAGS, TAG_RULE, is_tag
from upturn.records import JsonValue

EPISODE_HEADERS = ("x-upturn-episode", "x-claude-code-session-id", "session-id", "session_id")
"""Of Upturn, Claude Code and Codex."""
FAMILY_HEADER = "x-upturn-family"
TAGS_HEADER = "x-upturn-tags"
SUB_AGENT_HEADERS = ("x-upturn-agent", "x-claude-code-agent-id")
EPISODE_FIELDS = ("episode", "session_id")
"""Fields of a request's ``metadata``."""
LONGEST_NAME = 200


def episode_name(scope: Scope, headers: Mapping[str, str], metadata: Mapping[str, JsonValue]) -> str | None:
    """Returns the client's name of the episode; None = it gives none. Raises RequestError for an unusable name."""
    in_url = scope.get("path_params", {}).get("episode")
    if in_url:
        return _checked(in_url, "the episode in the URL", "episode")
    for name in EPISODE_HEADERS:
        if value := headers.get(name):
            return _checked(value, f"the header {name}", "episode")
    for name in EPISODE_FIELDS:
        if in_body := metadata.get(name):
            return _checked(in_body, f"metadata.{name}", "episode")
    return None


def sub_agent_name(headers: Mapping[str, str]) -> str:
    """Returns the client's name of a sub-agent; empty = the main agent."""
    return next((headers[name] for name in SUB_AGENT_HEADERS if headers.get(name)), "")


def family_name(headers: Mapping[str, str], metadata: Mapping[str, JsonValue]) -> str:
    """Returns the client's family of the task; empty = it names none. Raises RequestError for an unusable one."""
    if value := headers.get(FAMILY_HEADER):
        return _checked(value, f"the header {FAMILY_HEADER}", "family")
    in_body = metadata.get("family")
    return _checked(in_body, "metadata.family", "family") if in_body else ""


def tag_names(headers: Mapping[str, str], metadata: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """Returns the client's tags of the task, from the header and ``metadata.tags``; raises RequestError.

    Both are texts with commas between the tags; in the body, a list is allowed as well.
    """
    in_body = metadata.get("tags") or ()
    listed = in_body if isinstance(in_body, list | tuple) else [in_body]
    tags: list[str] = []
    for where, value in (
        (f"the header {TAGS_HEADER}", headers.get(TAGS_HEADER, "")),
        *(("metadata.tags", tag) for tag in listed),
    ):
        names = value.split(",") if isinstance(value, str) else [value]
        for name in (name.strip() if isinstance(name, str) else name for name in names):
            if name == "":
                continue
            if not isinstance(name, str) or not is_tag(name):
                raise RequestError(f"a tag in {where} must have {TAG_RULE}, got {name!r:.100}", code="invalid_tags")
            tags.append(name)
    if len(tags) > MOST_TAGS:
        raise RequestError(f"a call has at most {MOST_TAGS} tags, got {len(tags)}", code="invalid_tags")
    return tuple(dict.fromkeys(tags))


def _checked(name: JsonValue, where: str, kind: str) -> str:
    if isinstance(name, str) and len(name) <= LONGEST_NAME and name.isprintable():
        return name
    got = f"{len(name):,} characters" if isinstance(name, str) and len(name) > LONGEST_NAME else f"{name!r:.100}"
    raise RequestError(
        f"{where} must be a text of 1 to {LONGEST_NAME} printable characters, got {got}", code=f"invalid_{kind}"
    )
