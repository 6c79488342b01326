"""Models by folder or Hugging Face name: locating, loading, damage, adapters and their renderers."""

import json
import os
import shutil
import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest
import torch
from huggingface_hub import constants
from huggingface_hub.errors import LocalEntryNotFoundError
from safetensors.torch import load_file
from transformers import (
    AutoConfig,
    AutoModelForImageTextToText,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    T5Config,
)

from benchmarks.errands import MODEL
from benchmarks.errands.kit import ErrandsKit
from tests.architectures import ARCHITECTURES
from upturn.agents import fork_counts
from upturn.config import AdapterSettings, Limits, OptimiserSettings
from upturn.errors import ConfigError, ModelError
from upturn.loop.agent_runtime import AgentRuntime, Purpose
from upturn.loop.rollouts.policy_worker import PolicyWorker, RolloutSpec
from upturn.models import SPECIAL_TOKENS, ChatRenderer, CompactRenderer
from upturn.models.engine import lora_layers, weights_hash
from upturn.models.local import find_folder, load_model
from upturn.models.shipped import load_local, model_folder
from upturn.records import Action, AgentVersion, Observation
from upturn.training import TrainingRow, policy_rows
from upturn.training.losses import CrossEntropy
from upturn.training.optimisation.adapter import add_adapter
from upturn.training.optimisation.trainer import Trainer
from upturn.training.runs.model_folder import load_version, save_version
from upturn.training.stream import Stream

Tokenizers = Callable[..., PreTrainedTokenizerFast]


@pytest.fixture
def folder(tmp_path: Path, chat_tokenizer: Tokenizers) -> Path:
    """A tiny Llama with its tokenizer and chat template, as transformers saves it."""
    return _save(tmp_path / "llama", chat_tokenizer("llama3_1"))


def _save(folder: Path, tokenizer: PreTrainedTokenizerFast) -> Path:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer) + 7,  # padded, as in many models
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        intermediate_size=32,
        max_position_embeddings=8192,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_folder_with_a_chat_template_uses_it(folder: Path) -> None:
    local = load_local(str(folder))
    renderer = local.renderer()
    assert isinstance(renderer, ChatRenderer)
    assert (
        "<|start_header_id|>user<|end_header_id|>\n\nHi" in renderer.read(renderer.open(Observation("Hi"), "")).text
    )
    assert local.model.dtype == torch.float32 and not local.model.training
    assert load_local(str(folder), precision="bfloat16").model.dtype == torch.bfloat16
    assert load_local(MODEL).chat is None
    assert isinstance(load_local(MODEL).renderer(), CompactRenderer)


@pytest.fixture
def vision_folder(tmp_path: Path, chat_tokenizer: Tokenizers) -> Path:
    """A tiny vision-language model whose type ``AutoModelForCausalLM`` does not load, with its tokenizer."""
    tokenizer = chat_tokenizer("llama3_1")
    folder = tmp_path / "vision"
    kind, settings = ARCHITECTURES["Mistral Small 3.1"]
    settings = settings | {"text_config": settings["text_config"] | {"vocab_size": len(tokenizer)}}
    torch.manual_seed(0)
    AutoModelForImageTextToText.from_config(AutoConfig.for_model(kind, **settings)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_of_a_vision_language_model_the_language_model_is_trained(vision_folder: Path, tmp_path: Path) -> None:
    local = load_local(str(vision_folder))
    assert isinstance(local.renderer(), ChatRenderer)
    before = {name: parameter.clone() for name, parameter in local.model.named_parameters()}
    row = TrainingRow("a", np.arange(5, 15), np.arange(4, 10), np.ones(6, dtype=np.float32), None)
    Trainer(local.model, OptimiserSettings(learning_rate=0.01)).step([Stream([row], CrossEntropy(), 1.0)])
    changed = {name for name, old in before.items() if not torch.equal(old, local.model.get_parameter(name))}
    assert changed and all(name.startswith("model.language_model.") or name == "lm_head.weight" for name in changed)
    saved = save_version(local.model, tmp_path / "version", companions=vision_folder)
    assert weights_hash(load_version(tmp_path / "version")) == saved
    assert weights_hash(load_model(str(tmp_path / "version")).model) == saved


def test_an_adapter_of_a_vision_language_model_is_on_its_language_model_only(vision_folder: Path) -> None:
    model = load_local(str(vision_folder)).model
    add_adapter(model, AdapterSettings(rank=2))
    assert lora_layers(model)
    assert all(name.startswith("model.language_model.") for name in lora_layers(model))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model_type": "unheard_of"}, "cannot be loaded: its model_type 'unheard_of' is not in transformers"),
        (
            {"model_type": "unheard_of", "auto_map": {"AutoConfig": "its.Config"}},
            "its own code is never run, and its model_type 'unheard_of' is not in transformers",
        ),
    ],
)
def test_unknown_architectures_are_refused_by_name(folder: Path, changes: dict[str, Any], reason: str) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(ModelError, match=reason) as caught:
        load_local(str(folder))
    assert str(caught.value).endswith("; update transformers, or use a model of another architecture")


