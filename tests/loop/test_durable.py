"""What is learned, promoted and decided by operators outlives a run."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from upturn.deployment import Override, episode_digest, hold, incumbent_of, promote, resume, rollback, start
from upturn.loop.cycle import release, serve
from upturn.loop.live_release import serve_wave
from upturn.loop.online import CanaryEvidence
from upturn.loop.progress import NoProgress
from upturn.pool import Pool
from upturn.records import AgentLimits, AgentVersion, Decision, Feedback, Release

ANA = Override("ana", "complaints")


def shared(desk: ModuleType, tmp_path: Path, agents: tuple[str, ...] = ("adder", "refuser")) -> object:
    """A configuration whose runs share a pool."""
    config = desk.config(agents, pool={"path": str(tmp_path / "shared.db")})
    return desk.with_canary(config, max_candidate_episodes=200)


def act(tmp_path: Path, release_id: str, what: Callable[[Release, Override], Release]) -> None:
    """An operator's act, beside the loop."""

    def change(states: object) -> Release:
        (stored,) = [known for known in states.all() if known.id == release_id]  # type: ignore[attr-defined]
        return what(stored, ANA)

    with Pool.open(tmp_path / "shared.db", beside=True) as pool:
        pool.change(Release, change)


def started_by_hand(tmp_path: Path, incumbent: AgentVersion, candidate: AgentVersion, desk: ModuleType) -> Release:
    settings = desk.with_canary(desk.config()).canary
    with Pool.open(tmp_path / "shared.db", beside=True) as pool:
        pool.append(candidate)
        return pool.change(Release, lambda _: start(incumbent, candidate, settings, ANA))


def test_a_second_run_begins_with_what_the_first_has_learned(desk: ModuleType, tmp_path: Path) -> None:
    config = shared(desk, tmp_path, ("solver", "adder"))
    with desk.opened(tmp_path / "first", config) as context:
        serve(context, "serve", 192)
        learned = context.policy.state()
    with desk.opened(tmp_path / "second", config) as context:
        assert context.policy.state() == learned
        belief = context.policy.belief("products", "solver@base")
        assert belief.mean > 0.9
        assert belief.deviation < 0.05
        serve(context, "serve", 96)
        assert sum(context.policy.tally.count(*key).outcomes for key in _counts(context)) == 192 + 96


def _counts(context: object) -> list[tuple[str, str]]:
    tally = context.policy.tally  # type: ignore[attr-defined]
    return [(family, version) for family in tally.families() for version in tally.versions()]


def test_a_resumed_run_continues_with_what_it_began_with(desk: ModuleType, tmp_path: Path) -> None:
    """Also if another run has learned on the pool in between."""
    config = shared(desk, tmp_path, ("solver", "adder"))

    class Stop(NoProgress):
        def advance(self, count: int = 1, **figures: float) -> None:
            raise KeyboardInterrupt

    with desk.opened(tmp_path / "shared" / "first", config) as context, pytest.raises(KeyboardInterrupt):
        serve(replace(context, progress=Stop()), "serve", 288)
    with desk.opened(tmp_path / "other", config) as context:
        serve(context, "serve", 96)
    with desk.opened(tmp_path / "shared" / "first", config) as context:
        serve(context, "serve", 96)
        begun = context.policy.tally
        assert sum(begun.count(*key).outcomes for key in _counts(context)) == 96


def test_a_promoted_version_serves_the_next_run(desk: ModuleType, tmp_path: Path) -> None:
    config = shared(desk, tmp_path)
    with desk.opened(tmp_path / "first", config) as context:
        incumbent = context.router.registry.served("adder").incumbent
        assert release(context, "release", (incumbent, desk.CANDIDATE), desk.GROUND).state == "promoted"
    with desk.opened(tmp_path / "second", config) as context:
        assert context.router.registry.served("adder").incumbent == desk.CANDIDATE
        serve(context, "serve", 96)
        served = {decision.chosen for decision in _decisions_of(context)}
        assert "adder@base" not in served


