"""Training within a run: which tasks, which rewards, which demonstrations, and whose weights."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from benchmarks.errands import MODEL
from upturn.agents import render_trajectory
from upturn.config import AgentConfig, LoopConfig, OptimiserSettings, ReadinessConfig, RewardConfig
from upturn.errors import ModelError, TrainingError
from upturn.loop.agent_runtime import Engine, Purpose
from upturn.loop.cycle import run_cycle, serve, train
from upturn.loop.evaluation.evaluate import evaluate_version, evaluation_tasks
from upturn.loop.progress import NoProgress, curve_reporter
from upturn.loop.rollouts.policy_worker import PolicyWorker, RolloutSpec, TaskSampler
from upturn.loop.run.context import version_of
from upturn.loop.run.journal import read_progress
from upturn.loop.trainers.algorithms.grpo import train_grpo
from upturn.loop.trainers.algorithms.sft import take_training_snapshot
from upturn.loop.trainers.candidate import training_folder
from upturn.loop.trainers.pool_data import (
    load_demonstrations,
    render_demonstrations,
    render_writable,
)
from upturn.loop.trainers.rl_training import configured_reward, family_weights, overlong_penalty, rollout_spec
from upturn.models import Generation, GenerationRequest
from upturn.models.shipped import load_local, model_folder
from upturn.pool import PoolSink, Selection
from upturn.records import Action, Evaluation
from upturn.rewards import soft_overlong
from upturn.training import DynamicSamplingSettings, KlSettings, MismatchSettings, ObjectiveSettings, StateValue
from upturn.training.algorithms.grpo import GrpoSettings, preset
from upturn.training.algorithms.sft import SftSettings
from upturn.training.distributed.weights import weight_tensors
from upturn.training.evaluation_result import Evaluate, EvaluationResult
from upturn.training.row import written_count
from upturn.training.runs.curve import CurvePoint, read_curve
from upturn.training.runs.model_folder import save_version
from upturn.training.runs.run_folder import CURVE_FILE

NANO = AgentConfig(name="nano", kind="local_model", model=MODEL)


def test_iterations_tasks_depend_on_seed_and_iteration_only(desk: ModuleType) -> None:
    weights = {"sums": 3.0, "products": 1.0}
    straight = TaskSampler(desk.kit(), weights, 40, seed=5)
    rounds = [straight.tasks(iteration) for iteration in range(3)]
    resumed = TaskSampler(desk.kit(), weights, 40, seed=5)
    assert resumed.tasks(2) == rounds[2]
    ids = [task.id for item in rounds for task in item]
    assert len(set(ids)) == 120
    assert TaskSampler(desk.kit(), weights, 40, seed=6).tasks(0) != rounds[0]
    sums = Counter(task.family for item in rounds for task in item)["sums"]
    # 120 draws at 3/4 have mean 90 and deviation 4.7; outside of 70..110 with probability below 1e-4.
    assert 70 <= sums <= 110


def test_further_tasks_depend_on_seed_iteration_and_round_only(desk: ModuleType) -> None:
    """So that a resumed run needs not know how many rounds earlier iterations took."""
    sampler = TaskSampler(desk.kit(), {"sums": 1.0, "products": 1.0}, 6, seed=5)
    own = sampler.tasks(0)
    found = {place: sampler.further_tasks(*place) for place in ((0, 1), (0, 2), (1, 1))}
    again = TaskSampler(desk.kit(), {"sums": 1.0, "products": 1.0}, 6, seed=5)
    assert {place: again.further_tasks(*place) for place in reversed(found)} == found
    ids = [task.id for tasks in (own, *found.values()) for task in tasks]
    assert len(ids) == len(set(ids)) == 24
    assert again.tasks(0) == own


def test_further_rounds_are_sampled_anew_and_kept_beside_the_iterations_own(
    desk: ModuleType, tmp_path: Path
) -> None:
    with desk.opened(tmp_path, desk.config(environment={"max_turns": 1, "max_tokens": 64})) as context:
        worker = PolicyWorker(context.runtime, version_of(NANO))
        tasks, practice = context.next_tasks(2), RolloutSpec("run/practice", 0, group_size=4)
        sink = PoolSink(context.pool)
        rounds = [worker.sample_groups(tasks, 3, replace(practice, refill=index), sink) for index in (0, 1, 0)]
        kept = [
            {item.trajectory_id for item in context.pool.selected(Selection(run=run), tenant="default")}
            for run in ("run/practice", "run/practice/refill-1")
        ]
    names = [[member.trajectory.id for group in groups for member in group.members] for groups in rounds]
    written = [[member.trajectory.rows for group in groups for member in group.members] for groups in rounds]
    assert names[0] == names[2]
    assert set(names[0]).isdisjoint(names[1])
    assert written[0] == written[2]
    assert written[0] != written[1]
    assert kept == [set(names[0]), set(names[1])]


class _DyingEngine:
    """Serves so many calls, then none."""

    def __init__(self, engine: Engine, calls: int) -> None:
        self._engine, self._calls = engine, calls
        self.version = ""

    async def generate(self, request: GenerationRequest) -> Generation:
        self._calls -= 1
        if self._calls < 0:
            raise ModelError("nobody answers at http://127.0.0.1:9")
        return await self._engine.generate(request)

    def release(self, session: str) -> None:
        self._engine.release(session)

    def refresh(self) -> None:
        self._engine.refresh()


def test_attempts_that_an_engine_broke_are_missing_and_an_engine_that_breaks_all_is_an_error(
    desk: ModuleType, tmp_path: Path
) -> None:
    with desk.opened(tmp_path, desk.config(environment={"max_turns": 1, "max_tokens": 64})) as context:
        worker = PolicyWorker(context.runtime, version_of(NANO))
        engine, tasks = worker.engine, context.next_tasks(2)
        worker.engine = _DyingEngine(engine, 3)
        groups = worker.sample_groups(
            tasks, 0, RolloutSpec("run/some", 0, 2, lambda *_: 0.0), PoolSink(context.pool)
        )
        worker.engine = _DyingEngine(engine, 0)
        with pytest.raises(ModelError, match=r"the model failed in all 4 trajectories.*nobody answers at http"):
            worker.sample_groups(tasks, 1, RolloutSpec("run/none", 0, 2, lambda *_: 0.0), PoolSink(context.pool))
    members = [member for group in groups for member in group.members]
    assert sorted(item.trajectory.outcome for item in members).count("model_error") == 1
    assert [(item.turn_rewards, item.succeeded) for item in members if item.trajectory.error] == [(None, None)]


def test_overlong_trajectories_have_a_penalty(
    desk: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever an attempt writes counts as 90 tokens: half of the way from 80 to 100."""
    config = RewardConfig(overlong_tokens=100, overlong_buffer=20)
    penalty = overlong_penalty(config)
    assert penalty is not None
    assert overlong_penalty(RewardConfig()) is None
    with desk.opened(tmp_path, desk.config(environment={"max_turns": 1, "max_tokens": 64})) as context:
        worker = PolicyWorker(context.runtime, version_of(NANO))
        tasks = context.next_tasks(1)
        plain = rollout_spec(context, "plain", 2, reward=lambda _: 1.0)
        (group,) = worker.sample_groups(tasks, 0, plain, PoolSink(context.pool))
        penalised = replace(context, config=replace(context.config, rewards=config))
        monkeypatch.setattr("upturn.loop.trainers.rl_training.written_count", lambda _: 90)
        halved = rollout_spec(penalised, "halved", 2, reward=lambda _: 1.0)
        (other,) = worker.sample_groups(tasks, 0, halved, PoolSink(context.pool))
        monkeypatch.undo()
    trajectory = group.members[0].trajectory
    assert penalty(trajectory) == soft_overlong(written_count(trajectory), limit=100, buffer=20)
    assert [member.turn_rewards for member in group.members] == [(1.0,), (1.0,)]
    assert [member.turn_rewards for member in other.members] == [(0.5,), (0.5,)]


