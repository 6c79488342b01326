"""Families of calls: names, rules, clusters, and what the decision says about them."""

import pytest

from tests.loop.online.online_desk import Desk
from upturn.arbiter.texts import TextClusters, TextLearner
from upturn.config import FamilyRule, GatewayConfig
from upturn.dialects import Message, ModelRequest, Text, ToolDefinition, dialect_of
from upturn.errors import ConfigError
from upturn.loop.online import Arrival, CallTexts, Client, FamilyGuess
from upturn.loop.online.family import CallFacts
from upturn.records import Decision

FACTS = CallFacts("acme", "support", {"x-team": "core-eu"}, ("bash", "mcp__git"), "Please refactor this")


@pytest.mark.parametrize(
    ("rule", "matches"),
    [
        (FamilyRule(family="f"), True),
        (FamilyRule(family="f", routes=("default", "support")), True),
        (FamilyRule(family="f", routes=("default",)), False),
        (FamilyRule(family="f", tenants=("acme",)), True),
        (FamilyRule(family="f", tenants=("other",)), False),
        (FamilyRule(family="f", headers={"X-Team": "core-*"}), True),
        (FamilyRule(family="f", headers={"x-team": "edge-*"}), False),
        (FamilyRule(family="f", headers={"x-other": "core-*"}), False),
        (FamilyRule(family="f", tools=("mcp__*", "bash")), True),
        (FamilyRule(family="f", tools=("bash", "edit")), False),
        (FamilyRule(family="f", text=r"(?i)\bREFACTOR\b"), True),
        (FamilyRule(family="f", text="^refactor"), False),
        (FamilyRule(family="f", tenants=("acme",), text="bug"), False),
    ],
)
def test_a_rule_matches_if_all_of_its_conditions_hold(rule: FamilyRule, matches: bool) -> None:
    family = FamilyGuess((rule,)).of(FACTS)
    assert (family.name, family.source) == (("f", "rule") if matches else ("general", "default"))


def test_the_first_matching_rule_decides() -> None:
    rules = (FamilyRule(family="a", text="bug"), FamilyRule(family="b", tools=("bash",)), FamilyRule(family="c"))
    assert FamilyGuess(rules).of(FACTS).name == "b"


def test_unusable_rules_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"text is no regular expression: .*, got '\['"):
        FamilyRule(family="f", text="[")
    with pytest.raises(ConfigError, match="Authorization holds a key"):
        FamilyRule(family="f", headers={"Authorization": "*"})
    catch_all = FamilyRule(family="rest")
    with pytest.raises(ConfigError, match="the rule for 'rest' matches every call; put it last"):
        GatewayConfig(families=(catch_all, FamilyRule(family="f", text="bug")))
    with pytest.raises(ConfigError, match="clusters is 3, but the last rule of families matches every call"):
        GatewayConfig(families=(catch_all,), clusters=3)


def arrival(text: str, *, family: str = "", episode: str | None = None, tool: str = "") -> Arrival:
    tools = (ToolDefinition(tool),) if tool else ()
    request = ModelRequest("default", (Message("user", (Text(text),)),), tools=tools)
    return Arrival(dialect_of("chat"), b"{}", request, Client("default"), {}, episode, family=family)


async def served(desk: Desk, call: Arrival) -> Decision:
    """Returns the stored decision of a call."""
    async with desk.service.serve(call) as live:
        async for _ in live.chunks():
            pass
    return next(found for found in desk.pool.decisions(tenant="default") if found.id == live.decided.decision.id)


async def test_a_decision_says_where_its_family_comes_from(desk: Desk) -> None:
    desk.service.texts = CallTexts(FamilyGuess((FamilyRule(family="coding", tools=("bash",)),)))
    named = await served(desk, arrival("hello", family="greeting"))
    ruled = await served(desk, arrival("hello", tool="bash"))
    other = await served(desk, arrival("hello"))
    assert [(found.family, found.family_source, found.sketch) for found in (named, ruled, other)] == [
        ("greeting", "named", ""),
        ("coding", "rule", ""),
        ("general", "default", ""),
    ]


async def test_a_guess_stays_for_the_episode(desk: Desk) -> None:
    desk.service.texts = CallTexts(FamilyGuess((FamilyRule(family="coding", tools=("bash",)),)))
    first = await served(desk, arrival("hello", episode="e", tool="bash"))
    second = await served(desk, arrival("something else", episode="e"))
    named = await served(desk, arrival("something else", episode="e", family="talk"))
    assert [found.family for found in (first, second, named)] == ["coding", "coding", "talk"]
    assert [found.family_source for found in (first, second, named)] == ["rule", "rule", "named"]


async def test_similar_calls_become_a_family_by_what_is_stored(desk: Desk) -> None:
    learner = TextLearner(desk.pool, clusters=TextClusters(4))
    learner.start()
    desk.service.texts = CallTexts(FamilyGuess((), learner.clusters))
    sources = []
    for number in range(60):
        texts = ("book a flight and a hotel near the airport", "refactor this function and fix the failing test")
        decision = await served(desk, arrival(texts[number % 2]))
        assert decision.sketch
        learner.catch_up()
        sources.append((decision.family_source, decision.family))
    assert sources[0] == ("default", "general")
    assert sources[-2:] == [("cluster", "cluster-1"), ("cluster", "cluster-2")]
