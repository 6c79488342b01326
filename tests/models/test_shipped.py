"""The shipped model: complete and small files, loading, and errors for damaged ones."""

import json
import os
import shutil
from collections.abc import Callable
from hashlib import sha256
from itertools import islice
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

from upturn.config import Limits
from upturn.environments import resolve_kit
from upturn.errors import ModelError
from upturn.loop.agent_runtime import AgentRuntime, Purpose
from upturn.loop.build_nano import put_files
from upturn.loop.evaluation.evaluate import evaluate_version
from upturn.models import SPECIAL_TOKENS, shipped
from upturn.models.shipped import CARD, SHIPPED, load_local, model_folder
from upturn.records import AgentVersion

VERSION = AgentVersion("nano", "base", "local_model", model="nano", parameters={"temperature": 1.0})


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def test_shipped_files_are_complete_and_small() -> None:
    card = json.loads((SHIPPED["nano"] / CARD).read_text())
    for file, name in (("model.safetensors", "weights_sha256"), ("tokenizer.json", "tokenizer_sha256")):
        assert sha256((SHIPPED["nano"] / file).read_bytes()).hexdigest() == card[name]
    assert sum(file.stat().st_size for file in SHIPPED["nano"].iterdir()) <= 8_000_000


def test_transformers_loads_the_shipped_folder() -> None:
    card = json.loads((SHIPPED["nano"] / CARD).read_text())
    model = AutoModelForCausalLM.from_pretrained(SHIPPED["nano"], local_files_only=True)
    assert 1_000_000 <= model.num_parameters() <= 3_000_000
    assert model.num_parameters() == card["parameters"]
    with safe_open(SHIPPED["nano"] / "model.safetensors", framework="pt") as stored:
        assert {stored.get_tensor(name).dtype for name in stored.keys()} == {torch.bfloat16}  # noqa: SIM118


def test_it_is_loaded_in_float32_with_its_tokenizer() -> None:
    local = load_local("nano")
    assert {tensor.dtype for tensor in local.model.parameters()} == {torch.float32}
    assert not local.model.training
    assert all(local.tokenizer.token_to_id(token) is not None for token in SPECIAL_TOKENS)
    assert model_folder("nano") == SHIPPED["nano"]
    assert model_folder("some/folder") == Path("some/folder")


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_missing_file_is_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    copy = shutil.copytree(SHIPPED["nano"], tmp_path / "nano")
    (copy / file).unlink()
    monkeypatch.setitem(shipped.SHIPPED, "nano", copy)
    with pytest.raises(ModelError, match=rf"{file}' is missing; restore it .*upturn model build-nano"):
        load_local("nano")
    with pytest.raises(ModelError, match=rf"{file}' is missing; give a folder"):
        load_local(str(copy))


def test_damaged_weights_are_detected_before_serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = shutil.copytree(SHIPPED["nano"], tmp_path / "nano")
    monkeypatch.setitem(shipped.SHIPPED, "nano", copy)
    weights = copy / "model.safetensors"
    changed = bytearray(weights.read_bytes())
    changed[-7] ^= 1
    weights.write_bytes(bytes(changed))
    with pytest.raises(ModelError, match=r"is damaged: its SHA-256 is .* the card has"):
        load_local("nano")
    (copy / CARD).write_text("{}")
    with pytest.raises(ModelError, match=r"card.json' is damaged; "):
        load_local("nano")


def test_a_damaged_tokenizer_is_detected_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = shutil.copytree(SHIPPED["nano"], tmp_path / "nano")
    monkeypatch.setitem(shipped.SHIPPED, "nano", copy)
    text = (copy / "tokenizer.json").read_text()
    (copy / "tokenizer.json").write_text(text.replace("mail", "liam", 1))
    with pytest.raises(ModelError, match=r"tokenizer\.json' is damaged: its SHA-256 .*upturn model build-nano"):
        load_local("nano")
    (copy / CARD).write_text("[]")
    with pytest.raises(ModelError, match=r"card\.json' is damaged; "):
        load_local("nano")
    (copy / CARD).unlink()
    with pytest.raises(ModelError, match=r"card\.json' is missing; "):
        load_local("nano")


def _without_a_weight(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights[sorted(weights)[1]]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def _with_another_shape(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"vocab_size": config["vocab_size"] // 2}))


def _with_its_own_code(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "model_type": "mine",
        "auto_map": {"AutoConfig": "mine.Config", "AutoModelForCausalLM": "mine.Model"},
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "mine.py").write_text("raise SystemExit('foreign code ran')")


def _with_a_larger_tokenizer(folder: Path) -> None:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_tokens([f"more{number}" for number in range(5000)])
    tokenizer.save(str(folder / "tokenizer.json"))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "config.json").write_text("{"), "its config.json is not valid JSON"),
        (lambda folder: (folder / "config.json").write_text("[]"), "its config.json must hold an object, got list"),
        (lambda folder: (folder / "tokenizer.json").write_bytes(b"\xff"), ""),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"PK\x03\x04"), ""),
        (lambda folder: os.truncate(folder / "model.safetensors", 100_000), ""),
        (_without_a_weight, "1 weights are missing, such as "),
        (_with_another_shape, ""),
        (_with_its_own_code, "its own code is never run"),
        (_with_a_larger_tokenizer, "its tokenizer has .* tokens, its weights only"),
    ],
)
def test_a_damaged_folder_is_an_error_with_the_cause(
    tmp_path: Path, damage: Callable[[Path], object], message: str
) -> None:
    copy = shutil.copytree(SHIPPED["nano"], tmp_path / "copy")
    damage(copy)
    with pytest.raises(ModelError, match=rf"model '{copy}' in '{copy}' cannot be loaded: .*(?:{message})"):
        load_local(str(copy))


def test_replacing_files_does_not_change_open_ones(tmp_path: Path) -> None:
    source, target = tmp_path / "new", tmp_path / "model"
    for folder, text in ((source, "new"), (target, "old")):
        folder.mkdir()
        (folder / "weights").write_text(text)
    with (target / "weights").open() as mapped:
        put_files(source, target)
        assert mapped.read() == "old"
    assert (target / "weights").read_text() == "new"
    assert [file.name for file in target.iterdir()] == ["weights"]


def test_the_shipped_model_solves_simple_tasks() -> None:
    kit = resolve_kit("office")
    tasks = list(islice(kit.tasks(seed=11, split="train", families=["mail_flag"]), 24))
    limits = Limits(max_turns=6, max_tokens=512, max_action_tokens=48)
    heldout = evaluate_version(AgentRuntime(kit, limits), VERSION, tasks, Purpose("simple", 0, 0.0), pool=None)
    # At a true rate of .8 fewer than 12 of 24 have probability 1e-3.
    assert heldout.rate() >= 0.5