def test_practice_measures_states_where_it_is_told_to(desk: ModuleType, tmp_path: Path) -> None:
    """By what attempts earn, penalty and discount included; continuations are practice, not evidence."""
    with desk.opened(tmp_path, desk.config(environment={"max_turns": 2, "max_tokens": 64})) as context:
        worker = PolicyWorker(context.runtime, version_of(NANO))
        plain = RolloutSpec("run/plain", 0, group_size=2, reward=lambda *_: 0.5, gamma=0.5)
        sink = PoolSink(context.pool)
        (group,) = worker.sample_groups(context.next_tasks(1), 0, replace(plain, continuations=3), sink)
        kept = list(context.pool.selected(Selection(run="run/plain"), tenant="default"))
    assert len(kept) == 2
    for member in group.members:
        assert member.turn_rewards is not None
        assert member.state_values is not None
        *before, last = member.state_values
        assert last == StateValue(0.0, None)
        assert len(before) == len(member.turn_rewards)
        # Two turns at most: each continuation earns .5, at once or a turn later.
        assert all(value is not None and value.count == 3 and 0.25 <= value.mean <= 0.5 for value in before)
        if len(before) == 2:
            assert before[1] == StateValue(0.5, 3)


def test_practice_follows_what_still_fails_but_never_stops(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path) as context:
        tasks = evaluation_tasks(context.kit, context.trained_families, 20, seed=0, split="heldout")
        heldout = evaluate_version(
            context.runtime, context.service.versions()["adder@base"], tasks, Purpose("p", 0), pool=None
        )
    assert family_weights(heldout) == {"sums": 0.4, "products": 1.0}


