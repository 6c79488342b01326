"""The steps of a cycle: serving, readiness, held-out evaluation, validation, canaries, interruptions."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from upturn.config import Config, LoopConfig, ReadinessConfig
from upturn.deployment import Override, Validation, hold, promote, resume, rollback
from upturn.loop.cycle import WAVE, check_readiness, release, run_cycle, serve, wave_size
from upturn.loop.evaluation.evaluate import compare, evaluate_heldout
from upturn.loop.progress import NoProgress
from upturn.loop.run.context import Context
from upturn.pool import Pool
from upturn.records import AgentVersion, Release, from_json
from upturn.training.algorithms.sft import SftSettings


def history(context: Context, release_id: str) -> list[Release]:
    return context.pool.states(Release, release_id)


def canary_of(desk: ModuleType, context: Context, candidate: AgentVersion) -> Release:
    incumbent = context.router.registry.served(candidate.agent).incumbent
    return release(context, "release", (incumbent, candidate), desk.GROUND)


def test_serving_is_done_once_and_stored(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path / "run") as context:
        serve(context, "serve", 60)
        state = context.routing_state()
        assert context.position.tasks_served == 60
    with desk.opened(tmp_path / "run") as context:
        assert context.position.tasks_served == 0
        serve(context, "serve", 60)
        assert context.routing_state() == state
    assert desk.counts(tmp_path / "run")["decisions"] == 60


class AdvanceLog(NoProgress):
    """Stores each advance."""

    def __init__(self) -> None:
        self.advances: list[tuple[int, float]] = []

    def advance(self, count: int = 1, **figures: float) -> None:
        self.advances.append((count, figures["success"]))


def test_success_shown_while_serving_is_that_of_all_tasks_so_far(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path / "run", desk.config(("adder",), load_caps={"adder": 3})) as context:
        log = AdvanceLog()
        serve(replace(context, progress=log), "serve", 8)  # sums and products in turn; the adder solves the sums
    assert log.advances == [(3, 2 / 3), (3, 3 / 6), (2, 4 / 8)]


def test_waves_are_no_larger_than_the_sum_of_the_load_caps(desk: ModuleType, tmp_path: Path) -> None:
    caps = {"solver": 3, "adder": 2, "refuser": 2}
    config = desk.with_canary(desk.config(load_caps=caps, tasks={"count": 20}), stages=(0.5, 1.0))
    with desk.opened(tmp_path / "run", config) as context:
        assert wave_size(context) == 7
        serve(context, "serve", 20)
        canary_of(desk, context, desk.CANDIDATE)
        served = len(list(context.pool.decisions(tenant="default"))) - 20
        assert served % 7 == 0
        assert served > 0
    some = desk.config(load_caps={"solver": 3, "adder": 2})
    with desk.opened(tmp_path / "other", some) as context:
        assert wave_size(context) == WAVE  # the refuser has no cap


def test_better_candidate_is_promoted_and_serves(desk: ModuleType, tmp_path: Path) -> None:
    config = desk.with_canary(desk.config(("adder", "refuser")), stages=(0.5, 1.0))
    with desk.opened(tmp_path / "run", config) as context:
        released = canary_of(desk, context, desk.CANDIDATE)
        assert released.state == "promoted"
        assert released.is_validation_skipped
        served = context.router.registry.served("adder")
        assert (served.incumbent, served.candidate) == (desk.CANDIDATE, None)
        later = context.service.serve(context.next_tasks(48))
        assert "adder@base" not in {item.decision.chosen for item in later}


def test_worse_candidate_is_rolled_back(desk: ModuleType, tmp_path: Path) -> None:
    worse = AgentVersion("solver", "worse", "callable", model="toy_desk:refuser")
    config = desk.with_canary(desk.config(("solver", "refuser")), stages=(0.5, 1.0))
    with desk.opened(tmp_path / "run", config) as context:
        released = canary_of(desk, context, worse)
        assert released.state == "rolled_back"
        assert "worse" in released.evidence[-1].reason
        served = context.router.registry.served("solver")
        assert (served.incumbent.id, served.candidate) == ("solver@base", None)


class Interrupting(NoProgress):
    """Progress that interrupts the work after a number of advances."""

    def __init__(self, after: int) -> None:
        self._left = after

    def advance(self, count: int = 1, **figures: float) -> None:
        self._left -= 1
        if self._left < 0:
            raise KeyboardInterrupt


def test_history_has_each_state_once_after_an_interruption(desk: ModuleType, tmp_path: Path) -> None:
    config = desk.with_canary(desk.config(("adder", "refuser")))
    with desk.opened(tmp_path / "uninterrupted" / "run", config) as context:
        uninterrupted = canary_of(desk, context, desk.CANDIDATE)
        expected = history(context, uninterrupted.id)
    assert len(expected) > 3
    for after in (1, 3):
        with desk.opened(tmp_path / "interrupted" / "run", config) as context, pytest.raises(KeyboardInterrupt):
            canary_of(desk, replace(context, progress=Interrupting(after)), desk.CANDIDATE)
    with desk.opened(tmp_path / "interrupted" / "run", config) as context:
        assert canary_of(desk, context, desk.CANDIDATE) == uninterrupted
        assert history(context, uninterrupted.id) == expected
    with desk.opened(tmp_path / "interrupted" / "run", config) as context:  # finished: nothing is served again
        assert canary_of(desk, context, desk.CANDIDATE) == uninterrupted
        assert context.router.registry.served("adder").incumbent == desk.CANDIDATE


def interrupted_canary(desk: ModuleType, folder: Path) -> Config:
    """Starts a canary that is interrupted after two blocks; returns the run's configuration."""
    config: Config = desk.with_canary(desk.config(("adder", "refuser")), max_candidate_episodes=200)
    with desk.opened(folder, config) as context, pytest.raises(KeyboardInterrupt):
        canary_of(desk, replace(context, progress=Interrupting(2)), desk.CANDIDATE)
    return config


