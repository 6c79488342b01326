"""Validation of a kit: the reports do not depend on the number of processes."""

from pathlib import Path

import pytest

from benchmarks.errands import ENVIRONMENT
from upturn.environments import resolve_kit
from upturn.environments.validation import Plan, validate_kit
from upturn.errors import WorldError

FAMILIES = ("cell_ask", "mail_file", "event_add")
PLAN = Plan(tasks=2, random_trajectories=2)


@pytest.fixture
def kits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of a module with kits of errands that fail to generate held-out tasks."""
    (tmp_path / "kits_for_test.py").write_text(
        "import os\n"
        "from benchmarks.errands.kit import ErrandsKit\n"
        "class Raising(ErrandsKit):\n"
        "    def tasks(self, *, seed, split, families=None):\n"
        "        if families == ['mail_file'] and split == 'heldout':\n"
        "            raise RuntimeError('no more paper')\n"
        "        return super().tasks(seed=seed, split=split, families=families)\n"
        "class Dying(ErrandsKit):\n"
        "    def tasks(self, *, seed, split, families=None):\n"
        "        os._exit(3)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.parametrize("name", [ENVIRONMENT, "kits_for_test:Raising"])
def test_reports_from_other_processes_are_equal_and_in_order(kits: None, name: str) -> None:
    alone, shared = (
        list(validate_kit(resolve_kit(name), PLAN, families=FAMILIES, name=name, processes=processes))
        for processes in (1, 2)
    )
    assert alone == shared
    assert [report.family for report in shared] == list(FAMILIES)
    broken = [report.checks[0].violation for report in shared if report.checks[0].name == "tried"]
    assert broken == (["it raised RuntimeError: no more paper"] if "Raising" in name else [])


def test_a_killed_process_is_an_error(kits: None) -> None:
    kit = resolve_kit(ENVIRONMENT)
    with pytest.raises(WorldError, match="checked families of 'kits_for_test:Dying' was stopped"):
        list(validate_kit(kit, PLAN, families=FAMILIES, name="kits_for_test:Dying", processes=2))