def test_reward_is_the_configured_rubric_and_missing_stays_missing(desk: ModuleType, tmp_path: Path) -> None:
    rewards = RewardConfig(weights={"success": 3.0, "efficiency": 1.0})
    with desk.opened(tmp_path, replace(desk.config(), rewards=rewards)) as context:
        reward = configured_reward(context)
    judged = Evaluation("v", "t", "j", "desk/1", "success", (), {"success": 1.0, "efficiency": 0.5}, {}, 0.0)
    assert reward(judged) == 0.875
    assert reward(replace(judged, rewards={"success": 1.0, "efficiency": None})) == 1.0
    assert reward(replace(judged, rewards={})) is None
    assert reward(replace(judged, verdict="missing")) is None


def test_snapshot_holds_verified_training_successes_only(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path) as context:
        serve(context, "serve", 96)
        evaluate_version(
            context.runtime,
            context.service.versions()["solver@base"],
            evaluation_tasks(context.kit, ["sums"], 5, seed=0, split="heldout"),
            context.purpose("heldout"),
            pool=context.pool,
        )
        snapshot = take_training_snapshot(context)
        taken = list(context.pool.experiences_of(snapshot.trajectory_ids, tenant="default"))
        assert snapshot == take_training_snapshot(context)
    assert len(taken) > 20
    for item in taken:
        assert item.evaluation is not None
        assert item.evaluation.is_success
        assert item.task.split == "train"


def test_a_snapshot_takes_the_latest_successes_of_each_family(desk: ModuleType, tmp_path: Path) -> None:
    limited = desk.config().with_sections(SftSettings(limit_per_family=2))
    with desk.opened(tmp_path, limited) as context:
        serve(context, "serve", 96)
        successes = Selection(splits=("train",), verdicts=("success",), min_score=0.8)
        by_family: dict[str, list[str]] = {}
        for item in context.pool.selected(successes, tenant="default"):
            by_family.setdefault(item.family, []).append(item.trajectory_id)
        taken = take_training_snapshot(context).trajectory_ids
    assert sum(map(len, by_family.values())) > 20
    assert set(taken) == {trajectory_id for ids in by_family.values() for trajectory_id in ids[-2:]}


def test_nothing_to_learn_from_is_said_with_what_to_do(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path, desk.config(("refuser",))) as context:
        serve(context, "serve", 8)
        with pytest.raises(
            TrainingError,
            match=r"sft\.min_score = 0\.8 or more in sums, products of the tenant 'default': let an agent that",
        ):
            take_training_snapshot(context)


def test_demonstrations_come_in_the_same_order_in_every_run_of_a_seed(desk: ModuleType, tmp_path: Path) -> None:
    orders = []
    for name in ("one", "other"):
        with desk.opened(tmp_path / name) as context:
            serve(context, "serve", 96)
            found = load_demonstrations(context, take_training_snapshot(context))
            orders.append([(item.task_id, item.agent_version) for item in found])
    assert orders[0] == orders[1]
    assert len(orders[0]) > 20