def act_on_release(folder: Path, act: Callable[[Release, Override], Release]) -> None:
    with Pool.open(folder / "pool.db") as pool:
        (stored,) = pool.states(Release)
        pool.append(act(stored, Override("ana", "complaints")))


@pytest.mark.parametrize(("act", "state"), [(rollback, "rolled_back"), (promote, "promoted")])
def test_what_an_operator_decides_between_two_starts_takes_effect(
    desk: ModuleType, tmp_path: Path, act: Callable[[Release, Override], Release], state: str
) -> None:
    config = interrupted_canary(desk, tmp_path / "run")
    act_on_release(tmp_path / "run", act)
    with desk.opened(tmp_path / "run", config) as context:
        decided = canary_of(desk, context, desk.CANDIDATE)
    assert decided.state == state
    assert "by ana: complaints" in decided.reason


def test_a_canary_that_an_operator_holds_between_two_starts_is_left_open(desk: ModuleType, tmp_path: Path) -> None:
    config = interrupted_canary(desk, tmp_path / "run")
    act_on_release(tmp_path / "run", hold)
    with desk.opened(tmp_path / "run", config) as context:
        held = canary_of(desk, context, desk.CANDIDATE)
        assert (held.state, held.is_held) == ("canary", True)
        assert context.router.registry.served("adder").candidate == desk.CANDIDATE
    act_on_release(tmp_path / "run", resume)
    with desk.opened(tmp_path / "run", config) as context:
        assert canary_of(desk, context, desk.CANDIDATE).state == "canary"  # the step is over
        serve(context, "serve", 2_000)
        assert history(context, held.id)[-1].state == "promoted"


def test_validation_is_paired(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path / "run") as context:
        versions = {name: served.incumbent for name, served in context.router.registry.agents().items()}
        heldout_results = {
            name: evaluate_heldout(context, f"heldout-{name}", version) for name, version in versions.items()
        }
        passed = compare(context, "cycle-1/up", heldout_results["adder"], heldout_results["solver"])
        assert passed.verdict == "pass"
        assert from_json(Validation, (tmp_path / "run" / "cycle-1" / "up.json").read_bytes()) == passed
        assert compare(context, "down", heldout_results["solver"], heldout_results["adder"]).verdict == "fail"
        assert compare(context, "same", heldout_results["adder"], heldout_results["adder"]).verdict == "hold"


def test_readiness_names_the_failed_checks(desk: ModuleType, tmp_path: Path) -> None:
    config = desk.config(readiness={"points": 30, "categories": 3})
    with desk.opened(tmp_path / "run", config) as context:
        serve(context, "serve", 40)
        report = check_readiness(context, "readiness")
    assert not report.is_ready
    assert [check.name for check in report.checks if not check.holds] == ["families"]


def test_cycle_that_trains_nothing_routes_and_records(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path / "run", desk.config(tasks={"count": 50})) as context:
        outcomes = [run_cycle(context, number) for number in (1, 2)]
        assert context.position.tasks_served == 100
    assert [outcome.trained for outcome in outcomes] == [None, None]
    assert "no training is configured" in outcomes[0].summary
    names = [result.name for outcome in outcomes for result in outcome.results()]
    assert len(names) == len(set(names))
    assert {"cycle_1_decisions", "cycle_2_decisions"} <= set(names)


def test_cycle_without_enough_evidence_trains_nothing(desk: ModuleType, tmp_path: Path) -> None:
    plain = desk.config(tasks={"count": 20})
    config = plain.with_sections(
        SftSettings(), loop=LoopConfig(train=("sft",)), readiness=ReadinessConfig(points=21, categories=2)
    )
    with desk.opened(tmp_path / "run", config) as context:
        outcome = run_cycle(context, 1)
    assert outcome.trained is None
    assert outcome.summary == "nothing was trained: [readiness] is not met by clean_points"
