"""Every number on a curve is explained once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedModel

from upturn.records import Trajectory
from upturn.training import supervised_rows
from upturn.training.algorithms.grpo import GrpoSettings, run_grpo
from upturn.training.algorithms.sft import SftSettings, run_sft
from upturn.training.evaluation_result import EvaluationResult
from upturn.training.policy_settings import DynamicSamplingSettings, KlSettings, MismatchSettings, ObjectiveSettings
from upturn.training.runs import RunOptions, read_curve
from upturn.training.runs.curve import CurvePoint
from upturn.training.runs.metric import GROUPS, METRICS, PHASES, UNREPEATED, group_of, metric_of, seconds_of
from upturn.training.runs.run_folder import CURVE_FILE


def test_every_metric_has_one_name_and_a_meaning() -> None:
    names = [metric.name for metric in METRICS]
    assert len(names) == len(set(names))
    for metric in METRICS:
        assert metric.group in GROUPS
        assert metric.meaning.endswith(".")
        assert metric.name == metric.name.lower()


def test_exact_names_precede_prefixes_and_unknown_names_are_other() -> None:
    cost = metric_of("cost_damage")
    assert cost is not None
    assert (cost.name, cost.group) == ("cost_*", "cost")
    assert metric_of("costs") is None
    assert group_of("costs") == "other"
    assert group_of("score") == "score"


def test_metrics_of_a_mixtures_parts_have_the_same_meaning() -> None:
    assert metric_of("policy/mean_return") == metric_of("mean_return") is not None
    assert group_of("policy/costs") == "other"


KL = KlSettings(coefficient=0.1, target=0.01, horizon=100)
RUNS = {
    "plain": GrpoSettings(iterations=2, evaluate_every=1),
    "dual clip, adaptive KL, refill": GrpoSettings(
        iterations=2,
        evaluate_every=1,
        objective=ObjectiveSettings(dual_clip=3.0, kl=KL),
        dynamic_sampling=DynamicSamplingSettings(groups=5, max_rounds=2),
    ),
    "stale": GrpoSettings(iterations=2, evaluate_every=1, objective=ObjectiveSettings(stale_limit=0.1)),
    "mismatch": GrpoSettings(
        iterations=2,
        evaluate_every=1,
        mismatch=MismatchSettings(weight="token", weight_cap=2.0, mask="geometric", mask_low=0.5, mask_high=2.0),
    ),
}


@pytest.mark.parametrize("settings", RUNS.values(), ids=RUNS)
def test_every_metric_of_a_policy_gradient_has_a_meaning(
    tiny_model: Callable[..., PreTrainedModel],
    copy_task: Callable[..., Any],
    tmp_path: Path,
    settings: GrpoSettings,
) -> None:
    task = copy_task(tiny_model(), group_size=6)
    run_grpo(
        task.model,
        task.collect,
        settings,
        RunOptions(
            0,
            tmp_path,
            evaluate=lambda units: EvaluationResult(float(units), {"harm": 0.0}, low=0.0, high=9.0, tasks=4),
        ),
        refill=task.refill if settings.dynamic_sampling else None,
    )
    names = {name for point in read_curve(tmp_path / CURVE_FILE) for name in point.metrics}
    assert len(names) > 25
    assert {name for name in names if metric_of(name) is None} == set()


def test_every_metric_of_supervised_training_has_a_meaning(
    tiny_model: Callable[..., PreTrainedModel], make_trajectory: Callable[..., Trajectory], tmp_path: Path
) -> None:
    first, second = (make_trajectory((1, token, 2, 7), origin="rendered") for token in (5, 6))
    rows, held_out = supervised_rows([first]), supervised_rows([second])
    run_sft(tiny_model(), rows, SftSettings(evaluate_every=1), RunOptions(0, tmp_path, evaluate=held_out))
    names = {name for point in read_curve(tmp_path / CURVE_FILE) for name in point.metrics}
    assert "token_logprob" in names
    assert {name for name in names if metric_of(name) is None} == set()


def test_only_times_and_the_verification_gap_are_not_repeated() -> None:
    timings = {metric.name for metric in METRICS if metric.group == "time"}
    assert timings | {"verify_gap"} == UNREPEATED
    assert set(PHASES) < timings


def test_the_duration_of_a_unit_is_that_of_its_phases() -> None:
    assert seconds_of(CurvePoint(1, 1, {"collect_seconds": 1.5, "update_seconds": 2.0, "loss": 9.0})) == 3.5
    assert seconds_of(CurvePoint(0, 0, {"evaluate_seconds": None})) == 0.0
