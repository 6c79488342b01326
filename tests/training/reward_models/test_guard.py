"""Reward models against the verifier on the same trajectories."""

from collections.abc import Callable, Mapping

import pytest

from upturn.records import Task, Trajectory
from upturn.training import ScoredGroup, ScoredTrajectory
from upturn.training.reward_models import proxy_metrics
from upturn.training.runs import metric_of

Make = Callable[..., Trajectory]


def _group(make: Make, members: list[tuple[Mapping[str, float | None], bool | None]]) -> ScoredGroup:
    scored = [
        ScoredTrajectory(make(name=str(index)), (0.0,), succeeded=succeeded, proxies=proxies)
        for index, (proxies, succeeded) in enumerate(members)
    ]
    return ScoredGroup(Task("task", "", "toy", "toy"), tuple(scored))


def test_only_trajectories_with_score_and_verdict_are_compared(make_trajectory: Make) -> None:
    """The one without a verdict and the one without a score are missing, not 0."""
    members: list[tuple[Mapping[str, float | None], bool | None]] = [
        ({"rm": 0.8}, True),
        ({"rm": 0.6}, False),
        ({"rm": 0.2}, None),
        ({"rm": None}, True),
        ({"rm": 0.4}, False),
    ]
    metrics = proxy_metrics([_group(make_trajectory, members)])
    assert metrics == {
        "proxy_reward_rm": pytest.approx(0.6),
        "proxy_success_rm": pytest.approx(1 / 3),
        "proxy_separation_rm": 1.0,
    }
    assert all(metric_of(name) is not None for name in metrics)


def test_an_exploited_model_no_longer_separates(make_trajectory: Make) -> None:
    metrics = proxy_metrics([_group(make_trajectory, [({"rm": 0.9}, False), ({"rm": 0.7}, True)])])
    assert metrics["proxy_separation_rm"] == 0.0
    unmixed = proxy_metrics([_group(make_trajectory, [({"rm": 0.9}, True)])])
    assert unmixed == {"proxy_reward_rm": 0.9, "proxy_success_rm": 1.0}
    assert proxy_metrics([_group(make_trajectory, [({}, True)])]) == {}
