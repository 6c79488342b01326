"""Checks before any work: everything that a configuration names exists, and all problems are reported together."""

from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmarks.errands import ENVIRONMENT, MODEL
from benchmarks.errands.kit import ErrandsKit
from upturn.config import AgentConfig, CanarySettings, Config, LoopConfig
from upturn.errors import ConfigError
from upturn.loop.run.preflight import check_names
from upturn.loop.run.task_source import kit_of
from upturn.loop.trainers.registry import load_full_config, parse_full_config
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


def test_a_configuration_without_missing_names_passes() -> None:
    config = errands(
        tasks={"families": ["mail_file", "call_off"], "levels": [1, 3], "train_families": ["call_off"]}
    )
    check_names(config, ErrandsKit())


PROGRAM = {"kind": "program", "url": "http://localhost:1/v1", "model": "m"}


def test_all_missing_names_are_reported_together() -> None:
    config = errands(
        agents=[
            {"name": "a", "kind": "callable", "import_path": "no_such_module:act"},
            {"name": "b", "kind": "rule_based", "import_path": "json:no_such_function"},
            {"name": "c", "kind": "callable", "import_path": "json:__name__"},
            NANO,
            {**PROGRAM, "name": "d", "import_path": "operator:add"},
            {**PROGRAM, "name": "e", "command": ["no-such-command", "-v"]},
        ],
        tasks={"levels": [9], "train_families": ["mail_file", "knitting"]},
    )
    problems = problems_of(config)
    assert [problem.split(" ")[0] for problem in problems] == [
        "tasks.levels",
        "tasks.train_families",
        "agents[0].import_path:",
        "agents[1].import_path:",
        "agents[2].import_path:",
        "agents[4].import_path:",
        "agents[5].command:",
    ]
    assert problems[1].startswith(
        "tasks.train_families names 'knitting', which errands does not have; it has: mail_file, "
    )
    assert problems[0] == "tasks.levels = (9,) leaves no family of errands; its levels: 1, 2, 3"
    assert problems[5].endswith("'operator:add' cannot be called as function(attempt); name one that can")
    assert problems[4] == "agents[2].import_path: 'json:__name__' is not a function, it is 'json'"


@pytest.mark.parametrize("setting", ["families", "train_families"])
def test_a_family_outside_of_the_levels_is_reported(setting: str) -> None:
    tasks = {"levels": [2], setting: ["mail_reply", "mail_file"]}
    expected = f"tasks.{setting} names 'mail_file' of level 1, which tasks.levels = (2,) leaves out"
    assert problems_of(errands(tasks=tasks)) == (expected,)


def training(config: Config, section: GrpoSettings) -> Config:
    """The configuration with GRPO in its cycles."""
    return config.with_sections(section, loop=LoopConfig(train=("grpo",)))


def trained_on(config: Config, family: str) -> Config:
    """The configuration with an agent that is trained on the family."""
    tasks = replace(config.tasks, train_families=(family,))
    return replace(config, tasks=tasks, agents=(AgentConfig(**NANO),), loop=LoopConfig(train=("grpo",)))


def test_a_file_without_tasks_to_train_or_evaluate_on_is_refused(desk: ModuleType, tmp_path: Path) -> None:
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


def test_rewards_are_not_checked_with_a_verifier_that_fails_on_an_idle_trajectory(desk: ModuleType) -> None:
    config = desk.config()
    weighted = replace(
        config, loop=LoopConfig(train=("grpo",)), rewards=replace(config.rewards, weights={"beauty": 1})
    )

    class Demanding:
        name = "demanding/1"

        def verify(self, *_: object) -> None:
            raise ArithmeticError("nothing to verify")

    kit = desk.kit()
    with pytest.raises(ConfigError, match="names 'beauty'"):
        check_names(weighted, kit)
    kit.verifier = Demanding()
    check_names(weighted, kit)


def test_the_office_rubric_accepts_weights_for_its_components_only() -> None:
    def configured(weights: dict[str, float]) -> Config:
        agent = {"name": "nano", "kind": "local_model", "model": MODEL}
        environment = {"name": "office", "verifier": "upturn.environments.office.rubric:RubricVerifier"}
        return parse_full_config({"agents": [agent], "environment": environment, "rewards": {"weights": weights}})

    valid = configured({"success": 0.5, "quality": 0.2, "milestones": 0.1})
    check_names(valid, kit_of(valid))
    [problem] = problems_of(configured({"success": 0.5, "safety": 0.2}))
    assert problem.startswith(
        "rewards.weights names 'safety', which office-rubric/2 does not give; it gives: success"
    )
    assert problem.endswith(". Set [rewards] weights for these, or add it to the verifier or to rewards.measures")


