"""Learning from a pool: what of it a policy gradient can use, and what is said of the rest."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch

from benchmarks.errands import MODEL
from upturn.config import AgentConfig
from upturn.errors import ConfigError, TrainingError
from upturn.loop.agent_runtime import Purpose
from upturn.loop.cycle import serve
from upturn.loop.evaluation.evaluate import HeldoutResult
from upturn.loop.progress import NoProgress
from upturn.loop.rollouts.policy_worker import PolicyWorker, RolloutPlan
from upturn.loop.run.context import open_run, version_of
from upturn.loop.trainers.offline import train, usable_attempts, versions_of
from upturn.models import CompactRenderer, Renderer
from upturn.models.shipped import load_local
from upturn.pool import PoolSink
from upturn.pool.snapshot import find_snapshot
from upturn.training.algorithms.offline import OfflineSettings
from upturn.training.data.usability import REASONS

NANO = AgentConfig(name="nano", kind="local_model", model=MODEL)
SHORT = {"max_turns": 1, "max_tokens": 128}


def _renderer() -> Renderer:
    return CompactRenderer(load_local(MODEL).tokenizer)


class Notes(NoProgress):
    """Keeps what is noted."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)


def _pool(desk: ModuleType, folder: Path, *, is_practised: bool) -> str:
    """Four tasks served by a rule; where there is practice, two tasks that nano attempts twice each, and one of the
    four attempts as if drawn at another temperature."""
    with desk.opened(folder, desk.config(("solver",), environment=SHORT)) as context:
        serve(context, "serve", 4)
        if is_practised:
            worker = PolicyWorker(context.runtime, version_of(NANO))
            tasks = context.next_tasks(2)
            worker.sample_groups(tasks, 0, RolloutPlan("run/practice", 0, 2), PoolSink(context.pool))
            version = worker.serve_as(worker.version)
            hot = context.runtime.rollout([(version, tasks[0], 7)], Purpose("hot", 0, temperature=0.5))
            PoolSink(context.pool).append(
                "run/hot", 0, [(tasks[0], hot[0], context.runtime.kit.verifier.verify(tasks[0], hot[0]))]
            )
    return str(folder / "pool.db")


def test_only_what_a_policy_gradient_can_use_is_taken_and_the_rest_is_told(
    desk: ModuleType, tmp_path: Path
) -> None:
    path = _pool(desk, tmp_path / "before", is_practised=True)
    notes = Notes()
    settings = desk.config(("solver",), environment=SHORT, pool={"path": path})
    with open_run(settings, tmp_path / "now", "toy", notes) as context:
        found = usable_attempts(context, _renderer())
    assert len(found) == 4
    assert {each.trajectory.temperature for _, each in found} == {1.0}
    assert all(each.turn_rewards is not None for _, each in found)
    start = notes.lines.index("offline can learn from 4 of 9 attempts")
    assert notes.lines[start + 1 : start + 3] == [
        f"  4 left out: {REASONS['no_tokens']}",
        f"  1 left out: {REASONS['temperature']}",
    ]


def test_a_pool_without_sampled_attempts_is_refused_with_what_to_do(desk: ModuleType, tmp_path: Path) -> None:
    path = _pool(desk, tmp_path / "before", is_practised=False)
    with (
        desk.opened(tmp_path / "now", desk.config(("solver",), pool={"path": path})) as context,
        pytest.raises(TrainingError, match="holds no attempt with its sampler's log-probs; train on it with sft"),
    ):
        usable_attempts(context, _renderer())


def test_a_pool_where_every_task_was_attempted_once_is_refused_with_what_to_do(
    desk: ModuleType, tmp_path: Path
) -> None:
    """Before anything is planned or trained, though their log-probs are there."""
    with desk.opened(tmp_path / "before", desk.config(("solver",), environment=SHORT)) as context:
        worker = PolicyWorker(context.runtime, version_of(NANO))
        worker.sample_groups(context.next_tasks(3), 0, RolloutPlan("run/practice", 0, 1), PoolSink(context.pool))
    settings = desk.config(("solver",), pool={"path": str(tmp_path / "before" / "pool.db")})
    with (
        desk.opened(tmp_path / "now", settings) as context,
        pytest.raises(TrainingError, match=r"each of the 3 attempts .* is the only one at its task.*train grpo"),
    ):
        usable_attempts(context, _renderer())


def test_a_run_with_a_pool_of_its_own_has_nothing_to_learn_from(desk: ModuleType, tmp_path: Path) -> None:
    with (
        desk.opened(tmp_path, desk.config(("solver",))) as context,
        pytest.raises(ConfigError, match=r"learns from evidence that is there already, and pool\.path is empty"),
    ):
        usable_attempts(context, _renderer())


def test_a_version_says_which_snapshot_it_learned_from(
    desk: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("upturn.loop.evaluation.model_selection.SELECTION_TASKS", 2)
    path = _pool(desk, tmp_path / "before", is_practised=True)
    plain = desk.config(("solver",), environment=SHORT, pool={"path": path})
    section = replace(plain.section(OfflineSettings), iterations=1, groups=2, minibatches=1)
    with desk.opened(tmp_path / "now", plain.with_sections(section)) as context:
        learned = train(context, version_of(NANO), HeldoutResult("before", "nano@base", 1.0, ()), "offline")
        held = find_snapshot(context.pool, str(learned.snapshot))
        stored = {each.trajectory_id for each in context.pool.selected(tenant="default")}
    assert set(held.trajectory_ids) == stored
    assert len(stored) == 9


def test_the_age_of_weights_follows_the_order_in_which_they_sampled(desk: ModuleType, tmp_path: Path) -> None:
    """Ids of trajectories are hashes: by them the second weights came first in about half of the runs."""
    hashes = []
    with desk.opened(tmp_path / "before", desk.config(("solver",), environment=SHORT)) as context:
        worker = PolicyWorker(context.runtime, version_of(NANO))
        tasks = context.next_tasks(2)
        for number in range(6):
            worker.sample_groups(tasks, number, RolloutPlan("run/practice", 0, 2), PoolSink(context.pool))
            hashes.append(worker.engine.version)
            with torch.no_grad():
                next(worker.model.parameters()).add_(1e-4)
    settings = desk.config(("solver",), environment=SHORT, pool={"path": str(tmp_path / "before" / "pool.db")})
    with desk.opened(tmp_path / "now", settings) as context:
        found = usable_attempts(context, _renderer())
    nano, another = version_of(NANO), replace(version_of(NANO), agent="another")
    assert versions_of("nano", [another, nano], found) == tuple(hashes)
    assert versions_of("another", [another, nano], found) == ()
