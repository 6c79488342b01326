"""What a configuration names is looked up before any work, and everything that is missing is named at once."""

from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmarks.errands import ENVIRONMENT, MODEL
from benchmarks.errands.kit import ErrandsKit
from upturn.config import AgentConfig, Config, LoopConfig
from upturn.errors import ConfigError
from upturn.loop.run.preflight import check_names
from upturn.loop.run.task_source import kit_of
from upturn.loop.trainers.registry import parse_full_config
from upturn.records import fields_json
from upturn.training.advantages import AdvantageSettings, LagrangianSettings
from upturn.training.algorithms.grpo import GrpoSettings, preset

NANO: dict[str, Any] = {"name": "nano", "kind": "local_model", "model": MODEL}


def errands(**sections: Any) -> Config:
    return parse_full_config({"agents": [NANO], "environment": {"name": ENVIRONMENT}, **sections})


def problems_of(config: Config) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        check_names(config, kit_of(config))
    return caught.value.problems


def test_configuration_that_names_what_is_there_passes() -> None:
    config = errands(
        tasks={"families": ["mail_file", "call_off"], "levels": [1, 3], "train_families": ["call_off"]}
    )
    check_names(config, ErrandsKit())


def test_everything_missing_is_named_together() -> None:
    config = errands(
        agents=[
            {"name": "a", "kind": "callable", "import_path": "no_such_module:act"},
            {"name": "b", "kind": "rule_based", "import_path": "json:no_such_function"},
            {"name": "c", "kind": "callable", "import_path": "json:__name__"},
            NANO,
        ],
        tasks={"levels": [9], "train_families": ["mail_file", "knitting"]},
    )
    found = problems_of(config)
    assert [problem.split(" ")[0] for problem in found] == [
        "tasks.levels",
        "tasks.train_families",
        "agents[0].import_path:",
        "agents[1].import_path:",
        "agents[2].import_path:",
    ]
    assert found[1].startswith(
        "tasks.train_families names 'knitting', which errands does not have; it has: mail_file, "
    )
    assert found[0] == "tasks.levels = (9,) leaves no family of errands; its levels: 1, 2, 3"
    assert found[4] == "agents[2].import_path: 'json:__name__' is not a function, it is 'json'"


@pytest.mark.parametrize("setting", ["families", "train_families"])
def test_family_that_the_levels_leave_out_is_named(setting: str) -> None:
    tasks = {"levels": [2], setting: ["mail_reply", "mail_file"]}
    wanted = f"tasks.{setting} names 'mail_file' of level 1, which tasks.levels = (2,) leaves out"
    assert problems_of(errands(tasks=tasks)) == (wanted,)


def training(config: Config, section: GrpoSettings) -> Config:
    """The configuration with GRPO in its cycles."""
    return config.with_sections(section, loop=LoopConfig(train=("grpo",)))


def trained_on(config: Config, family: str) -> Config:
    """The configuration with an agent that is trained on the family."""
    tasks = replace(config.tasks, train_families=(family,))
    return replace(config, tasks=tasks, agents=(AgentConfig(**NANO),), loop=LoopConfig(train=("grpo",)))


def test_file_without_tasks_to_practise_or_to_examine_is_refused(desk: ModuleType, tmp_path: Path) -> None:
    kit, path = desk.kit(), tmp_path / "tasks.jsonl"
    tasks = [
        *islice(kit.tasks(seed=1, split="train", families=["sums", "products"]), 4),
        *islice(kit.tasks(seed=1, split="heldout", families=["sums"]), 2),
    ]
    path.write_text("\n".join(fields_json(task) for task in tasks))
    plain = desk.config(("solver",), tasks={"file": str(path)})
    trained = trained_on(plain, "products")
    assert problems_of(trained) == ("desk has no held-out task of the trained families: products",)
    check_names(plain, kit_of(plain))  # trains nothing, so it needs none
    check_names(trained_on(plain, "sums"), kit_of(plain))


def test_rewards_are_not_checked_with_a_judge_that_breaks_on_nothing(desk: ModuleType) -> None:
    config = desk.config()
    rewarding = replace(
        config, loop=LoopConfig(train=("grpo",)), rewards=replace(config.rewards, weights={"beauty": 1})
    )

    class Demanding:
        name = "demanding/1"

        def verify(self, *_: object) -> None:
            raise ArithmeticError("nothing to judge")

    kit = desk.kit()
    with pytest.raises(ConfigError, match="names 'beauty'"):
        check_names(rewarding, kit)
    kit.verifier = Demanding()
    check_names(rewarding, kit)


def test_the_offices_rubric_can_be_chosen_with_weights_for_its_components() -> None:
    def chosen(weights: dict[str, float]) -> Config:
        agent = {"name": "nano", "kind": "local_model", "model": MODEL}
        judge = "upturn.environments.office.rubric:RubricVerifier"
        environment = {"name": "office", "verifier": judge}
        return parse_full_config({"agents": [agent], "environment": environment, "rewards": {"weights": weights}})

    fine = chosen({"success": 0.5, "quality": 0.2, "milestones": 0.1})
    check_names(fine, kit_of(fine))
    [problem] = problems_of(chosen({"success": 0.5, "safety": 0.2}))
    assert problem.startswith(
        "rewards.weights names 'safety', which office-rubric/1 does not give; it gives: success"
    )


def test_a_budget_for_a_cost_that_the_judge_does_not_give_is_refused(desk: ModuleType) -> None:
    own = GrpoSettings(advantage=AdvantageSettings(lagrangian=LagrangianSettings({"safety": 0.1})))
    assert problems_of(training(desk.config(), own)) == (
        "grpo.advantage.lagrangian.budgets names 'safety', which desk/1 does not give; it gives: error",
    )
    own = GrpoSettings(advantage=AdvantageSettings(lagrangian=LagrangianSettings({"error": 0.1})))
    check_names(training(desk.config(), own), desk.kit())


def test_a_limit_on_a_cost_that_the_judge_does_not_give_is_refused(desk: ModuleType) -> None:
    config = training(desk.config(), preset("agent_recipe"))
    assert problems_of(config) == (
        "grpo.cost_limits: safety = 0.02 could never bind: desk/1 gives no such cost; it gives: error. "
        "Let it give that, 0 included, or set other limits ({}: none)",
    )
    for limits in ({}, {"error": 0.5}):
        own = replace(preset("agent_recipe"), cost_limits=limits)
        check_names(training(config, own), desk.kit())
    check_names(errands(grpo={"preset": "agent_recipe"}), ErrandsKit())
