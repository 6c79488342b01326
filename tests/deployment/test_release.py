"""Releases on the real registry: validation or override, operator actions, and traffic."""

import pytest

from upturn.arbiter.registry import AgentRegistry
from upturn.config import CanarySettings, ValidationSettings
from upturn.deployment.canary import Block, Canary
from upturn.deployment.release import (
    Override,
    RegistryTraffic,
    apply_traffic,
    candidate_share,
    hold,
    promote,
    release_id,
    release_status,
    resume,
    rollback,
    start,
)
from upturn.deployment.validation import Pair, Validation, validate
from upturn.errors import ReleaseError
from upturn.records import AgentVersion, Release

OLD, NEW = AgentVersion("clerk", "1", "callable"), AgentVersion("clerk", "2", "callable")
OVERRIDE = Override("ana", "the demo needs it")
GOOD = Block(20, 20, 20, 2)
BAD = Block(20, 2, 20, 20)


def make_validation(solved: int) -> Validation:
    pairs = [Pair(str(index), "mail", 1, float(index < 10), float(index < solved)) for index in range(60)]
    return validate(pairs, ValidationSettings(resamples=500), seed=0)


def started_release(settings: CanarySettings | None = None) -> Release:
    return start(OLD, NEW, settings or CanarySettings(), make_validation(50))


class Service:
    """A registry that serves OLD, and its traffic."""

    def __init__(self) -> None:
        self.registry = AgentRegistry()
        self.registry.add(OLD)
        versions = {version.id: version for version in (OLD, NEW)}
        self.traffic = RegistryTraffic(self.registry, versions.__getitem__)

    def apply(self, release: Release) -> tuple[str, str | None, float]:
        """Returns incumbent, candidate and weight in service after applying the release twice."""
        apply_traffic(release, self.traffic)
        apply_traffic(release, self.traffic)
        served = self.registry.served("clerk")
        return served.incumbent.id, served.candidate.id if served.candidate else None, served.weight


def test_passed_validation_starts_a_canary() -> None:
    release = started_release()
    assert (release.state, release.stage, release.stages) == ("canary", 0, (0.1, 0.5, 1.0))
    assert release.validation.startswith("pass: gain +66.7 points")
    assert not release.is_validation_skipped
    assert release.reason == ""


@pytest.mark.parametrize("solved", [10, 0])
def test_held_and_failed_validations_start_no_release(solved: int) -> None:
    with pytest.raises(ReleaseError, match="did not pass validation"):
        start(OLD, NEW, CanarySettings(), make_validation(solved))


def test_skipped_validation_is_recorded_with_who_and_why() -> None:
    release = start(OLD, NEW, CanarySettings(), OVERRIDE)
    assert release.is_validation_skipped
    assert release.reason == "validation skipped by ana: the demo needs it"
    for override in (Override("", "why"), Override("who", " ")):
        with pytest.raises(ReleaseError, match="who did it and why"):
            start(OLD, NEW, CanarySettings(), override)


def test_only_another_version_of_the_same_agent_can_be_released() -> None:
    with pytest.raises(ReleaseError, match="two agents"):
        start(OLD, AgentVersion("other", "2", "callable"), CanarySettings(), OVERRIDE)
    with pytest.raises(ReleaseError, match="incumbent itself"):
        start(OLD, OLD, CanarySettings(), OVERRIDE)


def test_release_ids_are_equal_only_for_equal_arguments() -> None:
    ids = {
        release_id("a@1", "a@2"),
        release_id("a@1", "a@2", 1),
        release_id("a@2", "a@1"),
        release_id("a@1", "a@2"),
    }
    assert len(ids) == 3
    assert started_release().id == started_release().id == release_id("clerk@1", "clerk@2")


def test_traffic_follows_the_canary_to_promotion() -> None:
    service, release, canary = Service(), started_release(), Canary(CanarySettings())
    assert service.apply(release) == ("clerk@1", "clerk@2", 0.1)
    release = canary.step(release, Block(30, 20, 270, 180))
    assert service.apply(release) == ("clerk@1", "clerk@2", 0.5)
    for _ in range(3):
        release = release if release.state == "promoted" else canary.step(release, GOOD)
    assert service.apply(release) == ("clerk@2", None, 0.0)


def test_traffic_returns_after_a_rollback() -> None:
    service, canary = Service(), Canary(CanarySettings())
    release = start(OLD, NEW, CanarySettings(stages=(0.5, 1.0)), OVERRIDE)
    service.apply(release)
    release = canary.step(canary.step(release, BAD), BAD)
    assert release.state == "rolled_back"
    assert service.apply(release) == ("clerk@1", None, 0.0)


def test_traffic_returns_to_the_incumbent_after_a_failed_watch() -> None:
    service, settings = Service(), CanarySettings(stages=(0.5, 1.0), watch_tasks=500)
    canary, release = Canary(settings), start(OLD, NEW, settings, OVERRIDE)
    service.apply(release)
    release = canary.step(canary.step(release, GOOD), GOOD)
    assert release.state == "watch"
    assert service.apply(release) == ("clerk@2", None, 0.0)
    assert service.apply(rollback(release, OVERRIDE)) == ("clerk@1", None, 0.0)


def test_old_release_does_not_change_a_later_incumbent() -> None:
    service = Service()
    service.registry.start_canary("later", AgentVersion("clerk", "3", "callable"), 0.5)
    service.registry.promote("clerk")
    assert service.apply(rollback(started_release(), OVERRIDE)) == ("clerk@3", None, 0.0)
    assert service.apply(promote(started_release(), OVERRIDE)) == ("clerk@3", None, 0.0)


def test_operator_actions_are_recorded_in_order() -> None:
    release = promote(resume(hold(started_release(), OVERRIDE), Override("bo", "looked at it")), OVERRIDE)
    assert (release.state, release_status(release), release.is_held) == ("promoted", "promoted", False)
    assert (
        release.reason
        == "held by ana: the demo needs it; resumed by bo: looked at it; promoted by ana: the demo needs it"
    )


def test_held_canary_keeps_its_traffic() -> None:
    held = hold(started_release(), OVERRIDE)
    assert (held.state, release_status(held), candidate_share(held)) == ("canary", "held", 0.1)
    assert Service().apply(held) == ("clerk@1", "clerk@2", 0.1)


def test_decided_releases_reject_every_action() -> None:
    for decided in (promote(started_release(), OVERRIDE), rollback(started_release(), OVERRIDE)):
        for act in (promote, rollback, hold, resume):
            with pytest.raises(ReleaseError):
                act(decided, OVERRIDE)


def test_operator_actions_need_the_right_state() -> None:
    with pytest.raises(ReleaseError, match="not held"):
        resume(started_release(), OVERRIDE)
    with pytest.raises(ReleaseError, match="only a running canary"):
        hold(hold(started_release(), OVERRIDE), OVERRIDE)
    with pytest.raises(ReleaseError, match="who did it and why"):
        promote(started_release(), Override("ana", ""))


def test_candidate_share_by_state() -> None:
    assert candidate_share(started_release()) == 0.1
    assert candidate_share(promote(started_release(), OVERRIDE)) == 1.0
    assert candidate_share(rollback(started_release(), OVERRIDE)) == 0.0