def test_models_of_other_kinds_are_refused_by_name(folder: Path) -> None:
    T5Config(d_model=16, num_layers=1).save_pretrained(folder)
    with pytest.raises(
        ModelError, match="type 't5' is neither a causal language model nor a vision-language model"
    ):
        load_local(str(folder))


def test_our_special_tokens_take_precedence_over_a_chat_template(
    tmp_path: Path, chat_tokenizer: Tokenizers
) -> None:
    tokenizer = chat_tokenizer("llama3_1")
    tokenizer.add_special_tokens({"additional_special_tokens": list(SPECIAL_TOKENS)})
    assert isinstance(load_model(str(_save(tmp_path / "both", tokenizer))).renderer(), CompactRenderer)


def test_a_model_without_a_prompt_format_is_refused(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    local = load_local(str(folder))
    with pytest.raises(
        ModelError, match=r"neither a chat template nor the special tokens .*instruction-tuned variant"
    ):
        local.renderer()


def test_a_tokenizer_without_an_end_token_stops_at_the_templates(
    tmp_path: Path, chat_tokenizer: Tokenizers
) -> None:
    tokenizer = chat_tokenizer("qwen2_5", eos_token=None)
    assert tokenizer.eos_token is None and tokenizer.pad_token is None
    renderer = load_model(str(_save(tmp_path / "endless", tokenizer))).renderer()
    assert renderer.stop_ids == (tokenizer.get_added_vocab()["<|im_end|>"],)
    other = chat_tokenizer("qwen2_5", eos_token="<|endoftext|>")
    renderer = load_model(str(_save(tmp_path / "other", other))).renderer()
    assert renderer.stop_ids == tuple(other.get_added_vocab()[token] for token in ("<|im_end|>", "<|endoftext|>"))


def test_end_tokens_of_the_generation_settings_end_a_turn_too(folder: Path) -> None:
    """Llama 3.1 ends calls of tools with ``<|eom_id|>``, which its template never writes."""
    ids = load_local(str(folder)).tokenizer.get_vocab()
    ends = [ids[token] for token in ("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>")]
    settings = {"eos_token_id": [*ends[:0:-1], 2], "_from_model_config": False}  # 2 is a letter
    (folder / "generation_config.json").write_text(json.dumps(settings))
    renderer = load_local(str(folder)).renderer()
    assert renderer.stop_ids == (ends[0], ends[2], ends[1])
    written = renderer.write(Action("mail", "list"))
    assert renderer.read((*written[:-1], ends[1])).action == Action("mail", "list")


def test_a_rollout_in_errands_with_a_model_folder(folder: Path) -> None:
    kit = ErrandsKit()
    runtime = AgentRuntime(kit, Limits(max_turns=2, max_tokens=6000, max_action_tokens=4))
    version = AgentVersion("chat", "1", "local_model", model=str(folder), prompt="Be brief.")
    task = next(iter(kit.tasks(seed=0, split="train", families=list(kit.families))))
    (trajectory,) = runtime.rollout([(version, task, 0)], Purpose("p", 0))
    assert trajectory.outcome == "step_limit" and len(trajectory.rows) == 1 and not fork_counts([trajectory])
    prompt = runtime.renderer(version).read(trajectory.rows[0].token_ids[: trajectory.rows[0].spans[0].start]).text
    assert "Be brief." in prompt and task.instruction in prompt
    for tool in kit.tools:
        assert f'"name": "{tool.name}"' in prompt


class NullSink:
    """A sink that stores nothing."""

    def append(self, run: str, iteration: int, finished: object) -> None:
        """Ignores the trajectories."""


def test_a_model_with_a_chat_template_rolls_out_trains_and_serves_again(folder: Path, tmp_path: Path) -> None:
    kit = ErrandsKit()
    runtime = AgentRuntime(kit, Limits(max_turns=2, max_tokens=6000, max_action_tokens=4))
    version = AgentVersion("chat", "1", "local_model", model=str(folder), prompt="Be brief.")
    worker = PolicyWorker(runtime, version)
    tasks = list(islice(kit.tasks(seed=0, split="train", families=list(kit.families)), 2))
    groups = worker.sample_groups(tasks, 0, RolloutSpec("run", 0, group_size=2), NullSink())
    sampled = [member.trajectory for group in groups for member in group.members]
    assert [len(trajectory.rows) for trajectory in sampled] == [1, 1, 1, 1]
    rows = [row for trajectory in sampled for row in policy_rows(trajectory, [1.0, 1.0])]
    trainer = Trainer(worker.model, OptimiserSettings(learning_rate=1e-2, warmup_steps=0))
    trainer.step([Stream(rows, CrossEntropy(), float(sum(len(row.positions) for row in rows)))])
    saved = tmp_path / "version"
    digest = save_version(worker.model, saved, companions=model_folder(str(folder)))
    trained = replace(version, version="2", model=str(saved))
    (served,) = runtime.rollout([(trained, tasks[0], 0)], Purpose("p", 0))
    assert served.model_version == digest != sampled[0].model_version
    assert (
        served.rows[0].token_ids[: served.rows[0].spans[0].start]
        == sampled[0].rows[0].token_ids[: sampled[0].rows[0].spans[0].start]
    )


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "config.json").unlink(), r"config\.json' is missing; give a folder"),
        (lambda folder: (folder / "tokenizer.json").unlink(), r"tokenizer\.json' is missing; give a folder"),
        (lambda folder: (folder / "model.safetensors").unlink(), r"model\.safetensors' is missing; give a folder"),
        (lambda folder: os.truncate(folder / "model.safetensors", 500), "cannot be loaded: "),
        (lambda folder: (folder / "tokenizer_config.json").write_text("{"), "cannot be loaded: "),
        (lambda folder: (folder / "tokenizer.json").write_text("{}"), "cannot be loaded: "),
    ],
)
def test_a_damaged_folder_is_an_error_with_the_cause(
    folder: Path, damage: Callable[[Path], object], message: str
) -> None:
    damage(folder)
    with pytest.raises(ModelError, match=message):
        load_local(str(folder))


