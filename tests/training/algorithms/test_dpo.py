"""DPO: the loss of a real model against the formula, toys with a known answer, exact resuming."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from upturn.config import OptimiserSettings
from upturn.errors import TrainingError
from upturn.records import PreferencePair, Trajectory
from upturn.training.algorithms.dpo import DpoSettings, PairBatches, run_dpo
from upturn.training.data.pair_row import PairRows, add_reference, pair_rows
from upturn.training.distributed.weights import copy_tensors, weight_tensors
from upturn.training.optimisation.trainer import Trainer
from upturn.training.pair_settings import PairObjectiveSettings
from upturn.training.runs import RunOptions, read_curve
from upturn.training.runs.curve import CurvePoint
from upturn.training.runs.metric import metric_of
from upturn.training.runs.run_folder import CURVE_FILE, read_description

Model = Callable[..., PreTrainedModel]
Make = Callable[..., Trajectory]
Toy = Callable[..., Any]
"""``CopyTask`` of conftest."""
STILL = OptimiserSettings(learning_rate=1e-12, max_grad_norm=1e9)


def _pairs(make: Make) -> list[PreferencePair]:
    """A prefix of 20 tokens, some of them written, then sides of one to four different tokens. The last pair
    has two trajectories that are in other pairs too."""
    start = (1, *range(3, 18), 7, 8, 2, 3)
    common = ((0, 5, 9), (1, 16, 18))
    pairs = []
    for index, (good, bad) in enumerate([((4, 9), (5,)), ((6, 6, 2), (6, 4, 7, 8)), ((11,), (12, 3))]):
        sides = [
            make((*start, *end), (*common, (2, 20, 20 + len(end))), name=f"{name}{index}")
            for name, end in (("good", good), ("bad", bad))
        ]
        pairs.append(PreferencePair(f"p{index}", sides[0], sides[1], "group", 1.0))
    return [*pairs, PreferencePair("p3", pairs[0].chosen, pairs[1].rejected, "group", 1.0)]


def _logprob(model: PreTrainedModel, trajectory: Trajectory) -> Tensor:
    """Of all that is written, token by token, without anything of ours."""
    (row,) = trajectory.rows
    logprobs = model(torch.tensor([row.token_ids])).logits[0].log_softmax(-1)
    places = [place for span in row.spans for place in range(span.start, span.stop)]
    return torch.stack([logprobs[place - 1, row.token_ids[place]] for place in places]).sum()


def _referred(
    model: PreTrainedModel, pairs: list[PreferencePair], settings: PairObjectiveSettings
) -> list[PairRows]:
    return add_reference(pair_rows(pairs, settings, "initial"), Trainer(model, STILL).score)


@pytest.mark.parametrize("packing", ["tree", "padded"])
@pytest.mark.parametrize("budget", [1, 10_000])
def test_loss_and_gradient_match_the_formula(
    tiny_model: Model, make_trajectory: Make, packing: str, budget: int
) -> None:
    """The model against another one, by −log σ(β(log π_w/π_ref,w − log π_l/π_ref,l)) through torch's autograd."""
    pairs, model, reference = _pairs(make_trajectory), tiny_model(1, layers=2), tiny_model(2, layers=2)
    margins = torch.stack(
        [_logprob(model, pair.chosen) - _logprob(model, pair.rejected) for pair in pairs]
    ) - torch.stack(
        [(_logprob(reference, pair.chosen) - _logprob(reference, pair.rejected)).detach() for pair in pairs]
    )
    loss = -(0.5 * margins).sigmoid().log().mean()
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    expected = torch.autograd.grad(loss, parameters)
    objective = PairObjectiveSettings(beta=0.5)
    batches = PairBatches(_referred(reference, pairs, objective), 4, objective)
    optimiser = replace(STILL, packing=packing, micro_batch_tokens=budget)  # type: ignore[arg-type]
    step = Trainer(model, optimiser).step(batches.minibatch([2, 0, 3, 1]))
    assert step.loss == pytest.approx(float(loss.detach()), rel=1e-5)
    scale = torch.cat([gradient.flatten() for gradient in expected]).norm()
    for parameter, theirs in zip(parameters, expected, strict=True):
        assert parameter.grad is not None
        assert float((parameter.grad - theirs).norm() / scale) < 1e-5


