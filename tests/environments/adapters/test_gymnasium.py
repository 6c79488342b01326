"""Kits as environments of the installed Gymnasium."""

import math
from typing import Any

import pytest

from benchmarks.errands import ENVIRONMENT, compose, make_task
from upturn.environments import resolve_kit
from upturn.environments.stepwise import TASK_OVER
from upturn.errors import UnknownNameError, WorldError
from upturn.models import read_call, write_call
from upturn.records import Action, Tool

gymnasium = pytest.importorskip("gymnasium", reason="the extra gymnasium is not installed")

from gymnasium.utils.env_checker import check_env  # noqa: E402

from upturn.environments.adapters.gymnasium import KitEnv, register  # noqa: E402
from upturn.environments.adapters.gymnasium_space import CallSpace, action_from_mapping  # noqa: E402


@pytest.mark.parametrize(
    ("kit", "arguments"),
    [
        (ENVIRONMENT, {}),
        (ENVIRONMENT, {"level": 3, "split": "heldout"}),
        (ENVIRONMENT, {"family": "mail_file"}),
        ("office", {"level": 1}),
        ("office", {"family": "table_summary", "split": "heldout"}),
        ("office", {"family": "mail_draft_unanswered"}),
    ],
)
def test_gymnasiums_checker_passes(kit: str, arguments: dict[str, Any]) -> None:
    check_env(gymnasium.make(register(kit), **arguments).unwrapped)  # warnings are errors here


def test_the_environment_id_has_the_verifiers_version() -> None:
    assert [register(kit) for kit in ("office", ENVIRONMENT)] == ["upturn/office-v5", "upturn/errands-v1"]


def test_a_kit_without_tools_passes_the_checker_too(twice: str) -> None:
    check_env(gymnasium.make(register(f"{twice}:kit")).unwrapped)


def test_the_oracle_earns_1_with_the_last_action() -> None:
    env = gymnasium.make(register(ENVIRONMENT), family="mail_to_event")
    observation, info = env.reset(seed=4)
    task = next(iter(resolve_kit(ENVIRONMENT).tasks(seed=4, split="train", families=["mail_to_event"])))
    assert (observation, info["task"]["id"]) == (task.instruction, task.id)
    *before, last = [env.step(write_call(action)) for action in compose(task).draft.oracle]
    assert [step[1:4] for step in before] == [(0.0, False, False)] * len(before)
    assert last[1:4] == (1.0, True, False)
    assert last[4]["evaluation"]["verdict"] == "success"
    assert all("evaluation" not in step[4] and "potential" not in step[4] for step in before)
    assert {"reward_components", "cost_components", "faults", "state_hash", "code"} <= last[4].keys()


def test_faults_are_reported_in_their_step(interrupted: Any) -> None:
    env = KitEnv("office")
    _, info = env.reset(options={"task": interrupted.task})
    infos = [env.step(call)[4] for call in interrupted.calls]
    assert info["faults"] == ()
    assert [list(info["faults"]) for info in infos] == interrupted.faults
    assert all(info["cost_components"] == {} for info in infos)


def test_a_structured_action_equals_its_text() -> None:
    task = make_task("mail_file", 0)
    results = []
    for is_structured in (False, True):
        env = KitEnv(ENVIRONMENT)
        env.reset(options={"task": task})
        for action in compose(task).draft.oracle:
            call = {"target": action.target, "operation": action.operation, "parameters": dict(action.parameters)}
            result = env.step(call if is_structured else write_call(action))
        assert env.episode is not None
        results.append((result, env.episode.trajectory()))
    assert results[0] == results[1]


def test_aliases_of_parts_are_exclusive() -> None:
    known = {"target": "user", "operation": "answer", "parameters": {"text": "7"}, "thought": "so"}
    other = {"target_app": "user", "operation": "answer", "parameters": {"text": "7"}, "reasoning": "so"}
    assert action_from_mapping(other) == action_from_mapping(known) == Action("user", "answer", {"text": "7"}, "so")
    for wrong in (
        {**other, "target": "user"},
        {**other, "thought": "so"},
        {**other, "app": "user"},
        {"target_app": "user"},
        {**other, "target_app": 3},
        {**other, "parameters": ["7"]},
        {**other, "reasoning": None},
    ):
        assert action_from_mapping(wrong) is None, wrong
        assert wrong not in CallSpace(())


def test_a_seed_starts_its_tasks_and_further_resets_continue() -> None:
    env, other = KitEnv(ENVIRONMENT), KitEnv(ENVIRONMENT)
    first = [env.reset(seed=1)[0], env.reset()[0], env.reset()[0]]
    assert [other.reset(seed=1)[0], other.reset()[0], other.reset()[0]] == first
    assert len(set(first)) == 3
    assert other.reset(seed=2)[0] not in first


