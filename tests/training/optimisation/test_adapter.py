"""LoRA adapters: initialisation, training and saving."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import PreTrainedModel

from upturn.config import AdapterSettings, OptimiserSettings
from upturn.errors import ModelError, TrainingError
from upturn.models.engine import weights_hash
from upturn.records import Trajectory
from upturn.training import supervised_rows
from upturn.training.algorithms.sft import SftSettings, run_sft
from upturn.training.distributed.weights import copy_tensors, weight_tensors
from upturn.training.optimisation.adapter import add_adapter, merge_adapter, save_adapter
from upturn.training.runs import RunOptions
from upturn.training.runs.curve import CurvePoint
from upturn.training.runs.model_folder import load_version, save_version
from upturn.training.runs.run_folder import CHECKPOINTS_FOLDER

peft = pytest.importorskip("peft", reason="the extra lora is not installed")

Model = Callable[..., PreTrainedModel]
Make = Callable[..., Trajectory]
LINEAR = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
PLAN = SftSettings(epochs=4, batch_rows=2, optimiser=OptimiserSettings(learning_rate=1e-2), checkpoint_every=1)


def _adapted(tiny_model: Model, settings: AdapterSettings = AdapterSettings(2, seed=5)) -> PreTrainedModel:  # noqa: B008
    model = tiny_model()
    add_adapter(model, settings)
    return model


def _trained(model: PreTrainedModel, make: Make, folder: Path, **more: Any) -> PreTrainedModel:
    sequences = ((1, 3, 9, 4, 7, 2), (1, 4, 11, 8, 2), (1, 5, 15, 10, 6, 12, 2), (1, 6, 3, 3, 2))
    rows = supervised_rows(
        make(tokens, ((0, 2, len(tokens)),), origin="rendered", name=f"t{index}")
        for index, tokens in enumerate(sequences)
    )
    run_sft(model, rows, PLAN, RunOptions(0, folder, **more))
    return model


def test_the_seed_determines_the_adapter_and_torchs_generator_is_unchanged(tiny_model: Model) -> None:
    model = tiny_model()
    torch.manual_seed(8)
    before = torch.get_rng_state()
    add_adapter(model, AdapterSettings(2, seed=5))
    assert torch.equal(torch.get_rng_state(), before)
    drawn = copy_tensors(weight_tensors(model))
    torch.manual_seed(9)
    same, other = _adapted(tiny_model), _adapted(tiny_model, AdapterSettings(2, seed=6))
    assert all(torch.equal(tensor, drawn[name]) for name, tensor in weight_tensors(same).items())
    differing = {name for name, tensor in weight_tensors(other).items() if not torch.equal(tensor, drawn[name])}
    assert differing == {name for name in drawn if "lora_A" in name}
    for name, tensor in drawn.items():
        if "lora_B" in name:
            assert not tensor.any()
        elif "lora_A" in name:  # uniform in ±1/√in; 64 or more numbers are all below .7 of it with p < 2e-10
            bound = tensor.shape[1] ** -0.5
            assert 0.7 * bound < float(tensor.abs().max()) <= bound


def test_targets_default_to_all_linear_layers_but_the_output(tiny_model: Model) -> None:
    for targets, expected in (((), LINEAR), (("q_proj", "down_proj"), {"q_proj", "down_proj"})):
        model = _adapted(tiny_model, AdapterSettings(2, targets=targets))
        trainable = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
        assert {name.split(".")[-4] for name in trainable} == expected
        assert all(".lora_A." in name or ".lora_B." in name for name in trainable)


def test_a_rank_above_every_layers_is_refused(tiny_model: Model) -> None:
    """The widest layers of the tiny model map 16 to 32 and back, so their full rank is 16."""
    model = tiny_model()
    sides = [min(layer.weight.shape) for name, layer in model.named_modules() if name.rpartition(".")[2] in LINEAR]
    add_adapter(model, AdapterSettings(max(sides)))
    with pytest.raises(ModelError, match=rf"rank={max(sides) + 1} .* at most {max(sides)}"):
        add_adapter(tiny_model(), AdapterSettings(max(sides) + 1))


def test_unknown_targets_are_refused_with_the_available_ones(tiny_model: Model) -> None:
    for name in ("c_attn", "lm_head", "embed_tokens"):
        with pytest.raises(
            ModelError, match=rf"target '{name}' is not an adaptable linear layer .* which has: down_proj"
        ):
            add_adapter(tiny_model(), AdapterSettings(2, targets=("q_proj", name)))


def test_without_peft_the_error_names_the_install_command(
    tiny_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ModelError, match=r"needs PEFT, which is not installed: pip install 'upturn\[lora\]'"):
        add_adapter(tiny_model(), AdapterSettings(2))


def test_alpha_scales_the_adapter_and_defaults_to_twice_the_rank(tiny_model: Model) -> None:
    scales = []
    for alpha in (None, 6):
        model: Any = _adapted(tiny_model, AdapterSettings(4, alpha=alpha))
        scales.append(model.model.layers[0].mlp.up_proj.scaling["default"])
    assert scales == [2.0, 1.5]


def test_only_the_adapter_is_trained_and_its_version_is_a_full_model(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    model = _adapted(tiny_model)
    before = copy_tensors(weight_tensors(model))
    _trained(model, make_trajectory, tmp_path / "run")
    changed = {name for name, tensor in weight_tensors(model).items() if not torch.equal(tensor, before[name])}
    assert changed == {name for name in before if ".lora_" in name}
    saved = save_version(model, tmp_path / "version")
    loaded = load_version(tmp_path / "version")
    assert saved == weights_hash(model) == weights_hash(loaded) != weights_hash(tiny_model())
    ids = torch.tensor([[1, 3, 9, 4]])
    with torch.no_grad():
        torch.testing.assert_close(loaded(ids).logits, model(ids).logits, atol=1e-5, rtol=0)
    assert any(".lora_" in name for name in weight_tensors(model)), "the trained model is unchanged"


@pytest.mark.filterwarnings("ignore::FutureWarning")  # peft calls what transformers has renamed
def test_peft_loads_a_saved_adapter_as_the_version(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    tiny_model().save_pretrained(tmp_path / "base")
    model = tiny_model()
    add_adapter(model, AdapterSettings(2), base=str(tmp_path / "base"))
    _trained(model, make_trajectory, tmp_path / "run")
    save_adapter(model, tmp_path / "adapter")
    assert (
        f'"base_model_name_or_path": "{tmp_path / "base"}"'
        in (tmp_path / "adapter/adapter_config.json").read_text()
    )
    loaded = peft.PeftModel.from_pretrained(tiny_model(), tmp_path / "adapter").merge_and_unload()
    assert weights_hash(loaded) == weights_hash(model)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:Model has `tie_word_embeddings=True`")
@pytest.mark.parametrize(
    "options", [{"target_modules": ["q_proj"], "use_dora": True}, {"target_modules": ["lm_head"]}]
)
def test_adapters_that_cannot_be_merged_exactly_are_not_saved(
    tiny_model: Model, tmp_path: Path, options: dict[str, Any]
) -> None:
    model = tiny_model()
    model.add_adapter(peft.LoraConfig(r=2, **options))
    with pytest.raises(TrainingError, match="cannot be merged here: only one LoRA adapter on linear layers below"):
        save_version(model, tmp_path / "version")


def test_merging_a_model_without_an_adapter_returns_it(tiny_model: Model) -> None:
    plain = tiny_model()
    assert merge_adapter(plain) is plain


def test_a_run_resumes_bitwise_and_another_adapter_is_refused(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    uninterrupted = _trained(_adapted(tiny_model), make_trajectory, tmp_path / "uninterrupted")

    def stop(point: CurvePoint) -> None:
        if point.units == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _trained(_adapted(tiny_model), make_trajectory, tmp_path / "stopped", progress=stop)
    for settings, message in (
        (
            AdapterSettings(4, seed=5),
            "adapter is 'LoRA of rank 4 scaled by 2 on .*the checkpoint has 'LoRA of rank 2",
        ),
        (AdapterSettings(2, seed=6), "initial adapter is "),
        (None, "adapter is None, the checkpoint has 'LoRA of rank 2"),
    ):
        model = tiny_model() if settings is None else _adapted(tiny_model, settings)
        with pytest.raises(TrainingError, match=message):
            _trained(model, make_trajectory, tmp_path / "stopped")
    (checkpoint,) = (tmp_path / "stopped" / CHECKPOINTS_FOLDER).glob("0*")
    stored = load_file(checkpoint / "weights.safetensors")
    assert stored.keys() == {name for name in weight_tensors(uninterrupted) if ".lora_" in name}
    resumed = _trained(_adapted(tiny_model), make_trajectory, tmp_path / "stopped")
    for name, tensor in weight_tensors(uninterrupted).items():
        assert torch.equal(tensor, weight_tensors(resumed)[name])
