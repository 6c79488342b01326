"""Checkpoints: whole or not there, bounded on disk, and only for the run they belong to."""

import errno
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from torch import Tensor

from upturn.errors import TrainingError
from upturn.training.runs.checkpoint import (
    Checkpoint,
    TrainingProgress,
    latest_checkpoint,
    load_checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from upturn.training.runs.disk import disk_errors

IDENTITY = {"algorithm": "grpo", "seed": "3"}
PROGRESS = TrainingProgress(
    units=4, steps=8, last_score=0.5, best_score=0.75, best_units=2, evaluations_since_best=1
)
CONTENT = Checkpoint(
    PROGRESS,
    {"layer.weight": torch.arange(6.0).reshape(2, 3), "bias": torch.tensor(0.1)},
    {"0.step": torch.tensor(8.0), "0.exp_avg": torch.full((2, 3), 1e-40)},
    {"layer.weight": torch.ones(2, 3)},
)


class _Single:
    """The part of a trainer in a single process that loading reads."""

    world = None


def _after(units: int, best_units: int | None = 2) -> Checkpoint:
    """The state after ``units`` units; all its tensors are of this number, those of the best of ``best_units``."""
    filled = {"layer.weight": torch.full((2, 3), float(units))}
    best = {"layer.weight": torch.full((2, 3), float(best_units or 0))}
    progress = TrainingProgress(units=units, steps=units, best_units=best_units)
    return Checkpoint(progress, filled, {"0.exp_avg": -filled["layer.weight"]}, best)


def _load(folder: Path, keep: int = 1) -> Checkpoint | None:
    return load_checkpoint(folder, IDENTITY, _Single(), keep=keep)  # type: ignore[arg-type]


def _files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def _is_equal(first: object, second: object) -> bool:
    assert isinstance(first, Tensor)
    assert isinstance(second, Tensor)
    return torch.equal(first, second)


def test_everything_round_trips_exactly(tmp_path: Path) -> None:
    loaded = read_checkpoint(write_checkpoint(tmp_path, IDENTITY, CONTENT), IDENTITY)
    assert loaded.progress == PROGRESS
    for part in ("weights", "optimiser", "best"):
        expected, tensors = getattr(CONTENT, part), getattr(loaded, part)
        assert expected.keys() == tensors.keys()
        assert all(torch.equal(expected[name], tensors[name]) for name in expected)
    assert loaded.algorithm == {}


def test_the_algorithms_state_round_trips_with_its_types(tmp_path: Path) -> None:
    weights = torch.arange(6.0).reshape(2, 3)
    shared: dict[str, float | Tensor] = {"coefficient": 0.1 + 0.2, "count": 3}
    shared |= {"stale.0": weights, "turned": weights.T}
    content = CONTENT._replace(weights={"layer.weight": weights}, algorithm=shared)
    loaded = read_checkpoint(write_checkpoint(tmp_path, IDENTITY, content), IDENTITY).algorithm
    assert loaded.keys() == shared.keys()
    assert (loaded["coefficient"], loaded["count"]) == (0.1 + 0.2, 3.0)
    assert isinstance(loaded["coefficient"], float)
    assert all(_is_equal(loaded[name], shared[name]) for name in ("stale.0", "turned"))


def test_weights_and_optimiser_are_separate_files(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, IDENTITY, CONTENT)
    names = ["000004/manifest.json", "000004/optimiser.safetensors", "000004/weights.safetensors"]
    assert _files(tmp_path) == [*names, "best-000002.safetensors"]
    state: dict[str, float | Tensor] = {"direction": torch.ones(2)}
    bare = CONTENT._replace(progress=TrainingProgress(1, 1), best={}, algorithm=state)
    write_checkpoint(tmp_path / "bare", IDENTITY, bare)
    assert _files(tmp_path / "bare") == [
        "000001/algorithm.safetensors",
        "000001/manifest.json",
        "000001/optimiser.safetensors",
        "000001/weights.safetensors",
    ]


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_only_the_latest_checkpoints_and_their_best_weights_stay(tmp_path: Path, keep: int) -> None:
    for units, best_units in ((0, 0), (1, 0), (2, 2), (3, 2), (10, 10), (11, 10)):
        write_checkpoint(tmp_path, IDENTITY, _after(units, best_units), keep=keep)
    kept = {1: [11], 2: [10, 11], 3: [3, 10, 11]}[keep]
    assert [int(path.name) for path in sorted(tmp_path.glob("0*"))] == kept
    best = {1: [10], 2: [10], 3: [2, 10]}[keep]
    assert [path.name for path in sorted(tmp_path.glob("best*"))] == [f"best-{n:06d}.safetensors" for n in best]
    latest = _load(tmp_path, keep)
    assert latest is not None
    assert (latest.progress.units, float(latest.best["layer.weight"][0, 0])) == (11, 10.0)
    for units in kept:
        loaded = read_checkpoint(tmp_path / f"{units:06d}", IDENTITY)
        assert float(loaded.weights["layer.weight"][0, 0]) == units
        assert float(loaded.best["layer.weight"][0, 0]) == (2.0 if units == 3 else 10.0)


def test_best_weights_are_written_once(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, IDENTITY, _after(3))
    best = tmp_path / "best-000002.safetensors"
    before = best.stat()
    write_checkpoint(tmp_path, IDENTITY, _after(4))
    after = best.stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert float(read_checkpoint(tmp_path / "000004", IDENTITY).best["layer.weight"][0, 0]) == 2.0


def test_best_weights_that_no_checkpoint_has_are_written_again(tmp_path: Path) -> None:
    """A process died between best weights and checkpoint; the repeated unit had another result."""
    write_checkpoint(tmp_path, IDENTITY, _after(3, 2))
    (tmp_path / "best-000004.safetensors").write_bytes(b"of a killed process")
    write_checkpoint(tmp_path, IDENTITY, _after(4, 4))
    assert float(read_checkpoint(tmp_path / "000004", IDENTITY).best["layer.weight"][0, 0]) == 4.0


def test_what_a_killed_process_left_is_ignored_and_deleted(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, IDENTITY, _after(3))
    before = _files(tmp_path)
    for name in ("000004.partial", "000002.partial"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "weights.safetensors").write_bytes(b"half of it")
    (tmp_path / "best-000004.safetensors.partial").write_bytes(b"half of it")
    (tmp_path / "best-000004.safetensors").write_bytes(b"of a checkpoint that was never finished")
    loaded = _load(tmp_path)
    assert loaded is not None
    assert loaded.progress.units == 3
    assert _files(tmp_path) == before
    assert not list(tmp_path.glob("*.partial"))


def test_without_a_checkpoint_there_is_nothing_to_load(tmp_path: Path) -> None:
    assert _load(tmp_path / "checkpoints") is None
    assert latest_checkpoint(tmp_path) is None


def test_the_single_file_of_an_earlier_version_is_refused_saying_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.safetensors").write_bytes(b"anything")
    with pytest.raises(TrainingError, match=r"earlier version.*Finish the run with that version.*delete the file"):
        _load(tmp_path / "checkpoints")
    write_checkpoint(tmp_path / "checkpoints", IDENTITY, CONTENT)
    assert _load(tmp_path / "checkpoints") is not None


def test_a_foreign_checkpoint_is_refused_naming_all_differences(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, IDENTITY, CONTENT)
    with pytest.raises(TrainingError) as caught:
        read_checkpoint(path, {"algorithm": "sft", "seed": "3", "rows": "abc"})
    message = str(caught.value)
    assert "algorithm is 'sft', the checkpoint has 'grpo'" in message
    assert "rows is 'abc', the checkpoint has None" in message
    assert "seed" not in message


TENSOR_FILES = ["000004/weights.safetensors", "000004/optimiser.safetensors", "best-000002.safetensors"]


@pytest.mark.parametrize("place", [0, 20, -1], ids=["length", "header", "tensors"])
@pytest.mark.parametrize("name", TENSOR_FILES)
def test_a_flipped_bit_is_detected(tmp_path: Path, name: str, place: int) -> None:
    path = write_checkpoint(tmp_path, IDENTITY, CONTENT)
    content = bytearray((tmp_path / name).read_bytes())
    content[place] ^= 1
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TrainingError, match=r"000004' is damaged: .*resume from an earlier checkpoint"):
        read_checkpoint(path, IDENTITY)


