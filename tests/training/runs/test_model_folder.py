"""Saved versions load with plain transformers, with the weights that were saved."""

import resource
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from upturn.errors import ModelError, TrainingError
from upturn.models.engine import weights_hash
from upturn.training.distributed.weights import blend, copy_tensors, restore_weights, weight_tensors
from upturn.training.runs.model_folder import load_version, save_version
from upturn.training.runs.run_folder import MARKER

Model = Callable[..., PreTrainedModel]


def test_float32_loads_bitwise_with_plain_transformers(tiny_model: Model, tmp_path: Path) -> None:
    model = tiny_model()
    saved = save_version(model, tmp_path / "v1")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "v1")
    assert saved == weights_hash(model) == weights_hash(loaded)
    ours = weight_tensors(model)
    assert all(torch.equal(ours[name], tensor) for name, tensor in weight_tensors(loaded).items())


def test_bfloat16_is_smaller_and_loads_as_rounded_float32(tiny_model: Model, tmp_path: Path) -> None:
    model = tiny_model()
    save_version(model, tmp_path / "full")
    saved = save_version(model, tmp_path / "half", stored="bfloat16")
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("full", "half")]
    assert sizes[1] < 0.6 * sizes[0]
    loaded = load_version(tmp_path / "half")
    assert loaded.dtype == torch.float32
    assert saved == weights_hash(loaded) != weights_hash(model)
    for name, tensor in weight_tensors(model).items():
        assert torch.equal(weight_tensors(loaded)[name], tensor.bfloat16().float())


def test_a_full_disk_leaves_nothing(tiny_model: Model, tmp_path: Path) -> None:
    """No file may have more than 2,000 bytes; as with a full disk, the write then fails in the system."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    model = tiny_model()
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            save_version(model, tmp_path / "v1")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


def test_saving_does_not_change_the_model(tiny_model: Model, tmp_path: Path) -> None:
    model = tiny_model()
    before = weights_hash(model)
    save_version(model, tmp_path / "v1", stored="bfloat16")
    assert weights_hash(model) == before


def test_companions_are_copied_and_weights_and_card_of_the_parent_are_not(
    tiny_model: Model, tmp_path: Path
) -> None:
    save_version(tiny_model(), tmp_path / "parent")
    for name in ("tokenizer.json", "card.json"):
        (tmp_path / "parent" / name).write_text("{}")
    child = tiny_model(1)
    saved = save_version(child, tmp_path / "child", companions=tmp_path / "parent")
    assert (tmp_path / "child" / "tokenizer.json").read_text() == "{}"
    assert not (tmp_path / "child" / "card.json").exists()
    assert weights_hash(load_version(tmp_path / "child")) == saved == weights_hash(child)


def test_saving_the_same_weights_again_is_a_no_op_and_other_weights_are_refused(
    tiny_model: Model, tmp_path: Path
) -> None:
    saved = save_version(tiny_model(), tmp_path / "v1")
    assert save_version(tiny_model(), tmp_path / "v1") == saved
    with pytest.raises(TrainingError, match=r"v1' exists and holds something else"):
        save_version(tiny_model(1), tmp_path / "v1")
    assert [path.name for path in tmp_path.iterdir()] == ["v1"]


def test_damaged_versions_are_refused_by_name(tiny_model: Model, tmp_path: Path) -> None:
    folder = tmp_path / "v1"
    save_version(tiny_model(), folder)
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ModelError, match=r"the weights in .*v1' have hash"):
        load_version(folder)
    weights.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelError, match=r"cannot load .*v1'"):
        load_version(folder)
    weights.unlink()
    with pytest.raises(ModelError, match=r"cannot load .*v1'"):
        load_version(folder)
    (folder / MARKER).write_text("{")
    with pytest.raises(ModelError, match=r"upturn\.json' is damaged, so"):
        load_version(folder)
    (folder / MARKER).unlink()
    with pytest.raises(ModelError, match=r"upturn\.json' is missing, so"):
        load_version(folder)


def test_weights_of_another_architecture_are_refused_and_change_nothing(tiny_model: Model) -> None:
    model = tiny_model()
    before = weights_hash(model)
    with pytest.raises(TrainingError, match="another architecture"):
        restore_weights(model, weight_tensors(tiny_model(layers=2)))
    with pytest.raises(TrainingError, match=r"the first is 'model\.embed_tokens\.weight'"):
        restore_weights(model, weight_tensors(tiny_model(vocabulary=21)))
    assert weights_hash(model) == before
    with pytest.raises(TrainingError, match="another architecture"):
        blend(model, weight_tensors(tiny_model(layers=2)), 0.5)
    assert weights_hash(model) == before


def test_blend_is_on_the_line_between_both(tiny_model: Model) -> None:
    model = tiny_model(seed=0)
    weights, other = copy_tensors(weight_tensors(model)), copy_tensors(weight_tensors(tiny_model(seed=1)))
    blend(model, other, 0.25)
    for name, tensor in weight_tensors(model).items():
        torch.testing.assert_close(tensor, 0.75 * weights[name] + 0.25 * other[name])
    restore_weights(model, weights)
    blend(model, other, 0.0)
    assert all(torch.equal(tensor, weights[name]) for name, tensor in weight_tensors(model).items())
