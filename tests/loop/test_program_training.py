"""Programs in training: groups of their attempts, and the work of other agents in their tokens."""

from dataclasses import replace
from typing import Any

import httpx2
import pytest

from upturn.agents import Attempt
from upturn.agents.program import captured_calls
from upturn.config import Limits
from upturn.environments import one_step
from upturn.errors import ConfigError, ModelError
from upturn.loop.agent_runtime import AgentRuntime, Purpose
from upturn.loop.rollouts import HintedRetries, PolicyWorker, RolloutSpec
from upturn.records import Action, AgentVersion, Evaluation, Observation, Task, Trajectory, Turn

KIT = one_step(
    "say", lambda rng: (f"say {rng.choice(['red', 'blue'])}", {}), lambda action, _: bool(action.parameters)
)
TASKS = [task for task, _ in zip(KIT.tasks(seed=3, split="train", families=["say"]), range(2), strict=False)]


async def ask(attempt: Attempt, *, system: str = "") -> Action:
    messages = [{"role": "system", "content": system}] if system else []
    body = {"model": "m", "messages": [*messages, {"role": "user", "content": attempt.task}], "max_tokens": 8}
    async with httpx2.AsyncClient(headers={"x-api-key": attempt.api_key}) as client:
        answer = (await client.post(f"{attempt.base_url}/chat/completions", json=body)).json()
    return Action("user", "answer", {"text": answer["choices"][0]["message"]["content"]})


async def plain(attempt: Attempt) -> Action:
    return await ask(attempt)


async def prompted(attempt: Attempt) -> Action:
    return await ask(attempt, system="Be brief.")


async def broken(attempt: Attempt) -> Action:
    raise RuntimeError(f"no {attempt.task}")


class Sink:
    def __init__(self) -> None:
        self.stored: list[tuple[Task, Trajectory, Evaluation]] = []

    def append(self, run: str, iteration: int, finished: Any) -> None:
        assert (run, iteration) == ("r", 0)
        self.stored += finished


def worker(name: str) -> PolicyWorker:
    parameters = {"import_path": f"{__name__}:{name}"}
    version = AgentVersion("mine", "base", "program", model="nano", parameters=parameters)
    return PolicyWorker(AgentRuntime(KIT, Limits(max_tokens=128)), version)


def demonstration() -> Trajectory:
    turn = Turn(Observation("say red"), "mail.move id=m1", Action("mail", "move", {"id": "m1"}))
    return Trajectory("d", TASKS[0].id, "rule@base", (turn,), Observation("done"), "finished", "rendered")


def test_attempts_of_a_program_are_groups_with_the_tokens_of_the_trained_weights() -> None:
    trained, sink = worker("prompted"), Sink()
    groups = trained.sample_groups(TASKS, 0, RolloutSpec("r", 0, 3), sink)
    members = [member for group in groups for member in group.members]
    assert [len(group.members) for group in groups] == [3, 3]
    assert len(sink.stored) == 6
    for member in members:
        trajectory = member.trajectory
        assert (trajectory.origin, trajectory.temperature) == ("sampled", 1.0)
        assert trajectory.model_version == trained.engine.version
        (row,) = trajectory.rows
        assert row.token_ids[: row.spans[0].start] == trained.renderer.open(
            Observation(trajectory.turns[0].observation.text), "Be brief."
        )
        assert trained.rendered(trajectory) is trajectory
        assert member.is_scorable
    assert len({member.trajectory.rows[0].token_ids for member in members}) > 1


def test_work_of_other_agents_is_rendered_only_for_programs_that_send_the_task_as_it_is() -> None:
    (row,) = worker("plain").rendered(demonstration()).rows
    opening = worker("plain").renderer.open(Observation("say red"), "")
    assert row.token_ids[: row.spans[0].start] == opening
    assert worker("prompted").rendered(demonstration()).rows == ()


def test_a_program_with_another_model_is_rendered_as_its_own_calls_read() -> None:
    sampled, other = worker("prompted"), worker("prompted")
    (trajectory,) = sampled.runtime.rollout([(sampled.serve_as(sampled.version), TASKS[0], 0)], Purpose("k", 0))
    assert len(captured_calls(trajectory)) == 1
    foreign = replace(trajectory, rows=(), origin="rendered", temperature=None, model_version="")
    (row,) = other.rendered(foreign).rows
    assert row.logprobs == ()
    assert row.token_ids[: row.spans[0].start] == trajectory.rows[0].token_ids[: trajectory.rows[0].spans[0].start]


def test_a_program_that_never_works_ends_training_with_its_error() -> None:
    with pytest.raises(ModelError, match=r"the program failed in all 2 trajectories before its first call.*no say"):
        worker("broken").sample_groups(TASKS[:1], 0, RolloutSpec("r", 0, 2), Sink())


def test_what_needs_turns_is_refused_by_name() -> None:
    trained = worker("plain")
    with pytest.raises(ConfigError, match=r"'mine' is a program.* continuations"):
        trained.sample_groups(TASKS, 0, RolloutSpec("r", 0, 2, continuations=1), Sink())
    with pytest.raises(ConfigError, match=r"'mine' is a program.* hints"):
        HintedRetries(trained, RolloutSpec("r", 0, 2), "rationalisation")
