"""Names and choice of run folders."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from upturn.errors import JournalError
from upturn.loop.run.journal import FILE_NAME
from upturn.loop.run.run_folders import choose_run, latest_run, new_run


def clock() -> datetime:
    return datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def started(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / FILE_NAME).touch()
    return folder


def test_a_new_run_has_its_own_folder(tmp_path: Path) -> None:
    first = new_run(tmp_path, "demo", clock=clock)
    assert first == tmp_path / "demo-20260102-030405"
    assert not first.exists()
    started(first)
    assert new_run(tmp_path, "demo", clock=clock) == tmp_path / "demo-20260102-030405-2"
    assert new_run(tmp_path, "loop", clock=clock) == tmp_path / "loop-20260102-030405"


def test_the_latest_run_is_the_newest_of_that_name(tmp_path: Path) -> None:
    started(tmp_path / "demo-20260102-030405")
    newest = started(tmp_path / "demo-20260102-030405-2")
    started(tmp_path / "loop-20270101-000000")
    (tmp_path / "demo-20280101-000000").mkdir()  # no journal: nothing to resume
    assert latest_run(tmp_path, "demo") == newest == choose_run(tmp_path, "demo", "latest")


def test_the_latest_run_is_not_that_of_a_longer_name(tmp_path: Path) -> None:
    """Such as ``train-dpo`` and ``train-dpo-other``."""
    expected = started(tmp_path / "train-dpo-20260102-030405")
    started(tmp_path / "train-dpo-other-20260102-030405")
    started(tmp_path / "train-dpo-of-mine")
    assert latest_run(tmp_path, "train-dpo") == expected
    with pytest.raises(JournalError, match=r"no run train-\*"):
        latest_run(tmp_path, "train")


def test_the_tenth_run_of_a_second_is_later_than_the_ninth(tmp_path: Path) -> None:
    runs = [started(new_run(tmp_path, "demo", clock=clock)) for _ in range(11)]
    assert latest_run(tmp_path, "demo") == runs[-1]
    assert runs[-1].name.endswith("-11")


def test_a_missing_run_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match=r"no run demo-\* with a journal.jsonl"):
        choose_run(tmp_path, "demo", "latest")
    with pytest.raises(JournalError, match="holds no run to resume"):
        choose_run(tmp_path, "demo", str(tmp_path / "demo-1"))
    named = started(tmp_path / "elsewhere")
    assert choose_run(tmp_path / "runs", "demo", str(named)) == named
    assert not choose_run(tmp_path, "demo", None).exists()
