"""Random and invalid actions in the office: every action gets an observation, and invariants hold."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from upturn.environments.action import MALFORMED, action_text
from upturn.environments.environment import Info, Step, is_potential
from upturn.environments.office import OfficeKit
from upturn.environments.office.apps import tools
from upturn.environments.office.apps.safety import HARD, SOFT
from upturn.environments.office.goal import progress
from upturn.environments.office.renaming import renamed
from upturn.environments.office.tasks import FAMILIES, compose, make_task
from upturn.environments.stepwise import read_action
from upturn.errors import UnknownNameError
from upturn.records import Action, Observation, Task, Trajectory, Turn, fields_json
from upturn.records.json import JsonValue

ACTIONS_A_TASK = 200
DEEP: JsonValue = [[["deep"]], {"a": {"b": [None]}}]
NUMBERS: list[JsonValue] = [1] * 101
NAMED: list[JsonValue] = ["m1"] * 101
JUNK: tuple[JsonValue, ...] = (
    *(DEEP, NUMBERS, NAMED),
    *(None, True, False, 0, -1, 10**30, 1e308, math.inf, math.nan, "", " ", "\x00", "\ud800", "ünï ✓ 漢字 \u202e"),
    *("x" * 20_000, [], {}, "a;b=c\\n", "=", "=A1"),
    *("=1/0", "=SUM(A1:XFD1048576)", "=" + "(" * 500, "=D1+D1", "A1:XFD1048576", "ZZZ99999999", "B2:A1", "B:D"),
    *(
        "2026-02-30 10:00",
        "2026-03-02",
        "9999-12-31 23:59",
        "everyone",
        "eve@rival.example",
        "@",
        "/people/x/y.docx",
    ),
)
SCALARS: Mapping[str, tuple[JsonValue, ...]] = {
    "integer": (1, 2, 3, 60),
    "number": (0.5, 2),
    "boolean": (True, False),
    "string": (
        "budget",
        "hello",
        "A1",
        "B2:C4",
        "=B2*2",
        "2026-03-04 10:00",
        "2026-03-05",
        "archive",
        "a | b\n1 | 2",
    ),
}


class Sender:
    """Draws actions: mostly valid for the schemas and the world, sometimes the oracle's, sometimes nonsense."""

    def __init__(self, rng: Random, task: Task) -> None:
        self.rng = rng
        scenario = compose(task)
        world = scenario.workspace
        self.work = list(scenario.draft.oracle)
        tables = (world.mails, world.events, world.files, world.chats, world.channels, world.people, world.groups)
        self.names = [*(id_ for table in tables for id_ in rng.sample(sorted(table), min(8, len(table)))), "m1000"]
        self.names += ["e1000", "f1000", "data", "inbox"]

    def action(self) -> Action:
        """Returns the next action."""
        kind = self.rng.random()
        if kind < 0.15 and len(self.work) > 1:
            return self.work.pop(0)
        if kind < 0.2:
            target, operation = self.rng.choice([("", ""), ("fax", "send"), ("outlook", "explode"), ("é", ".")])
            return Action(target, operation, {self.rng.choice(("to", "", "x" * 99)): self.rng.choice(JUNK)})
        tool = self.rng.choice(tools())
        fields = [name for name in tool.properties if name in tool.required or self.rng.random() < 0.4]
        if self.rng.random() < 0.05:
            fields.append("no_such")
        return Action(
            tool.target, tool.operation, {name: self._value(tool.properties.get(name)) for name in fields}
        )

    def _value(self, schema: Any) -> JsonValue:
        rng = self.rng
        if not isinstance(schema, dict) or rng.random() < 0.12:
            return rng.choice(JUNK)
        chosen = rng.choice(schema["anyOf"]) if "anyOf" in schema else schema
        if "enum" in chosen:
            option: JsonValue = rng.choice(chosen["enum"])
            return option
        if chosen.get("type") == "array":
            return [self._value(chosen.get("items")) for _ in range(rng.randint(1, 2))]
        if chosen.get("type", "string") == "string" and rng.random() < 0.6:
            return rng.choice(self.names)
        return rng.choice(SCALARS.get(chosen.get("type", "string"), (None,)))


def _tasks(rng: Random) -> Iterator[Task]:
    names = list(FAMILIES)
    while True:
        task = make_task(rng.choice(names), rng.randrange(10_000), split=rng.choice(("train", "heldout")))
        yield renamed(task) if rng.random() < 0.1 else task


def _with_slip(rng: Random, action: Action) -> Action:
    """Returns the action parsed from its text with a random slip, as a line or as JSON."""
    parts = {"target_app": action.target, "operation": action.operation, "parameters": dict(action.parameters)}
    text = action_text(action) if rng.random() < 0.5 else json.dumps(parts, default=str)
    index = rng.randrange(len(text) + 1)
    slip = rng.choice(("", ";", "=", '"', "}", "\\", "\n", "\x00", "\ud800", "{", "é", " outlook.send to=x"))
    return read_action(text[:index] + slip + text[index + rng.randrange(3) :]) or MALFORMED


