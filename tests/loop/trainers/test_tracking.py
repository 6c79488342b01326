"""Configured trackers receive the curve of a training step; a missing client is a problem before any work."""

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.errands import MODEL
from upturn.config import AgentConfig, TrackerConfig
from upturn.errors import ConfigError
from upturn.loop.run.context import version_of
from upturn.loop.run.preflight import check_names
from upturn.loop.trainers.algorithms.grpo import train_grpo
from upturn.training.algorithms.grpo import GrpoSettings
from upturn.training.runs import register_tracker
from upturn.training.runs.trackers import RunEnd, TrackedRun, registry

NANO = AgentConfig(name="nano", kind="local_model", model=MODEL)
SETTINGS = GrpoSettings(iterations=1, tasks_per_iteration=2, group_size=2, evaluate_every=None, keep="final")


class Printing:
    """A tracker that lists what it gets."""

    def __init__(self, run: TrackedRun, received: list[object]) -> None:
        self.id = run.name
        self.received = received
        received.append((run.project, run.name))

    def log(self, units: int, values: Mapping[str, float]) -> None:
        self.received.append((units, values["update/optimiser_steps"]))

    def close(self, end: RunEnd) -> None:
        self.received.append(end)


@pytest.mark.parametrize(("name", "run"), [("", "run/grpo"), ("mine", "mine/grpo")])
def test_a_configured_tracker_receives_the_run(
    desk: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, run: str
) -> None:
    received: list[object] = []
    monkeypatch.setattr(registry, "_KINDS", dict(registry._KINDS))
    register_tracker("mlflow", lambda run: Printing(run, received))
    plain = desk.config(("solver",), environment={"max_turns": 1, "max_tokens": 64})
    trackers = TrackerConfig(use=("mlflow",), project="desk", name=name)
    config = plain.with_sections(SETTINGS, agents=(NANO,), trackers=trackers)
    with desk.opened(tmp_path / "run", config) as context:
        train_grpo(context, version_of(NANO), {"sums": 1.0}, "grpo")
    assert received[0] == ("desk", run)
    assert received[2:] == ["finished"]


def test_without_a_client_nothing_is_started(desk: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda _: None)
    config = desk.config().with_sections(trackers=TrackerConfig(use=("wandb", "trackio")))
    with pytest.raises(ConfigError) as caught:
        check_names(config, desk.kit())
    assert [problem.partition(", which")[0] for problem in caught.value.problems] == [
        "trackers.use: tracker 'wandb' needs its client",
        "trackers.use: tracker 'trackio' needs its client",
    ]
