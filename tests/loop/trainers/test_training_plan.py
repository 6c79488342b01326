"""Plans of training runs: sizes are counted, costs measured by a probe."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmarks.errands import MODEL
from upturn.config import AgentConfig, OptimiserSettings
from upturn.errors import TrainingError
from upturn.loop.evaluation.model_selection import SELECTION_TASKS
from upturn.loop.rollouts.policy_worker import PolicyWorker
from upturn.loop.run.context import Context, version_of
from upturn.loop.trainers import training_plan
from upturn.loop.trainers.algorithms import online_dpo, ppo, rft
from upturn.loop.trainers.rl_training import RlSpec, rollout_spec
from upturn.loop.trainers.training_plan import (
    BACKWARD,
    PROBE_ROWS,
    PROBE_TRAJECTORIES,
    Cost,
    Overhead,
    Plan,
    epoch_workload,
    evaluation_count,
    measure_rollouts,
    measure_update,
    plan_on_rollouts,
    plan_on_rows,
    policy_overhead,
)
from upturn.records import Observation, TokenRow, Trajectory, Turn, WrittenSpan
from upturn.training.advantage import ScoredGroup, ScoredTrajectory
from upturn.training.algorithms.grpo import GrpoSettings
from upturn.training.algorithms.online_dpo import OnlineDpoSettings
from upturn.training.algorithms.ppo import PpoSettings
from upturn.training.algorithms.rft import RftSettings
from upturn.training.optimisation.memory_estimate import Load, estimate_memory, model_shape
from upturn.training.policy_settings import KlSettings, MismatchSettings, ObjectiveSettings
from upturn.training.row import TrainingRow, supervised_rows
from upturn.training.run_settings import IterationSettings, Keep

NANO = AgentConfig(name="nano", kind="local_model", model=MODEL)
SHORT = {"max_turns": 1, "max_tokens": 128}
HELDOUT = 32
"""Held-out tasks: 31 are configured, and the two families have equally many."""
COST = Cost(10.0, 5.0, 2.0, 3.0, 12)
"""A trajectory takes 2 s to sample and 3 s to train on."""
ROWS = 7 * 24 * 4
"""Trajectories of seven iterations of 24 tasks."""


@pytest.fixture
def context(desk: ModuleType, tmp_path: Path) -> Iterator[Context]:
    settings = desk.config(("solver",), environment=SHORT, ppo={"iterations": 7, "evaluate_every": 3})
    with desk.opened(tmp_path / "run", settings) as context:
        yield context


@pytest.fixture
def worker(context: Context) -> PolicyWorker:
    return PolicyWorker(context.runtime, version_of(NANO))


@pytest.fixture
def known_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every trajectory costs ``COST``."""
    monkeypatch.setattr(training_plan, "measure_rollouts", lambda *_: COST)


def _rows(*lengths: int) -> list[TrainingRow]:
    """Rows of these lengths, whose last two tokens were written."""
    return [
        supervised_rows(
            [
                Trajectory(
                    id=f"t{number}",
                    task_id=f"task{number}",
                    agent_version="nano@1",
                    turns=(Turn(Observation(""), "", None),),
                    final_observation=Observation(""),
                    outcome="finished",
                    origin="sampled",
                    rows=(TokenRow((5,) * length, (WrittenSpan(0, length - 2, length),), (-1.0,) * 2),),
                    temperature=1.0,
                )
            ]
        )[0]
        for number, length in enumerate(lengths)
    ]


def test_epochs_are_counted_in_whole_batches() -> None:
    rows = _rows(4, 5, 6, 7, 8)
    work = epoch_workload(rows, "5 successes", epochs=3, batch_rows=2)
    assert (work.units, work.unit, work.trained_rows, work.batch_rows) == (9, "optimiser step", 15, 2)


@pytest.mark.parametrize(
    ("iterations", "every", "count"), [(6, 3, 3), (7, 3, 4), (5, 5, 2), (1, 1, 2), (5, None, 0)]
)
def test_evaluations_are_before_when_due_and_at_the_end(iterations: int, every: int | None, count: int) -> None:
    keep: Keep = "best" if every else "final"
    settings = IterationSettings(iterations=iterations, evaluate_every=every, keep=keep)
    assert evaluation_count(settings) == count


