"""A teacher's advantages by hand, and their gradient against that of the enumerated reverse KL divergence."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from upturn.config import OptimiserSettings
from upturn.errors import TrainingError
from upturn.records import Task, Trajectory
from upturn.training import ScoredGroup, ScoredTrajectory, TeacherSettings, TrainingRow
from upturn.training.algorithms.grpo import GrpoSettings
from upturn.training.algorithms.policy_gradient import PolicyGradient
from upturn.training.algorithms.teacher_signal import TaughtRows, Teacher, WithoutRewards, taught_rows
from upturn.training.losses import ClippedPolicy, WithTeacher
from upturn.training.optimisation import DistributionTeacher, Trainer
from upturn.training.policy_settings import KlSettings, ObjectiveSettings
from upturn.training.row import FloatArray
from upturn.training.stream import Stream

Model = Callable[..., PreTrainedModel]
Make = Callable[..., Trajectory]
PROMPT = (1, 2)
VOCABULARY = 7


def _row(weights: Sequence[float], old: Sequence[float], name: str = "a") -> TrainingRow:
    size = len(weights)
    return TrainingRow(
        name,
        np.arange(size + 1, dtype=np.int64),
        np.arange(1, size + 1, dtype=np.int64),
        np.array(weights, dtype=np.float32),
        np.array(old, dtype=np.float32),
    )


def _taught(rows: Sequence[TrainingRow], scores: Sequence[Sequence[float]], **settings: Any) -> TaughtRows:
    scorer = [np.array(score, dtype=np.float32) for score in scores]
    return taught_rows(rows, Teacher(lambda _: scorer, TeacherSettings("t", **settings)))


def test_advantages_by_hand() -> None:
    """s = (−1 + 2, −2 + 1, −.5 + .5) = (1, −1, 0); rewards 2, 2, −1."""
    rows = [_row([2.0, 2.0, -1.0], [-2.0, -1.0, -0.5])]
    taught = _taught(rows, [[-1.0, -2.0, -0.5]], coefficient=0.5)
    assert taught.rows[0].weights.tolist() == [2.5, 1.5, -1.0]
    assert taught.metrics == {"teacher_missing": 0.0, "teacher_kl": 0.0}
    discounted = _taught(rows, [[-1.0, -2.0, -0.5]], coefficient=1.0, discount=0.5)
    assert discounted.rows[0].weights.tolist() == [2.5, 1.0, -1.0]  # sums (1 − .5 + 0, −1 + 0, 0)


@pytest.mark.parametrize(
    ("discount", "weights", "missing"),
    [
        (0.0, [[1.0 + 1.0, 0.0, 1.0 + 3.0], [-1.0 + 2.0]], 1),
        (1.0, [[0.0, 0.0, 1.0 + 3.0], [-1.0 + 2.0]], 2),  # the sum of the first token includes the missing one
    ],
)
@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_a_missing_score_excludes_the_token_and_is_counted(
    discount: float, weights: list[list[float]], missing: int, value: float
) -> None:
    rows = [_row([1.0, 1.0, 1.0], [-4.0, -4.0, -4.0]), _row([-1.0], [-4.0], "b")]
    taught = _taught(rows, [[-3.0, value, -1.0], [-2.0]], discount=discount)
    assert [row.weights.tolist() for row in taught.rows] == weights
    assert taught.metrics == {"teacher_missing": missing, "teacher_kl": -2.0}  # the mean of −1, −3 and −2


def test_without_any_score_there_is_no_divergence_to_report() -> None:
    taught = _taught([_row([1.0], [-1.0])], [[math.nan]])
    assert taught.metrics == {"teacher_missing": 1.0}


def test_scores_that_do_not_fit_are_refused() -> None:
    with pytest.raises(TrainingError, match="scored 0 rows, 1 were sent"):
        _taught([_row([1.0], [-1.0])], [])
    with pytest.raises(TrainingError, match=r"shape \(2,\) for the 1 written tokens of trajectory 'a'"):
        _taught([_row([1.0], [-1.0])], [[-1.0, -1.0]])


def _group(make: Make, rewards: Sequence[float | None]) -> ScoredGroup:
    members = tuple(
        ScoredTrajectory(
            make((1, 2, 3, 4), ((0, 2, 4),), name=str(index), logprobs=(-2.0, -2.0)),
            None if reward is None else (reward,),
        )
        for index, reward in enumerate(rewards)
    )
    return ScoredGroup(Task("task", "", "", ""), members)


def _unit_weights(
    group: ScoredGroup, score: Sequence[float], *, is_rewarded: bool, kl: bool = False
) -> tuple[list[list[float]], dict[str, float]]:
    """The weights of the trained rows, and the metrics."""
    objective = ObjectiveSettings(kl=KlSettings(0.1) if kl else None)
    settings = GrpoSettings(evaluate_every=None, keep="final", minibatches=1, objective=objective)
    values = np.array(score, dtype=np.float32)

    def scorer(rows: Sequence[TrainingRow]) -> list[FloatArray]:
        return [values] * len(rows)

    policy = PolicyGradient(
        lambda _: [group],
        settings,
        0,
        advantage=None if is_rewarded else WithoutRewards(),
        reference=scorer if kl else None,
        teacher=Teacher(scorer, TeacherSettings("t", coefficient=0.5)),
    )
    unit = policy.unit(0)
    rows = [row for minibatch in unit.minibatches for stream in minibatch for row in stream.rows]
    return [row.weights.tolist() for row in rows], dict(unit.metrics)


def test_advantages_of_rewards_and_teacher_are_added(make_trajectory: Make) -> None:
    """Rewards 1 and 0 give ±.5, and the teacher's s = (1, −1) counts half; the third has no reward."""
    weights, metrics = _unit_weights(_group(make_trajectory, [1.0, 0.0, None]), [-1.0, -3.0], is_rewarded=True)
    assert weights == [[1.0, 0.0], [0.0, -1.0], [0.5, -0.5]]
    assert (metrics["unscorable"], metrics["filtered_groups"], metrics["teacher_kl"]) == (1.0, 0.0, 0.0)


