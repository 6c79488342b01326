"""Shaped rewards in a real run: potentials reach the credit of turns; their absence is an error."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import pytest
import torch

from benchmarks.errands import MODEL
from benchmarks.errands.kit import ErrandsKit
from upturn.config import Limits
from upturn.environments import EnvironmentKit
from upturn.environments.one_step import one_step
from upturn.errors import TrainingError
from upturn.loop.agent_runtime import AgentRuntime
from upturn.loop.rollouts.policy_worker import PolicyWorker, RolloutSpec
from upturn.records import AgentVersion, Evaluation, Task, Trajectory
from upturn.training import ScoredGroup
from upturn.training.advantages import AdvantageSettings, advantage_of
from upturn.training.algorithms.grpo import GrpoSettings, run_grpo
from upturn.training.runs import RunOptions

NANO = AgentVersion("nano", "base", "local_model", model=MODEL, parameters={"temperature": 1.0})
PRACTICE = RolloutSpec("run", 0, group_size=8)
SHAPED = AdvantageSettings("turn", is_shaped=True)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class NoSink:
    """Stores nothing."""

    def append(self, run: str, iteration: int, finished: Sequence[tuple[Task, Trajectory, Evaluation]]) -> None:
        pass


def train_on_rollouts(kit: EnvironmentKit, family: str) -> tuple[PolicyWorker, list[ScoredGroup]]:
    worker = PolicyWorker(AgentRuntime(kit, Limits(max_turns=8, max_tokens=240, max_action_tokens=40)), NANO)
    tasks = list(islice(kit.tasks(seed=3, split="train", families=[family]), 2))
    return worker, worker.sample_groups(tasks, 0, PRACTICE, NoSink())


def test_turns_are_credited_with_differences_of_the_potential(tmp_path: Path) -> None:
    worker, groups = train_on_rollouts(ErrandsKit(), "call_off")
    potentials = [member.potentials for group in groups for member in group.members]
    assert all(values is not None and values[0] == values[-1] == 0.0 for values in potentials)
    assert any(0.0 < value <= 1.0 for values in potentials if values is not None for value in values)
    # Shaping changes the credit of turns, not the returns.
    plain, shaped = (advantage_of(AdvantageSettings("turn", is_shaped=flag)) for flag in (False, True))
    assert [shaped(group).returns for group in groups] == [plain(group).returns for group in groups]
    assert [shaped(group).turns for group in groups] != [plain(group).turns for group in groups]
    settings = GrpoSettings(iterations=1, minibatches=1, evaluate_every=None, keep="final", advantage=SHAPED)
    run_grpo(worker.model, lambda _: groups, settings, RunOptions(0, tmp_path))


def test_shaping_without_potentials_is_refused_by_name(tmp_path: Path) -> None:
    kit = one_step("say", lambda rng: (f"say {rng.randint(0, 10**6)}", {}), lambda *_: False)
    worker, groups = train_on_rollouts(kit, "say")
    settings = GrpoSettings(iterations=1, minibatches=1, evaluate_every=None, keep="final", advantage=SHAPED)
    with pytest.raises(TrainingError, match=r"no potentials to shape its rewards by; let the environment give"):
        run_grpo(worker.model, lambda _: groups, settings, RunOptions(0, tmp_path))
