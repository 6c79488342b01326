"""The page about environments: its tables match the code, and its example works."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.errands.kit import ErrandsKit
from upturn.config import RewardConfig
from upturn.environments import EnvironmentKit, check_environment, resolve_kit
from upturn.environments.programs import ATTEMPT_PARTS
from upturn.environments.scripted_policy import fixed_policy, play
from upturn.environments.validation import PANEL, Plan, configuration_notes, validate_kit
from upturn.loop.run.preflight import load_checked_kit
from upturn.loop.trainers import parse_full_config
from upturn.records import Action

NANO = {"name": "nano", "kind": "local_model", "model": "nano"}
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "environments.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """Returns the cells of the table whose first column has this heading."""
    [table] = re.findall(rf"^\| {heading} \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE, flags=re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()]


def test_the_page_lists_the_gates_of_the_office() -> None:
    kit = resolve_kit("office")
    task = next(kit.tasks(seed=0, split="train", families=["mail_flag"]))
    gates = kit.verifier.verify(task, play(kit.environment(task), task, fixed_policy(()))).gates
    assert sorted(name.strip("`") for name, _ in rows("gate")) == sorted(gate.name for gate in gates)


def test_the_page_lists_the_checks_and_attacks() -> None:
    [report] = validate_kit(ErrandsKit(), Plan(tasks=2, random_trajectories=1), families=["cell_ask"])
    checks = [check.name for check in report.checks if not check.name.startswith("own ")]
    documented = [name for names, _, _ in rows("check") for name in re.findall(r"`(\w+)`", names)]
    attacks = [name.strip("`") for name, _ in rows("attack")]
    assert attacks == [*PANEL, "own …"]
    assert sorted(documented) == sorted(name for name in checks if name not in PANEL)


def test_the_pages_example_works(capsys: pytest.CaptureFixture[str]) -> None:
    example = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)[0]
    assert len([line for line in example.splitlines() if line.strip()]) <= 20
    module: dict[str, Any] = {"__name__": "__main__"}
    exec(example, module)
    assert capsys.readouterr().out == "shop keeps the contract\n"
    kit = module["kit"]()
    assert isinstance(kit, EnvironmentKit)
    task = next(iter(kit.tasks(seed=1, split="heldout", families=["shop"])))
    count, item = re.findall(r"How much is it for (\d+) (\w+)\?", task.instruction)[0]
    total = int(count) * module["PRICES"][item]
    assert module["check"](Action("user", "answer", {"text": str(total)}), {"total": total}) is True
    assert module["check"](Action("user", "answer"), {"total": total}) is False


def test_the_pages_multi_step_example_validates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)[1]
    assert len([line for line in example.splitlines() if line.strip()]) <= 60
    (tmp_path / "shelves.py").write_text(example)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    kit = resolve_kit("shelves:Kit")
    check_environment(kit, 4)
    [report] = validate_kit(kit, Plan(tasks=4, random_trajectories=4))
    assert [check.violation for check in report.checks if check.holds is False] == []
    values = {check.name: check.value for check in report.checks}
    assert (
        values["oracle"] == values["ceiling"] == values["mutants"] == values["replay"] == values["isolation"] == 1
    )
    assert configuration_notes(kit) == [], "its verifier gives what the default [rewards] weights name"
    config = parse_full_config({"agents": [NANO], "environment": {"name": "shelves:Kit"}})
    assert config.rewards == RewardConfig()
    load_checked_kit(config)
    assert values["nothing"] == values["spam"] == values["neighbour"] == values["floor"] == 0
    monkeypatch.delitem(sys.modules, "shelves")


def test_the_pages_example_for_programs_validates() -> None:
    [example] = [block for block in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL) if "totals" in block]
    module: dict[str, Any] = {"__name__": "__main__"}
    exec(example, module)
    check_environment(module["kit"], 1)
    [report] = validate_kit(module["kit"], Plan(tasks=2, random_trajectories=1))
    assert [check.violation for check in report.checks if check.holds is False] == []


def test_the_page_lists_what_evaluate_may_ask_for() -> None:
    listed = [name for names, _ in rows("parameter") for name in re.findall(r"`(\w+)`", names)]
    assert sorted(listed) == sorted(ATTEMPT_PARTS)
