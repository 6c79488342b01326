"""Offline training: which stored trajectories a policy gradient can use, and notes on the others."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch

from benchmarks.errands import MODEL
from upturn.config import AgentConfig, LoopConfig
from upturn.errors import ConfigError, TrainingError
from upturn.loop.agent_runtime import Purpose
from upturn.loop.cycle import serve
from upturn.loop.evaluation.evaluate import HeldoutResult
from upturn.loop.progress import NoProgress
from upturn.loop.rollouts.policy_worker import PolicyWorker, RolloutSpec
from upturn.loop.run.context import open_run, version_of
from upturn.loop.trainers.algorithms.offline import load_trajectories, train, weights_by_age
from upturn.loop.trainers.train_command import check
from upturn.models import CompactRenderer, Renderer
from upturn.models.shipped import load_local
from upturn.pool import PoolSink
from upturn.pool.snapshot import find_snapshot
from upturn.training.algorithms.offline import OfflineSettings
from upturn.training.data.usability import EXCLUSION_REASONS

NANO = AgentConfig(name="nano", kind="local_model", model=MODEL)
SHORT = {"max_turns": 1, "max_tokens": 128}


def _renderer() -> Renderer:
    return CompactRenderer(load_local(MODEL).tokenizer)


class Notes(NoProgress):
    """Stores the notes."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)


def _pool(desk: ModuleType, folder: Path, *, has_rollouts: bool) -> str:
    """Four tasks served by a rule; with rollouts also two tasks that nano sampled twice each, and one greedy
    trajectory."""
    with desk.opened(folder, desk.config(("solver",), environment=SHORT)) as context:
        serve(context, "serve", 4)
        if has_rollouts:
            worker = PolicyWorker(context.runtime, version_of(NANO))
            tasks = context.next_tasks(2)
            worker.sample_groups(tasks, 0, RolloutSpec("run/practice", 0, 2), PoolSink(context.pool))
            version = worker.serve_as(worker.version)
            (greedy,) = context.runtime.rollout([(version, tasks[0], 7)], Purpose("greedy", 0, temperature=0.0))
            evaluation = context.runtime.kit.verifier.verify(tasks[0], greedy)
            PoolSink(context.pool).append("run/greedy", 0, [(tasks[0], greedy, evaluation)])
    return str(folder / "pool.db")


def test_only_usable_trajectories_are_loaded_and_the_others_are_noted(desk: ModuleType, tmp_path: Path) -> None:
    path = _pool(desk, tmp_path / "before", has_rollouts=True)
    notes = Notes()
    settings = desk.config(("solver",), environment=SHORT, pool={"path": path})
    with open_run(settings, tmp_path / "now", "toy", notes) as context:
        scored = load_trajectories(context, _renderer()).scored
    assert len(scored) == 4
    assert {each.trajectory.temperature for _, each in scored} == {1.0}
    assert all(each.turn_rewards is not None for _, each in scored)
    start = notes.lines.index("offline can train on 4 of 9 trajectories")
    assert notes.lines[start + 1 : start + 3] == [
        f"  4 left out: {EXCLUSION_REASONS['no_tokens']}",
        f"  1 left out: {EXCLUSION_REASONS['temperature']}",
    ]


def test_a_pool_without_sampled_trajectories_is_refused_with_the_remedy(desk: ModuleType, tmp_path: Path) -> None:
    path = _pool(desk, tmp_path / "before", has_rollouts=False)
    with (
        desk.opened(tmp_path / "now", desk.config(("solver",), pool={"path": path})) as context,
        pytest.raises(TrainingError, match="holds no trajectory with its sampler's log-probs; train on it with"),
    ):
        load_trajectories(context, _renderer())


def test_a_pool_with_one_trajectory_per_task_is_refused_with_the_remedy(desk: ModuleType, tmp_path: Path) -> None:
    """Before anything is planned or trained, although the log-probs are stored."""
    with desk.opened(tmp_path / "before", desk.config(("solver",), environment=SHORT)) as context:
        worker = PolicyWorker(context.runtime, version_of(NANO))
        worker.sample_groups(context.next_tasks(3), 0, RolloutSpec("run/practice", 0, 1), PoolSink(context.pool))
    settings = desk.config(("solver",), pool={"path": str(tmp_path / "before" / "pool.db")})
    with (
        desk.opened(tmp_path / "now", settings) as context,
        pytest.raises(TrainingError, match=r"each of the 3 trajectories .* is the only one of its task.*grpo"),
    ):
        load_trajectories(context, _renderer())


def test_a_run_without_a_configured_pool_is_refused(desk: ModuleType) -> None:
    config = replace(desk.config(("solver",)), agents=(NANO,), loop=LoopConfig())
    with pytest.raises(ConfigError, match=r"trains on stored data, and pool\.path is empty"):
        check(config, "offline")


def test_a_version_names_the_snapshot_that_it_was_trained_on(
    desk: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("upturn.loop.evaluation.model_selection.SELECTION_TASKS", 2)
    path = _pool(desk, tmp_path / "before", has_rollouts=True)
    plain = desk.config(("solver",), environment=SHORT, pool={"path": path})
    section = replace(plain.section(OfflineSettings), iterations=1, groups=2, minibatches=1)
    with desk.opened(tmp_path / "now", plain.with_sections(section)) as context:
        version = train(context, version_of(NANO), HeldoutResult("before", "nano@base", 1.0, ()), "offline")
        held = find_snapshot(context.pool, str(version.snapshot))
        stored = {item.trajectory_id for item in context.pool.selected(tenant="default")}
    assert set(held.trajectory_ids) == stored
    assert len(stored) == 9


def test_the_age_of_weights_follows_the_order_in_which_they_sampled(desk: ModuleType, tmp_path: Path) -> None:
    """Not the order of trajectory ids, which are hashes."""
    hashes = []
    with desk.opened(tmp_path / "before", desk.config(("solver",), environment=SHORT)) as context:
        worker = PolicyWorker(context.runtime, version_of(NANO))
        tasks = context.next_tasks(2)
        for number in range(6):
            worker.sample_groups(tasks, number, RolloutSpec("run/practice", 0, 2), PoolSink(context.pool))
            hashes.append(worker.engine.version)
            with torch.no_grad():
                next(worker.model.parameters()).add_(1e-4)
    settings = desk.config(("solver",), environment=SHORT, pool={"path": str(tmp_path / "before" / "pool.db")})
    with desk.opened(tmp_path / "now", settings) as context:
        scored = load_trajectories(context, _renderer()).scored
    nano, another = version_of(NANO), replace(version_of(NANO), agent="another")
    assert weights_by_age("nano", [another, nano], scored) == tuple(hashes)
    assert weights_by_age("another", [another, nano], scored) == ()