def test_a_plan_over_rows_counts_them_exactly(
    context: Context, worker: PolicyWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three epochs over 4 + 5 + 9 tokens in batches of two; a row takes two seconds."""
    monkeypatch.setattr(training_plan, "measure_update", lambda *_: Cost(6.0, 2.0, 0.0, 2.0, 9))
    work = epoch_workload(_rows(4, 5, 9), "3 successes", epochs=3, batch_rows=2)
    plan = plan_on_rows(context, worker, "sft", work, overhead=Overhead(copies=1, scorings=1))
    shape = model_shape(worker.model)
    settings = replace(context.config.optimiser, micro_batch_tokens=12)  # two rows of six at a time
    expected = estimate_memory(shape, settings, Load(4, references=1, is_sampled=True, is_cpu=True))
    assert plan == Plan(
        "sft",
        "3 successes from the pool",
        6,
        "optimiser step",
        9,
        54,
        expected.total,
        9 * 2.0 * (1 + 1 / BACKWARD),
        plan.basis,
        memory_choices=plan.memory_choices,
    )
    assert plan.memory_choices["float32"] == plan.memory_bytes
    assert ("memory lora nf4", plan.memory_choices["lora nf4"] / 1e9) in [
        (result.name, result.value) for result in plan.results()
    ]
    assert [(result.name, result.value, result.unit) for result in plan.results()][:3] == [
        ("optimiser steps", 6.0, ""),
        ("rows", 9.0, ""),
        ("tokens", 54.0, ""),
    ]


def test_memory_follows_the_optimisers_settings(
    context: Context, worker: PolicyWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_plan, "measure_update", lambda *_: Cost(100.0, 50.0, 0.0, 1.0, 120))
    work = epoch_workload(_rows(*[100] * 40), "40 successes", epochs=1, batch_rows=32)

    def planned(**changed: Any) -> int:
        config = replace(context.config, optimiser=replace(context.config.optimiser, **changed))
        return plan_on_rows(replace(context, config=config), worker, "sft", work).memory_bytes

    def expected(tokens: int, written: int, **changed: Any) -> int:
        settings = replace(context.config.optimiser, micro_batch_tokens=tokens, **changed)
        return estimate_memory(
            model_shape(worker.model), settings, Load(written, is_sampled=True, is_cpu=True)
        ).total

    assert planned() == expected(3200, 1600)  # a step has no more than 32 rows
    assert planned(micro_batch_tokens=400) == expected(400, 200)
    assert planned(micro_batch_tokens=1) == expected(120, 60)
    assert planned(gradient_checkpointing="full") == expected(3200, 1600, gradient_checkpointing="full")


def _spec(context: Context, **changed: Any) -> RlSpec:
    settings = replace(context.config.section(PpoSettings), **changed)
    return RlSpec("a title", settings, rollout_spec(context, "x", 4), {"sums": 1.0})


@pytest.mark.usefixtures("known_cost")
def test_a_plan_on_rollouts_counts_rollouts_evaluations_and_passes(context: Context) -> None:
    """Evaluated before training and after 3, 6 and 7 iterations, and twice on held-out tasks."""
    parent = version_of(NANO)
    plan = plan_on_rollouts(context, parent, "ppo", _spec(context), passes=2)
    sampled = ROWS + 4 * SELECTION_TASKS + 2 * HELDOUT
    assert (plan.units, plan.unit, plan.rows, plan.tokens) == (7, "iteration", ROWS, ROWS * 10)
    assert plan.seconds == pytest.approx(sampled * 2.0 + ROWS * 2 * 3.0)
    assert plan.learns_from == "4 fresh trajectories of each of 24 tasks per iteration"
    assert plan.basis.startswith(f"a probe of {PROBE_TRAJECTORIES} trajectories on this machine")
    unevaluated = _spec(context, evaluate_every=None, keep="final")
    without = plan_on_rollouts(context, parent, "ppo", unevaluated, passes=2)
    assert without.seconds == pytest.approx(plan.seconds - 4 * SELECTION_TASKS * 2.0)


@pytest.mark.usefixtures("known_cost")
def test_a_critic_costs_a_trained_model_and_a_reference_a_copy(context: Context) -> None:
    parent, spec = version_of(NANO), _spec(context)
    plain = plan_on_rollouts(context, parent, "ppo", spec)
    critic = plan_on_rollouts(context, parent, "ppo", spec, overhead=Overhead(critics=1))
    reference = plan_on_rollouts(context, parent, "ppo", spec, overhead=Overhead(copies=1, scorings=1))
    copied = plan_on_rollouts(context, parent, "ppo", spec, overhead=Overhead(copies=1))
    scored_once = plan_on_rollouts(context, parent, "ppo", spec, passes=2, overhead=Overhead(scorings=1))
    parameters = model_shape(PolicyWorker(context.runtime, parent).model).parameters
    unevaluated = plan_on_rollouts(context, parent, "ppo", _spec(context, evaluate_every=None, keep="final"))
    assert plain.memory_bytes - unevaluated.memory_bytes == 4 * parameters  # the best weights so far
    assert critic.memory_bytes - plain.memory_bytes == 3 * 4 * parameters  # weights, AdamW's two
    assert reference.memory_bytes - plain.memory_bytes == 4 * parameters
    assert critic.seconds - plain.seconds == pytest.approx(ROWS * 3.0)
    assert reference.seconds - plain.seconds == pytest.approx(ROWS * 3.0 / BACKWARD)
    assert (copied.memory_bytes, copied.seconds) == (reference.memory_bytes, plain.seconds)
    assert scored_once.memory_bytes == plain.memory_bytes
    assert scored_once.seconds - plain.seconds == pytest.approx(ROWS * 3.0 * (1 + 1 / BACKWARD))  # one more pass


def test_continuations_cost_what_they_write(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four from each state; one from each of a trajectory's states writes 15 tokens, three times its own number."""
    monkeypatch.setattr(training_plan, "measure_rollouts", lambda *_: COST._replace(continued=15.0))
    parent, spec = version_of(NANO), _spec(context)
    plain = plan_on_rollouts(context, parent, "ppo", spec)
    measured = spec._replace(rollouts=replace(spec.rollouts, continuations=4))
    plan = plan_on_rollouts(context, parent, "ppo", measured)
    assert (plain.continued_tokens, plan.continued_tokens) == (0, ROWS * 4 * 15)
    assert plan.seconds - plain.seconds == pytest.approx(ROWS * 4 * 3 * 2.0)
    assert (plan.tokens, plan.memory_bytes) == (plain.tokens, plain.memory_bytes)
    names = [result.name for result in plan.results()]
    assert names[:6] == ["iterations", "rows", "tokens", "continued_tokens", "memory", "time"]
    assert [result.name for result in plain.results()] == [name for name in names if name != "continued_tokens"]


def test_a_probe_measures_continuations_only_where_the_run_has_them(context: Context, worker: PolicyWorker) -> None:
    """Both trajectories of a task share its first state, and have one turn."""
    tasks, rollouts = context.next_tasks(2), rollout_spec(context, "x", 2)
    cost = measure_rollouts(worker, tasks, replace(rollouts, continuations=3), OptimiserSettings())
    assert 0 < cost.continued < cost.written
    assert measure_rollouts(worker, tasks, rollouts, OptimiserSettings()).continued == 0.0


def test_a_probe_stores_nothing_and_does_not_change_the_weights(context: Context, worker: PolicyWorker) -> None:
    before = {name: value.clone() for name, value in worker.model.state_dict().items()}
    rollouts = rollout_spec(context, "x", 2)
    cost = measure_rollouts(worker, context.next_tasks(3), rollouts, OptimiserSettings())
    assert cost.sampling_seconds > 0 and cost.update_seconds > 0
    assert 0 < cost.written < cost.tokens <= cost.longest <= 128
    assert list(context.pool.selected(tenant="default")) == []
    assert all(value.equal(before[name]) for name, value in worker.model.state_dict().items())


def test_computing_activations_again_costs_a_third(worker: PolicyWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that ticks once per call."""
    ticks = map(float, range(100))
    monkeypatch.setattr("upturn.loop.trainers.training_plan.time.perf_counter", lambda: next(ticks))
    rows = _rows(*[9] * (PROBE_ROWS + 5))
    plain = measure_update(worker, rows, OptimiserSettings())
    checkpointed = measure_update(worker, rows, OptimiserSettings(gradient_checkpointing="full"))
    assert plain == Cost(9.0, 2.0, 0.0, 3.0 * 1.0 / PROBE_ROWS, 9)
    assert checkpointed == plain._replace(update_seconds=4.0 / PROBE_ROWS)


def test_without_a_row_there_is_no_plan(context: Context, worker: PolicyWorker) -> None:
    with pytest.raises(TrainingError, match="no row of tokens to train 'nano@base-in-training' on"):
        plan_on_rows(context, worker, "sft", epoch_workload([], "nothing", epochs=1, batch_rows=2))


@pytest.mark.usefixtures("known_cost")
@pytest.mark.parametrize(
    ("section", "overhead"),
    [
        ({}, Overhead()),
        ({"reference": "initial"}, Overhead(copies=1, scorings=1)),
        ({"pairs": {"by": "turn", "monte_carlo_share": 0.5}}, Overhead(critics=1, scorings=1)),
    ],
)
def test_online_dpo_has_the_overhead_of_a_reference_or_a_critic(
    desk: ModuleType, tmp_path: Path, section: dict[str, Any], overhead: Overhead
) -> None:
    """A critic scores every row once, and is trained."""
    with desk.opened(tmp_path, desk.config(("solver",), environment=SHORT, online_dpo=section)) as context:
        settings, parent = context.config.section(OnlineDpoSettings), version_of(NANO)
        spec = RlSpec("t", settings, rollout_spec(context, "online-dpo", settings.group_size), {"sums": 1.0})
        expected = plan_on_rollouts(context, parent, "online-dpo", spec, overhead=overhead)
        assert online_dpo.plan(context, parent) == expected


def test_a_reference_is_copied_and_scores_and_a_mismatch_correction_scores() -> None:
    kl, plain = ObjectiveSettings(kl=KlSettings(0.1)), ObjectiveSettings()
    assert policy_overhead(GrpoSettings(objective=plain)) == Overhead()
    assert policy_overhead(GrpoSettings(objective=kl), copies=1) == Overhead(copies=2, scorings=1)
    both = GrpoSettings(objective=kl, mismatch=MismatchSettings())
    assert policy_overhead(both) == Overhead(copies=1, scorings=2)


@pytest.mark.usefixtures("known_cost")
def test_ppo_has_the_overhead_of_a_critic(context: Context) -> None:
    parent, settings = version_of(NANO), context.config.section(PpoSettings)
    spec = RlSpec("t", settings, rollout_spec(context, "ppo", 8), {"sums": 1.0})
    assert ppo.plan(context, parent) == plan_on_rollouts(context, parent, "ppo", spec, overhead=Overhead(critics=1))


@pytest.mark.usefixtures("known_cost")
def test_rft_has_the_cost_of_all_trials_together(context: Context) -> None:
    plan = rft.plan(context, version_of(NANO))
    settings, trials = context.config.section(RftSettings), 9
    rows = settings.iterations * settings.tasks_per_iteration * settings.group_size
    evaluations = 1 + 9 + 1  # of the base, of each trial, and of the version that the command returns
    chance = 30 * settings.group_size
    assert (plan.units, plan.rows) == (trials * settings.iterations, trials * rows)
    sampled = trials * rows + evaluations * HELDOUT + chance
    assert plan.seconds == pytest.approx(sampled * 2.0 + trials * rows * 3.0 * (1 + 1 / BACKWARD))
    assert plan.learns_from == "30 tasks, 9 trainings with the controls and seeds"


def test_rft_without_a_random_control_measures_no_chance_and_evaluates_a_replication_model(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_plan, "measure_rollouts", lambda *_: COST._replace(update_seconds=0.0))
    settings = RftSettings(controls=(), seeds=2, replication_model="elsewhere")
    planned = replace(context, config=context.config.with_sections(settings))
    plan = rft.plan(planned, version_of(NANO))
    rows = settings.iterations * settings.tasks_per_iteration * settings.group_size
    assert plan.seconds == pytest.approx((4 * rows + (2 + 4 + 1) * HELDOUT) * 2.0)


def test_a_probe_without_written_tokens_is_refused(
    context: Context, worker: PolicyWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = context.next_tasks(2)
    empty = Trajectory("t", tasks[0].id, "nano@1", (), Observation(""), "token_limit", "sampled")
    groups = [ScoredGroup(task, (ScoredTrajectory(empty, None),) * 2) for task in tasks]
    monkeypatch.setattr(worker, "sample_groups", lambda *_: groups)
    with pytest.raises(TrainingError, match="no row of tokens to train 'nano@base-in-training' on"):
        measure_rollouts(worker, tasks, rollout_spec(context, "x", 2), OptimiserSettings())
