"""SFT and DPO on imported conversations."""

import json
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.errands import MODEL
from tests.pool.conftest import share
from upturn.config import AgentConfig, Config
from upturn.errors import SharingError, TrainingError
from upturn.loop.progress import NoProgress
from upturn.loop.rollouts import PolicyWorker
from upturn.loop.run.context import open_run, version_of
from upturn.loop.trainers import render_demonstrations
from upturn.loop.trainers.algorithms.dpo import load_pairs
from upturn.loop.trainers.algorithms.sft import take_training_snapshot
from upturn.pool import IngestOptions, Pool, ingest
from upturn.records import PreferencePair
from upturn.training import StoredPairSettings

NANO = AgentConfig(name="nano", kind="local_model", model=MODEL)


class Notes(NoProgress):
    """Stores the notes."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)


def line(answer: object, reward: float, model: str = "a", **extra: object) -> str:
    messages = [{"role": "user", "content": "move the mail"}, {"role": "assistant", "content": answer}]
    return json.dumps({"messages": messages, "reward": reward, "model": model, **extra})


def config(desk: ModuleType, folder: Path, *lines: str, **pool: object) -> Config:
    file = folder / "talks.jsonl"
    file.write_text("\n".join(lines) + "\n")
    with Pool.open(folder / "shared.db") as opened:
        assert ingest(opened, file, IngestOptions()).bad == 0
    settings: Config = desk.config(("solver",), pool={"path": str(folder / "shared.db"), **pool})
    return settings


def test_successes_of_other_tenants_are_demonstrations_without_what_identifies_anybody(
    desk: ModuleType, tmp_path: Path
) -> None:
    settings = config(desk, tmp_path, line("done", 1.0), imported_families=["chat"], learn_from=["bank"])
    file = tmp_path / "bank.jsonl"
    file.write_text("\n".join(line(f"wrote {name}@corp.de", 1.0) for name in ("maria", "jonas")))
    with Pool.open(tmp_path / "shared.db") as opened:
        for tenant in ("bank", "clinic"):
            ingest(opened, file, IngestOptions("chat", tenant))
    with (
        desk.opened(tmp_path / "refused", settings) as context,
        pytest.raises(SharingError, match="'bank' has not"),
    ):
        take_training_snapshot(context, others=["bank"])
    with Pool.open(tmp_path / "shared.db") as opened:
        share(opened, "bank")
    with desk.opened(tmp_path / "run", settings) as context:
        snapshot = take_training_snapshot(context, others=["bank"])
        worker = PolicyWorker(context.runtime, version_of(NANO))
        rendered = render_demonstrations(context, snapshot, worker)
    texts = [worker.renderer.read(row.token_ids).text for item in rendered for row in item.rows]
    assert snapshot.tenants == ("bank", "default")
    assert sorted(text.count("<EMAIL>") for text in texts) == [0, 1, 1]
    assert not any("corp.de" in text for text in texts)


PICTURE = [{"type": "image_url", "image_url": {"url": "x"}}]


def test_plain_chats_are_demonstrations_word_for_word(desk: ModuleType, tmp_path: Path) -> None:
    lines = (line("done", 1.0), line("not done", 0.0), line(PICTURE, 1.0))
    settings = config(desk, tmp_path, *lines, imported_families=["chat"])
    notes = Notes()
    with open_run(settings, tmp_path / "run", "toy", notes) as context:
        worker = PolicyWorker(context.runtime, version_of(NANO))
        (trajectory,) = render_demonstrations(context, take_training_snapshot(context), worker)
    (row,) = trajectory.rows
    (span,) = row.spans
    assert worker.renderer.read(row.token_ids[span.start : span.stop]).text == "done"
    reason = "1 imported: it has parts other than text (image_url)"
    assert f"omitted 1 successes that the agent cannot write ({reason})" in notes.lines


def test_families_of_imports_are_trained_only_when_they_are_named(desk: ModuleType, tmp_path: Path) -> None:
    settings = config(desk, tmp_path, line("done", 1.0))
    with (
        desk.opened(tmp_path / "run", settings) as context,
        pytest.raises(TrainingError, match=r"no verified success.*pool\.imported_families"),
    ):
        take_training_snapshot(context)


def test_two_imported_models_are_pairs(desk: ModuleType, tmp_path: Path) -> None:
    settings = config(desk, tmp_path, line("done", 1.0), line("it is done", 0.0, "b"), imported_families=["chat"])
    stored = StoredPairSettings(old="imported:b@chat", new="imported:a@chat")
    with desk.opened(tmp_path / "run", settings) as context:
        worker = PolicyWorker(context.runtime, version_of(NANO))
        (pair,) = load_pairs(context, worker, stored).pairs
    assert texts_of(worker, pair) == ["done", "it is done"]


def texts_of(worker: PolicyWorker, pair: PreferencePair) -> list[str]:
    return [
        worker.renderer.read(row.token_ids[row.spans[0].start : row.spans[0].stop]).text
        for side in (pair.chosen, pair.rejected)
        for row in side.rows
    ]


def test_imported_preferences_are_pairs_word_for_word_or_refused(desk: ModuleType, tmp_path: Path) -> None:
    rows = [
        {"prompt": "move the mail", "chosen": "It is done.", "rejected": "No: it is not done."},
        {"prompt": "move it", "chosen": [{"role": "assistant", "content": PICTURE}], "rejected": "no"},
    ]
    settings = config(desk, tmp_path, *map(json.dumps, rows), imported_families=["preference"])
    notes = Notes()
    with open_run(settings, tmp_path / "run", "toy", notes) as context:
        worker = PolicyWorker(context.runtime, version_of(NANO))
        (pair,) = load_pairs(context, worker).pairs
    assert texts_of(worker, pair) == ["It is done.", "No: it is not done."]
    (note,) = [line for line in notes.lines if line.startswith("omitted pairs")]
    assert "1 with actions that the agent cannot write" in note
    assert "it has parts other than text (image_url)" in note
