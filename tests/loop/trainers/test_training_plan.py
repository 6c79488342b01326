"""What a run would take: counted exactly where it can be, from a probe otherwise."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmarks.errands import MODEL
from upturn.config import AgentConfig, Config, OptimiserSettings
from upturn.errors import TrainingError
from upturn.loop.evaluation.model_selection import SELECTION_TASKS
from upturn.loop.rollouts.policy_worker import PolicyWorker
from upturn.loop.run.context import Context, version_of
from upturn.loop.trainers import online_dpo as dpo_rounds
from upturn.loop.trainers import ppo, rft
from upturn.loop.trainers.rl_training import Course, rollout_plan
from upturn.loop.trainers.training_plan import (
    BACKWARD,
    FEW_ROWS,
    PROBED_ATTEMPTS,
    Cost,
    Held,
    Plan,
    evaluations,
    held_by,
    in_epochs,
    practice_plan,
    probed,
    rows_plan,
    scored,
)
from upturn.records import Observation, TokenRow, Trajectory, Turn, WrittenSpan
from upturn.training.advantage import ScoredGroup, ScoredTrajectory
from upturn.training.algorithms.grpo import GrpoSettings
from upturn.training.algorithms.online_dpo import OnlineDpoSettings
from upturn.training.algorithms.ppo import PpoSettings
from upturn.training.algorithms.rft import RftSettings
from upturn.training.optimisation.memory_estimate import estimate_memory, model_shape
from upturn.training.policy_settings import KlSettings, MismatchSettings, ObjectiveSettings
from upturn.training.row import TrainingRow, supervised_rows
from upturn.training.run_settings import IterationSettings

NANO = AgentConfig(name="nano", kind="local_model", model=MODEL)
SHORT = {"max_turns": 1, "max_tokens": 128}
HELDOUT = 32
"""Held-out tasks: 31 are asked for, and the two families have as many each."""


@pytest.fixture
def context(desk: ModuleType, tmp_path: Path) -> Iterator[Context]:
    settings = desk.config(("solver",), environment=SHORT, ppo={"iterations": 7, "evaluate_every": 3})
    with desk.opened(tmp_path / "run", settings) as found:
        yield found


@pytest.fixture
def worker(context: Context) -> PolicyWorker:
    return PolicyWorker(context.runtime, version_of(NANO))


def _rows(*lengths: int) -> list[TrainingRow]:
    """The last two tokens of each were written."""
    return [
        supervised_rows(
            [
                Trajectory(
                    id=f"t{at}",
                    task_id=f"task{at}",
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
        for at, length in enumerate(lengths)
    ]


def test_epochs_are_counted_in_whole_batches() -> None:
    rows = _rows(4, 5, 6, 7, 8)
    walk = in_epochs(rows, "5 successes", epochs=3, batch_rows=2)
    assert (walk.units, walk.unit, walk.taken, walk.batch_rows) == (9, "optimiser step", 15, 2)


@pytest.mark.parametrize(("rounds", "every", "times"), [(6, 3, 3), (7, 3, 4), (5, 5, 2), (1, 1, 2)])
def test_evaluations_are_before_when_due_and_at_the_end(rounds: int, every: int, times: int) -> None:
    assert evaluations(IterationSettings(iterations=rounds, evaluate_every=every)) == times


def test_a_plan_over_rows_counts_them_exactly(
    context: Context, worker: PolicyWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three epochs over 4 + 5 + 9 tokens in batches of two; a row takes two seconds."""
    monkeypatch.setattr("upturn.loop.trainers.training_plan.scored", lambda *_: Cost(6.0, 2.0, 0.0, 2.0, 9))
    walk = in_epochs(_rows(4, 5, 9), "3 successes", epochs=3, batch_rows=2)
    found = rows_plan(context, worker, "sft", walk, held=Held(copies=1, scorings=1))
    shape = model_shape(worker.model)
    expected = estimate_memory(
        shape, micro_batch_tokens=12, written_tokens=4, copies=2
    )  # two rows of six at a time
    assert found == Plan(
        "sft",
        "3 successes that the pool holds",
        6,
        "optimiser step",
        9,
        54,
        expected.total,
        9 * 2.0 * (1 + 1 / BACKWARD),
        found.basis,
    )
    assert [(each.name, each.value, each.unit) for each in found.results()][:3] == [
        ("optimiser steps", 6.0, ""),
        ("rows", 9.0, ""),
        ("tokens", 54.0, ""),
    ]


