"""Rules for the family of calls that name none."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Annotated

from pydantic import Field

from upturn.config.settings import Name, Settings, settings

FamilyName = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]
Pattern = Annotated[str, Field(min_length=1)]

_SECRET_HEADERS = frozenset({"authorization", "x-api-key"})


@settings
class FamilyRule(Settings):
    """A rule for the family of calls that name none; one ``[[gateway.families]]`` table per rule. All of its
    conditions must hold. The first rule that matches decides. In patterns, ``*`` stands for any characters."""

    family: FamilyName
    """The family of calls that match."""
    routes: tuple[Name, ...] = ()
    """Routes that the call may come in by. Empty = any, also the name of an agent."""
    tenants: tuple[Name, ...] = ()
    """Tenants of the caller. Empty = any."""
    headers: Mapping[str, Pattern] = field(default_factory=dict)
    """Pattern of the value by the name of the header."""
    tools: tuple[Pattern, ...] = ()
    """Patterns of names of tools. The call must offer a tool for each."""
    text: str = ""
    """Regular expression that the last message of the user contains, in its first 4,000 characters. Empty = any
    message."""

    def problems(self) -> Iterator[str | None]:
        """Yields an invalid expression, and headers that hold keys."""
        try:
            re.compile(self.text)
        except re.error as exc:
            yield f"text is no regular expression: {exc}, got {self.text!r}"
        secret = sorted(name for name in self.headers if name.lower() in _SECRET_HEADERS)
        yield f"headers: {secret[0]} holds a key, which rules do not see; use tenants" if secret else None

    @property
    def is_unconditional(self) -> bool:
        """Whether every call matches."""
        return not (self.routes or self.tenants or self.headers or self.tools or self.text)
