"""The family of a call: as the client names it, by a rule of the configuration, by a cluster of similar texts.

Order: the client's name; the family of an earlier call of the episode; the first rule that matches; the cluster of
the last message of the user; ``general``. Everything but the client's name is recorded as a guess.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from upturn.arbiter.texts import TextClusters
from upturn.config import FamilyRule
from upturn.loop.online.call_task import GENERAL
from upturn.records import FamilySource


class CallFacts(NamedTuple):
    """What a family is guessed from."""

    tenant: str
    route: str
    """Empty = the client named an agent."""
    headers: Mapping[str, str]
    """At least those in ``FamilyGuess.headers``, with names in lower case."""
    tools: Sequence[str]
    """Names of the offered tools."""
    text: str
    """The last message of the user."""
    buckets: Sequence[int] = ()
    """Its sketch; empty = it has no words."""


class Family(NamedTuple):
    """A family with where it comes from."""

    name: str
    source: FamilySource


class FamilyGuess:
    """Guesses families by rules and clusters."""

    def __init__(self, rules: Sequence[FamilyRule] = (), clusters: TextClusters | None = None) -> None:
        """``clusters``: None = no clustering."""
        self._rules = [(rule, _condition(rule)) for rule in rules]
        self.clusters = clusters
        self.headers = frozenset(name.lower() for rule in rules for name in rule.headers)
        """The headers that rules look at."""

    def of(self, facts: CallFacts) -> Family:
        """Returns the family of a call that names none."""
        for rule, matches in self._rules:
            if matches(facts):
                return Family(rule.family, "rule")
        name = None if self.clusters is None else self.clusters.find(facts.buckets)
        return Family(GENERAL, "default") if name is None else Family(name, "cluster")


def _condition(rule: FamilyRule) -> Callable[[CallFacts], bool]:
    """Returns whether a call matches the rule."""
    expression = re.compile(rule.text)
    headers = {name.lower(): pattern for name, pattern in rule.headers.items()}

    def matches(facts: CallFacts) -> bool:
        return (
            (not rule.routes or facts.route in rule.routes)
            and (not rule.tenants or facts.tenant in rule.tenants)
            and all(fnmatchcase(facts.headers.get(name, ""), pattern) for name, pattern in headers.items())
            and all(any(fnmatchcase(tool, pattern) for tool in facts.tools) for pattern in rule.tools)
            and expression.search(facts.text) is not None
        )

    return matches
