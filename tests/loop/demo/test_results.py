"""The figures of ``summary.json``: their names, values and bars."""

import json
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from upturn.cli.output import build_result_object
from upturn.loop.demo.demo import CoverageShare, Facts
from upturn.loop.demo.plan import BRIEF
from upturn.loop.demo.results import Resources, demo_details, demo_results
from upturn.loop.evaluation import Stage, StageChoice
from upturn.loop.evaluation.reference_scores import Floor
from upturn.records import Result

RESOURCES = Resources(wall_seconds=212.34, peak_rss_mb=1401.0)

NAMES = """
wall_seconds peak_rss_mb heldout_success_before heldout_after_sft heldout_success_after heldout_greedy_before
heldout_greedy_after gain gain_grpo min_level_success_after release_verdict release_canary_tasks damaged_verdict
damaged_canary_tasks damaged_drop best_agent_share floor_success oracle_success random_success coverage_routing
coverage_execution coverage_evaluation coverage_agents
"""
WITHOUT_BAR = """
heldout_success_before heldout_after_sft heldout_greedy_before heldout_greedy_after release_canary_tasks
"""


def figures(facts: Facts, resources: Resources = RESOURCES) -> dict[str, Result]:
    return {result.name: result for result in demo_results(facts, resources, BRIEF)}


def test_names_and_bars_are_stable(toy: ModuleType) -> None:
    results = demo_results(toy.FACTS, RESOURCES, BRIEF)
    assert [result.name for result in results] == NAMES.split()
    assert [result.name for result in results if result.bar is None] == WITHOUT_BAR.split()
    assert all((result.bar is None) == (result.holds is None) for result in results)


def test_values_are_those_of_the_facts(toy: ModuleType) -> None:
    results = figures(toy.FACTS)
    values = {name: result.value for name, result in results.items()}
    assert values == pytest.approx(
        {
            "wall_seconds": 212.3,
            "peak_rss_mb": 1401.0,
            "heldout_success_before": 0.4,
            "heldout_after_sft": 0.65,
            "heldout_success_after": 0.9,
            "heldout_greedy_before": 0.45,
            "heldout_greedy_after": 0.95,
            "gain": 0.5,
            "gain_grpo": 0.25,
            "min_level_success_after": 0.8,
            "release_verdict": "promoted",
            "release_canary_tasks": 480.0,
            "damaged_verdict": "rolled_back",
            "damaged_canary_tasks": 144.0,
            "damaged_drop": 0.2,
            "best_agent_share": 0.8,
            "floor_success": 0.0,
            "oracle_success": 1.0,
            "random_success": 0.02,
            "coverage_routing": 1.0,
            "coverage_execution": 0.96,
            "coverage_evaluation": 0.9,
            "coverage_agents": 1.0,
        }
    )
    assert [name for name, result in results.items() if result.holds is False] == []
    share = results["best_agent_share"]
    assert (share.low, share.high, share.n) == (0.7, 0.9, 2)  # only counted families
    for name in ("gain", "gain_grpo", "damaged_drop", "heldout_success_before"):
        low, high, value = results[name].low, results[name].high, results[name].value
        assert low is not None
        assert high is not None
        assert isinstance(value, float)
        assert low < value < high
        assert results[name].n == 40


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("heldout_success_after", {"after": ("mail", 17, "sheet", 16)}),  # .825
        ("min_level_success_after", {"after": ("mail", 20, "sheet", 14)}),  # .70 on level 2
        ("gain", {"before": ("mail", 15, "sheet", 10)}),  # .275, but its lower limit is not above .25
        ("gain_grpo", {"after_sft": ("mail", 19, "sheet", 14)}),  # .075
        ("damaged_drop", {"damaged": ("mail", 17, "sheet", 8)}),  # .275
        ("damaged_drop", {"damaged": ("mail", 20, "sheet", 11)}),  # .125
    ],
)
def test_evaluation_that_misses_its_bar(toy: ModuleType, name: str, changed: dict[str, Any]) -> None:
    heldout_results = {field: toy.heldout("x", {f: a, g: b}) for field, (f, a, g, b) in changed.items()}
    assert figures(replace(toy.FACTS, **heldout_results))[name].holds is False


def test_the_chosen_stage_is_a_figure_and_grpos_gain_stays_its_own(toy: ModuleType) -> None:
    """SFT's version is the candidate: success .65; GRPO's has .55, ten points less."""
    stages = (Stage("SFT", "nano@sft", 0.7, 0.6, 0.8, 80), Stage("GRPO", "nano@grpo", 0.6, 0.5, 0.7, 80))
    facts = replace(
        toy.FACTS,
        after=toy.AFTER_SFT,
        after_grpo=toy.heldout("grpo", {"mail": 14, "sheet": 8}),
        choice=StageChoice(stages, "SFT", "fresh worlds"),
    )
    values = {name: result.value for name, result in figures(facts).items()}
    assert (values["stage_sft"], values["stage_grpo"], values["stage"]) == (0.7, 0.6, "SFT")
    assert values["heldout_success_after"] == 0.65
    assert values["gain_grpo"] == pytest.approx(-0.1)


