"""Several ways of learning in one run: where minibatches go, what they weigh, and that stopping changes nothing."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from upturn.config import OptimiserSettings
from upturn.errors import ConfigError, TrainingError
from upturn.records import PreferencePair, Trajectory
from upturn.records.preference import RatedTrajectory
from upturn.training import TrainingRow, supervised_rows
from upturn.training.algorithms.dpo import DpoSettings
from upturn.training.algorithms.grpo import GrpoSettings
from upturn.training.algorithms.kto import KtoSettings
from upturn.training.algorithms.mixture.parts import policy_part, preference_part, rating_part, supervised_part
from upturn.training.algorithms.mixture.run import Mixture, Part, run_mixture
from upturn.training.algorithms.mixture.settings import MixtureSettings
from upturn.training.distributed.weights import weight_tensors
from upturn.training.losses import CrossEntropy
from upturn.training.optimisation.trainer import Trainer
from upturn.training.policy_settings import KlSettings, MismatchSettings, ObjectiveSettings
from upturn.training.runs import RunOptions, read_curve
from upturn.training.runs.curve import CurvePoint
from upturn.training.runs.metric import UNREPEATED, metric_of
from upturn.training.runs.run_folder import CURVE_FILE
from upturn.training.stream import Minibatch, State, Stream, Unit

Make = Callable[..., Trajectory]
Model = Callable[..., PreTrainedModel]
Toy = Callable[..., Any]
PLAIN = MixtureSettings(iterations=4, evaluate_every=None, keep="final")


class Steps:
    """So many minibatches a unit, numbered by their denominators; remembers how many units it did."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.indices: list[int] = []

    def unit(self, index: int) -> Unit:
        self.indices.append(index)
        streams = [Stream((), CrossEntropy(), 1.0 + place) for place in range(self.count)]
        return Unit([[stream] for stream in streams], {"index": float(index)})

    def state(self) -> State:
        return {"done": float(len(self.indices))}

    def load_state(self, state: State) -> None:
        self.indices = [-1] * int(state["done"])


def _part(name: str, **changes: Any) -> Part:
    return Part(name, lambda _trainer, _seed: Steps(1), **changes)


def _denominators(unit: Unit) -> list[list[float]]:
    return [[stream.denominator for stream in minibatch] for minibatch in unit.minibatches]


def test_minibatches_are_spread_evenly_over_the_steps_of_the_longest_part() -> None:
    """Of four steps: two parts' minibatches in 0 and 2, one's in 0; three in 0, 1 and 2."""
    parts = [_part("four"), _part("two"), _part("three"), _part("one"), _part("none")]
    unit = Mixture(parts, [Steps(4), Steps(2), Steps(3), Steps(1), Steps(0)]).unit(0)
    assert _denominators(unit) == [[1, 1, 1, 1], [2, 2], [3, 2, 3], [4]]
    assert {name: value for name, value in unit.metrics.items() if name.endswith("steps")} == {
        "four/steps": 4,
        "two/steps": 2,
        "three/steps": 3,
        "one/steps": 1,
        "none/steps": 0,
    }


def test_a_weight_divides_the_denominator_of_its_part() -> None:
    unit = Mixture([_part("a", weight=0.5), _part("b", weight=4.0)], [Steps(2), Steps(1)]).unit(0)
    assert _denominators(unit) == [[2.0, 0.25], [4.0]]


def test_parts_start_and_stop_and_count_their_units() -> None:
    early, late, always = Steps(1), Steps(2), Steps(1)
    mixture = Mixture([_part("early", stop=2), _part("late", start=1), _part("always")], [early, late, always])
    units = [mixture.unit(index) for index in range(4)]
    assert [len(unit.minibatches) for unit in units] == [1, 2, 2, 2]
    assert (early.indices, late.indices, always.indices) == ([0, 1], [0, 1, 2], [0, 1, 2, 3])
    assert units[2].metrics == {"late/index": 1.0, "late/steps": 2.0, "always/index": 2.0, "always/steps": 1.0}


def test_states_of_parts_are_under_their_names() -> None:
    def mixture() -> tuple[Mixture, Steps, Steps]:
        one, other = Steps(1), Steps(1)
        return Mixture([_part("one"), _part("other", start=1)], [one, other]), one, other

    first, *_ = mixture()
    for index in range(3):
        first.unit(index)
    assert first.state() == {"one.done": 3.0, "other.done": 2.0}
    again, one, other = mixture()
    again.load_state(first.state())
    assert (len(one.indices), len(other.indices)) == (3, 2)


def _gradient(model: PreTrainedModel, minibatch: Minibatch) -> tuple[float, Tensor]:
    """Loss and gradient of one step."""
    trainer = Trainer(copy.deepcopy(model), OptimiserSettings(max_grad_norm=1e9))
    loss = trainer.step(minibatch).loss
    grads = [parameter.grad.flatten() for parameter in trainer.parameters if parameter.grad is not None]
    return loss, torch.cat(grads)