def test_equal_rewards_leave_the_teachers_signal(make_trajectory: Make) -> None:
    weights, metrics = _unit_weights(_group(make_trajectory, [1.0, 1.0]), [-1.0, -3.0], is_rewarded=True)
    assert weights == [[0.5, -0.5]] * 2
    assert metrics["filtered_groups"] == 1.0


def test_without_rewards_the_teacher_is_the_only_signal(make_trajectory: Make) -> None:
    weights, metrics = _unit_weights(_group(make_trajectory, [1.0, None]), [-1.0, -3.0], is_rewarded=False)
    assert weights == [[0.5, -0.5]] * 2
    assert (metrics["mean_return"], metrics["filtered_groups"]) == (1.0, 0.0)


@pytest.mark.parametrize("kl", [False, True])
def test_rollouts_without_a_score_are_not_computed_unless_a_kl_term_needs_them(
    make_trajectory: Make, kl: bool
) -> None:
    weights, metrics = _unit_weights(
        _group(make_trajectory, [1.0, 0.0]), [math.nan, math.nan], is_rewarded=True, kl=kl
    )
    assert weights == ([[0.0, 0.0]] * 2 if kl else [])
    assert (metrics["teacher_missing"], metrics["trained_rows"]) == (4.0, 2.0 * kl)