def _decisions_of(context: object) -> list[Decision]:
    """The decisions of this run alone."""
    pool, router = context.pool, context.router  # type: ignore[attr-defined]
    decisions = pool.decisions(tenant="default")
    tasks = {task.id: task for task in pool.tasks(tenant="default")}
    return [item for item in decisions if item.id == router.decision_id(tasks[item.task_id])]


def test_a_release_started_by_hand_gets_traffic_and_is_decided(desk: ModuleType, tmp_path: Path) -> None:
    config = shared(desk, tmp_path)
    with desk.opened(tmp_path / "first", config) as context:
        serve(context, "serve", 96)
        incumbent = context.router.registry.served("adder").incumbent
        by_hand = started_by_hand(tmp_path, incumbent, desk.CANDIDATE, desk)  # while the loop runs
        serve(context, "serve-more", 96)
        of_release = [item for item in _decisions_of(context) if item.release == by_hand.id]
        # At least a quarter of 96 in expectation: fewer than 9 has a probability below 1e-4.
        assert len(of_release) >= 9
        assert {item.arm for item in of_release} == {"candidate", "control"}
        serve(context, "serve-on", 2_000)
        (decided,) = context.pool.states(Release)
        assert decided.state == "promoted"
        assert context.router.registry.served("adder").incumbent == desk.CANDIDATE
    with desk.opened(tmp_path / "second", config) as context:
        assert context.router.registry.served("adder").incumbent == desk.CANDIDATE


class ActOn(NoProgress):
    """Calls ``act`` at the advance with this number, in the middle of a running canary."""

    def __init__(self, number: int, act_now: Callable[[], None]) -> None:
        self._left, self._act = number, act_now

    def advance(self, count: int = 1, **figures: float) -> None:
        self._left -= 1
        if self._left == 0:
            self._act()


@pytest.mark.parametrize(("what", "state"), [(rollback, "rolled_back"), (promote, "promoted")])
def test_an_operators_decision_on_a_running_canary_stays(
    desk: ModuleType, tmp_path: Path, what: Callable[[Release, Override], Release], state: str
) -> None:
    config = shared(desk, tmp_path)
    with desk.opened(tmp_path / "first", config) as context:
        incumbent = context.router.registry.served("adder").incumbent

        def now() -> None:
            (running,) = context.pool.states(Release)
            act(tmp_path, running.id, what)

        decided = release(
            replace(context, progress=ActOn(2, now)), "release", (incumbent, desk.CANDIDATE), desk.GROUND
        )
        assert decided.state == state
        assert decided.reason.endswith("by ana: complaints")
        assert decided.evidence[-1].block == 1
        serve(context, "serve", 96)
        assert context.pool.states(Release) == [decided]
        expected = desk.CANDIDATE if state == "promoted" else incumbent
        assert context.router.registry.served("adder").incumbent == expected
        assert context.router.registry.served("adder").candidate is None


def test_what_is_decided_between_stop_and_resume_stays_decided(desk: ModuleType, tmp_path: Path) -> None:
    config = shared(desk, tmp_path)

    def stop() -> None:
        raise KeyboardInterrupt

    with desk.opened(tmp_path / "first", config) as context, pytest.raises(KeyboardInterrupt):
        serve(context, "serve", 96)
        incumbent = context.router.registry.served("adder").incumbent
        release(replace(context, progress=ActOn(2, stop)), "release", (incumbent, desk.CANDIDATE), desk.GROUND)
    with Pool.open(tmp_path / "shared.db", read_only=True) as pool:
        (stopped,) = pool.states(Release)
    act(tmp_path, stopped.id, rollback)
    with desk.opened(tmp_path / "first", config) as context:
        serve(context, "serve", 96)
        incumbent = context.router.registry.served("adder").incumbent
        decided = release(context, "release", (incumbent, desk.CANDIDATE), desk.GROUND)
        assert decided.state == "rolled_back"
        assert decided.reason.endswith("rolled back by ana: complaints")
        assert decided.evidence == stopped.evidence
        serve(context, "serve-on", 96)
        assert context.pool.states(Release) == [decided]


