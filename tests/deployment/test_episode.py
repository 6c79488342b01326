"""From served tasks to episodes: grouped, with the true share, and settled in the order of decisions."""

from collections.abc import Mapping
from types import MappingProxyType

import pytest

from tests.deployment.episodes_for_test import release
from upturn.config import CanarySettings
from upturn.deployment.episode import Awaited, Episode, Served, episodes_of, split_settled
from upturn.errors import ReleaseError
from upturn.records import Alternative, Arm, Decision, Evaluation

SETTINGS = CanarySettings(safety_costs=("leak",), hard_costs=("wipe",))
NO_COSTS: Mapping[str, float] = MappingProxyType({})


def _decision(name: str, arm: Arm | None = "candidate", episode: str | None = None, **changes: object) -> Decision:
    fields: dict[str, object] = {
        "id": name,
        "task_id": f"task-{name}",
        "family": "mail",
        "tenant": "t",
        "policy": "uniform",
        "policy_snapshot": "",
        "alternatives": (
            Alternative("a@1", 0.36, None),
            Alternative("a@2", 0.04, None),
            Alternative("b@1", 0.6, None),
        ),
        "agent": "a",
        "chosen": "a@2" if arm == "candidate" else "a@1",
        "propensity": 0.04,
        "reason": "",
        "episode": episode,
        "release": "release-1",
        "arm": arm,
    }
    return Decision(**{**fields, **changes})  # type: ignore[arg-type]


def _evaluation(verdict: str, costs: Mapping[str, float] = NO_COSTS) -> Evaluation:
    return Evaluation("e", "t", "j", "office/1", verdict, (), {}, costs, None)  # type: ignore[arg-type]


def test_a_task_without_an_episode_is_an_episode_of_one() -> None:
    served = [
        Served(_decision("1"), _evaluation("success", {"leak": 0.0})),
        Served(_decision("2", "control"), _evaluation("failure", {"leak": 1.0, "wipe": 2.0})),
        Served(_decision("3"), _evaluation("missing")),
        Served(_decision("4", "control"), None),
        Served(_decision("5", release="another"), _evaluation("success")),
    ]
    share = 0.04 / (0.04 + 0.36)
    assert episodes_of(release(), served, SETTINGS) == (
        Episode("1", "candidate", share, successes=1, has_costs=True),
        Episode("2", "control", share, violations=1, hard_violations=1, has_costs=True),
        Episode("3", "candidate", share, missing=1),
        Episode("4", "control", share, missing=1),
    )


def test_tasks_of_an_episode_are_one_observation() -> None:
    served = [
        Served(_decision("1", episode="s"), _evaluation("success")),
        Served(_decision("2", "control", episode="other"), _evaluation("success")),
        Served(_decision("3", episode="s"), _evaluation("failure")),
        Served(_decision("4", episode="s"), None),
    ]
    first, second = episodes_of(release(), served, SETTINGS)
    assert (first.id, first.tasks, first.successes, first.missing) == ("t/s", 3, 1, 1)
    assert (second.id, second.tasks) == ("t/other", 1)


def test_a_decision_that_could_not_have_gone_to_both_versions_is_refused() -> None:
    certain = _decision("1", alternatives=(Alternative("a@2", 1.0, None),))
    with pytest.raises(ReleaseError, match=r"a@2 a probability of 1\.0 and a@1 0\.0"):
        episodes_of(release(), [Served(certain, None)], SETTINGS)


def test_during_a_watch_all_tasks_of_the_candidate_count() -> None:
    watched = release(state="watch", stage=1)
    served = [
        Served(_decision("1", release=None, arm=None, chosen="a@2"), _evaluation("success")),
        Served(_decision("2", release=None, arm=None, chosen="b@1"), _evaluation("success")),
    ]
    (episode,) = episodes_of(watched, served, SETTINGS)
    assert (episode.arm, episode.share, episode.successes) == ("candidate", 1.0, 1)


def _awaited(name: str, at: float, evaluation: Evaluation | None, episode: str | None = None) -> Awaited:
    return Awaited(Served(_decision(name, episode=episode), evaluation), at)


def _names(served: list[Served]) -> list[str]:
    return [item.decision.id for item in served]


def test_outcomes_are_taken_in_the_order_of_decisions() -> None:
    """The second task's outcome is still pending: what came after it waits, though it is judged."""
    success = _evaluation("success")
    awaited = [_awaited("1", 0.0, success), _awaited("2", 5.0, None), _awaited("3", 6.0, success)]
    settled, waiting = split_settled(awaited, now=10.0, delay_seconds=60.0)
    assert _names(settled) == ["1"]
    assert [item.served.decision.id for item in waiting] == ["2", "3"]


def test_an_outcome_is_missing_once_its_delay_has_passed() -> None:
    awaited = [_awaited("1", 0.0, None), _awaited("2", 5.0, _evaluation("success"))]
    settled, waiting = split_settled(awaited, now=60.0, delay_seconds=60.0)
    assert _names(settled) == ["1", "2"]
    assert waiting == []
    first, _ = episodes_of(release(), settled, SETTINGS)
    assert first.missing == 1


def test_an_episode_waits_for_all_of_its_tasks() -> None:
    success = _evaluation("success")
    awaited = [
        _awaited("1", 0.0, success, episode="s"),
        _awaited("2", 1.0, success),
        _awaited("3", 50.0, None, episode="s"),
    ]
    settled, waiting = split_settled(awaited, now=60.0, delay_seconds=60.0)
    assert settled == []
    assert len(waiting) == 3
    settled, waiting = split_settled(awaited, now=110.0, delay_seconds=60.0)
    assert _names(settled) == ["1", "2", "3"]