@pytest.mark.parametrize(
    ("length", "discount"),
    [
        pytest.param(1, 0.0, id="one token"),
        pytest.param(2, 0.0, id="two tokens, each state alone"),
        pytest.param(2, 1.0, id="two tokens, the whole sequence"),
    ],
)
def test_the_expected_gradient_is_that_of_the_reverse_kl_divergence(
    tiny_model: Model, length: int, discount: float
) -> None:
    """Every sequence once, weighted with its probability, gives the gradient that plain torch computes."""
    student, teacher = tiny_model(0, vocabulary=VOCABULARY), tiny_model(1, vocabulary=VOCABULARY)
    sequences = list(itertools.product(range(VOCABULARY), repeat=length))
    own, other = (_logprobs(model, sequences) for model in (student, teacher))
    expected = _divergence(own, other.detach(), is_joint=discount == 1.0)
    gradients = torch.autograd.grad(expected, list(student.parameters()))
    rows = [
        TrainingRow(
            str(index),
            np.array((*PROMPT, *tokens), dtype=np.int64),
            np.arange(2, 2 + length, dtype=np.int64),
            np.zeros(length, dtype=np.float32),
            row.numpy(),
            scales=np.full(length, float(row.sum().exp()), dtype=np.float32),
        )
        for index, (tokens, row) in enumerate(zip(sequences, own.detach(), strict=True))
    ]
    scorer = Trainer(teacher, OptimiserSettings()).score
    taught = taught_rows(rows, Teacher(scorer, TeacherSettings("t", discount=discount)))
    Trainer(student, OptimiserSettings(max_grad_norm=1e9)).step([Stream(taught.rows, ClippedPolicy(0.2, 0.2), 1.0)])
    for parameter, gradient in zip(student.parameters(), gradients, strict=True):
        assert parameter.grad is not None
        assert torch.allclose(parameter.grad, gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("packing", ["tree", "padded"])
def test_the_full_gradient_needs_no_expectation_over_the_next_token(tiny_model: Model, packing: Any) -> None:
    """Of each sequence only the histories count: 7 histories of one token, however each continues."""
    student, teacher = tiny_model(0, vocabulary=VOCABULARY), tiny_model(1, layers=2, vocabulary=VOCABULARY)
    sequences = list(itertools.product(range(VOCABULARY), repeat=2))
    own, other = (_logprobs(model, sequences) for model in (student, teacher))
    expected = _divergence(own, other.detach(), is_joint=False)
    gradients = torch.autograd.grad(expected, list(student.parameters()))
    chosen = [VOCABULARY * first + (3 * first) % VOCABULARY for first in range(VOCABULARY)]
    rows = [
        TrainingRow(
            str(index),
            np.array((*PROMPT, *sequences[index]), dtype=np.int64),
            np.arange(2, 4, dtype=np.int64),
            np.zeros(2, dtype=np.float32),
            own[index].detach().numpy(),
            scales=np.array([1 / VOCABULARY, float(own.detach()[index, 0].exp())], dtype=np.float32),
        )
        for index in chosen
    ]
    settings = OptimiserSettings(max_grad_norm=1e9, packing=packing, micro_batch_tokens=16)
    trainer = Trainer(student, settings, teacher=DistributionTeacher(teacher, settings))
    metrics = trainer.step([Stream(rows, WithTeacher(ClippedPolicy(0.2, 0.2), 1.0), 1.0)])
    assert metrics.loss == pytest.approx(float(expected.detach()), rel=1e-5)
    for parameter, gradient in zip(student.parameters(), gradients, strict=True):
        assert parameter.grad is not None
        assert torch.allclose(parameter.grad, gradient, rtol=1e-4, atol=1e-6)


def test_a_teacher_with_more_logits_is_refused_for_whole_distributions(tiny_model: Model) -> None:
    teacher = DistributionTeacher(tiny_model(vocabulary=21), OptimiserSettings())
    with pytest.raises(TrainingError, match="the teacher has 21 logits, the trained model 20"):
        Trainer(tiny_model(), OptimiserSettings(), teacher=teacher)


def _logprobs(model: PreTrainedModel, sequences: Sequence[Sequence[int]]) -> Tensor:
    """``(sequences, tokens)``: log π of each token after the prompt."""
    tokens = torch.tensor([(*PROMPT, *sequence) for sequence in sequences])
    logits: Tensor = model(tokens).logits[:, len(PROMPT) - 1 : -1]
    return logits.log_softmax(-1).gather(2, tokens[:, len(PROMPT) :, None])[..., 0]


def _divergence(own: Tensor, other: Tensor, *, is_joint: bool) -> Tensor:
    """KL(π ‖ π_teacher) of whole sequences, or the sum of those of the next token at the states that π reaches."""
    if is_joint:
        return (own.sum(1).exp() * (own - other).sum(1)).sum()
    total = own.new_zeros(())
    for index in range(own.shape[1]):
        reached = own[:, :index].sum(1).exp().detach()  # the states are data: no gradient through reaching them
        repeats = VOCABULARY ** (own.shape[1] - 1 - index)
        total = total + (reached * own[:, index].exp() * (own - other)[:, index]).sum() / repeats
    return total
