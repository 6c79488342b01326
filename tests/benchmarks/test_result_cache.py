"""Measurements outlive the process that made them, and are never mixed up."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.credit.estimator import Contender
from benchmarks.credit.key_door_comparison import KeyDoorSettings
from benchmarks.credit.measurements import Choice, Practised
from benchmarks.result_cache import FILE, Entry, Ledger
from upturn.errors import MeasurementError
from upturn.training.advantages import AdvantageSettings

FOUND = Practised(123, True, ((0, 0.25), (123, 0.75)))
ENTRY = Entry("practice", "state", 3)


def _never() -> Practised:
    raise AssertionError("measured again")


def _once(result: Practised) -> Callable[[], Practised]:
    return lambda: result


def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    assert Ledger(tmp_path, KeyDoorSettings()).measured(ENTRY, Practised, _once(FOUND)) == FOUND
    again = Ledger(tmp_path, KeyDoorSettings())
    assert again.measured(ENTRY, Practised, _never) == FOUND
    assert again.measured(ENTRY, Practised, _never) == FOUND


def test_other_settings_other_seeds_and_other_contenders_are_other_measurements(tmp_path: Path) -> None:
    Ledger(tmp_path, KeyDoorSettings()).measured(ENTRY, Practised, _once(FOUND))
    other = Practised(1, False, ())
    changed = Ledger(tmp_path, KeyDoorSettings(budget=5))
    assert changed.measured(ENTRY, Practised, _once(other)) == other
    same = Ledger(tmp_path, KeyDoorSettings())
    assert same.measured(ENTRY._replace(seed=4), Practised, _once(other)) == other
    assert same.measured(ENTRY._replace(contender="tree"), Practised, _once(other)) == other
    assert same.measured(ENTRY._replace(options="ab"), Practised, _once(other)) == other
    choice = Choice(0.1, 2, 0, 5.0)
    assert same.measured(Entry("choice", "state", 3), Choice, lambda: choice) == choice
    assert same.measured(ENTRY, Practised, _never) == FOUND


def test_a_contender_with_other_options_is_measured_anew() -> None:
    contender = Contender("state", AdvantageSettings("state", gamma=0.95))
    entry = contender.entry("rank", 3)
    assert (entry.part, entry.contender, entry.seed) == ("rank", "state", 3)
    assert replace(contender).entry("rank", 3) == entry
    assert replace(contender, practised=(16,)).entry("rank", 3) != entry
    assert replace(contender, settings=AdvantageSettings("state", gamma=0.9)).entry("rank", 3) != entry


def test_a_line_that_an_interruption_cut_off_is_measured_again(tmp_path: Path) -> None:
    Ledger(tmp_path, KeyDoorSettings()).measured(ENTRY, Practised, _once(FOUND))
    with (tmp_path / FILE).open("a") as file:
        file.write('{"settings": "ab')
    again = Ledger(tmp_path, KeyDoorSettings())
    assert again.measured(ENTRY, Practised, _never) == FOUND
    further = ENTRY._replace(seed=4)
    again.measured(further, Practised, _once(FOUND))
    assert Ledger(tmp_path, KeyDoorSettings()).measured(further, Practised, _never) == FOUND


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    Ledger(tmp_path, KeyDoorSettings()).measured(ENTRY, Practised, _once(FOUND))
    (tmp_path / FILE).write_text("nonsense\n" + (tmp_path / FILE).read_text())
    with pytest.raises(MeasurementError, match=r"line 1 is no measurement .*; move the file away"):
        Ledger(tmp_path, KeyDoorSettings())