def _demonstrations(make: Make, symbols: Sequence[int] = (5, 6)) -> Sequence[TrainingRow]:
    """Demonstrations of the copy task."""
    return supervised_rows(
        make((1, symbol, 2, symbol), ((0, 3, 4),), name=f"demonstration {symbol}", origin="rendered")
        for symbol in symbols
    )


def _every_kind(make: Make, collect: Any) -> list[Part]:
    """Supervised, policy gradient, preferences and ratings, with different weights."""

    def rollout(token: int) -> Trajectory:
        return make((1, 7, 2, token), ((0, 3, 4),), name=f"seven {token}", task="seven")

    pairs = [PreferencePair("p", rollout(7), rollout(8), "group", 1.0)]
    rated = [RatedTrajectory(rollout(7), True), RatedTrajectory(rollout(9), False)]
    return [
        replace(supervised_part(_demonstrations(make), 2), weight=0.25),
        replace(policy_part(collect, GrpoSettings(minibatches=1)), weight=3.0),
        replace(preference_part(pairs, DpoSettings()), weight=20.0),
        replace(rating_part(rated, KtoSettings()), weight=50.0),
    ]


def test_a_mixed_step_is_the_weighted_sum_of_the_parts_losses_and_gradients(
    tiny_model: Model, make_trajectory: Make, copy_task: Toy
) -> None:
    model = tiny_model()
    parts = _every_kind(make_trajectory, copy_task(model).collect)
    trainer = Trainer(model, OptimiserSettings())
    algorithms = [part.create(trainer, 0) for part in parts]
    (mixed,) = Mixture(parts, algorithms).unit(0).minibatches
    separate = [_gradient(model, algorithm.unit(0).minibatches[0]) for algorithm in algorithms]
    assert all(
        float(part.weight * gradient.norm()) > 0.1 for part, (_, gradient) in zip(parts, separate, strict=True)
    )
    loss, gradient = _gradient(model, mixed)
    expected = [part.weight * loss for part, (loss, _) in zip(parts, separate, strict=True)]
    assert loss == pytest.approx(sum(expected), rel=1e-5)
    gradients = [part.weight * gradient for part, (_, gradient) in zip(parts, separate, strict=True)]
    assert torch.allclose(gradient, torch.stack(gradients).sum(0), rtol=1e-4, atol=1e-5)


def test_more_rows_in_one_part_do_not_affect_the_other(
    tiny_model: Model, make_trajectory: Make, copy_task: Toy
) -> None:
    model = tiny_model()
    trainer = Trainer(model, OptimiserSettings())
    policy = policy_part(copy_task(model).collect, GrpoSettings(minibatches=1))

    def streams(symbols: Sequence[int]) -> Minibatch:
        parts = [supervised_part(_demonstrations(make_trajectory, symbols), 8), policy]
        (minibatch,) = Mixture(parts, [part.create(trainer, 0) for part in parts]).unit(0).minibatches
        return minibatch

    few, many = streams((5,)), streams((5, 6, 7, 8, 9))
    assert few[0].denominator != many[0].denominator
    assert few[1].denominator == many[1].denominator
    assert [row.trajectory_id for row in few[1].rows] == [row.trajectory_id for row in many[1].rows]


class _KilledError(Exception):
    """Stops a run in a test."""


ADAPTIVE = GrpoSettings(
    objective=ObjectiveSettings(kl=KlSettings(0.05, target=0.01, horizon=100)),
    mismatch=MismatchSettings(weight="token", weight_cap=2.0),
)


def _mix(
    model: PreTrainedModel, make: Make, task: Toy, folder: Path, *, kill_at: int | None = None, **changes: Any
) -> None:
    def kill(point: CurvePoint) -> None:
        if point.units == kill_at:
            raise _KilledError

    parts = [
        replace(supervised_part(_demonstrations(make), 1), stop=3),
        replace(policy_part(task(model, symbols=(3, 4)).collect, ADAPTIVE), weight=2.0, start=1),
    ]
    run_mixture(model, parts, replace(PLAIN, decay="linear", **changes), RunOptions(3, folder, progress=kill))


