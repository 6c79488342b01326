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
        Served(_decision("1"), _evaluation("success", {"leak": 0.0, "wipe": 0.0})),
        Served(_decision("2", "control"), _evaluation("failure", {"leak": 1.0, "wipe": 2.0})),
        Served(_decision("3"), _evaluation("missing")),
        Served(_decision("4", "control"), None),
        Served(_decision("5", release="another"), _evaluation("success")),
    ]
    share = 0.04 / (0.04 + 0.36)
    assert episodes_of(release(), served, SETTINGS) == (
        Episode("1", "candidate", share, 1, 1, has_costs=True, unreported=0, hard_unreported=0),
        Episode(
            "2",
            "control",
            share,
            violations=1,
            hard_violations=1,
            has_costs=True,
            unreported=0,
            hard_unreported=0,
        ),
        Episode("3", "candidate", share, missing=1, unreported=1, hard_unreported=1),
        Episode("4", "control", share, missing=1, unreported=1, hard_unreported=1),
    )


def test_tasks_of_an_episode_are_one_observation() -> None:
    served = [
        Served(_decision("1", episode="s"), _evaluation("success")),
        Served(_decision("2", "control", episode="other"), _evaluation("success")),
        Served(_decision("3", episode="s"), _evaluation("failure")),
        Served(_decision("4", episode="s"), None),
    ]
    first, second = episodes_of(release(), served, SETTINGS)
    assert (first.id, first.tasks, first.successes, first.missing) == ('["t", "s"]', 3, 1, 1)
    assert (second.id, second.tasks) == ('["t", "other"]', 1)


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


WAIT: Mapping[str, float] = MappingProxyType({"delay_seconds": 60.0, "window_seconds": 100.0})


def test_outcomes_are_taken_in_the_order_of_decisions() -> None:
    """The second task's outcome is still pending: what came after it waits, though it is judged."""
    success = _evaluation("success")
    awaited = [_awaited("1", 0.0, success), _awaited("2", 5.0, None), _awaited("3", 6.0, success)]
    settled = split_settled(awaited, now=10.0, **WAIT)
    assert _names(settled.final) == ["1"]
    assert [item.served.decision.id for item in settled.waiting] == ["2", "3"]


def test_an_outcome_is_missing_once_its_delay_has_passed() -> None:
    awaited = [_awaited("1", 0.0, None), _awaited("2", 5.0, _evaluation("success"))]
    settled = split_settled(awaited, now=60.0, **WAIT)
    assert _names(settled.final) == ["1", "2"]
    assert settled.waiting == []
    first, _ = episodes_of(release(), settled.final, SETTINGS)
    assert first.missing == 1


def test_an_episode_ends_after_its_window_and_waits_for_its_outcomes() -> None:
    success = _evaluation("success")
    awaited = [
        _awaited("1", 0.0, success, episode="s"),
        _awaited("2", 1.0, success),
        _awaited("3", 90.0, None, episode="s"),
        _awaited("4", 101.0, success, episode="s"),
    ]
    for now in (95.0, 100.0, 149.0):  # open, open, one outcome pending
        settled = split_settled(awaited, now=now, **WAIT)
        assert (settled.final, settled.late) == ([], [])
        assert len(settled.waiting) == 4
    settled = split_settled(awaited, now=150.0, **WAIT)
    assert _names(settled.final) == ["1", "2", "3"]
    assert _names(settled.late) == ["4"]
    assert settled.waiting == []


def test_an_episode_that_never_ends_blocks_the_others_for_a_limited_time() -> None:
    """A chat with a new, unjudged task every ten seconds; one other task after the first."""
    chat = [_awaited(f"c{index}", 10.0 * index, None, episode="chat") for index in range(50)]
    awaited = sorted([*chat, _awaited("1", 5.0, _evaluation("success"))], key=lambda item: item.decided_at)
    settled = split_settled(awaited, now=490.0, **WAIT)
    assert _names(settled.final) == ["c0", "1", *(f"c{index}" for index in range(1, 11))]
    assert len(settled.late) == 39
    assert settled.waiting == []


def test_the_first_judged_outcome_of_a_decision_counts() -> None:
    served = [
        Served(_decision("1"), None),
        Served(_decision("1"), _evaluation("success")),
        Served(_decision("1"), _evaluation("failure")),
    ]
    (episode,) = episodes_of(release(), served, SETTINGS)
    assert (episode.tasks, episode.successes, episode.missing, episode.repeats) == (1, 1, 0, 2)


def test_costs_are_known_or_not_whatever_the_verdict() -> None:
    served = [
        Served(_decision("1"), _evaluation("missing", {"leak": 1.0})),
        Served(_decision("2"), _evaluation("success", {"error": 1.0})),
        Served(_decision("3"), _evaluation("success", {"leak": float("nan"), "wipe": 0.0})),
    ]
    first, second, third = episodes_of(release(), served, SETTINGS)
    assert (first.missing, first.violations, first.unreported, first.has_costs) == (1, 1, 0, True)
    assert (second.unreported, second.hard_unreported, second.has_costs) == (1, 1, False)
    assert (third.unreported, third.hard_unreported) == (1, 0)
    (unconstrained,) = episodes_of(release(), served[1:2], CanarySettings())
    assert unconstrained.hard_unreported == 0


def test_an_episode_of_two_versions_is_refused() -> None:
    mixed = [
        Served(_decision("1", episode="s"), None),
        Served(_decision("2", "control", episode="s"), None),
    ]
    with pytest.raises(ReleaseError, match="was served by a@1, a@2; all of its tasks must be served by 'a@2', or"):
        episodes_of(release(), mixed, SETTINGS)
    with pytest.raises(ReleaseError, match="was served by a@7"):
        episodes_of(release(), [Served(_decision("1", chosen="a@7"), None)], SETTINGS)
