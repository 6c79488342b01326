"""Random actions in a workspace: no exception but a refusal, and invariants hold."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from upturn.environments.office.apps import apply, tools
from upturn.environments.office.apps.safety import HARD, SOFT
from upturn.environments.office.state import OperationError, Persona, Wish, Workspace, changes
from upturn.records import Action, Tool, fields_json, record
from upturn.records.json import JsonValue

Desk = Callable[..., Workspace]
AGREEABLE = Persona(wishes=tuple(Wish(tool.target, tool.operation) for tool in tools()))
"""A user who agrees to everything."""
NAMES = (
    *("m10", "m11", "m12", "m13", "m14", "e20", "e21", "e22", "c30", "c31", "c40", "f50", "f51", "f52", "f53"),
    *("f54", "f55", "f56", "p60", "ann.lee", "bob.ray", "eva@fabrikam.example", "sales", "inbox", "deleted"),
    *("A1", "A1:B2", "B2:A1", "Q3", "/finance", "/finance/new.docx", "/people/bob.ray/x.txt", "draft", "everyone"),
    *("2026-03-02 10:00", "2026-03-02 11:30", "2026-03-02", "2026-02-30", "=SUM(B2:B9)", "=A1", "true", "0", "1"),
    *(
        "-1",
        "999999999",
        "1e308",
        "read",
        "none",
        "title",
        "bar",
        "forest",
        "",
        " ",
        "x" * 20_000,
        "\ud800",
        "ünï ✓",
    ),
)
JUNK: st.SearchStrategy[JsonValue] = st.one_of(
    st.sampled_from(NAMES),
    st.none(),
    st.booleans(),
    st.integers(-3, 10**30),
    st.floats(),
    st.lists(st.sampled_from(NAMES), max_size=3),
    st.lists(st.integers(), min_size=101, max_size=101),
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from(NAMES), max_size=2),
)


IDS = {
    "outlook": ("m10", "m11", "m12", "m13", "m14", "m1000"),
    "calendar": ("e20", "e21", "e22", "e23", "e1000"),
    "teams": ("c30", "c31", "c40", "c1000"),
}
FILE_IDS = ("f50", "f51", "f52", "f53", "f54", "f55", "f56", "f1000")
PLAUSIBLE: dict[str, tuple[JsonValue, ...]] = {
    "start": ("2026-03-02 10:00", "2026-03-02 11:00"),
    "end": ("2026-03-02 11:30", "2026-03-02 12:00"),
    "day": ("2026-03-02", "2026-03-03"),
    "people": ("bob.ray", "sales", ["cid.moe", "dana.fox"], "eva@fabrikam.example"),
    "to": ("bob.ray", "sales,ann.lee", ["cid.moe"], "eva@fabrikam.example"),
    "folder": ("inbox", "archive", "new", "/finance"),
    "path": ("/finance/new.docx", "/people/ann.lee/a.xlsx", "/people/bob.ray/x.txt", "/finance/talk.pptx"),
    "find": ("may", "Plan"),
    "rows": ("a | b\n1 | 2", "a\nb | c"),
}


BY_TYPE: dict[str, tuple[JsonValue, ...]] = {
    "integer": (1, 2, 3),
    "boolean": (True, False),
    "string": ("may", "hello"),
}


def _value(tool: Tool, name: str) -> st.SearchStrategy[JsonValue]:
    """Returns actions that are mostly valid."""
    schema: Any = tool.properties[name]
    fitting: list[JsonValue] = [*PLAUSIBLE.get(name, ())]
    if name in {"id", "ids", "draft", "chat", "channel", "place", "image"}:
        fitting += IDS.get(tool.target, FILE_IDS)
    kinds = schema.get("anyOf", [schema])
    fitting += [value for kind in kinds for value in kind.get("enum", ())]
    if not fitting:
        fitting = [value for kind in kinds for value in BY_TYPE.get(kind.get("type"), ())]
    return st.integers(0, 9).flatmap(lambda at: JUNK if at == 0 or not fitting else st.sampled_from(fitting))


def _action(tool: Tool) -> st.SearchStrategy[Action]:
    optional = {name: _value(tool, name) for name in tool.properties if name not in tool.required}
    required = {name: _value(tool, name) for name in tool.required}
    given_ = st.fixed_dictionaries(required, optional=optional)
    return given_.map(lambda parameters: Action(tool.target, tool.operation, parameters))


ACTIONS = st.sampled_from(tools()).flatmap(_action)


def _agreed_calls(action: Action, *, is_agreed: bool) -> list[Action]:
    """Returns the action, after its preview and agreement if ``is_agreed``."""
    if not is_agreed:
        return [action]
    call = json.dumps({"target_app": action.target, "operation": action.operation, "parameters": action.parameters})
    return [
        Action("user", "preview", {"statement": "this", "call": call}),
        Action("user", "confirm"),
        action,
    ]


@record
class StoredEffect:
    """Invariants required by verifiers and trajectories."""

    changes: dict[str, JsonValue]
    text: str


def _run_calls(start: Workspace, request: list[tuple[Action, bool]]) -> int:
    """Runs these calls in sequence with a user who agrees to every preview; returns the number of calls."""
    workspace = start
    calls = [call for action, is_agreed in request for call in _agreed_calls(action, is_agreed=is_agreed)]
    for action in calls:
        try:
            effect = apply(workspace, action)
        except OperationError as refused:
            assert refused.hard in {"", *HARD}
            assert refused.soft in {"", *SOFT}
            str(refused).encode()
            continue
        fields_json(StoredEffect(changes(workspace, effect.workspace), effect.text))
        workspace = effect.workspace
        _check_workspace(workspace, start)
    return len(calls)


@given(st.lists(st.tuples(ACTIONS, st.booleans()), min_size=1, max_size=6))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_action_breaks_a_workspace(desk: Desk, actions: list[tuple[Action, bool]]) -> None:
    _run_calls(desk(AGREEABLE), actions)


@pytest.mark.slow
def test_a_hundred_thousand_actions_break_no_workspace(desk: Desk) -> None:
    """Drawn by hypothesis, with ``make test-all`` (``--hypothesis-profile=search``) others each time: 4,000 lists
    of 10 to 20 actions, more than 100,000 calls with those that the user has to agree to. Two and a half minutes.
    """
    start, total = desk(AGREEABLE), 0

    @given(st.lists(st.tuples(ACTIONS, st.booleans()), min_size=10, max_size=20))
    @settings(max_examples=4_000, deadline=None, suppress_health_check=list(HealthCheck))
    def run(actions: list[tuple[Action, bool]]) -> None:
        nonlocal total
        total += _run_calls(start, actions)

    run()
    assert total >= 100_000


def _check_workspace(workspace: Workspace, start: Workspace) -> None:
    """Invariants of every workspace."""
    for name in ("mails", "events", "files", "chats", "channels", "pages", "rules"):
        table = getattr(workspace, name)
        assert all(item.id == id_ for id_, item in table.items())
    assert all(event.start < event.end for event in workspace.events.values())
    paths = [file.path for file in workspace.files.values() if not file.is_deleted]
    assert len(set(paths)) == len(paths)
    assert set(workspace.mails) >= {"m10", "m11", "m12", "m13", "m14"}  # nothing is ever gone for good
    assert set(workspace.files) >= {"f50", "f51", "f52", "f53", "f54", "f55", "f56"}
    assert workspace.files["f53"] == start.files["f53"]  # bob's own
    assert workspace.files["f52"] == start.files["f52"]  # to be read only
    assert workspace.chats["c31"] == start.chats["c31"]  # of others
