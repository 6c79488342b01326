"""Sub-goal rewards in a real run: potentials that are not there are missed by name."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import pytest
import torch

from upturn.agents import Limits
from upturn.environments import EnvironmentKit
from upturn.environments.one_step import one_step
from upturn.errors import TrainingError
from upturn.loop.fleet import Fleet
from upturn.loop.trainee import Practice, Trainee
from upturn.records import AgentVersion, Evaluation, Task, Trajectory
from upturn.training import AdvantageSettings, GrpoSettings, ScoredGroup
from upturn.training.grpo import run_grpo

NANO = AgentVersion("nano", "base", "local_model", model="nano", parameters={"temperature": 1.0})
PRACTICE = Practice("run", 0, attempts=8)
SHAPED = AdvantageSettings("turn", is_shaped=True)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Forgetful:
    """Keeps nothing."""

    def append(self, run: str, iteration: int, finished: Sequence[tuple[Task, Trajectory, Evaluation]]) -> None:
        pass


def practised(kit: EnvironmentKit, family: str) -> tuple[Trainee, list[ScoredGroup]]:
    trainee = Trainee(Fleet(kit, Limits(max_turns=8, max_tokens=240, max_action_tokens=40)), NANO)
    tasks = list(islice(kit.tasks(seed=3, split="train", families=[family]), 2))
    return trainee, trainee.practise(tasks, 0, PRACTICE, Forgetful())


def test_shaping_without_potentials_is_refused_by_name(tmp_path: Path) -> None:
    kit = one_step("say", lambda rng: (f"say {rng.randint(0, 10**6)}", {}), lambda *_: False)
    trainee, groups = practised(kit, "say")
    settings = GrpoSettings(iterations=1, minibatches=1, evaluate_every=None, keep="final", advantage=SHAPED)
    with pytest.raises(TrainingError, match=r"no potentials to shape its rewards by; let the environment give"):
        run_grpo(trainee.model, lambda _: groups, settings, seed=0, run_dir=tmp_path)