FILE = """
[run]
seed = -1
[environment]
name = "NAME"
[tasks]
families = ["knitting"]
[[agents]]
name = "a"
kind = "callable"
import_path = "no_such_module:act"
[[agents]]
name = "b"
kind = "endpoint"
[[agents]]
name = "nano"
kind = "local_model"
model = "nano"
"""


def file_problems(tmp_path: Path, text: str) -> set[str]:
    """What the problems start with: the settings."""
    path = tmp_path / "upturn.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_full_config(path, {})
    return {problem.split(" ")[0] for problem in caught.value.problems}


def test_missing_environments_and_functions_are_reported_with_invalid_settings(tmp_path: Path) -> None:
    missing = file_problems(tmp_path, FILE.replace("NAME", "no_such_kit"))
    assert missing == {"agents[0].import_path:", "agents[1].kind", "environment.name:", "run.seed:"}
    known = file_problems(tmp_path, FILE.replace("NAME", ENVIRONMENT))
    assert known == {"agents[0].import_path:", "agents[1].kind", "run.seed:", "tasks.families"}


def test_what_depends_on_an_invalid_setting_is_not_checked(tmp_path: Path) -> None:
    """The environment would be the default one, the file has no tasks, and the function is not the user's."""
    invalid = FILE.replace('"NAME"', "3").replace('"no_such_module:act"', "3")
    found = file_problems(tmp_path, invalid)
    assert found == {"agents[0].import_path:", "agents[1].kind", "environment.name:", "run.seed:"}
    without_file = FILE.replace("NAME", ENVIRONMENT).replace('families = ["knitting"]', 'file = "none.jsonl"')
    found = file_problems(tmp_path, without_file)
    assert found == {"agents[0].import_path:", "agents[1].kind", "run.seed:", "tasks.file"}


def test_a_missing_function_does_not_hide_a_missing_reward(desk: ModuleType) -> None:
    config = desk.config(("solver", "adder"))
    agents = (replace(config.agents[0], import_path="no_such_module:act"), *config.agents[1:])
    weights = replace(config.rewards, weights={"beauty": 1})
    problems = problems_of(replace(training(config, GrpoSettings()), agents=agents, rewards=weights))
    assert [problem.split(" ")[0] for problem in problems] == ["rewards.weights", "agents[0].import_path:"]


def test_a_budget_for_a_missing_cost_is_refused(desk: ModuleType) -> None:
    section = GrpoSettings(advantage=AdvantageSettings(lagrangian=LagrangianSettings({"safety": 0.1})))
    assert problems_of(training(desk.config(), section)) == (
        "grpo.advantage.lagrangian.budgets names 'safety', which desk/1 does not give; it gives: error",
    )
    section = GrpoSettings(advantage=AdvantageSettings(lagrangian=LagrangianSettings({"error": 0.1})))
    check_names(training(desk.config(), section), desk.kit())


def test_costs_of_the_canary_that_the_verifier_does_not_give_are_refused(desk: ModuleType) -> None:
    config = training(desk.config(), GrpoSettings())
    wrong = replace(config, canary=CanarySettings(safety_costs=("safty",), hard_costs=("error", "wipe")))
    assert problems_of(wrong) == (
        "canary.safety_costs names 'safty', which desk/1 does not give; it gives: error",
        "canary.hard_costs names 'wipe', which desk/1 does not give; it gives: error",
    )
    check_names(replace(config, canary=CanarySettings(hard_costs=("error",))), desk.kit())


def test_families_and_rewards_are_reported_together(desk: ModuleType) -> None:
    config = training(desk.config(tasks={"families": ["xyz"]}, rewards={"weights": {"joy": 1.0}}), GrpoSettings())
    first, second = problems_of(config)
    assert first.startswith("tasks.families names 'xyz', which desk does not have")
    assert second.startswith("rewards.weights names 'joy', which desk/1 does not give")


def test_a_limit_on_a_missing_cost_is_refused(desk: ModuleType) -> None:
    config = training(desk.config(), preset("agent_recipe"))
    assert problems_of(config) == (
        "grpo.cost_limits: safety = 0.02 could never bind: desk/1 gives no such cost; it gives: error. "
        "Add the cost to the verifier, also where it is 0, or set other limits ({}: none)",
    )
    for limits in ({}, {"error": 0.5}):
        section = replace(preset("agent_recipe"), cost_limits=limits)
        check_names(training(config, section), desk.kit())
    check_names(errands(grpo={"preset": "agent_recipe"}), ErrandsKit())