def test_demonstrations_of_rules_are_rendered_for_the_model(desk: ModuleType, tmp_path: Path) -> None:
    config = replace(desk.config(("solver",)), agents=(NANO,))
    with desk.opened(tmp_path / "run", desk.config(("solver",))) as context:
        (served,) = context.service.serve(context.next_tasks(1))
        worker = PolicyWorker(context.runtime, version_of(config.agents[0]))
    (row,) = render_trajectory(served.trajectory, worker.renderer).rows
    (span,) = row.spans
    written = worker.renderer.read(row.token_ids[span.start : span.stop])
    assert written.action == served.trajectory.turns[0].action
    assert row.logprobs == ()
    assert render_trajectory(replace(served.trajectory, rows=(row,)), worker.renderer).rows == (row,)


def test_one_action_that_the_model_cannot_write_costs_one_demonstration(desk: ModuleType, tmp_path: Path) -> None:
    """Grammars differ: a tool called 'no name' is none in the model's."""
    with desk.opened(tmp_path / "run", desk.config(("solver",))) as context:
        serve(context, "serve", 3)
        worker = PolicyWorker(context.runtime, version_of(NANO))
        snapshot = take_training_snapshot(context)
        first, *others = load_demonstrations(context, snapshot)
        assert len(render_demonstrations(context, snapshot, worker)) == 3
        turn = replace(first.turns[0], action=Action("no name", "answer", {}))
        foreign = replace(first, turns=(turn,))
        writable = render_writable([foreign, *others], worker)
        assert [item.id for item in writable] == [item.id for item in others]
        context.pool.append(replace(foreign, id="foreign"))
        alone = replace(snapshot, id="alone", trajectory_ids=("foreign",))
        context.pool.append(alone)
        with pytest.raises(TrainingError, match="'nano' can write the first action of none of the 1 verified succ"):
            render_demonstrations(context, alone, worker)


def test_practice_leaves_the_version_that_serves_alone(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path, desk.config(environment={"max_turns": 1, "max_tokens": 64})) as context:
        version = version_of(NANO)
        tasks = context.next_tasks(3)
        jobs = [(version, task, 0) for task in tasks]
        before = context.runtime.rollout(jobs, Purpose("serve", 0))
        worker = PolicyWorker(context.runtime, version)
        with torch.no_grad():
            for tensor in worker.model.parameters():
                tensor.mul_(0.5)
        practice = RolloutSpec("run/practice", 0, group_size=2)
        groups = worker.sample_groups(tasks, 0, practice, PoolSink(context.pool))
        after = context.runtime.rollout(jobs, Purpose("serve", 0))
        kept = context.pool.selected(Selection(run="run/practice"), tenant="default")
    members = [member.trajectory for group in groups for member in group.members]
    assert [item.rows for item in after] == [item.rows for item in before]
    assert {item.model_version for item in members}.isdisjoint({item.model_version for item in before})
    assert {item.agent_version for item in members} == {"nano@base-in-training"}
    assert [len(group.members) for group in groups] == [2, 2, 2]
    assert {item.trajectory_id for item in kept} == {item.id for item in members}


def test_training_makes_versions_with_their_history_in_every_cycle(desk: ModuleType, tmp_path: Path) -> None:
    plain = desk.config(("solver", "refuser"), environment={"max_turns": 1, "max_tokens": 64}, tasks={"count": 48})
    config = plain.with_sections(
        SftSettings(batch_rows=8),
        GrpoSettings(iterations=1, tasks_per_iteration=2, group_size=2, evaluate_every=1),
        loop=LoopConfig(),
        agents=(*plain.agents, NANO),
        tasks=replace(plain.tasks, heldout_count=4),
    )
    with desk.opened(tmp_path / "run", config) as context:
        serve(context, "serve", 48)
        first = train(context, "cycle-1/")
        context.position.cycle = 2
        second = train(context, "cycle-2/")
        stored = {version.id: version for version in context.pool.agent_versions()}
    for number, made in ((1, first), (2, second)):
        for kind in ("sft", "grpo"):
            page = tmp_path / "run" / "training" / f"cycle-{number}" / kind / "report.html"
            assert "<h1>" in page.read_text()
        assert made.incumbent.id == "nano@base"
        assert made.candidate.version.startswith(f"cycle-{number}-grpo-")
        assert made.candidate.parent is not None
        assert made.candidate.parent.startswith(f"nano@cycle-{number}-sft-")
        assert stored[made.candidate.parent].parent == "nano@base"
        assert made.snapshot is not None
        assert made.candidate.snapshot == made.snapshot.id
        assert (made.candidate.run, made.candidate.tenants) == ("run", ("default",))
        assert Path(made.candidate.model).is_dir()
        assert [mark.task_id for mark in made.before.marks] == [mark.task_id for mark in made.after.marks]


