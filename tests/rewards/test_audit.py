"""Audits of made-up training runs in which it is known what moved."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from upturn.records import Evaluation
from upturn.rewards import Rubric, audit_rewards
from upturn.rewards.audit import Quality

RUBRIC = Rubric("r/1", {"success": 1.0, "polite": 1.0, "padding": -0.5})
FLAT, RISEN = Quality(0, 0.4, 0.35, 0.45), Quality(9, 0.6, 0.55, 0.65)


def run(success: Sequence[float], polite: Sequence[float | None], padding: float = 0.0) -> list[list[Evaluation]]:
    """Two evaluations an iteration, 0.02 apart."""
    blank = Evaluation("v", "t", "j", "desk/1", "success", (), {}, {}, None)
    return [
        [
            replace(
                blank,
                rewards={"success": a + step, "polite": b, "padding": padding * index, "words": 100.0 * index},
            )
            for step in (-0.01, 0.01)
        ]
        for index, (a, b) in enumerate(zip(success, polite, strict=True))
    ]


def audited(iterations: list[list[Evaluation]], *quality: Quality):  # type: ignore[no-untyped-def]
    scores = [[RUBRIC.score(evaluation.rewards) for evaluation in row] for row in iterations]
    return audit_rewards(iterations, scores, RUBRIC.terms({}), quality)


FARMED = run([0.5, 0.51, 0.5, 0.5, 0.51, 0.5], [0.1, 0.11, 0.4, 0.5, 0.89, 0.9])
LEARNED = run([0.1, 0.11, 0.4, 0.5, 0.89, 0.9], [0.5, 0.51, 0.5, 0.5, 0.51, 0.5])


def test_a_farmed_component_is_named_where_quality_does_not_rise() -> None:
    audit = audited(FARMED, FLAT, replace_quality(FLAT, 9))
    assert audit.finding == "diverged"
    first = audit.components[0]
    assert (first.name, first.missing) == ("polite", 0)
    assert (first.early, first.late) == pytest.approx((0.105, 0.895))
    assert first.contribution == pytest.approx(0.79 / 2)
    assert first.low > 0
    assert audit.reward is not None and audit.reward.mean == pytest.approx(0.79 / 2)
    words = next(item for item in audit.components if item.name == "words")
    assert (words.contribution, words.late - words.early) == (0.0, 400.0)  # a metric moves no reward


def replace_quality(quality: Quality, iterations: int) -> Quality:
    return quality._replace(iterations=iterations)


@pytest.mark.parametrize(
    ("iterations", "quality", "finding"),
    [
        (LEARNED, (FLAT, RISEN), "improved"),
        (LEARNED, (RISEN._replace(iterations=0), FLAT._replace(iterations=9)), "diverged"),  # it fell
        (LEARNED, (), "unknown"),
        (LEARNED, (FLAT,), "unknown"),
        (LEARNED[:5], (FLAT, RISEN), "unknown"),
        (run([0.5] * 6, [0.5] * 6), (FLAT, RISEN), "flat"),
        (run([0.5, 0.1, 0.5, 0.5, 0.5, 0.2], [0.5] * 6), (FLAT, RISEN), "flat"),
    ],
)
def test_findings(iterations: list[list[Evaluation]], quality: Sequence[Quality], finding: str) -> None:
    assert audited(iterations, *quality).finding == finding


def test_pitfalls_and_missing_components_are_counted() -> None:
    iterations = run([0.5] * 6, [0.5, None, 0.5, 0.5, None, 0.5], padding=0.1)
    audit = audited(iterations, FLAT, RISEN)
    by_name = {item.name: item for item in audit.components}
    assert by_name["padding"].contribution == pytest.approx(-0.25 * 0.4)
    assert "polite" not in by_name  # one known iteration on each side has no interval
    assert audit.finding == "flat"
    rates = {result.name: result.value for result in audit.results()}
    assert rates["finding"] == "flat" and rates["padding: change"] == pytest.approx(0.4)


def test_rewards_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match="one reward, or None, for each evaluation"):
        audit_rewards(FARMED, [[0.0]], RUBRIC.terms({}), ())