def test_bars_of_gains_come_from_the_plan(toy: ModuleType) -> None:
    facts = replace(toy.FACTS, after_sft=toy.heldout("x", {"mail": 20, "sheet": 16}))  # as good as after GRPO
    assert figures(facts)["gain_grpo"].holds is False
    plan = replace(BRIEF, min_gain=0.0, min_grpo_gain=None)
    results = {result.name: result for result in demo_results(facts, RESOURCES, plan)}
    assert (results["gain"].bar, results["gain"].holds) == ("low > 0", True)
    assert (
        results["gain_grpo"].value,
        results["gain_grpo"].bar,
        results["gain_grpo"].holds,
    ) == (0.0, None, None)


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("floor_success", {"floors": (Floor("mail", 1, 200, 1.0, 0.005, 0.0),)}),
        ("oracle_success", {"floors": (Floor("mail", 1, 200, 0.995, 0.0, 0.0),)}),
        ("random_success", {"floors": (Floor("mail", 1, 200, 1.0, 0.0, 0.025),)}),
    ],
)
def test_verifier_that_misses_its_bar(toy: ModuleType, name: str, changed: dict[str, Any]) -> None:
    assert figures(replace(toy.FACTS, **changed))[name].holds is False


@pytest.mark.parametrize(
    ("index", "name", "most"),
    [(0, "coverage_routing", 99), (1, "coverage_execution", 94), (2, "coverage_evaluation", 89),
     (3, "coverage_agents", 99)],
)  # fmt: skip
def test_coverage_that_misses_its_bar(toy: ModuleType, index: int, name: str, most: int) -> None:
    for covered, is_met in ((most, False), (most + 1, True)):
        shares = list(toy.FACTS.coverage)
        shares[index] = CoverageShare(shares[index].name, covered, 100)
        assert figures(replace(toy.FACTS, coverage=tuple(shares)))[name].holds is is_met


def test_time_and_memory_have_bars(toy: ModuleType) -> None:
    at, over = Resources(480.0, 3000.0), Resources(480.04, 3000.04)
    for name in ("wall_seconds", "peak_rss_mb"):
        assert figures(toy.FACTS, at)[name].holds is True
        assert figures(toy.FACTS, over)[name].holds is False


def test_bars_of_the_release_and_of_the_damaged_version(toy: ModuleType) -> None:
    swapped = replace(
        toy.FACTS,
        release=toy.release("grpo", "rolled_back", 96),
        damaged_release=toy.release("damaged", "promoted", 301),
    )
    results = figures(swapped)
    for name in ("release_verdict", "damaged_verdict", "damaged_canary_tasks"):
        assert results[name].holds is False
    assert results["release_canary_tasks"].holds is None  # the length of a promotion has no bar
    late = replace(toy.FACTS, damaged_release=toy.release("damaged", "rolled_back", 300))
    assert figures(late)["damaged_canary_tasks"].holds is True


def test_an_unmeasured_figure_is_none_and_misses_its_bar(toy: ModuleType) -> None:
    shares = tuple(replace(share, is_counted=False) for share in toy.FACTS.shares)
    results = figures(replace(toy.FACTS, release=None, shares=shares))
    for name in ("release_verdict", "best_agent_share"):
        assert (results[name].value, results[name].holds) == ("none", False)
    assert (results["release_canary_tasks"].value, results["release_canary_tasks"].holds) == (
        "none",
        None,
    )


def test_details_have_success_by_level_and_family(toy: ModuleType) -> None:
    details = demo_details(toy.FACTS)
    assert sorted(details) == [
        "arena", "families", "floors", "levels", "readiness", "routing", "validation", "versions",
    ]  # fmt: skip
    levels, families = details["levels"], details["families"]
    assert isinstance(levels, dict)
    assert isinstance(families, dict)
    heldout_results = ["before", "before_greedy", "after_sft", "after", "after_greedy", "damaged"]
    assert list(levels) == list(families) == heldout_results
    after: Any = levels["after"]
    assert list(after) == ["L1", "L2"]
    assert after["L1"] == {"value": 1.0, "low": pytest.approx(0.025 ** (1 / 20)), "high": 1.0, "n": 20}
    damaged: Any = families["damaged"]
    assert [(family, figure["value"]) for family, figure in damaged.items()] == [("mail", 0.9), ("sheet", 0.5)]
    readiness: Any = details["readiness"]
    assert {name: report["ready"] for name, report in readiness.items()} == {"demo": True, "production": False}
    routing: Any = details["routing"]
    assert routing[0] == {
        "family": "mail", "best": "rules@base", "lead": 0.4, "probability": 0.9, "decisions": 120, "counted": True,
    }  # fmt: skip
    assert details["versions"] == ["nano@base", "nano@grpo", "nano@damaged"]


def test_summary_is_valid_json(toy: ModuleType) -> None:
    summary = build_result_object(
        "demo", demo_results(toy.FACTS, RESOURCES, BRIEF), demo_details(toy.FACTS), machine={}, config_hash="c0"
    )
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