def test_sharded_weight_files_are_loaded(folder: Path) -> None:
    model = load_local(str(folder)).model
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="20KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 1
    for name, tensor in load_local(str(folder)).model.state_dict().items():
        assert torch.equal(tensor, model.state_dict()[name])


def test_a_hub_name_is_located_in_the_local_cache(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = tmp_path / "hub" / "models--org--tiny"
    snapshot = repository / "snapshots" / ("a" * 40)
    shutil.copytree(folder, snapshot)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("a" * 40)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert model_folder("org/tiny") == snapshot
    assert load_local("org/tiny").model.config.vocab_size == load_local(str(folder)).model.config.vocab_size


def test_an_unknown_name_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(name: str, **_: object) -> str:
        raise LocalEntryNotFoundError(f"{name}: no network\nsecond line")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", unreachable)
    expected = (
        r"model 'org/none': there is no such folder, .* cannot be downloaded .* \(org/none: no network\); "
        r"check the name .* `hf download org/none` .* path of a folder"
    )
    with pytest.raises(ModelError, match=expected):
        load_local("org/none")
    assert model_folder("org/none") == Path("org/none")
    assert find_folder("./no/such/folder") == Path("no/such/folder")  # a path, not a name
    with pytest.raises(ModelError, match=r"config\.json' is missing"):
        load_local("nothing")


def _save_adapter(folder: Path, target: Path) -> Path:
    peft = pytest.importorskip("peft")
    torch.manual_seed(1)
    settings = peft.LoraConfig(r=2, target_modules=["q_proj", "down_proj"], init_lora_weights=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PEFT uses a name that transformers deprecates
        adapted = peft.get_peft_model(load_local(str(folder)).model, settings)
    adapted.save_pretrained(target)
    config = json.loads((target / "adapter_config.json").read_text())
    (target / "adapter_config.json").write_text(json.dumps(config | {"base_model_name_or_path": str(folder)}))
    return target


def test_an_adapter_is_merged_into_its_base(folder: Path, tmp_path: Path) -> None:
    adapter = _save_adapter(folder, tmp_path / "adapter")
    base, local = load_local(str(folder)), load_local(str(adapter))
    tensors = load_file(adapter / "adapter_model.safetensors")
    name = "model.layers.0.self_attn.q_proj"
    down, up = (tensors[f"base_model.model.{name}.lora_{part}.weight"] for part in "AB")
    scale = 8 / 2  # lora_alpha / r
    expected = base.model.state_dict()[f"{name}.weight"] + scale * up @ down
    torch.testing.assert_close(local.model.state_dict()[f"{name}.weight"], expected)
    assert local.model.state_dict().keys() == base.model.state_dict().keys()
    assert not torch.equal(expected, base.model.state_dict()[f"{name}.weight"])
    assert isinstance(local.renderer(), ChatRenderer) and local.name == str(adapter)


def test_a_version_trained_from_an_adapter_takes_the_tokenizer_of_the_base(folder: Path, tmp_path: Path) -> None:
    adapter = _save_adapter(folder, tmp_path / "adapter")
    assert model_folder(str(adapter)) == folder
    trained = tmp_path / "trained"
    local = load_local(str(adapter))
    save_version(local.model, trained, companions=model_folder(str(adapter)))
    loaded = load_local(str(trained))
    assert isinstance(loaded.renderer(), ChatRenderer)
    for name, tensor in loaded.model.state_dict().items():
        assert torch.equal(tensor, local.model.state_dict()[name])


def test_a_folder_with_a_model_and_an_adapter_is_ambiguous(folder: Path, tmp_path: Path) -> None:
    shutil.copy(_save_adapter(folder, tmp_path / "adapter") / "adapter_config.json", folder)
    with pytest.raises(ModelError, match="is ambiguous: it holds a full model and an adapter"):
        load_local(str(folder))


def test_template_options_without_a_template_are_refused(folder: Path) -> None:
    with pytest.raises(
        ModelError,
        match=r"chat template options \{'enable_thinking': False\} have no effect on model '.*/nano_errands'",
    ):
        load_local(MODEL).renderer(options={"enable_thinking": False})
    renderer = load_local(str(folder)).renderer(options={"date_string": "today"})
    assert isinstance(renderer, ChatRenderer)
    with pytest.raises(ModelError, match="template option 'enable_thinking' has no effect"):
        load_local(str(folder)).renderer(options={"enable_thinking": False})


def test_template_options_apply_in_serving_and_training(tmp_path: Path, chat_tokenizer: Tokenizers) -> None:
    """Qwen3 without thinking starts each action after an empty thought."""
    folder = _save(tmp_path / "qwen", chat_tokenizer("qwen3"))
    kit, limits = ErrandsKit(), Limits(max_turns=1, max_tokens=6000, max_action_tokens=2)
    plain = AgentVersion("chat", "1", "local_model", model=str(folder))
    brief = replace(plain, version="2", parameters={"template_options": {"enable_thinking": False}})
    runtime = AgentRuntime(kit, limits)
    task = next(iter(kit.tasks(seed=0, split="train", families=list(kit.families))))
    trajectories = runtime.rollout([(version, task, 0) for version in (plain, brief)], Purpose("p", 0))
    for version, trajectory, is_brief in zip((plain, brief), trajectories, (False, True), strict=True):
        renderer = runtime.renderer(version)
        row = trajectory.rows[0]
        prompt = row.token_ids[: row.spans[0].start]
        training_renderer = PolicyWorker(runtime, version).renderer
        assert training_renderer.open(Observation("x"), "") == renderer.open(Observation("x"), "")
        assert renderer.read(prompt).text.endswith("<think>\n\n</think>\n\n") is is_brief


def test_bfloat16_weights_serve_and_other_types_are_refused(folder: Path) -> None:
    kit = ErrandsKit()
    version = AgentVersion("chat", "1", "local_model", model=str(folder), parameters={"weights": "bfloat16"})
    whole = replace(version, version="2", parameters={})
    task = next(iter(kit.tasks(seed=0, split="train", families=list(kit.families))))
    runtime = AgentRuntime(kit, Limits(max_turns=1, max_tokens=6000, max_action_tokens=2))
    half, full = runtime.rollout([(version, task, 0), (whole, task, 0)], Purpose("p", 0))
    assert half.error == full.error == "" and half.model_version != full.model_version
    with pytest.raises(ConfigError, match="weights must be 'float32' or 'bfloat16', got 'int8'"):
        runtime.rollout([(replace(version, version="3", parameters={"weights": "int8"}), task, 0)], Purpose("p", 0))


def test_a_context_filled_by_tools_is_refused_before_any_rollout(folder: Path) -> None:
    kit = ErrandsKit()
    version = AgentVersion("chat", "1", "local_model", model=str(folder))
    task = next(iter(kit.tasks(seed=0, split="train", families=list(kit.families))))
    with pytest.raises(
        ModelError, match=r"'chat@1' has a prompt and tools of \d{4} tokens, but the maximum context is 400; raise"
    ):
        AgentRuntime(kit, Limits(max_tokens=400)).rollout([(version, task, 0)], Purpose("p", 0))


def test_a_damaged_adapter_is_an_error_with_the_cause(folder: Path, tmp_path: Path) -> None:
    adapter = _save_adapter(folder, tmp_path / "adapter")
    (adapter / "adapter_model.safetensors").write_bytes(b"PK")
    with pytest.raises(ModelError, match=r"adapter '.*' cannot be applied to '.*llama': "):
        load_local(str(adapter))
    (adapter / "adapter_config.json").write_text('{"base_model_name_or_path": null}')
    with pytest.raises(ModelError, match="names no base model, got None"):
        load_local(str(adapter))
    (adapter / "adapter_config.json").write_text("[")
    with pytest.raises(ModelError, match=r"adapter_config\.json' is damaged"):
        load_local(str(adapter))