def test_before_the_first_step_margins_are_zero_and_the_loss_is_log_two(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    run_dpo(tiny_model(), _pairs(make_trajectory), DpoSettings(optimiser=STILL), RunOptions(0, tmp_path))
    (point,) = read_curve(tmp_path / CURVE_FILE)
    assert point.metrics["loss"] == pytest.approx(math.log(2), rel=1e-6)
    assert point.metrics["chosen_reward"] == pytest.approx(0.0, abs=1e-6)
    assert {name for name in point.metrics if metric_of(name) is None} == set()


def test_a_supervised_term_has_its_own_denominator(tiny_model: Model, make_trajectory: Make) -> None:
    """Four equal margins of 0 and α·(mean −log π over the better sides' tokens), whatever the batch."""
    pairs, model = _pairs(make_trajectory), tiny_model()
    objective = PairObjectiveSettings(sft_coefficient=0.5)
    referred = _referred(model, pairs, objective)
    with torch.no_grad():
        total = sum(-float(_logprob(model, pair.chosen)) for pair in pairs)
    written = sum(span.stop - span.start for pair in pairs for span in pair.chosen.rows[0].spans)
    step = Trainer(model, STILL).step(PairBatches(referred, 8, objective).minibatch([0, 1, 2, 3]))
    assert step.loss == pytest.approx(math.log(2) + 0.5 * total / written, rel=1e-5)
    assert step.counts["pair_accuracy"] == 4
    assert step.counts["token_logprob"] == written
    assert step.sums["token_logprob"] == pytest.approx(-total, rel=1e-5)
    alone = [
        Trainer(model, STILL).step(PairBatches(referred, 1, objective).minibatch([index])) for index in range(4)
    ]
    assert sum(result.loss for result in alone) / 4 == pytest.approx(step.loss, rel=1e-5)


def _copying(task: Any, make: Make) -> list[PreferencePair]:
    """For each symbol, the copy against every other token, as the untrained policy might sample them."""
    with torch.no_grad():
        logits = task.model(torch.tensor([[1, symbol, 2] for symbol in task.symbols])).logits[:, -1].log_softmax(-1)
    logprobs = dict(zip(task.symbols, logits.tolist(), strict=True))

    def trajectory(symbol: int, token: int) -> Trajectory:
        name, logprob = f"{symbol}/{token}", (logprobs[symbol][token],)
        return make((1, symbol, 2, token), name=name, task=f"copy {symbol}", logprobs=logprob)

    return [
        PreferencePair(f"{symbol}/{token}", trajectory(symbol, symbol), trajectory(symbol, token), "group", 1.0)
        for symbol, token in product(task.symbols, range(20))
        if token != symbol
    ]


TOY = DpoSettings(epochs=25, decay="none", batch_pairs=16, optimiser=OptimiserSettings(learning_rate=1e-2))


@pytest.mark.parametrize(
    ("reference", "objective"),
    [
        ("recorded", PairObjectiveSettings()),
        pytest.param("initial", PairObjectiveSettings(label_smoothing=0.05), marks=pytest.mark.slow),
        pytest.param("recorded", PairObjectiveSettings(kind="ipo", beta=0.05), marks=pytest.mark.slow),
    ],
    ids=["dpo", "conservative", "ipo"],
)
def test_copying_is_learned_from_pairs_to_95_percent(
    tiny_model: Model,
    copy_task: Toy,
    make_trajectory: Make,
    tmp_path: Path,
    reference: str,
    objective: PairObjectiveSettings,
) -> None:
    task = copy_task(tiny_model())
    assert task.score(0) < 0.15
    settings = replace(TOY, reference=reference, objective=objective)  # type: ignore[arg-type]
    run_dpo(task.model, _copying(task, make_trajectory), settings, RunOptions(0, tmp_path))
    assert task.score(0) >= 0.95
    points = read_curve(tmp_path / CURVE_FILE)
    assert points[-1].metrics["pair_accuracy"] == 1.0
    assert [point.metrics["epoch"] for point in points] == [float(at // 5) for at in range(125)]


def test_conservative_dpo_converges_to_its_known_margin(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    """β·m = log((1 − ε)/ε) = log 4, and no more, however long it is trained."""
    good, bad = (make_trajectory((1, 5, 2, token), name=str(token)) for token in (7, 9))
    settings = DpoSettings(
        epochs=100,
        objective=PairObjectiveSettings(beta=1.0, label_smoothing=0.2),
        optimiser=OptimiserSettings(learning_rate=5e-3),
        decay="linear",
    )
    run_dpo(tiny_model(), [PreferencePair("p", good, bad, "group", 1.0)], settings, RunOptions(0, tmp_path))
    last = read_curve(tmp_path / CURVE_FILE)[-1].metrics
    chosen, rejected = last["chosen_reward"], last["rejected_reward"]
    assert chosen is not None and rejected is not None
    assert chosen - rejected == pytest.approx(math.log(4), rel=0.02)


def test_pairs_of_single_turns_move_only_the_turn_that_differs(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    """Two turns; what was written in the first is in the context of the second and is no target."""
    spans = ((0, 2, 3), (1, 4, 5))
    good, bad = (make_trajectory((1, 5, 8, 3, last), spans, name=str(last)) for last in (7, 9))
    pair = PreferencePair("p", good, bad, "turn", 1.0, (1,), (1,))
    (rows,) = pair_rows([pair], PairObjectiveSettings(), "initial")
    assert [row.positions.tolist() for row in rows.rows] == [[4], [4]]
    model = tiny_model()

    def chances() -> list[list[float]]:
        with torch.no_grad():
            logits = model(torch.tensor([[1, 5, 8, 3]])).logits[0].softmax(-1)
        return [[float(logits[1, 8])], [float(logits[3, 7]), float(logits[3, 9])]]

    (first,), (for_good, for_bad) = chances()
    settings = DpoSettings(epochs=20, decay="none", optimiser=OptimiserSettings(learning_rate=3e-3))
    run_dpo(model, [pair], settings, RunOptions(0, tmp_path))
    (first_after,), (good_after, bad_after) = chances()
    assert good_after > 2 * for_good
    assert bad_after < for_bad / 2
    assert 0.5 < first_after / first < 2  # shared weights move it a little


class _InterruptedError(Exception):
    """Stops a run in a test."""


@pytest.mark.parametrize("reference", ["recorded", "initial"])
def test_a_resumed_run_has_bitwise_the_weights_of_an_uninterrupted_one(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path, reference: str
) -> None:
    """The reference is that of the weights before training, also after a stop."""
    settings = DpoSettings(
        epochs=4,
        batch_pairs=2,
        reference=reference,  # type: ignore[arg-type]
        objective=PairObjectiveSettings(sft_coefficient=0.1),
        optimiser=OptimiserSettings(learning_rate=1e-2, warmup_steps=2),
        decay="cosine",
        checkpoint_every=3,
    )
    pairs, undisturbed = _pairs(make_trajectory), tiny_model()
    expected = run_dpo(undisturbed, pairs, settings, RunOptions(5, tmp_path / "a"))
    assert (expected.units, expected.steps) == (8, 8)

    def stop(point: CurvePoint) -> None:
        if point.units == 5:
            raise _InterruptedError

    with pytest.raises(_InterruptedError):
        run_dpo(tiny_model(), pairs, settings, RunOptions(5, tmp_path / "b", progress=stop))
    resumed = tiny_model()
    assert run_dpo(resumed, pairs, settings, RunOptions(5, tmp_path / "b")) == expected
    ours = weight_tensors(resumed)
    assert all(torch.equal(tensor, ours[name]) for name, tensor in weight_tensors(undisturbed).items())
    with pytest.raises(TrainingError, match="another run: pairs is"):
        run_dpo(tiny_model(), pairs[::-1], settings, RunOptions(5, tmp_path / "b"))


def test_best_weights_are_those_of_the_best_evaluated_epoch(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    model, evaluated = tiny_model(), list[int]()
    at_best: dict[str, Tensor] = {}

    def evaluate(epochs: int) -> float:
        evaluated.append(epochs)
        if epochs == 1:
            at_best.update(copy_tensors(weight_tensors(model)))
        return {0: 0.1, 1: 0.9, 2: 0.5}[epochs]

    settings = DpoSettings(epochs=2, batch_pairs=2, evaluate_every=1, keep="best")
    outcome = run_dpo(model, _pairs(make_trajectory), settings, RunOptions(0, tmp_path, evaluate=evaluate))
    assert (evaluated, outcome.kept_units, outcome.best_score) == ([0, 1, 2], 2, 0.9)
    assert all(torch.equal(at_best[name], tensor) for name, tensor in weight_tensors(model).items())


def _more(make: Make) -> list[PreferencePair]:
    """Two pairs that are held out: one likes what the trained ones like, the other does not."""
    start = (1, *range(3, 18), 7, 8, 2, 3)

    def pair(name: str, good: tuple[int, ...], bad: tuple[int, ...]) -> PreferencePair:
        sides = [make((*start, *end), ((2, 20, 20 + len(end)),), name=f"{name} {end}") for end in (good, bad)]
        return PreferencePair(name, sides[0], sides[1], "group")

    return [pair("like", (4, 9, 9), (5, 5)), pair("unlike", (5, 9), (4, 9, 2))]


def test_held_out_pairs_score_by_their_loss(tiny_model: Model, make_trajectory: Make, tmp_path: Path) -> None:
    pairs, model, before = _pairs(make_trajectory), tiny_model(), tiny_model()
    settings = DpoSettings(epochs=3, evaluate_every=1, optimiser=OptimiserSettings(learning_rate=3e-3))
    held_out = _more(make_trajectory)
    outcome = run_dpo(model, pairs, settings, RunOptions(0, tmp_path, evaluate=held_out))
    margins = [
        _logprob(model, pair.chosen) - _logprob(before, pair.chosen)
        - _logprob(model, pair.rejected) + _logprob(before, pair.rejected)
        for pair in held_out
    ]  # fmt: skip
    expected = float((0.1 * torch.stack(margins)).sigmoid().log().mean().detach())
    assert outcome.final_score == pytest.approx(expected, rel=1e-5)
    scores = [point.metrics["score"] for point in read_curve(tmp_path / CURVE_FILE) if "score" in point.metrics]
    assert scores[0] == pytest.approx(-math.log(2), rel=1e-6)
    assert len(scores) == 4
    assert read_description(tmp_path).measure == "minus the mean loss of pairs that were held out"
    with pytest.raises(TrainingError, match="held-out pair 'p3' holds trajectory 'good0', which is trained on too"):
        run_dpo(tiny_model(), pairs[:1], settings, RunOptions(0, tmp_path, evaluate=pairs[3:]))
    with pytest.raises(TrainingError, match="another run: held-out pairs is"):
        run_dpo(tiny_model(), pairs, settings, RunOptions(0, tmp_path, evaluate=held_out[:1]))


def test_unusable_calls_are_refused(tiny_model: Model, make_trajectory: Make, tmp_path: Path) -> None:
    pairs = _pairs(make_trajectory)
    with pytest.raises(TrainingError, match="no pairs to train on"):
        run_dpo(tiny_model(), [], DpoSettings(), RunOptions(0, tmp_path))
    with pytest.raises(TrainingError, match="seed must be 0 or more, got -1"):
        run_dpo(tiny_model(), pairs, DpoSettings(), RunOptions(-1, tmp_path))
    with pytest.raises(TrainingError, match="evaluate_every=None with an evaluate function"):
        run_dpo(tiny_model(), pairs, DpoSettings(), RunOptions(0, tmp_path, evaluate=lambda _: 1.0))
