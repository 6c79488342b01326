"""The steps of a cycle: serving, readiness, heldout_results, comparison, canaries to their verdicts,
interruptions."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from upturn.config import LoopConfig, ReadinessConfig
from upturn.loop.cycle import WAVE, check_readiness, release, run_cycle, serve, wave_size
from upturn.loop.evaluation.evaluate import compare, evaluate_heldout
from upturn.loop.progress import NoProgress
from upturn.loop.run.context import Context
from upturn.records import AgentVersion, Release
from upturn.training.algorithms.sft import SftSettings


def history(context: Context, release_id: str) -> list[Release]:
    return context.pool.states(Release, release_id)


def canary_of(desk: ModuleType, context: Context, candidate: AgentVersion) -> Release:
    incumbent = context.router.registry.served(candidate.agent).incumbent
    return release(context, "release", (incumbent, candidate), desk.GROUND)


def test_serving_is_done_once_and_remembered(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path / "run") as context:
        serve(context, "serve", 60)
        state = context.routing_state()
        assert context.position.tasks_served == 60
    with desk.opened(tmp_path / "run") as context:
        assert context.position.tasks_served == 0
        serve(context, "serve", 60)
        assert context.routing_state() == state
    assert desk.counts(tmp_path / "run")["decisions"] == 60


class Watching(NoProgress):
    """Keeps what it was told at each advance."""

    def __init__(self) -> None:
        self.told: list[tuple[int, float]] = []

    def advance(self, count: int = 1, **figures: float) -> None:
        self.told.append((count, figures["success"]))


def test_success_shown_while_serving_is_that_of_all_tasks_so_far(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path / "run", desk.config(("adder",), load_caps={"adder": 3})) as context:
        watching = Watching()
        serve(
            replace(context, progress=watching), "serve", 8
        )  # sums and products in turn; the adder solves the sums
    assert watching.told == [(3, 2 / 3), (3, 3 / 6), (2, 4 / 8)]


def test_waves_are_no_larger_than_what_capped_agents_may_have_in_flight(desk: ModuleType, tmp_path: Path) -> None:
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
        assert wave_size(context) == WAVE  # the refuser takes whatever the others may not


def test_better_candidate_is_promoted_and_serves(desk: ModuleType, tmp_path: Path) -> None:
    config = desk.with_canary(desk.config(("adder", "refuser")), stages=(0.5, 1.0))
    with desk.opened(tmp_path / "run", config) as context:
        found = canary_of(desk, context, desk.CANDIDATE)
        assert found.state == "promoted"
        assert found.is_validation_skipped
        served = context.router.registry.served("adder")
        assert (served.incumbent, served.candidate) == (desk.CANDIDATE, None)
        later = context.service.serve(context.next_tasks(48))
        assert "adder@base" not in {each.decision.chosen for each in later}


def test_worse_candidate_is_rolled_back(desk: ModuleType, tmp_path: Path) -> None:
    worse = AgentVersion("solver", "worse", "callable", model="toy_desk:refuser")
    config = desk.with_canary(desk.config(("solver", "refuser")), stages=(0.5, 1.0))
    with desk.opened(tmp_path / "run", config) as context:
        found = canary_of(desk, context, worse)
        assert found.state == "rolled_back"
        assert "worse" in found.evidence[-1].reason
        served = context.router.registry.served("solver")
        assert (served.incumbent.id, served.candidate) == ("solver@base", None)


class Interrupting:
    """Progress that interrupts the work at the n-th advance."""

    def __init__(self, after: int) -> None:
        self._left = after

    def stage(self, name: str, total: int | None = None) -> None:
        pass

    def advance(self, count: int = 1, **figures: float) -> None:
        self._left -= 1
        if self._left < 0:
            raise KeyboardInterrupt

    def note(self, text: str) -> None:
        pass

    def figure(self, name: str, value: float | str) -> None:
        pass


def test_history_holds_each_state_once_also_after_an_interruption(desk: ModuleType, tmp_path: Path) -> None:
    config = desk.with_canary(desk.config(("adder", "refuser")))
    with desk.opened(tmp_path / "calm" / "run", config) as context:
        calm = canary_of(desk, context, desk.CANDIDATE)
        wanted = history(context, calm.id)
    assert len(wanted) > 3
    for after in (1, 3):
        with desk.opened(tmp_path / "shaken" / "run", config) as context, pytest.raises(KeyboardInterrupt):
            canary_of(desk, replace(context, progress=Interrupting(after)), desk.CANDIDATE)
    with desk.opened(tmp_path / "shaken" / "run", config) as context:
        assert canary_of(desk, context, desk.CANDIDATE) == calm
        assert history(context, calm.id) == wanted
    with desk.opened(tmp_path / "shaken" / "run", config) as context:  # finished: nothing is served again
        assert canary_of(desk, context, desk.CANDIDATE) == calm
        assert context.router.registry.served("adder").incumbent == desk.CANDIDATE


def test_comparison_is_paired_and_says_what_it_found(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path / "run") as context:
        versions = {name: served.incumbent for name, served in context.router.registry.agents().items()}
        heldout_results = {
            name: evaluate_heldout(context, f"heldout-{name}", version) for name, version in versions.items()
        }
        assert compare(context, "up", heldout_results["adder"], heldout_results["solver"]).verdict == "pass"
        assert compare(context, "down", heldout_results["solver"], heldout_results["adder"]).verdict == "fail"
        assert compare(context, "same", heldout_results["adder"], heldout_results["adder"]).verdict == "hold"


def test_readiness_names_what_is_lacking(desk: ModuleType, tmp_path: Path) -> None:
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
    assert "nothing is set to train" in outcomes[0].words
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
    assert outcome.words == "nothing was trained: [readiness] is not met by clean_points"


def test_canary_follows_the_configuration(desk: ModuleType, tmp_path: Path) -> None:
    config = desk.with_canary(desk.config(), stages=(0.2, 1.0), alpha=0.1, min_candidate_tasks=7, safety_margin=0.3)
    with desk.opened(tmp_path / "run", config) as context:
        settings = context.config.canary
    found = (settings.stages, settings.alpha, settings.min_candidate_tasks, settings.safety_margin)
    assert found == ((0.2, 1.0), 0.1, 7, 0.3)