def test_a_resumed_canary_counts_all_tasks_although_a_gateway_continued_it(
    desk: ModuleType, tmp_path: Path
) -> None:
    config = shared(desk, tmp_path)

    def stop() -> None:
        raise KeyboardInterrupt

    with desk.opened(tmp_path / "first", config) as context, pytest.raises(KeyboardInterrupt):
        incumbent = context.router.registry.served("adder").incumbent
        release(replace(context, progress=ActOn(2, stop)), "release", (incumbent, desk.CANDIDATE), desk.GROUND)
    with Pool.open(tmp_path / "shared.db") as pool:
        evidence = CanaryEvidence(pool)
        arms = {item.arm: item for item in pool.decisions(tenant="default") if item.release}
        for number in range(5):  # five blocks of a gateway
            names = [f"call-{number}-{part}" for part in range(10)]
            # one of ten to the candidate, as at its stage
            calls = [
                replace(arms["control" if part else "candidate"], id=name, task_id=name)
                for part, name in enumerate(names)
            ]
            ratings = [Feedback(name, "decision", name, "success", not part) for part, name in enumerate(names)]
            pool.append(*calls, *ratings)
            assert evidence.advance(pool.states(Release), config.canary)  # type: ignore[attr-defined]
        (continued,) = pool.states(Release)
        assert continued.evidence[-1].block == 1 + 5
    with desk.opened(tmp_path / "first", config) as context:
        decided = release(context, "release", (incumbent, desk.CANDIDATE), desk.GROUND)
        assert decided.state == "promoted"
        decisions = context.pool.decisions(tenant="default")
        served = {episode_digest(item) for item in decisions if item.release == decided.id}
        assert served <= set(decided.counted)
        assert decided.evidence[-1].repeats == 0


def test_a_held_canary_goes_on_with_later_tasks_once_it_is_resumed(desk: ModuleType, tmp_path: Path) -> None:
    config = shared(desk, tmp_path)
    with desk.opened(tmp_path / "first", config) as context:
        incumbent = context.router.registry.served("adder").incumbent

        def now() -> None:
            act(tmp_path, context.pool.states(Release)[0].id, hold)

        held = release(
            replace(context, progress=ActOn(1, now)), "release", (incumbent, desk.CANDIDATE), desk.GROUND
        )
        assert (held.state, held.is_held) == ("canary", True)
        act(tmp_path, held.id, resume)
        serve(context, "serve", 2_000)
        (decided,) = context.pool.states(Release)
        assert decided.state == "promoted"
        assert "resumed by ana" in decided.reason


def test_limits_take_effect_with_the_next_wave(desk: ModuleType, tmp_path: Path) -> None:
    config = shared(desk, tmp_path, ("solver", "adder"))
    with desk.opened(tmp_path / "first", config) as context:
        with Pool.open(tmp_path / "shared.db", beside=True) as pool:
            pool.change(AgentLimits, lambda _: AgentLimits("solver", "ana: tests", is_suspended=True))
        served = serve_wave(context, 96)
        assert {item.decision.agent for item in served} == {"adder"}
        excluded = {option.agent_version: option.excluded_by for option in served[0].decision.alternatives}
        assert excluded["solver@base"] == "suspended: ana: tests"
        with Pool.open(tmp_path / "shared.db", beside=True) as pool:
            pool.change(AgentLimits, lambda _: AgentLimits("solver", "ana: done"))
        assert {item.decision.agent for item in serve_wave(context, 96)} == {"adder", "solver"}


def test_the_serving_version_follows_promotions_of_the_configured_one() -> None:
    def one(incumbent: str, candidate: str, state: str) -> Release:
        return Release(candidate, "a", f"a@{incumbent}", f"a@{candidate}", (1.0,), state, 0)  # type: ignore[arg-type]

    releases = [
        one("1", "2", "promoted"),
        one("2", "3", "rolled_back"),
        one("2", "4", "watch"),
        one("x", "y", "promoted"),
    ]
    assert incumbent_of("a@1", releases) == "a@4"
    assert incumbent_of("a@x", releases) == "a@y"
    assert incumbent_of("a@new", releases) == "a@new"
    assert incumbent_of("a@1", [*releases, one("4", "1", "promoted")]) == "a@1"
