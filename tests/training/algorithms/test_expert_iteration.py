"""Training on own successes reaches known optima, restarts exactly, and resumes exactly."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from upturn.agents.hint import Hint
from upturn.config import OptimiserSettings
from upturn.errors import ConfigError, TrainingError
from upturn.models.engine import weights_hash
from upturn.records import Observation, Task, Trajectory
from upturn.training import ScoredGroup, ScoredTrajectory, supervised_rows
from upturn.training.algorithms.expert_iteration import (
    ImitationSettings,
    IteratedSettings,
    RejectionSettings,
    SelfRepairSettings,
    StarSettings,
    run_imitation,
)
from upturn.training.algorithms.sft import SftSettings, run_sft
from upturn.training.data.hinted_groups import HintedGroup
from upturn.training.distributed.weights import copy_tensors, restore_weights, weight_tensors
from upturn.training.runs import RunOptions, read_curve
from upturn.training.runs.curve import CurvePoint
from upturn.training.runs.metric import UNREPEATED, metric_of
from upturn.training.runs.run_folder import CURVE_FILE
from upturn.training.selection_settings import HintSettings, SelectionSettings

Model = Callable[..., PreTrainedModel]
Make = Callable[..., Trajectory]
Toy = Callable[..., Any]
"""``CopyTask`` of conftest."""
FAST = OptimiserSettings(learning_rate=5e-3)
PLAIN = ImitationSettings(evaluate_every=None, keep="final", optimiser=FAST, decay="none")
HELP = HintSettings("rationalisation")


def test_iterated_training_on_successes_learns_to_copy(tiny_model: Model, copy_task: Toy, tmp_path: Path) -> None:
    task = copy_task(tiny_model(), group_size=24)
    before = task.score(0)
    plan = replace(IteratedSettings(), decay="none", iterations=20, epochs=6, optimiser=FAST, target_score=0.95)
    outcome = run_imitation(task.model, task.collect, plan, RunOptions(0, tmp_path, evaluate=task.score))
    assert before < 0.15
    assert outcome.stopped == "target"
    assert task.score(0) >= 0.95


def test_rejection_sampling_learns_to_copy_in_one_round(tiny_model: Model, copy_task: Toy, tmp_path: Path) -> None:
    """100 trajectories that succeed 1 time in 20 and more: none of a symbol's does with probability .95¹⁰⁰ <
    .006."""
    task = copy_task(tiny_model(), group_size=100)
    before = task.score(0)
    plan = replace(RejectionSettings(), decay="none", epochs=60, optimiser=FAST)
    outcome = run_imitation(task.model, task.collect, plan, RunOptions(0, tmp_path, evaluate=task.score))
    assert (outcome.units, outcome.kept_units) == (1, 1)
    assert before < 0.15
    assert task.score(0) >= 0.95
    metrics = read_curve(tmp_path / CURVE_FILE)[-1].metrics
    assert metrics["kept"] == 4  # the correct answer is one token: one distinct success per symbol
    assert metrics["duplicates"] == metrics["trajectories"] - metrics["failed"] - 4  # type: ignore[operator]


HINTED, UNKNOWN, ANSWERS = 3, 19, {5: 15, 6: 14, 7: 16}
"""Prompts are ``[1, question, 2]``, or ``[1, HINTED, answer, question, 2]`` with the answer as a hint; a thought
(the question again) and an answer are written."""


@dataclass
class Riddles:
    """Questions with unrelated answers. The model was trained on two things before: to write
    the answer of a hint, whatever the question, and to write ``UNKNOWN`` without a hint."""

    model: PreTrainedModel
    make: Make
    group_size: int = 6
    sampled_with: list[str] = field(default_factory=list)
    """The weights of each round."""
    failed_tasks: list[list[str]] = field(default_factory=list)
    """Failed tasks, by round."""

    def collect(self, iteration: int) -> list[ScoredGroup]:
        self.sampled_with.append(weights_hash(self.model))
        generator = torch.Generator().manual_seed(iteration)
        return [self._group((1, question, 2), question, generator, "plain") for question in ANSWERS]

    def collect_hinted(self, iteration: int, failed: Sequence[ScoredGroup], /) -> list[HintedGroup]:
        self.failed_tasks.append([group.task.id for group in failed])
        generator = torch.Generator().manual_seed(1_000 + iteration)
        groups = []
        for question in (int(group.task.id) for group in failed):
            opening = (1, HINTED, ANSWERS[question], question, 2)
            hint = Hint("", Observation(""), opening, (1, question, 2))
            group = self._group(opening, question, generator, "again")
            groups.append(HintedGroup(group, (hint,) * len(group.members)))
        return groups

    def chances(self, opening: Sequence[int], answer: int) -> float:
        """The probability of writing the answer, whatever the thought."""
        with torch.no_grad():
            thoughts = self.model(torch.tensor([opening])).logits[0, -1].softmax(-1)
            rows = torch.tensor([[*opening, thought] for thought in range(20)])
            answers = self.model(rows).logits[:, -1].softmax(-1)[:, answer]
        return float((thoughts * answers).sum())

    def score(self, _: int) -> float:
        """The exact expected reward without any hint."""
        return sum(self.chances((1, question, 2), answer) for question, answer in ANSWERS.items()) / len(ANSWERS)

    def _group(self, opening: tuple[int, ...], question: int, generator: torch.Generator, name: str) -> ScoredGroup:
        tokens, columns = torch.tensor([opening] * self.group_size), []
        for _ in range(2):
            with torch.no_grad():
                logprobs = self.model(tokens).logits[:, -1].log_softmax(-1)
            drawn = torch.multinomial(logprobs.exp(), 1, generator=generator)
            tokens = torch.cat([tokens, drawn], dim=1)
            columns.append(logprobs.gather(1, drawn))
        start, logprobs = len(opening), torch.cat(columns, 1).tolist()
        members = tuple(
            ScoredTrajectory(
                self.make(
                    row,
                    ((0, start, start + 2),),
                    name=f"{name}/{question}/{place}",
                    task=str(question),
                    logprobs=logprobs[place],
                ),
                (float(row[-1] == ANSWERS[question]),),
            )
            for place, row in enumerate(tokens.tolist())
        )
        return ScoredGroup(Task(str(question), "", "riddles", "toy"), members)


_TRAINED: dict[str, Tensor] = {}
"""Made once; every test starts from a copy."""


@pytest.fixture
def riddles(tiny_model: Model, make_trajectory: Make, tmp_path: Path) -> Callable[[], Riddles]:
    """Makes riddles for equal models, which follow a hint and know no answer."""
    questions, answers = range(4, 8), range(9, 19)
    shown = [
        make_trajectory(
            (1, HINTED, answer, question, 2, question, answer), ((0, 5, 7),), name=f"{question}/{answer}"
        )
        for question in questions
        for answer in answers
    ]
    hinted = [
        make_trajectory((1, question, 2, question, UNKNOWN), ((0, 3, 5),), name=f"{question}")
        for question in questions
    ]
    if not _TRAINED:
        model = tiny_model()
        warm_up = SftSettings(
            epochs=60, batch_rows=16, optimiser=OptimiserSettings(learning_rate=5e-3), decay="linear"
        )
        run_sft(model, supervised_rows([*shown, *hinted * 4]), warm_up, RunOptions(0, tmp_path / "warm_up"))
        _TRAINED.update(copy_tensors(weight_tensors(model)))

    def make() -> Riddles:
        model = tiny_model()
        restore_weights(model, _TRAINED)
        return Riddles(model, make_trajectory)

    return make


STAR = replace(StarSettings(), decay="none", iterations=3, epochs=80, optimiser=FAST, target_score=0.95)


def test_answers_that_are_never_found_are_learned_from_hints(
    riddles: Callable[[], Riddles], tmp_path: Path
) -> None:
    task = riddles()
    assert task.score(0) < 0.01
    assert all(task.chances((1, HINTED, answer, question, 2), answer) > 0.5 for question, answer in ANSWERS.items())
    outcome = run_imitation(
        task.model,
        task.collect,
        STAR,
        RunOptions(0, tmp_path / "star", evaluate=task.score),
        collect_hinted=task.collect_hinted,
    )
    assert outcome.stopped == "target"
    assert task.score(0) >= 0.95
    first = read_curve(tmp_path / "star" / CURVE_FILE)[1].metrics
    assert (first["kept"], first["unsolved_groups"], first["hinted_trajectories"]) == (first["rationalised"], 3, 18)
    assert task.failed_tasks[0] == ["5", "6", "7"]
    assert (first["trajectories"], first["written_tokens"]) == (36, 72), (
        "hinted rollouts cost as much as those without a hint"
    )


def test_without_hints_the_riddles_have_no_success(riddles: Callable[[], Riddles], tmp_path: Path) -> None:
    task = riddles()
    before = weights_hash(task.model)
    plan = replace(PLAIN, iterations=2)
    for _ in range(2):  # repeating the call gives the same answer
        with pytest.raises(
            TrainingError, match=r"none of 2 rounds had a trajectory with a reward of selection.threshold=0.8"
        ):
            run_imitation(task.model, task.collect, plan, RunOptions(0, tmp_path / "plain"))
    assert weights_hash(task.model) == before
    point = read_curve(tmp_path / "plain" / CURVE_FILE)[-1]
    assert (point.steps, point.metrics["kept"], point.metrics["kept_length"]) == (0, 0, None)


def _scripted(make: Make, name: str, *sequences: Sequence[int]) -> list[ScoredGroup]:
    """One success per task, which writes all but the first two tokens."""
    return [
        ScoredGroup(
            Task(f"{name}/{place}", "", "", ""),
            (
                ScoredTrajectory(
                    make(tokens, ((0, 2, len(tokens)),), name=f"{name}/{place}", task=f"{name}/{place}"), (1.0,)
                ),
            ),
        )
        for place, tokens in enumerate(sequences)
    ]


def test_a_round_that_restarts_trains_the_first_weights_and_samples_with_the_last(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    """Two rounds with restart end like one supervised run on the second selection; sampling uses every stage."""
    batches = [
        _scripted(make_trajectory, "first", (1, 3, 9, 4), (1, 4, 11)),
        _scripted(make_trajectory, "second", (1, 5, 15, 10), (1, 6, 3, 3, 2)),
    ]
    model, seen = tiny_model(), list[str]()

    def collect(iteration: int, /) -> list[ScoredGroup]:
        seen.append(weights_hash(model))
        return batches[iteration]

    plan = replace(
        PLAIN, iterations=2, restart=True, epochs=3, optimiser=replace(FAST, warmup_steps=2), decay="linear"
    )
    run_imitation(model, collect, plan, RunOptions(0, tmp_path / "two"))
    alone = tiny_model()
    assert seen[0] == weights_hash(alone)
    sft_settings = SftSettings(epochs=3, batch_rows=2, optimiser=plan.optimiser, decay="linear")
    rows = supervised_rows(member.trajectory for group in batches[0] for member in group.members)
    run_sft(alone, rows, sft_settings, RunOptions(0, tmp_path / "first"))
    assert seen[1] == weights_hash(alone)
    only = tiny_model()
    rows = supervised_rows(member.trajectory for group in batches[1] for member in group.members)
    run_sft(only, rows, sft_settings, RunOptions(0, tmp_path / "second"))
    _assert_close(model, only)
    on = tiny_model()
    run_imitation(on, lambda index: batches[index], replace(plan, restart=False), RunOptions(0, tmp_path / "on"))
    assert weights_hash(on) != weights_hash(model)


def _assert_close(ours: PreTrainedModel, theirs: PreTrainedModel) -> None:
    """Up to the order in which a step's rows are added up."""
    actual = weight_tensors(theirs)
    for name, tensor in weight_tensors(ours).items():
        torch.testing.assert_close(tensor, actual[name], rtol=1e-4, atol=1e-5)