def test_a_limit_on_a_cost_that_no_task_has_stops_training_by_name(desk: ModuleType, tmp_path: Path) -> None:
    """A judge that looked for errors when the run began and no longer does."""
    plain = desk.config(("solver",), environment={"max_turns": 1, "max_tokens": 64}, tasks={"heldout_count": 4})
    practice = GrpoSettings(iterations=1, evaluate_every=1, cost_limits={"error": 9.0})
    config = plain.with_sections(practice, agents=(NANO,))
    with desk.opened(tmp_path / "run", config) as context:
        context.runtime.kit.verifier = desk.mild_judge()
        with pytest.raises(TrainingError, match="gave no cost 'error', which has a limit; it gave none"):
            train_grpo(context, version_of(NANO), {"sums": 1.0}, "grpo")


NEVER_KEPT = (
    "RL training: Its one iteration was done, and no evaluation was within the limits on costs: before any step, "
    "the held-out cost error was 0.213, above its limit of 0.0001; after iteration 1, the held-out cost error was "
    "0.2, above its limit of 0.0001. No optimiser step was taken: no sample gave a training signal. No weights "
    "are kept: the model has its weights from before training."
)


LIMITED = GrpoSettings(
    iterations=1,
    tasks_per_iteration=2,
    group_size=2,
    evaluate_every=1,
    cost_limits={"error": 0.0001},
)


def costing(*errors: float) -> Callable[..., Evaluate | None]:
    """Configured evaluations with these costs by iteration, and rising scores."""

    def configured(*arguments: Any) -> Evaluate | None:
        *_, settings = arguments
        if settings.evaluate_every is None:
            return None
        return lambda iterations: EvaluationResult(iterations / 10, {"error": errors[iterations]})

    return configured