@pytest.mark.parametrize("keep", [None, 0, 5, -1])
@pytest.mark.parametrize("name", [*TENSOR_FILES, "000004/manifest.json"])
def test_a_truncated_or_missing_file_is_detected(tmp_path: Path, name: str, keep: int | None) -> None:
    path = write_checkpoint(tmp_path, IDENTITY, CONTENT)
    content = (tmp_path / name).read_bytes()
    if keep is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content[: keep if keep >= 0 else len(content) - 2])
    with pytest.raises(TrainingError, match=rf"000004' is damaged.*{Path(name).name}"):
        read_checkpoint(path, IDENTITY)


def test_a_damaged_checkpoint_can_be_deleted_to_resume_from_the_earlier_one(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, IDENTITY, _after(3), keep=2)
    damaged = write_checkpoint(tmp_path, IDENTITY, _after(5), keep=2)
    (damaged / "manifest.json").write_text("{")
    with pytest.raises(TrainingError, match="000005' is damaged"):
        _load(tmp_path)
    for file in damaged.iterdir():
        file.unlink()
    damaged.rmdir()
    loaded = _load(tmp_path)
    assert loaded is not None
    assert loaded.progress.units == 3


@pytest.fixture
def full_disk() -> Iterator[None]:
    """No file may have more than 2,000 bytes; as with a full disk, a write then fails in the system."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    ("part", "named"), [("weights", "000005.partial"), ("best", "best-000005.safetensors.partial")]
)
def test_a_full_disk_is_an_error_of_the_system_and_the_earlier_checkpoint_stays(
    tmp_path: Path, full_disk: None, part: str, named: str
) -> None:
    write_checkpoint(tmp_path, IDENTITY, _after(3))
    before = _files(tmp_path)
    large = _after(5, 5)._replace(**{part: {"layer.weight": torch.zeros(10_000)}})  # type: ignore[arg-type]
    with pytest.raises(OSError, match="File too large") as caught:
        write_checkpoint(tmp_path, IDENTITY, large)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(tmp_path / named))
    loaded = _load(tmp_path)
    assert loaded is not None
    assert float(loaded.weights["layer.weight"][0, 0]) == 3.0
    assert _files(tmp_path) == before


def test_another_error_of_the_format_is_not_one_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(SafetensorError, match="odd"), disk_errors(tmp_path / "x"):
        raise SafetensorError("odd")
