"""The demo's configuration, and the best agent of a family."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from upturn.config import Config
from upturn.environments import resolve_kit
from upturn.loop.cycle import serve
from upturn.loop.demo.demo import MIN_DECISIONS, MIN_LEAD, family_shares
from upturn.loop.demo.plan import PLANS, DemoPlan, Size, demo_config
from upturn.loop.evaluation.evaluate import HeldoutResult, Mark
from upturn.loop.run.context import Context
from upturn.loop.run.preflight import check_names
from upturn.loop.trainers.registry import parse_full_config


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_configuration_is_an_ordinary_valid_one(plan: DemoPlan) -> None:
    config = demo_config(seed=5, directory="elsewhere", plan=plan)
    kit = resolve_kit(config.environment.name)
    check_names(config, kit)
    assert (config.run.seed, config.run.directory) == (5, "elsewhere")
    assert config.improved_agent is not None
    assert config.improved_agent.name == "nano"
    assert config.tasks.train_families == tuple(plan.trained_families)
    assert {agent.name for agent in config.agents} == {"nano", "rules", "wild"}
    assert config.tasks.families == tuple(plan.families)  # all are served, some are trained on
    assert set(plan.trained_families) < set(plan.families)


def test_sizes_and_seeds_have_different_config_hashes() -> None:
    def config(seed: int, size: Size) -> Config:
        return demo_config(seed=seed, directory="runs", plan=PLANS[size])

    hashes = {(seed, size): config(seed, size).config_hash for seed in (0, 1) for size in PLANS}
    assert len(set(hashes.values())) == 6
    assert config(0, "tiny").config_hash == hashes[0, "tiny"]
    assert parse_full_config(config(0, "full").to_dict()).config_hash == hashes[0, "full"]


def marks(agent: str, family: str, successes: int) -> Iterator[Mark]:
    """Ten tasks of a family."""
    for number in range(10):
        yield Mark(f"{family}-{number}", family, 1, f"{agent}/{number}", number < successes, False, {}, 1, 0, {})


def arena(**successes: tuple[int, int]) -> tuple[HeldoutResult, ...]:
    """Results of agents with this many successes in ten sums and ten products."""
    return tuple(
        HeldoutResult(
            "arena", f"{agent}@base", 1.0, (*marks(agent, "sums", sums), *marks(agent, "products", products))
        )
        for agent, (sums, products) in successes.items()
    )


def probabilities(context: Context, family: str) -> dict[str, float]:
    task = next(context.kit.tasks(seed=99, split="train", families=[family]))
    return {option.agent_version: option.probability for option in context.router.decide(task).alternatives}


def test_best_agent_of_a_family_and_its_routing_probability(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path / "run") as context:
        serve(context, "serve", 2 * MIN_DECISIONS)
        served = Counter(decision.family for decision in context.pool.decisions(tenant="default"))
        shares = family_shares(context, arena(solver=(10, 10), adder=(9, 0), refuser=(0, 0)))
        by_routing = {family: probabilities(context, family) for family in ("sums", "products")}
    sums, products = shares
    assert (sums.family, sums.best, round(sums.lead, 12)) == ("sums", "solver@base", 0.1)
    assert (products.family, products.best, products.lead) == ("products", "solver@base", 1.0)
    assert sums.probability == by_routing["sums"]["solver@base"]
    assert products.probability == by_routing["products"]["solver@base"] > 0.9
    assert (sums.decisions, products.decisions) == (served["sums"], served["products"]) == (100, 100)
    assert (sums.is_counted, products.is_counted) == (False, True)


def test_family_counts_with_a_clear_lead_and_enough_decisions(desk: ModuleType, tmp_path: Path) -> None:
    clear, close = arena(solver=(8, 8), refuser=(4, 4)), arena(solver=(6, 6), refuser=(4, 4))
    assert 0.2 < MIN_LEAD < 0.4
    with desk.opened(tmp_path / "run", desk.config(("solver", "refuser"))) as context:
        serve(context, "serve", 2 * MIN_DECISIONS - 2)
        assert [share.is_counted for share in family_shares(context, clear)] == [False, False]
        serve(context, "one round more", 2)
        assert [share.is_counted for share in family_shares(context, clear)] == [True, True]
        assert [share.is_counted for share in family_shares(context, close)] == [False, False]


def test_best_agent_out_of_service_has_no_share(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path / "run", desk.config(("adder", "refuser"))) as context:
        shares = family_shares(context, arena(retired=(10, 10), adder=(5, 5)))
    assert [(share.best, share.probability) for share in shares] == [("retired@base", 0.0)] * 2
