"""Names of functions: ``target.operation``, or any name without a target, and back.

An action without a target is called by its operation: ``get_weather``, ``mcp__server__tool``. A name is read as
that of the offered tool that has it. Otherwise one with a single dot between identifiers is ``target.operation``,
and every other name is an operation without a target. Some formats allow fewer characters (OpenAI's:
``[a-zA-Z0-9_-]{1,64}``): there a tool has another name, its own with ``__`` for each character that is not allowed,
and no two tools may share one.
"""

import hashlib
import re
from collections.abc import Iterable

from upturn.errors import ModelError, RecordError
from upturn.records import Action, Tool

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_DOTTED = re.compile(rf"({_NAME})\.({_NAME})\Z", re.ASCII)
ANY_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}\Z", re.ASCII)
"""What a function may be called: MCP's names, and those of the vendors that allow most."""
PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z", re.ASCII)
"""OpenAI's rule."""
PYTHON_NAME = re.compile(rf"{_NAME}(?:\.{_NAME})*\Z", re.ASCII)
_SUBSTITUTE = "__"
_DIGEST = 8
"""Hexadecimal digits of the hash at the end of a shortened name."""


def call_name(action: Action) -> str:
    """``target.operation``, or the operation alone; raises RecordError where no name can stand for the action."""
    name = f"{action.target}.{action.operation}" if action.target else action.operation
    if ANY_NAME.match(name) is None or parse_name(name) != (action.target, action.operation):
        raise RecordError(
            f"an action's target and operation must be identifiers ({_NAME}), or the operation a function's name "
            f"without a target, got {action.target!r} and {action.operation!r}; it cannot be written as a call"
        )
    return name


def parse_name(name: str) -> tuple[str, str]:
    """Target and operation of a name."""
    dotted = _DOTTED.match(name)
    return ("", name) if dotted is None else (dotted.group(1), dotted.group(2))


class FunctionNames:
    """Names of the offered tools and of other actions, for one call format. Reversible."""

    def __init__(self, tools: Iterable[Tool] = (), allowed: "re.Pattern[str]" = ANY_NAME) -> None:
        """``allowed``: matches the names that the format can hold. Raises ModelError for tools that share a
        name."""
        self.allowed = allowed
        self._by_name: dict[str, tuple[str, str]] = {}
        self._by_action: dict[tuple[str, str], str] = {}
        for tool in tools:
            action = (tool.target, tool.operation)
            name = self._allowed_name(tool.name)
            other = self._by_name.setdefault(name, action)
            if other != action or action in self._by_action:
                raise ModelError(
                    f"two tools have the name {name!r} ({_shown(other)} and {_shown(action)}), so a call of it "
                    "would be ambiguous; rename one of them"
                )
            self._by_action[action] = name

    def write(self, action: Action) -> str:
        """The function's name; raises RecordError where it would be read as another action's."""
        identity = (action.target, action.operation)
        known = self._by_action.get(identity)
        if known is not None:
            return known
        name = self._allowed_name(call_name(action))
        if self.read(name) != identity:
            raise RecordError(
                f"the name {name!r} of {_shown(identity)} is read as {_shown(self.read(name))}; offer the tool, or "
                "rename it"
            )
        return name

    def read(self, name: str) -> tuple[str, str]:
        """Target and operation of the function with this name."""
        known = self._by_name.get(name)
        if known is not None:
            return known
        parts = name.split(_SUBSTITUTE)
        if self.allowed.match("a.b") is None and len(parts) == 2 and _DOTTED.match(".".join(parts)):
            return parts[0], parts[1]
        return parse_name(name)

    def offers(self, name: str) -> bool:
        """Whether an offered tool has the name."""
        return name in self._by_name

    def near(self, name: str, *, is_whole: bool = False) -> str | None:
        """The name of the one offered tool that is meant by a name with other separators or in another case
        (``Outlook-Move``), with the prefix ``functions.``, or, unless ``is_whole``, by its operation alone. None =
        no tool is, or several are."""
        folded = _folded(name)
        whole, alone = list[str](), list[str]()
        for (target, operation), offered in self._by_action.items():
            if _folded(target + operation) in (folded, folded.removeprefix("functions")):
                whole.append(offered)
            elif not is_whole and _folded(operation) == folded:
                alone.append(offered)
        candidates = whole or alone
        return candidates[0] if len(candidates) == 1 else None

    def _allowed_name(self, name: str) -> str:
        """The name, or its replacement where it is not allowed."""
        if self.allowed.match(name) is not None:
            return name
        replaced = "".join(character if self.allowed.match(f"a{character}") else _SUBSTITUTE for character in name)
        if self.allowed.match(replaced) is None:  # too long, or an odd beginning
            digest = hashlib.blake2b(name.encode(), digest_size=_DIGEST // 2).hexdigest()
            replaced = f"f{replaced[: 62 - _DIGEST]}_{digest}"
        return replaced


def _folded(name: str) -> str:
    """The letters and digits of a name, in lower case."""
    return "".join(filter(str.isalnum, name)).lower()


def _shown(action: tuple[str, str]) -> str:
    return repr(".".join(filter(None, action)))