def _with_optimiser(config: Config, **changed: Any) -> Config:
    return replace(config, optimiser=replace(config.optimiser, **changed))


def test_memory_follows_the_optimisers_settings(
    context: Context, worker: PolicyWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("upturn.loop.trainers.training_plan.scored", lambda *_: Cost(100.0, 50.0, 0.0, 1.0, 120))
    walk = in_epochs(_rows(*[100] * 40), "40 successes", epochs=1, batch_rows=32)

    def taken(**changed: object) -> int:
        planned = replace(context, config=_with_optimiser(plain, **changed))
        return rows_plan(planned, worker, "sft", walk).memory_bytes

    plain, shape = context.config, model_shape(worker.model)
    whole = estimate_memory(
        shape, micro_batch_tokens=3200, written_tokens=1600, copies=1
    )  # a step has no more than 32 rows
    assert taken() == whole.total
    small = estimate_memory(shape, micro_batch_tokens=400, written_tokens=200, copies=1)
    assert taken(micro_batch_tokens=400) == small.total
    assert (
        taken(micro_batch_tokens=1)
        == estimate_memory(shape, micro_batch_tokens=120, written_tokens=60, copies=1).total
    )
    again = estimate_memory(shape, micro_batch_tokens=3200, written_tokens=1600, is_checkpointed=True, copies=1)
    assert taken(gradient_checkpointing=True) == again.total


def _course(context: Context, **changed: object) -> Course:
    course = Course("a title", context.config.section(PpoSettings), {"sums": 1.0}, rollout_plan(context, "x", 4))
    return course._replace(**changed)  # type: ignore[arg-type]


def test_a_plan_of_practice_counts_attempts_watch_exams_and_passes(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounds of 24 tasks with 4 attempts, evaluated before, after 3, 6 and 7; an attempt 2 s, a step 3 s."""
    monkeypatch.setattr("upturn.loop.trainers.training_plan.probed", lambda *_: Cost(10.0, 5.0, 2.0, 3.0, 12))
    parent, rows = version_of(NANO), 7 * 24 * 4
    found = practice_plan(context, parent, "ppo", course=_course(context), passes=2)
    attempts = rows + 4 * SELECTION_TASKS + 2 * HELDOUT
    assert (found.units, found.unit, found.rows, found.tokens) == (7, "iteration", rows, rows * 10)
    assert found.seconds == pytest.approx(attempts * 2.0 + rows * 2 * 3.0)
    assert found.learns_from == "4 fresh attempts at each of 24 tasks a round"
    assert found.basis.startswith(f"a probe of {PROBED_ATTEMPTS} attempts on this machine")
    unwatched = practice_plan(context, parent, "ppo", course=_course(context, is_watched=False), passes=2)
    assert unwatched.seconds == pytest.approx(found.seconds - 4 * SELECTION_TASKS * 2.0)


def test_a_critic_takes_a_model_and_a_reference_a_copy(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("upturn.loop.trainers.training_plan.probed", lambda *_: Cost(10.0, 5.0, 2.0, 3.0, 12))
    parent, course = version_of(NANO), _course(context)
    alone = practice_plan(context, parent, "ppo", course=course)
    critic = practice_plan(context, parent, "ppo", course=course, held=Held(critics=1))
    reference = practice_plan(context, parent, "ppo", course=course, held=Held(copies=1, scorings=1))
    kept = practice_plan(context, parent, "ppo", course=course, held=Held(copies=1))
    scored_once = practice_plan(context, parent, "ppo", course=course, passes=2, held=Held(scorings=1))
    parameters = model_shape(PolicyWorker(context.runtime, parent).model).parameters
    unwatched = practice_plan(context, parent, "ppo", course=course._replace(is_watched=False))
    assert alone.memory_bytes - unwatched.memory_bytes == 4 * parameters  # the best weights so far
    assert critic.memory_bytes - alone.memory_bytes == 4 * 4 * parameters  # weights, gradient, AdamW's two
    assert reference.memory_bytes - alone.memory_bytes == 4 * parameters
    rows = 7 * 24 * 4
    assert critic.seconds - alone.seconds == pytest.approx(rows * 3.0)
    assert reference.seconds - alone.seconds == pytest.approx(rows * 3.0 / BACKWARD)
    assert (kept.memory_bytes, kept.seconds) == (reference.memory_bytes, alone.seconds)  # held, and not asked
    assert scored_once.memory_bytes == alone.memory_bytes
    assert scored_once.seconds - alone.seconds == pytest.approx(rows * 3.0 * (1 + 1 / BACKWARD))  # a pass more


def test_continuations_cost_what_they_write(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four from each state; one from each of an attempt's states writes 15 tokens, three times what it wrote."""
    monkeypatch.setattr("upturn.loop.trainers.training_plan.probed", lambda *_: Cost(10.0, 5.0, 2.0, 3.0, 12, 15.0))
    parent, rows = version_of(NANO), 7 * 24 * 4
    plain = practice_plan(context, parent, "ppo", course=_course(context))
    practice = replace(rollout_plan(context, "x", 4), continuations=4)
    found = practice_plan(context, parent, "ppo", course=_course(context, practice=practice))
    assert (plain.continued_tokens, found.continued_tokens) == (0, rows * 4 * 15)
    assert found.seconds - plain.seconds == pytest.approx(rows * 4 * 3 * 2.0)
    assert (found.tokens, found.memory_bytes) == (plain.tokens, plain.memory_bytes)
    names = [each.name for each in found.results()]
    assert names == ["iterations", "rows", "tokens", "continued_tokens", "memory", "time"]
    assert [each.name for each in plain.results()] == [name for name in names if name != "continued_tokens"]


def test_a_probe_measures_what_continuations_write_where_there_will_be_some(
    context: Context, worker: PolicyWorker
) -> None:
    """Both attempts at a task share its first state, and one turn is all there is."""
    tasks, practice = context.next_tasks(2), rollout_plan(context, "x", 2)
    found = probed(worker, tasks, replace(practice, continuations=3), OptimiserSettings())
    assert 0 < found.continued < found.written
    assert probed(worker, tasks, practice, OptimiserSettings()).continued == 0.0


def test_a_probe_keeps_nothing_and_leaves_the_weights(context: Context, worker: PolicyWorker) -> None:
    before = {name: value.clone() for name, value in worker.model.state_dict().items()}
    practice = rollout_plan(context, "x", 2)
    found = probed(worker, context.next_tasks(3), practice, OptimiserSettings())
    assert found.sampling_seconds > 0 and found.update_seconds > 0
    assert 0 < found.written < found.tokens <= found.longest <= 128
    assert list(context.pool.selected(tenant="default")) == []
    assert all(value.equal(before[name]) for name, value in worker.model.state_dict().items())


def test_computing_activations_again_costs_a_third(worker: PolicyWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that ticks once a second."""
    monkeypatch.setattr(
        "upturn.loop.trainers.training_plan.time.perf_counter", iter(map(float, range(100))).__next__
    )
    rows = _rows(*[9] * (FEW_ROWS + 5))
    plain = scored(worker, rows, OptimiserSettings())
    again = scored(worker, rows, OptimiserSettings(gradient_checkpointing=True))
    assert plain == Cost(9.0, 2.0, 0.0, 3.0 * 1.0 / FEW_ROWS, 9)
    assert again == replace_seconds(plain, 4.0 / FEW_ROWS)


def test_without_a_row_there_is_no_plan(context: Context, worker: PolicyWorker) -> None:
    with pytest.raises(TrainingError, match="not one row of tokens to train 'nano@base-in-training' on"):
        rows_plan(context, worker, "sft", in_epochs([], "nothing", epochs=1, batch_rows=2))


def replace_seconds(cost: Cost, seconds: float) -> Cost:
    return cost._replace(update_seconds=seconds)


@pytest.mark.parametrize(
    ("asked", "held"),
    [
        ({}, Held()),
        ({"reference": "initial"}, Held(copies=1, scorings=1)),
        ({"pairs": {"by": "turn", "monte_carlo_share": 0.5}}, Held(critics=1, scorings=1)),
    ],
)
def test_preference_rounds_hold_a_reference_or_a_critic(
    desk: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], held: Held
) -> None:
    """A critic is asked about every row once, and trained."""
    monkeypatch.setattr("upturn.loop.trainers.training_plan.probed", lambda *_: Cost(10.0, 5.0, 2.0, 3.0, 12))
    with desk.opened(tmp_path, desk.config(("solver",), environment=SHORT, online_dpo=asked)) as context:
        section, parent = context.config.section(OnlineDpoSettings), version_of(NANO)
        course = Course("t", section, {"sums": 1.0}, rollout_plan(context, "online-dpo", section.group_size))
        expected = practice_plan(context, parent, "online-dpo", course=course, held=held)
        assert dpo_rounds.plan(context, parent) == expected


def test_a_reference_is_held_and_asked_and_the_samplers_log_probs_are_computed_again() -> None:
    kl, plain = ObjectiveSettings(kl=KlSettings(0.1)), ObjectiveSettings()
    assert held_by(GrpoSettings(objective=plain)) == Held()
    assert held_by(GrpoSettings(objective=kl), copies=1) == Held(copies=2, scorings=1)
    both = GrpoSettings(objective=kl, mismatch=MismatchSettings())
    assert held_by(both) == Held(copies=1, scorings=2)


def test_lessons_hold_what_they_hold(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """PPO a critic; reinforcement from examples all trials together, unwatched."""
    monkeypatch.setattr("upturn.loop.trainers.training_plan.probed", lambda *_: Cost(10.0, 5.0, 2.0, 3.0, 12))
    parent = version_of(NANO)
    course = Course("t", context.config.section(PpoSettings), {"sums": 1.0}, rollout_plan(context, "ppo", 8))
    assert ppo.plan(context, parent) == practice_plan(context, parent, "ppo", course=course, held=Held(critics=1))
    found = rft.plan(context, parent)
    section, trials = context.config.section(RftSettings), 9
    rows = section.iterations * section.tasks_per_iteration * section.group_size
    heldout_results = 1 + 9 + 1  # of the base, of each trial, and of the version that comes out
    chance = 30 * section.group_size
    assert (found.units, found.rows) == (trials * section.iterations, trials * rows)
    sampled = trials * rows + heldout_results * HELDOUT + chance
    assert found.seconds == pytest.approx(sampled * 2.0 + trials * rows * 3.0 * (1 + 1 / BACKWARD))
    assert found.learns_from == "30 tasks, 9 trainings with the controls and seeds"


def test_examples_without_a_random_control_measure_no_chance_and_a_second_base_is_examined_too(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("upturn.loop.trainers.training_plan.probed", lambda *_: Cost(10.0, 5.0, 2.0, 0.0, 12))
    own = RftSettings(controls=(), seeds=2, second_base="elsewhere")
    planned = replace(context, config=context.config.with_sections(own))
    found = rft.plan(planned, version_of(NANO))
    rows = own.iterations * own.tasks_per_iteration * own.group_size
    assert found.seconds == pytest.approx((4 * rows + (2 + 4 + 1) * HELDOUT) * 2.0)


def test_a_probe_in_which_nobody_wrote_anything_is_refused(
    context: Context, worker: PolicyWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = context.next_tasks(2)
    nothing = Trajectory("t", tasks[0].id, "nano@1", (), Observation(""), "token_limit", "sampled")
    groups = [ScoredGroup(task, (ScoredTrajectory(nothing, None),) * 2) for task in tasks]
    monkeypatch.setattr(worker, "sample_groups", lambda *_: groups)
    with pytest.raises(TrainingError, match="not one row of tokens to train 'nano@base-in-training' on"):
        probed(worker, tasks, rollout_plan(context, "x", 2), OptimiserSettings())