def fuzz(rng: Random, count: int) -> int:
    """Sends so many actions, with a new task every 200 or at its end; returns how many were accepted."""
    kit, sent, accepted = OfficeKit(), 0, 0
    for task in _tasks(rng):
        environment, sender = kit.environment(task), Sender(rng, task)
        observation, info = environment.reset(task)
        turns: list[Turn] = []
        is_over = False
        while not is_over and len(turns) < ACTIONS_A_TASK and sent < count:
            action, snapshot = sender.action(), environment.snapshot()
            if rng.random() < 0.1:
                action = _with_slip(rng, action)
            step = environment.step(action)
            _check_step(step, info)
            changed = environment.state()["changes"]  # found out anew
            assert isinstance(changed, dict)
            assert step.info.potential == progress(compose(task), changed)
            if rng.random() < 0.02:
                environment.restore(snapshot)
                again = environment.step(action)
                assert (again.observation, again.info.state_hash) == (step.observation, step.info.state_hash), (
                    action
                )
            turns.append(Turn(observation, "", action, step.reward, step.info.cost_components))
            observation, info, is_over = step.observation, step.info, step.is_terminated
            sent, accepted = sent + 1, accepted + (not observation.is_error)
        _check_state(task, environment.state())
        _check_evaluation(kit, task, turns, observation, environment.state())
        if sent >= count:
            return accepted
    raise AssertionError("tasks never end")


def _check_step(step: Step, before: Info) -> None:
    """Observations have the correct types, writable texts and known costs; a refusal changes nothing."""
    costs = step.info.cost_components
    assert set(costs) <= {"error", "safety", "soft", *HARD, *SOFT}
    assert all(cost > 0 for cost in costs.values())
    assert step.reward == (-1 if "safety" in costs else 0)
    assert is_potential(step.info.potential)
    assert step.info.sim_time >= before.sim_time
    step.observation.text.encode()
    if step.observation.is_error and not step.info.faults:
        assert step.info.state_hash == before.state_hash
        assert costs["error"] == 1


def _check_state(task: Task, state: Mapping[str, JsonValue]) -> None:
    """Nothing is deleted permanently; people, groups and files in other people's folders are unchanged."""
    world, changes = compose(task).workspace, state["changes"]
    assert isinstance(changes, dict)
    for path in changes:
        table, id_, *_ = path.split("/")
        assert table not in {"people", "groups"}, path
        assert id_ != "-", path
        if table == "files" and id_ in world.files:
            file = world.files[id_]
            assert file.owner == world.owner or not file.path.startswith("/people/"), path


def _check_evaluation(
    kit: OfficeKit,
    task: Task,
    turns: Sequence[Turn],
    last: Observation,
    state: Mapping[str, JsonValue],
) -> None:
    """The trajectory can be evaluated, and its record can be written."""
    plain = [turn for turn in turns if turn.action is not None and _is_plain(dict(turn.action.parameters))]
    trajectory = Trajectory(
        "fuzz", task.id, "fuzz@1", tuple(plain), last, "step_limit", "rendered", final_state=state
    )
    fields_json(trajectory)
    assert not kit.verifier.verify(task, trajectory).is_success


def _is_plain(value: object) -> bool:
    """Returns whether records can hold the action; rollouts record others as malformed."""
    if isinstance(value, dict):
        return all(_is_plain(item) for item in (*value, *value.values()))
    if isinstance(value, list):
        return all(map(_is_plain, value))
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, str) or "\ud800" not in value


def test_two_thousand_actions_are_all_answered() -> None:
    accepted = fuzz(Random(0), 2_000)
    assert accepted > 300  # it is not all nonsense


@pytest.mark.parametrize(
    "action",
    [
        *(Action(5, "x"), Action([], "x"), Action("excel", []), Action("excel", "open", None)),  # type: ignore[arg-type]
        *(Action("excel", "open", ["f1"]), "user.finish", {}, None),  # type: ignore[arg-type]
    ],
)
def test_non_actions_are_malformed(action: Any) -> None:
    for task in (make_task("mail_move", 1), renamed(make_task("mail_move", 1))):
        environment = OfficeKit().environment(task)
        _, info = environment.reset(task)
        step = environment.step(action)
        assert step.observation.code == "malformed"
        assert step.info.state_hash == info.state_hash


def test_a_deeply_nested_value_is_refused() -> None:
    deep: Any = []
    for _ in range(20_000):
        deep = [deep]
    task = make_task("mail_move", 1)
    environment = OfficeKit().environment(task)
    environment.reset(task)
    assert environment.step(Action("excel", "open", {"id": deep})).observation.is_error


@pytest.mark.parametrize(("families", "split"), [([], "train"), (["mail_move"], "zz")])
def test_invalid_tasks_are_refused(families: list[str], split: Any) -> None:
    with pytest.raises(UnknownNameError, match="tasks are of one family or more and a split of train, heldout"):
        next(OfficeKit().tasks(seed=0, split=split, families=families))


@given(st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
def test_actions_that_hypothesis_draws_are_all_answered(rng: Random) -> None:
    fuzz(rng, 10)


@pytest.mark.slow
@given(st.randoms(use_true_random=True))
@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_hundred_thousand_actions_of_hypothesis_s_seeds_are_all_answered(rng: Random) -> None:
    fuzz(rng, 200)


@pytest.mark.slow
def test_a_hundred_thousand_actions_are_all_answered() -> None:
    assert fuzz(Random(1), 100_000) > 15_000
