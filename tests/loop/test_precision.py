"""Training with weights in bfloat16 and on a 4-bit base: the loop around it, and the version that is saved."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from benchmarks.errands import MODEL
from upturn.config import AdapterSettings, AgentConfig, Config, OptimiserSettings
from upturn.errors import ConfigError, ModelError
from upturn.loop.rollouts.policy_worker import PolicyWorker, weights_form
from upturn.loop.run.context import version_of
from upturn.loop.trainers.algorithms.grpo import train_grpo
from upturn.loop.trainers.candidate import training_folder
from upturn.models.engine import LocalEngine, weights_hash
from upturn.models.shipped import load_local
from upturn.records import Evaluation
from upturn.training.algorithms.grpo import GrpoSettings
from upturn.training.distributed import weight_tensors
from upturn.training.policy_settings import KlSettings, ObjectiveSettings
from upturn.training.runs.curve import read_curve
from upturn.training.runs.run_folder import CURVE_FILE

NANO = AgentConfig(name="nano", kind="local_model", model=MODEL)
BASE = version_of(NANO)
SHORT = OptimiserSettings(learning_rate=1e-2, precision="bfloat16_weights")
LORA = AdapterSettings(rank=2, targets=("q_proj", "down_proj"))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Model selection has few tasks, and no page is drawn, for speed."""
    monkeypatch.setattr("upturn.loop.evaluation.model_selection.SELECTION_TASKS", 2)
    monkeypatch.setattr("upturn.loop.trainers.rl_training.write_training_report", lambda _: None)


def _config(desk: ModuleType, optimiser: OptimiserSettings, lora: AdapterSettings | None) -> Config:
    grpo = GrpoSettings(
        iterations=2,
        tasks_per_iteration=2,
        group_size=4,
        evaluate_every=1,
        keep="final",
        optimiser=optimiser,
        minibatches=1,
        objective=ObjectiveSettings(kl=KlSettings(coefficient=0.01)),
    )
    plain: Config = desk.config(("solver",), environment={"max_turns": 1, "max_tokens": 64})
    sections: dict[str, Any] = {"agents": (NANO,), "lora": lora, "optimiser": optimiser}
    return plain.with_sections(grpo, **sections)


def _reward(evaluation: Evaluation) -> float:
    """Differs within every group."""
    return float(int(evaluation.trajectory_id, 16) % 7)


def _train(desk: ModuleType, folder: Path, optimiser: OptimiserSettings, lora: AdapterSettings | None) -> Any:
    """The version after two iterations, in the first of which the reference is equal to the policy."""
    with desk.opened(folder, _config(desk, optimiser, lora)) as context:
        made = train_grpo(context, BASE, {"sums": 1.0}, "grpo", reward=_reward)
        curve = read_curve(training_folder(context, "grpo") / CURVE_FILE)
        sampled = {trajectory.model_version for trajectory in context.pool.trajectories(tenant="default")}
    assert len(sampled) == 2
    first, second = (point.metrics["kl_reference"] for point in curve[1:])
    assert first is not None and second is not None
    assert first < 1e-4 < second, "only the second iteration's policy differs from the reference"
    return made


@pytest.mark.parametrize(
    "optimiser", [SHORT, replace(SHORT, rounding="stochastic")], ids=lambda optimiser: optimiser.rounding
)
def test_bfloat16_weights_are_trained_and_saved(
    desk: ModuleType, tmp_path: Path, optimiser: OptimiserSettings
) -> None:
    made = _train(desk, tmp_path / "run", optimiser, None)
    saved = weight_tensors(load_local(made.model).model)
    assert all(torch.equal(tensor, tensor.to(torch.bfloat16).float()) for tensor in saved.values())
    before = weight_tensors(load_local(MODEL).model)
    assert any(not torch.equal(tensor, before[name]) for name, tensor in saved.items())


@pytest.mark.parametrize("base", ["full", "nf4"])
def test_an_adapter_on_short_weights_is_merged_into_full_precision(
    desk: ModuleType, tmp_path: Path, base: Any
) -> None:
    pytest.importorskip("peft")
    if base == "nf4":
        pytest.importorskip("bitsandbytes")
    made = _train(desk, tmp_path / "run", SHORT, replace(LORA, base=base))
    assert made.weights_hash == weights_hash(load_local(made.model).model)
    adapted = load_local(str(Path(made.model) / "adapter")).model  # PEFT merges it into the float32 base
    saved, before = weight_tensors(load_local(made.model).model), weight_tensors(load_local(MODEL).model)
    for name, tensor in weight_tensors(adapted).items():
        torch.testing.assert_close(saved[name], tensor, rtol=0, atol=1e-6)
        is_adapted = name.endswith(("q_proj.weight", "down_proj.weight"))
        assert torch.equal(saved[name], before[name]) != is_adapted


def test_the_form_of_the_weights_follows_from_optimiser_and_adapter() -> None:
    assert weights_form(None, None) == weights_form(LORA, OptimiserSettings(precision="bfloat16")) == "float32"
    assert weights_form(None, SHORT) == weights_form(LORA, SHORT) == "bfloat16"
    assert weights_form(replace(LORA, base="nf4"), SHORT) == "nf4"
    with pytest.raises(ConfigError, match=r"lora\.base = 'nf4' needs bfloat16.*optimiser\.precision is 'float32'"):
        weights_form(replace(LORA, base="nf4"), OptimiserSettings())


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("upturn.models.local.find_spec", lambda _: None)
    with pytest.raises(ModelError, match=r"pip install 'upturn\[quantised\]'"):
        load_local(MODEL, precision="nf4")


def test_a_four_bit_base_takes_a_third_of_the_memory_of_its_linear_layers(desk: ModuleType) -> None:
    """Nano's layers are small: 4 bits and scales of 64 weights each, themselves in 8 bits."""
    pytest.importorskip("bitsandbytes")
    from upturn.config import Limits
    from upturn.loop.agent_runtime import AgentRuntime

    worker = PolicyWorker(AgentRuntime(desk.kit(), Limits()), BASE, replace(LORA, base="nf4"), SHORT)
    whole: Any = load_local(MODEL, precision="bfloat16").model
    part = "model.layers.0.mlp.gate_proj"
    adapted: Any = worker.model
    four, sixteen = adapted.get_submodule(part).weight, whole.get_submodule(part).weight
    assert four.numel() * four.element_size() * 4 == sixteen.numel() * sixteen.element_size()
    assert isinstance(worker.engine, LocalEngine) and worker.engine.forward == "modules"