def test_agent_mistakes_get_observations_and_program_errors_raise() -> None:
    env = KitEnv(ENVIRONMENT, max_turns=2)
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset first"):
        env.step("mail.list folder=inbox")
    with pytest.raises(gymnasium.error.ResetNeeded):
        gymnasium.make(register(ENVIRONMENT)).step("mail.list folder=inbox")
    env.reset(seed=0)
    for wrong in (None, 3, b"user.finish", {"target": "user"}, {"target": "user", "operation": "finish", "x": 1}):
        assert wrong not in env.action_space
        with pytest.raises(gymnasium.error.InvalidAction, match="an action is a text or a mapping"):
            env.step(wrong)  # type: ignore[arg-type]
    _, reward, terminated, truncated, info = env.step("what now")
    assert (info["code"], reward, terminated, truncated) == ("malformed", 0.0, False, False)
    assert info["cost_components"] == {"error": 1.0}
    assert env.step("\ud800")[1:4] == (0.0, False, True), "the limit of its actions truncates"
    *rest, info = env.step("user.finish")
    assert (rest, info["code"]) == ([TASK_OVER.text, 0.0, False, True], "is_over")
    assert "evaluation" not in info


def test_a_missing_evaluation_gives_no_reward(twice: str) -> None:
    env = KitEnv(f"{twice}:unjudged")
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step("user.answer text=1")
    assert terminated
    assert math.isnan(reward)
    assert info["evaluation"]["verdict"] == "missing"


def test_samples_are_valid_calls_of_the_kits_tools() -> None:
    space = KitEnv(ENVIRONMENT).action_space
    assert isinstance(space, CallSpace)
    space.seed(0)
    samples = [space.sample() for _ in range(300)]
    assert all(sample in space for sample in samples)
    calls = [read_call(sample) for sample in samples]
    names = {f"{call.target}.{call.operation}" for call in calls if call is not None}
    assert names == {tool.name for tool in space.tools}
    days = {call.parameters["day"] for call in calls if call is not None and "day" in call.parameters}
    assert days == {"mon", "tue", "wed", "thu", "fri"}
    space.seed(0)
    assert [space.sample() for _ in range(300)] == samples
    assert space != CallSpace(())
    assert CallSpace(()).sample().startswith("user.answer text=")


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ({"type": "number", "minimum": 0.5}, {str(float(number)) for number in range(1, 21)}),
        ({"type": "number", "minimum": 0.5, "maximum": 0.8}, {"0.5"}),
        ({"type": "integer", "minimum": 100}, {"100"}),
        ({"type": "integer", "maximum": -3}, {"-3"}),
        ({"type": "integer", "minimum": 0.5, "maximum": 2}, {"1", "2"}),
        ({"type": "integer", "minimum": 2**70, "maximum": 2**70}, {str(2**70)}),
    ],
)
def test_numbers_are_sampled_within_the_schemas_bounds(schema: dict[str, Any], values: set[str]) -> None:
    space = CallSpace((Tool("shop", "order", "", {"count": schema}, ("count",)),))
    space.seed(0)
    assert {space.sample() for _ in range(400)} == {f"shop.order count={value}" for value in values}


def test_a_registered_kit_has_its_verifiers_version(twice: str) -> None:
    assert register(f"{twice}:kit") == "upturn/twice-v7"
    with pytest.raises(WorldError, match="already registered with Gymnasium as another environment"):
        register(f"{twice}:other")
    name = register(ENVIRONMENT)
    assert name == f"upturn/errands-v{resolve_kit(ENVIRONMENT).verifier.name.rpartition('/')[2]}"
    assert register(ENVIRONMENT) == name, "twice is once"
    assert gymnasium.registry[name].kwargs == {"kit": ENVIRONMENT}


def test_vectorised_environments_step() -> None:
    together = gymnasium.make_vec(register(ENVIRONMENT), num_envs=2, vectorization_mode="sync", level=1)
    observations, _ = together.reset(seed=3)
    assert len(observations) == 2
    _, rewards, *_ = together.step(("user.finish", "what"))
    assert rewards.tolist() == [0.0, 0.0]


def test_unknown_names_are_refused_by_the_constructor() -> None:
    with pytest.raises(UnknownNameError, match="no family 'fax'"):
        KitEnv(ENVIRONMENT, family="fax")
    with pytest.raises(UnknownNameError, match="reset takes one option, task, a Task; got"):
        KitEnv(ENVIRONMENT).reset(options={"tsk": make_task("mail_file", 0)})
    with pytest.raises(UnknownNameError, match="one option"):
        KitEnv(ENVIRONMENT).reset(options={"task": "mail_file"})
    with pytest.raises(WorldError):
        KitEnv(ENVIRONMENT, max_turns=0).reset()
