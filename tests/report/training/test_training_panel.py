"""A run has the panels that it has data for; constant ideal ones are omitted, unknown ones are last."""

from dataclasses import replace

import pytest

from upturn.report.training import TrainingReport
from upturn.report.training.panel import Panel, panels
from upturn.training.runs.curve import CurvePoint


def names(report: TrainingReport) -> list[str]:
    return [panel.name for panel in panels(report)]


def with_metric(report: TrainingReport, name: str, values: tuple[float, ...]) -> TrainingReport:
    points = tuple(
        replace(point, metrics={**point.metrics, name: value})
        for point, value in zip(report.points, values, strict=False)
    )
    return replace(report, points=points)


def test_a_policy_gradient_run_has_its_panels_in_page_order(finished: TrainingReport) -> None:
    assert names(finished) == [
        "score",
        "reward",
        "costs",
        "loss",
        "gradient",
        "learning-rate",
        "entropy",
        "kl",
        "ratio",
        "clip",
        "agreement",
        "groups",
        "tokens",
        "share",
        "action",
        "trouble",
        "seconds",
        "speed",
        "own-0",
    ]


def test_a_supervised_run_has_only_panels_with_data(supervised: TrainingReport) -> None:
    assert names(supervised) == [
        "loss",
        "gradient",
        "learning-rate",
        "tokens",
        "share",
        "action",
        "seconds",
        "speed",
    ]
    (loss,) = [panel for panel in panels(supervised) if panel.name == "loss"]
    assert "should fall" in loss.good
    assert loss.is_wide


@pytest.mark.parametrize(
    ("algorithm", "good", "axis"),
    [
        ("dpo", "without any preference", "loss a pair"),
        ("dpo rounds", "without any preference", "loss a pair"),
        ("kto", "without any preference", "loss a rated trajectory"),
        ("imitation", "should fall, fast at first", "nats a written token"),
        ("sft", "should fall, fast at first", "nats a written token"),
        ("mixture", "The sum of its parts", "sum of the parts"),
        ("grpo", "policy-gradient loss", "loss a written token"),
        ("ppo", "policy-gradient loss", "loss a written token"),
    ],
)
def test_the_loss_panel_depends_on_the_algorithm_alone(
    finished: TrainingReport, supervised: TrainingReport, *, algorithm: str, good: str, axis: str
) -> None:
    for report in (finished, supervised):
        loss = _loss_of(report, algorithm)
        assert good in loss.good
        assert loss.axis == axis


def test_an_unknown_algorithm_with_rollouts_has_a_policy_loss(
    finished: TrainingReport, supervised: TrainingReport
) -> None:
    assert "policy-gradient loss" in _loss_of(finished, "my own").good
    assert "should fall" in _loss_of(supervised, "my own").good


def _loss_of(report: TrainingReport, algorithm: str) -> Panel:
    description = replace(report.description, identity={"algorithm": algorithm})
    (loss,) = [panel for panel in panels(replace(report, description=description)) if panel.name == "loss"]
    return loss


@pytest.mark.parametrize("fixture", ["finished", "supervised"])
def test_every_panel_has_a_title_an_axis_and_a_description(fixture: str, request: pytest.FixtureRequest) -> None:
    for panel in panels(request.getfixturevalue(fixture)):
        assert panel.title
        assert panel.axis
        assert panel.good.endswith(".")
        assert all(line.label for line in panel.lines)


@pytest.mark.parametrize(
    ("metric", "picture", "ideal"),
    [
        ("fallbacks", "fallbacks", 0.0),
        ("unscorable", "trouble", 0.0),
        ("cost_safety", "costs", 0.0),
        ("max_logprob_gap", "agreement", 0.0),
        ("ratio", "ratio", 1.0),
    ],
)
def test_constant_ideal_curves_have_no_panel_and_constant_bad_ones_do(
    finished: TrainingReport, metric: str, picture: str, ideal: float
) -> None:
    def constant(value: float) -> TrainingReport:
        return replace(finished, points=tuple(CurvePoint(unit, 0, {metric: value}) for unit in range(61)))

    assert names(constant(ideal)) == []
    assert names(constant(2.0)) == [picture]
    assert names(with_metric(constant(ideal), metric, (ideal,) * 60 + (2.0,))) == [picture]


@pytest.mark.parametrize(
    ("metric", "picture"),
    [
        ("mean_return", "reward"),
        ("grad_norm", "gradient"),
        ("entropy", "entropy"),
        ("clip_fraction_low", "clip"),
        ("kl_reference", "kl"),
        ("share_ratio", "share"),
        ("learning_rate", "learning-rate"),
        ("something", "own-0"),
    ],
)
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_constant_curves_without_an_ideal_have_a_picture(
    finished: TrainingReport, metric: str, picture: str, value: float
) -> None:
    constant = replace(finished, points=tuple(CurvePoint(unit, 0, {metric: value}) for unit in range(3)))
    assert names(constant) == [picture]


def test_metric_names_never_become_anchors(finished: TrainingReport) -> None:
    hostile = with_metric(finished, '"><script>', (1.0, 2.0))
    (own,) = [panel for panel in panels(hostile) if panel.title == '"><script>']
    assert own.name.removeprefix("own-").isdigit()
    assert own.good == "A metric of the run's algorithm."


def test_costs_share_a_panel(finished: TrainingReport) -> None:
    (costs,) = [panel for panel in panels(finished) if panel.name == "costs"]
    assert [line.label for line in costs.lines] == ["safety", "error"]


def test_a_run_without_points_has_no_pictures(finished: TrainingReport) -> None:
    assert panels(replace(finished, points=())) == ()
    assert names(replace(finished, points=(CurvePoint(0, 0, {"score": 0.5}),))) == ["score"]