@pytest.mark.parametrize("share", [0.0, 0.25])
def test_practice_never_within_its_limits_makes_no_version_and_says_why(
    desk: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    monkeypatch.setattr("upturn.loop.trainers.candidate.configured_evaluation", costing(0.213, 0.2))
    practice = replace(LIMITED, incumbent_share=share)
    plain = desk.config(
        ("solver",), environment={"max_turns": 1, "max_tokens": 64}, tasks={"count": 4, "heldout_count": 4}
    )
    ready = ReadinessConfig(points=1, categories=1)
    config = plain.with_sections(practice, loop=LoopConfig(train=("grpo",)), agents=(NANO,), readiness=ready)
    for _ in range(2):  # the second time from the journal
        with desk.opened(tmp_path / "run", config) as context:
            told_to = Told()
            outcome = run_cycle(replace(context, progress=told_to), 1)
            versions = {version.id for version in context.pool.agent_versions()}
        steps = {step.name for step in read_progress(tmp_path / "run").steps}
        assert outcome.trained is not None
        assert outcome.trained.candidate == outcome.trained.incumbent == version_of(NANO)
        assert (outcome.validation, outcome.release) == (None, None)
        assert outcome.summary == f"no new version; {NEVER_KEPT}"
        assert told_to.notes[-1] == NEVER_KEPT
        assert versions == {"nano@base"}
        assert steps.isdisjoint({"cycle-1/heldout-after", "cycle-1/validation"})
        assert {result.name for result in outcome.results()}.isdisjoint({"cycle_1_gain", "cycle_1_success_after"})


def test_the_supervised_version_goes_on_where_practice_is_never_within_its_limits(
    desk: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("upturn.loop.trainers.candidate.configured_evaluation", costing(0.213, 0.2))
    plain = desk.config(
        ("solver",), environment={"max_turns": 1, "max_tokens": 64}, tasks={"count": 16, "heldout_count": 4}
    )
    sft, ready = SftSettings(batch_rows=8), ReadinessConfig(points=1, categories=1)
    config = plain.with_sections(sft, LIMITED, loop=LoopConfig(), agents=(*plain.agents, NANO), readiness=ready)
    with desk.opened(tmp_path / "run", config) as context:
        outcome = run_cycle(context, 1)
    made = outcome.trained
    assert made is not None
    assert made.candidate.version.startswith("cycle-1-sft-")
    assert made.after is made.after_sft
    assert outcome.validation is not None
    assert outcome.summary.endswith(f"; {NEVER_KEPT}")
    assert {"cycle_1_gain", "cycle_1_success_after"} <= {result.name for result in outcome.results()}


def test_practice_that_leaves_its_limits_says_so_and_keeps_what_was_within(
    desk: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version has the weights of iteration 1, the last within; 2 of 3 iterations are done."""
    monkeypatch.setattr("upturn.loop.trainers.candidate.configured_evaluation", costing(0.0, 0.1, 0.3))
    practice = GrpoSettings(
        iterations=3,
        tasks_per_iteration=2,
        group_size=4,
        evaluate_every=1,
        optimiser=OptimiserSettings(learning_rate=1e-3),
        cost_limits={"error": 0.2},
    )
    plain = desk.config(
        ("solver",), environment={"max_turns": 1, "max_tokens": 64}, tasks={"count": 4, "heldout_count": 4}
    )
    config = plain.with_sections(practice, loop=LoopConfig(train=("grpo",)), agents=(NANO,))
    with desk.opened(tmp_path / "run", config) as context:
        told_to = Told()
        made = train(replace(context, progress=told_to), "")
    assert made.candidate.version.startswith("grpo-")
    words = (
        "RL training: It stopped after 2 of 3 iterations: after iteration 2, the held-out cost error was 0.3, "
        "above its limit of 0.2. No optimiser step was taken: no sample gave a training signal. The weights "
        "after iteration 1 are kept: the best of 3 evaluations."
    )
    assert made.limits == told_to.notes[-1] == words


def test_candidate_keeps_its_share_of_the_incumbent(desk: ModuleType, tmp_path: Path) -> None:
    practice = GrpoSettings(
        iterations=1, tasks_per_iteration=2, group_size=2, evaluate_every=1, incumbent_share=0.25
    )
    plain = desk.config(("solver",), environment={"max_turns": 1, "max_tokens": 64}, tasks={"heldout_count": 4})
    config = plain.with_sections(practice, agents=(NANO,))
    base = version_of(NANO)
    local = load_local(MODEL).model
    with torch.no_grad():
        for parameter in local.parameters():
            parameter.mul_(0.5)  # practice finds nothing better than these weights: they solve no sum, nor does it
    save_version(local, tmp_path / "halved", companions=model_folder(MODEL))
    parent = replace(base, version="halved", model=str(tmp_path / "halved"))
    with desk.opened(tmp_path / "run", config) as context:
        version = train_grpo(context, parent, {"sums": 1.0}, "grpo")
    before = weight_tensors(load_local(MODEL).model)
    for name, tensor in weight_tensors(load_local(version.model).model).items():
        torch.testing.assert_close(tensor, (0.75 * 0.5 + 0.25) * before[name])


@pytest.mark.parametrize(
    ("staleness", "weights"),
    [pytest.param(0, 3, marks=pytest.mark.slow), (1, 2), pytest.param(2, 1, marks=pytest.mark.slow)],
)
def test_practice_can_sample_ahead_with_weights_as_old_as_configured(
    desk: ModuleType, tmp_path: Path, staleness: int, weights: int
) -> None:
    practice = GrpoSettings(
        iterations=3,
        tasks_per_iteration=2,
        group_size=4,
        evaluate_every=3,
        optimiser=OptimiserSettings(learning_rate=1e-3),
        staleness=staleness,
    )
    plain = desk.config(("solver",), environment={"max_turns": 1, "max_tokens": 64}, tasks={"heldout_count": 4})
    config = plain.with_sections(practice, agents=(NANO,))

    def reward(evaluation: Evaluation) -> float:
        return float(int(evaluation.trajectory_id, 16) % 7)  # differs within every group

    with desk.opened(tmp_path / "run", config) as context:
        train_grpo(context, version_of(NANO), {"sums": 1.0}, "grpo", reward=reward)
        sampled = list(context.pool.trajectories(tenant="default"))
        curve = read_curve(training_folder(context, "grpo") / CURVE_FILE)
    assert len(sampled) == 3 * 2 * 4
    assert len({trajectory.model_version for trajectory in sampled}) == weights
    reported = [point.metrics.get("staleness") for point in curve[1:]]
    assert reported == ([None] * 3 if staleness == 0 else [float(min(i, staleness)) for i in range(3)])


def test_the_configured_algorithm_is_the_one_that_runs(desk: ModuleType, tmp_path: Path) -> None:
    """Two tasks whose attempts earn the same, so two more are drawn; sampler and trainer are the same model."""
    practice = replace(
        preset("dapo"),
        objective=ObjectiveSettings(kl=KlSettings(coefficient=0.1, target=0.1, horizon=100)),
        mismatch=MismatchSettings(),
        dynamic_sampling=DynamicSamplingSettings(max_rounds=2),
        iterations=1,
        tasks_per_iteration=2,
        group_size=2,
        minibatches=1,
        evaluate_every=1,
    )
    plain = desk.config(("solver",), environment={"max_turns": 1, "max_tokens": 64}, tasks={"heldout_count": 4})
    config = plain.with_sections(practice, agents=(NANO,))
    rewards = iter([0.0] * 4 + [0.0, 1.0] * 2)
    with desk.opened(tmp_path / "run", config) as context:
        train_grpo(context, version_of(NANO), {"sums": 1.0}, "grpo", reward=lambda _: next(rewards))
    point = read_curve(tmp_path / "run" / "training" / "grpo" / CURVE_FILE)[-1].metrics
    assert list(rewards) == []
    assert (point["sampling_rounds"], point["groups"], point["filtered_groups"]) == (2.0, 4.0, 2.0)
    assert point["kl_coefficient"] == 0.1
    assert point["kl_reference"] == pytest.approx(0.0, abs=1e-3)
    assert point["mismatch_weight_max"] == pytest.approx(1.0, abs=1e-3)


def test_one_attempt_at_each_task_teaches_where_none_are_compared(desk: ModuleType, tmp_path: Path) -> None:
    base = preset("reinforce_pp")
    practice = replace(
        base,
        objective=replace(base.objective, kl=None),
        iterations=1,
        tasks_per_iteration=4,
        group_size=1,
        minibatches=1,
        evaluate_every=1,
    )
    plain = desk.config(("solver",), environment={"max_turns": 1, "max_tokens": 64}, tasks={"heldout_count": 4})
    config = plain.with_sections(practice, agents=(NANO,))
    rewards = iter([0.0, 1.0, 1.0, 0.0])
    with desk.opened(tmp_path / "run", config) as context:
        train_grpo(context, version_of(NANO), {"sums": 1.0}, "grpo", reward=lambda _: next(rewards))
    point = read_curve(tmp_path / "run" / "training" / "grpo" / CURVE_FILE)[-1].metrics
    assert (point["groups"], point["trajectories"], point["trained_rows"]) == (4.0, 4.0, 4.0)


class Told(NoProgress):
    """Keeps what it was told."""

    def __init__(self) -> None:
        self.advances: list[tuple[int, dict[str, float]]] = []
        self.notes: list[str] = []

    def advance(self, count: int = 1, **figures: float) -> None:
        self.advances.append((count, figures))

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_resumed_training_shows_what_was_done_before() -> None:
    progress = Told()
    report = curve_reporter(progress, loss="loss")
    for units, loss in ((41, 0.5), (42, 0.0), (43, None)):  # 40 units were done by a process that was killed
        report(CurvePoint(units, units, {"loss": loss, "other": 1.0}))
    assert progress.advances == [(41, {"loss": 0.5}), (1, {"loss": 0.0}), (1, {})]