@pytest.mark.parametrize(("kill_at", "every"), [(1, 1), (2, 1), (3, 2), (4, 3)])
def test_a_mixture_resumes_bitwise_with_the_states_of_its_parts(
    tiny_model: Model, make_trajectory: Make, copy_task: Toy, tmp_path: Path, kill_at: int, every: int
) -> None:
    calm = tiny_model()
    _mix(calm, make_trajectory, copy_task, tmp_path / "calm", checkpoint_every=every)
    with pytest.raises(_KilledError):
        _mix(tiny_model(), make_trajectory, copy_task, tmp_path / "shaken", kill_at=kill_at, checkpoint_every=every)
    resumed = tiny_model()
    _mix(resumed, make_trajectory, copy_task, tmp_path / "shaken", checkpoint_every=every)
    others = weight_tensors(calm)
    assert all(torch.equal(tensor, others[name]) for name, tensor in weight_tensors(resumed).items())
    curves = [
        [
            (
                point.units,
                {name: value for name, value in point.metrics.items() if name.split("/")[-1] not in UNREPEATED},
            )
            for point in read_curve(tmp_path / name / CURVE_FILE)
        ]
        for name in ("calm", "shaken")
    ]
    assert curves[0] == curves[1]
    coefficients = [metrics.get("policy/kl_coefficient") for _, metrics in curves[0]]
    assert coefficients[0] is None
    assert len(set(coefficients[1:])) == 3


def test_a_run_with_other_parts_is_refused(
    tiny_model: Model, make_trajectory: Make, copy_task: Toy, tmp_path: Path
) -> None:
    model = tiny_model()

    def run(symbols: Sequence[int], weight: float) -> None:
        parts = [
            replace(supervised_part(_demonstrations(make_trajectory, symbols), 1), weight=weight),
            policy_part(copy_task(model).collect, GrpoSettings()),
        ]
        run_mixture(tiny_model(), parts, replace(PLAIN, iterations=1), RunOptions(0, tmp_path))

    run((5, 6), 1.0)
    for symbols, weight in (((5, 7), 1.0), ((5, 6), 2.0)):
        with pytest.raises(TrainingError, match="belongs to another run: part sft is"):
            run(symbols, weight)


def test_each_part_trains_its_own_task(
    tiny_model: Model, make_trajectory: Make, copy_task: Toy, tmp_path: Path
) -> None:
    """Two symbols are tried and never shown, and from the 20th unit on the other two shown and never tried; the
    optimum is 1."""
    model = tiny_model()
    tried, all_symbols = copy_task(model, symbols=(3, 4), group_size=24), copy_task(model)
    parts = [
        replace(supervised_part(_demonstrations(make_trajectory, (5, 6)), 2), start=20),
        policy_part(tried.collect, GrpoSettings(minibatches=1)),
    ]
    settings = MixtureSettings(
        iterations=60, optimiser=OptimiserSettings(learning_rate=1e-2), evaluate_every=10, target_score=0.97
    )
    before = all_symbols.score(0)
    outcome = run_mixture(model, parts, settings, RunOptions(0, tmp_path, evaluate=all_symbols.score))
    assert before < 0.1
    assert outcome.best_score is not None
    assert outcome.best_score >= 0.95
    curve = read_curve(tmp_path / CURVE_FILE)
    assert {name for point in curve for name in point.metrics if metric_of(name) is None} == set()
    last = curve[-1].metrics
    assert last["token_logprob"] == pytest.approx(0.0, abs=0.1)  # of what is shown alone
    assert last["policy/mean_return"] == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: _part("a", weight=0.0), "part 'a' has weight=0.0; it must be positive"),
        (lambda: _part("a", weight=float("nan")), "must be positive"),
        (lambda: _part("a", start=-1), "would never be active with start=-1"),
        (lambda: _part("a", start=2, stop=2), "would never be active with start=2 and stop=2"),
        (lambda: _part("a.b"), "letters, digits and underscores, got 'a.b'"),
        (
            lambda: policy_part(lambda _: [], GrpoSettings(iterations=7, optimiser=OptimiserSettings())),
            "iterations would do nothing here: the mixture's own settings decide",
        ),
        (
            lambda: preference_part([], DpoSettings(epochs=2, keep="best", evaluate_every=1)),
            "epochs, evaluate_every, keep would do nothing here",
        ),
        (lambda: MixtureSettings(iterations=0), "iterations: input should be greater than or equal to 1, got 0"),
    ],
)
def test_unused_part_settings_are_refused(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        make()


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ([_part("a")], r"at least two parts, got \['a'\]"),
        ([_part("a"), _part("a")], r"different names, got \['a', 'a'\]"),
        ([_part("a"), _part("b", start=4)], "part 'b' starts at unit 4, but the run has 4 units"),
        ([_part("a"), _part("b", stop=4)], "part 'b': stop=4 would do nothing in a run of 4 units"),
        ([_part("a", stop=1), _part("b", start=2)], "no part is active in unit 1"),
    ],
)
def test_invalid_mixtures_are_refused(
    tiny_model: Model, tmp_path: Path, parts: Sequence[Part], sentence: str
) -> None:
    with pytest.raises(TrainingError, match=sentence):
        run_mixture(tiny_model(), parts, PLAIN, RunOptions(0, tmp_path))


def test_a_supervised_part_without_rows_is_refused() -> None:
    with pytest.raises(TrainingError, match="part 'sft' has no rows"):
        supervised_part([], 2)