def test_a_round_without_success_changes_nothing_and_the_next_goes_on(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    (good,) = _scripted(make_trajectory, "good", (1, 3, 9))
    bad = replace(good, members=(replace(good.members[0], turn_rewards=(0.0,)),))
    seen: list[str] = []
    model = tiny_model()

    def collect(iteration: int, /) -> list[ScoredGroup]:
        seen.append(weights_hash(model))
        return [[good], [bad], [good]][iteration]

    outcome = run_imitation(
        model, collect, replace(PLAIN, iterations=3, restart=True, epochs=2), RunOptions(0, tmp_path)
    )
    assert outcome.steps == 4
    assert seen[0] != seen[1] == seen[2]
    assert [point.metrics["optimiser_steps"] for point in read_curve(tmp_path / CURVE_FILE)] == [2, 0, 2]


class _InterruptedError(Exception):
    """Stops a run in a test."""


@pytest.mark.parametrize("restart", [True, False], ids=["restarting", "going on"])
def test_a_resumed_run_has_bitwise_the_weights_of_an_uninterrupted_one(
    riddles: Callable[[], Riddles], tmp_path: Path, restart: bool
) -> None:
    plan = ImitationSettings(
        iterations=3,
        restart=restart,
        hint=HELP,
        epochs=2,
        batch_rows=4,
        optimiser=replace(FAST, warmup_steps=1),
        decay="cosine",
        evaluate_every=None,
        keep="final",
        checkpoint_every=2,
    )
    undisturbed = riddles()
    expected = run_imitation(
        undisturbed.model,
        undisturbed.collect,
        plan,
        RunOptions(5, tmp_path / "a"),
        collect_hinted=undisturbed.collect_hinted,
    )
    for stop_at in (1, 2, 3):

        def stop(point: CurvePoint, stop_at: int = stop_at) -> None:
            if point.units == stop_at:
                raise _InterruptedError

        folder, task = tmp_path / f"b{stop_at}", riddles()
        with pytest.raises(_InterruptedError):
            run_imitation(
                task.model,
                task.collect,
                plan,
                RunOptions(5, folder, progress=stop),
                collect_hinted=task.collect_hinted,
            )
        again = riddles()
        outcome = run_imitation(
            again.model, again.collect, plan, RunOptions(5, folder), collect_hinted=again.collect_hinted
        )
        assert outcome == expected
        ours = weight_tensors(again.model)
        assert all(torch.equal(tensor, ours[name]) for name, tensor in weight_tensors(undisturbed.model).items())
        curves = [read_curve(place / CURVE_FILE) for place in (tmp_path / "a", folder)]
        points = [
            [{k: v for k, v in point.metrics.items() if k not in UNREPEATED} for point in curve] for curve in curves
        ]
        assert points[0] == points[1]


def test_every_metric_has_a_meaning(riddles: Callable[[], Riddles], tmp_path: Path) -> None:
    task = riddles()
    plan = replace(PLAIN, iterations=1, hint=HELP, epochs=1)
    run_imitation(task.model, task.collect, plan, RunOptions(0, tmp_path / "x"), collect_hinted=task.collect_hinted)
    names = {name for point in read_curve(tmp_path / "x" / CURVE_FILE) for name in point.metrics}
    assert {"kept", "failed", "rationalised", "leaked", "duplicates", "unscorable", "kept_length"} < names
    assert {name for name in names if metric_of(name) is None} == set()


def test_learning_rates_rise_and_fall_within_each_round(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    plan = replace(PLAIN, iterations=2, epochs=3, optimiser=replace(FAST, warmup_steps=0), decay="linear")
    points: list[CurvePoint] = []
    run_imitation(
        tiny_model(),
        lambda index: _scripted(make_trajectory, str(index), (1, 3, 9)),
        plan,
        RunOptions(0, tmp_path, progress=points.append),
    )
    assert [point.metrics["learning_rate"] for point in points] == pytest.approx([5e-3 / 3, 5e-3 / 3])


@pytest.mark.parametrize(
    "changes",
    [
        {"iterations": 3},
        {"selection": SelectionSettings(threshold=2.0)},
        {"restart": True},
        {"epochs": 3},
        {"batch_rows": 1},
        {"optimiser": OptimiserSettings(learning_rate=1e-3)},
        {"decay": "linear"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_every_setting_of_a_round_changes_the_weights(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path, changes: dict[str, Any]
) -> None:
    def collect(iteration: int, /) -> list[ScoredGroup]:
        poor, rich = _scripted(make_trajectory, str(iteration), (1, 3, 9 + iteration, 4), (1, 4, 11))
        return [poor, replace(rich, members=(replace(rich.members[0], turn_rewards=(2.0,)),))]

    hashes = []
    for name, plan in (
        ("a", replace(PLAIN, iterations=2, epochs=2)),
        ("b", replace(PLAIN, **{"iterations": 2, "epochs": 2} | changes)),
    ):
        model = tiny_model()
        run_imitation(model, collect, plan, RunOptions(0, tmp_path / name))
        hashes.append(weights_hash(model))
    assert hashes[0] != hashes[1]


def test_unusable_calls_are_refused(tiny_model: Model, make_trajectory: Make, tmp_path: Path) -> None:
    def run(plan: ImitationSettings = PLAIN, groups: Sequence[ScoredGroup] = (), **more: Any) -> None:
        run_imitation(
            tiny_model(),
            lambda _: groups,
            plan,
            RunOptions(
                **{"seed": 0, "folder": tmp_path, **{k: v for k, v in more.items() if k != "collect_hinted"}}
            ),
            collect_hinted=more.get("collect_hinted"),
        )

    (good,) = _scripted(make_trajectory, "good", (1, 3, 9))
    with pytest.raises(TrainingError, match="round 0 collected no trajectories"):
        run()
    with pytest.raises(TrainingError, match="round 0 collected no trajectories"):
        run(groups=[replace(good, members=())])
    with pytest.raises(TrainingError, match=r"top=2 would do nothing with at most 1 trajectories"):
        run(replace(PLAIN, selection=SelectionSettings(top=2)), [good])
    with pytest.raises(TrainingError, match="two trajectories of one iteration have the id 'good/0'"):
        run(groups=[good, good])
    with pytest.raises(TrainingError, match=r"settings.hint without collect_hinted does nothing"):
        run(replace(PLAIN, hint=HELP), [good])
    with pytest.raises(TrainingError, match=r"collect_hinted without settings.hint does nothing"):
        run(groups=[good], collect_hinted=lambda *_: ())
    with pytest.raises(TrainingError, match="seed must be 0 or more, got -1"):
        run(groups=[good], seed=-1)
    with pytest.raises(TrainingError, match="evaluate_every=None with an evaluate function"):
        run(groups=[good], evaluate=lambda _: 1.0)


def test_settings_without_effect_are_refused() -> None:
    assert not ImitationSettings(iterations=1, restart=True, evaluate_every=1).restarts
    with pytest.raises(ConfigError) as caught:
        ImitationSettings(iterations=0, epochs=0, batch_rows=0, evaluate_every=0, patience=0, checkpoint_every=0)
    assert len(caught.value.problems) == 6
    with pytest.raises(ConfigError, match=r"mentions must be words, got \(' ',\)"):
        HintSettings("self_repair", (" ",))


def test_the_algorithms_differ_in_iterations_restart_and_hint() -> None:
    algorithms: tuple[ImitationSettings, ...] = (
        RejectionSettings(),
        IteratedSettings(),
        StarSettings(),
        SelfRepairSettings(),
    )
    assert [
        (algorithm.iterations > 1, algorithm.restart, algorithm.hint and algorithm.hint.kind)
        for algorithm in algorithms
    ] == [
        (False, False, None),
        (True, False, None),
        (True, True, "rationalisation"),
        (True, True, "self_repair"),
    ]
