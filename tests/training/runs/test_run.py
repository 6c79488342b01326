"""A run: when it stops, what it keeps, what it leaves in its folder, and that an interruption changes nothing."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from upturn.config import OptimiserSettings
from upturn.errors import TrainingError
from upturn.records import Trajectory
from upturn.training import TrainingOutcome, supervised_rows
from upturn.training.distributed.weights import copy_tensors, weight_tensors
from upturn.training.evaluation_result import Evaluate, EvaluationResult
from upturn.training.losses import CrossEntropy
from upturn.training.optimisation.trainer import Trainer
from upturn.training.runs import RunOptions, RunPlan, read_curve
from upturn.training.runs.curve import CurvePoint, Progress
from upturn.training.runs.metric import UNREPEATED
from upturn.training.runs.run import Run, identity_of
from upturn.training.runs.run_folder import CHECKPOINTS_FOLDER, CURVE_FILE, read_description, read_outcome
from upturn.training.stream import State, Stream, Unit

Model = Callable[..., PreTrainedModel]
Make = Callable[..., Trajectory]


class Forgetful:
    """Trains on one row; how much it weighs depends on the iteration alone."""

    def __init__(self, make: Make) -> None:
        self.rows = supervised_rows([make((1, 5, 2, 7, 3), ((0, 2, 5),))])

    def unit(self, index: int) -> Unit:
        return Unit([[Stream(self.rows, CrossEntropy(), 3.0 / (1 + index % 3))]], {"mean_return": float(index)})


class Accumulating(Forgetful):
    """How much the row weighs, and where it points, depends on all units so far: a number and a tensor."""

    def __init__(self, make: Make) -> None:
        super().__init__(make)
        self.coefficient = 0.1
        self.direction = torch.ones(3)

    def unit(self, index: int) -> Unit:
        self.coefficient *= 1.1 + 0.1 * (index % 2)
        self.direction = self.direction * -0.7 + index
        (row,) = self.rows
        weights = self.direction.numpy().astype(np.float32) * np.float32(self.coefficient)
        weighed = type(row)(row.trajectory_id, row.token_ids, row.positions, weights, None)
        return Unit([[Stream([weighed], CrossEntropy(), 3.0)]], {"coefficient": self.coefficient})

    def state(self) -> State:
        return {"coefficient": self.coefficient, "direction": self.direction}

    def load_state(self, state: State) -> None:
        direction = state["direction"]
        assert isinstance(direction, Tensor)
        self.coefficient, self.direction = float(state["coefficient"]), direction


class _KilledError(Exception):
    """Stops a run in a test."""


def _run(
    model: PreTrainedModel,
    algorithm: Forgetful,
    folder: Path,
    evaluate: Evaluate | None = None,
    progress: Progress | None = None,
    *,
    units: int = 5,
    **plan: object,
) -> TrainingOutcome:
    trainer = Trainer(model, OptimiserSettings(learning_rate=1e-2))
    defaults = {"evaluate_every": None if evaluate is None else 1, "checkpoint_every": 1, "keep": "final"}
    run_plan = RunPlan(units=units, **{**defaults, **plan})  # type: ignore[arg-type]
    identity = identity_of(trainer, "toy", trainer.settings)
    options = RunOptions(0, folder, evaluate=evaluate, progress=progress)
    return Run(trainer, algorithm, run_plan, identity, options).finish()


def _is_equal(first: PreTrainedModel, second: PreTrainedModel) -> bool:
    others = weight_tensors(second)
    return all(torch.equal(tensor, others[name]) for name, tensor in weight_tensors(first).items())


@pytest.mark.parametrize("every", [1, 2, 3])
@pytest.mark.parametrize("killed_at", range(6))
def test_a_stateful_algorithm_resumes_bitwise_from_every_unit(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path, killed_at: int, every: int
) -> None:
    undisturbed = tiny_model()
    expected = _run(undisturbed, Accumulating(make_trajectory), tmp_path / "calm", units=6, checkpoint_every=every)

    def kill(point: CurvePoint) -> None:
        if point.units == killed_at + 1:
            raise _KilledError

    with pytest.raises(_KilledError):
        _run(
            tiny_model(),
            Accumulating(make_trajectory),
            tmp_path / "shaken",
            progress=kill,
            units=6,
            checkpoint_every=every,
        )
    resumed = tiny_model()
    resumed_outcome = _run(
        resumed, Accumulating(make_trajectory), tmp_path / "shaken", units=6, checkpoint_every=every
    )
    assert resumed_outcome == expected
    assert _is_equal(resumed, undisturbed)
    curves = [read_curve(tmp_path / name / CURVE_FILE) for name in ("calm", "shaken")]
    repeated = [
        [(point.units, {k: v for k, v in point.metrics.items() if k not in UNREPEATED}) for point in curve]
        for curve in curves
    ]
    assert repeated[0] == repeated[1]
    assert [point.units for point in curves[1]] == [1, 2, 3, 4, 5, 6]


def test_without_its_state_the_same_algorithm_ends_with_other_weights(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    class Losing(Accumulating):
        def load_state(self, state: State) -> None:
            """Forgets."""

    calm, shaken = tiny_model(), tiny_model()
    _run(calm, Accumulating(make_trajectory), tmp_path / "calm", units=4)

    def kill(point: CurvePoint) -> None:
        if point.units == 3:
            raise _KilledError

    with pytest.raises(_KilledError):
        _run(tiny_model(), Losing(make_trajectory), tmp_path / "shaken", progress=kill, units=4)
    _run(shaken, Losing(make_trajectory), tmp_path / "shaken", units=4)
    assert not _is_equal(calm, shaken)


def test_a_state_on_one_side_only_is_refused(tiny_model: Model, make_trajectory: Make, tmp_path: Path) -> None:
    _run(tiny_model(), Forgetful(make_trajectory), tmp_path / "a", units=2)
    with pytest.raises(TrainingError, match=r"has no state of the algorithm \('coefficient', 'dir"):
        _run(tiny_model(), Accumulating(make_trajectory), tmp_path / "a", units=2)
    _run(tiny_model(), Accumulating(make_trajectory), tmp_path / "b", units=2)
    with pytest.raises(
        TrainingError, match=r"the state of an algorithm \('coefficient', 'direction'\), this one has none"
    ):
        _run(tiny_model(), Forgetful(make_trajectory), tmp_path / "b", units=2)


def test_a_checkpoint_of_another_model_is_refused_and_the_folder_unchanged(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    _run(tiny_model(), Forgetful(make_trajectory), tmp_path, units=2)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    for other in (tiny_model(1), tiny_model(layers=2), tiny_model(vocabulary=21)):
        with pytest.raises(
            TrainingError, match=r"belongs to another run: initial weights is '.*use another run folder"
        ):
            _run(other, Forgetful(make_trajectory), tmp_path, units=2)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def _costs(values: Sequence[tuple[float, float]]) -> Evaluate:
    """Evaluations with these scores and costs, by units."""
    return lambda units: EvaluationResult(values[units][0], {"damage": values[units][1]}, tasks=20)


def _limited(
    model: PreTrainedModel,
    algorithm: Forgetful,
    folder: Path,
    evaluate: Evaluate,
    progress: Progress | None = None,
) -> TrainingOutcome:
    """Three units with ``damage`` at most .1."""
    return _run(model, algorithm, folder, evaluate, progress, units=3, keep="best", cost_limits={"damage": 0.1})


@pytest.mark.parametrize(
    ("values", "stopped", "units", "kept_units", "best"),
    [
        # the best score of all, .9, costs too much: it ends the run, and its weights are not kept
        ([(0.1, 0.0), (0.5, 0.1), (0.9, 0.2), (1.0, 0.0)], "limit", 2, 1, 0.5),
        # too costly at first, then within: training cured it
        ([(0.9, 0.3), (0.8, 0.2), (0.3, 0.1), (0.4, 0.0)], "finished", 3, 3, 0.4),
        # never within: the weights from before training come back
        ([(0.1, 0.3), (0.5, 0.2), (0.6, 0.2), (0.7, 0.2)], "limit", 3, 0, None),
        # exactly at the limit is within
        ([(0.1, 0.1), (0.2, 0.1), (0.3, 0.1), (0.2, 0.1)], "finished", 3, 2, 0.3),
    ],
    ids=["left the limits", "came within", "never within", "at the limit"],
)
def test_cost_limits_bound_the_kept_weights_and_the_length_of_training(
    tiny_model: Model,
    make_trajectory: Make,
    tmp_path: Path,
    values: Sequence[tuple[float, float]],
    stopped: str,
    units: int,
    kept_units: int,
    best: float | None,
) -> None:
    model = tiny_model()
    by_units = {0: copy_tensors(weight_tensors(model))}

    def keep(point: CurvePoint) -> None:
        by_units[point.units] = copy_tensors(weight_tensors(model))

    outcome = _limited(model, Forgetful(make_trajectory), tmp_path, _costs(values), keep)
    assert (outcome.stopped, outcome.units, outcome.kept_units, outcome.best_score) == (
        stopped,
        units,
        kept_units,
        best,
    )
    assert all(torch.equal(by_units[kept_units][name], tensor) for name, tensor in weight_tensors(model).items())
    curve = read_curve(tmp_path / CURVE_FILE)
    assert [(p.metrics["score"], p.metrics["cost_damage"]) for p in curve] == list(values[: units + 1])
    assert [p.metrics["score_tasks"] for p in curve] == [20.0] * (units + 1)


@pytest.mark.parametrize("killed_at", [1, 2, 3])
def test_cost_limits_survive_an_interruption(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path, killed_at: int
) -> None:
    """Never within the limits, so the weights from before training have to survive the interruption."""
    evaluate = _costs([(0.1, 0.3), (0.5, 0.2), (0.6, 0.2), (0.7, 0.2)])

    def kill(point: CurvePoint) -> None:
        if point.units == killed_at:
            raise _KilledError

    with pytest.raises(_KilledError):
        _limited(tiny_model(), Forgetful(make_trajectory), tmp_path, evaluate, kill)
    resumed = tiny_model()
    outcome = _limited(resumed, Forgetful(make_trajectory), tmp_path, evaluate)
    assert (outcome.stopped, outcome.kept_units) == ("limit", 0)
    assert _is_equal(resumed, tiny_model())


def test_missing_costs_with_limits_are_refused(tiny_model: Model, make_trajectory: Make, tmp_path: Path) -> None:
    algorithm = Forgetful(make_trajectory)
    with pytest.raises(
        TrainingError, match=r"after 0 units gave no cost 'damage', which has a limit; it gave none"
    ):
        _limited(tiny_model(), algorithm, tmp_path, lambda _: 0.5)
    with pytest.raises(TrainingError, match=r"it gave 'harm'"):
        _limited(tiny_model(), algorithm, tmp_path, lambda _: EvaluationResult(0.5, {"harm": 0.0}))
    with pytest.raises(TrainingError, match=r"after 0 units gave damage nan; it must be finite"):
        _limited(tiny_model(), algorithm, tmp_path, lambda _: EvaluationResult(0.5, {"damage": float("nan")}))


def test_a_folder_describes_the_run_and_its_outcome(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    def evaluate(units: int) -> EvaluationResult:
        assert read_outcome(tmp_path) is None
        return EvaluationResult(
            float(units), low=-1.0, high=units + 1.0, tasks=7, measure="success in unseen worlds"
        )

    outcome = _run(tiny_model(), Forgetful(make_trajectory), tmp_path, evaluate, units=2)
    described = read_description(tmp_path)
    assert described.plan == RunPlan(2, 1, 1, "final")
    assert described.identity["algorithm"] == "toy"
    assert described.measure == "success in unseen worlds"
    assert read_outcome(tmp_path) == outcome
    last = read_curve(tmp_path / CURVE_FILE)[-1].metrics
    assert (last["score"], last["score_low"], last["score_high"], last["score_tasks"]) == (2.0, -1.0, 3.0, 7.0)
    seconds = [last[name] for name in ("collect_seconds", "update_seconds", "evaluate_seconds")]
    assert all(value is not None and value >= 0 for value in seconds)


def test_a_resumed_run_keeps_its_description_and_has_no_outcome_until_the_end(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    def evaluate(units: int) -> EvaluationResult:
        return EvaluationResult(0.5, measure="success" if units == 0 else "")

    def kill(point: CurvePoint) -> None:
        assert read_outcome(tmp_path) is None
        if point.units == 1:
            raise _KilledError

    with pytest.raises(_KilledError):
        _run(tiny_model(), Forgetful(make_trajectory), tmp_path, evaluate, kill, units=2)
    assert read_outcome(tmp_path) is None
    _run(tiny_model(), Forgetful(make_trajectory), tmp_path, evaluate, units=2)
    assert read_description(tmp_path).measure == "success"
    shutil.rmtree(tmp_path / CHECKPOINTS_FOLDER)
    with pytest.raises(_KilledError):  # a new start: the earlier outcome is not its own
        _run(tiny_model(), Forgetful(make_trajectory), tmp_path, evaluate, kill, units=2)
    assert read_outcome(tmp_path) is None
