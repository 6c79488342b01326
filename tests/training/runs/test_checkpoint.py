"""Checkpoints: whole or not there, and only for the run they belong to."""

import errno
import json
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
import safetensors
import safetensors.torch
import torch
from safetensors import SafetensorError

from upturn.errors import TrainingError
from upturn.training.runs.checkpoint import (
    Checkpoint,
    TrainingProgress,
    disk_errors,
    read_checkpoint,
    write_checkpoint,
)

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


def _written(folder: Path) -> Path:
    path = folder / "checkpoint.safetensors"
    write_checkpoint(path, IDENTITY, CONTENT)
    return path


def test_everything_round_trips_exactly(tmp_path: Path) -> None:
    loaded = read_checkpoint(_written(tmp_path), IDENTITY)
    assert loaded.progress == PROGRESS
    for part in ("weights", "optimiser", "best"):
        expected, tensors = getattr(CONTENT, part), getattr(loaded, part)
        assert expected.keys() == tensors.keys()
        assert all(torch.equal(expected[name], tensors[name]) for name in expected)


def test_the_algorithms_state_round_trips_with_its_types(tmp_path: Path) -> None:
    path, weights = tmp_path / "checkpoint.safetensors", torch.arange(6.0).reshape(2, 3)
    shared: dict[str, float | torch.Tensor] = {"coefficient": 0.1 + 0.2, "count": 3}
    shared |= {"stale.0": weights, "turned": weights.T}
    write_checkpoint(path, IDENTITY, CONTENT._replace(weights={"layer.weight": weights}, algorithm=shared))
    loaded = read_checkpoint(path, IDENTITY).algorithm
    assert loaded.keys() == shared.keys()
    assert (loaded["coefficient"], loaded["count"]) == (0.1 + 0.2, 3.0)
    assert isinstance(loaded["coefficient"], float)
    for name in ("stale.0", "turned"):
        tensor, expected = loaded[name], shared[name]
        assert isinstance(tensor, torch.Tensor)
        assert isinstance(expected, torch.Tensor)
        assert torch.equal(tensor, expected)


def test_a_checkpoint_of_an_older_version_has_no_algorithm_state(tmp_path: Path) -> None:
    path = _written(tmp_path)
    with safetensors.safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()["upturn"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a mapping
    del header["record"]["numbers"], header["record"]["progress"]["is_within_limits"]
    safetensors.torch.save_file(tensors, path, metadata={"upturn": json.dumps(header)})
    loaded = read_checkpoint(path, IDENTITY)
    assert loaded.progress == PROGRESS
    assert loaded.algorithm == {}


def test_writing_leaves_no_other_files(tmp_path: Path) -> None:
    path = _written(tmp_path)
    write_checkpoint(path, IDENTITY, CONTENT)
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_earlier_checkpoint(tmp_path: Path) -> None:
    path = _written(tmp_path)
    path.with_name(path.name + ".partial").write_bytes(b"half of a newer one")
    assert read_checkpoint(path, IDENTITY).progress == PROGRESS


def test_a_foreign_checkpoint_is_refused_naming_all_differences(tmp_path: Path) -> None:
    path = _written(tmp_path)
    with pytest.raises(TrainingError) as caught:
        read_checkpoint(path, {"algorithm": "sft", "seed": "3", "rows": "abc"})
    message = str(caught.value)
    assert "algorithm is 'sft', the checkpoint has 'grpo'" in message
    assert "rows is 'abc', the checkpoint has None" in message
    assert "seed" not in message


@pytest.mark.parametrize("place", [0, 200, -1], ids=["length", "header", "tensors"])
def test_a_flipped_bit_is_detected(tmp_path: Path, place: int) -> None:
    path = _written(tmp_path)
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(TrainingError, match=r"checkpoint\.safetensors' (is damaged|belongs to another run)"):
        read_checkpoint(path, IDENTITY)


@pytest.mark.parametrize("keep", [0, 5, 300, -1])
def test_a_truncated_file_is_detected(tmp_path: Path, keep: int) -> None:
    path = _written(tmp_path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(TrainingError, match=r"checkpoint\.safetensors' is damaged.*delete it"):
        read_checkpoint(path, IDENTITY)


def test_a_missing_file_is_an_error_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"none\.safetensors"):
        read_checkpoint(tmp_path / "none.safetensors", IDENTITY)


@pytest.fixture
def full_disk() -> Iterator[None]:
    """No file may have more than 2,000 bytes; as with a full disk, a write then fails in the system."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_an_error_of_the_system_and_the_earlier_checkpoint_stays(
    tmp_path: Path, full_disk: None
) -> None:
    path = _written(tmp_path)
    large = CONTENT._replace(weights={"layer.weight": torch.zeros(10_000)})
    with pytest.raises(OSError, match="File too large") as caught:
        write_checkpoint(path, IDENTITY, large)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, f"{path}.partial")
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert torch.equal(read_checkpoint(path, IDENTITY).weights["bias"], CONTENT.weights["bias"])


def test_another_error_of_the_format_is_not_one_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(SafetensorError, match="odd"), disk_errors(tmp_path / "x"):
        raise SafetensorError("odd")
