"""A run that trains an adapter: its version, and rollouts with the adapter."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from benchmarks.errands import MODEL
from upturn.config import (
    DEFAULT_CONTEXT_TOKENS,
    AdapterSettings,
    AgentConfig,
    Config,
    Limits,
    OptimiserSettings,
    RolloutConfig,
    SamplingSettings,
)
from upturn.errors import ConfigError
from upturn.loop.agent_runtime import AgentRuntime
from upturn.loop.rollouts.policy_worker import PolicyWorker
from upturn.loop.run import adapter_settings
from upturn.loop.run.context import version_of
from upturn.loop.run.preflight import check_names
from upturn.loop.trainers.algorithms.grpo import train_grpo
from upturn.loop.trainers.candidate import training_folder
from upturn.models.engine import LocalEngine, weights_hash
from upturn.models.shipped import load_local, model_folder
from upturn.records import Evaluation
from upturn.training.algorithms.grpo import GrpoSettings
from upturn.training.distributed.weights import restore_weights, weight_tensors
from upturn.training.optimisation.adapter import save_adapter
from upturn.training.optimisation.memory_estimate import model_shape
from upturn.training.runs.curve import read_curve
from upturn.training.runs.model_folder import save_version
from upturn.training.runs.run_folder import CURVE_FILE

pytest.importorskip("peft", reason="the extra lora is not installed")

NANO = AgentConfig(name="nano", kind="local_model", model=MODEL)
BASE = version_of(NANO)
ROUNDS = GrpoSettings(
    iterations=2,
    tasks_per_iteration=2,
    group_size=4,
    evaluate_every=2,
    optimiser=OptimiserSettings(learning_rate=1e-2),
    minibatches=1,
)
LORA = AdapterSettings(rank=2, targets=("q_proj", "down_proj"))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Model selection has few tasks, and no page is drawn, for speed."""
    monkeypatch.setattr("upturn.loop.evaluation.model_selection.SELECTION_TASKS", 2)
    monkeypatch.setattr("upturn.loop.trainers.rl_training.write_training_report", lambda _: None)


def _config(desk: ModuleType, grpo: GrpoSettings = ROUNDS, **sections: Any) -> Config:
    plain: Config = desk.config(("solver",), environment={"max_turns": 1, "max_tokens": 64})
    return plain.with_sections(grpo, **{"agents": (NANO,), "lora": LORA, **sections})


def _reward(evaluation: Evaluation) -> float:
    """Differs within every group."""
    return float(int(evaluation.trajectory_id, 16) % 7)


def _hash(version: str) -> str:
    return weights_hash(load_local(version).model)


def test_a_version_is_the_merged_model_with_the_adapter_in_a_subfolder(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path / "run", _config(desk)) as context:
        made = train_grpo(context, BASE, {"sums": 1.0}, "grpo", reward=_reward)
        curve = read_curve(training_folder(context, "grpo") / CURVE_FILE)
        sampled = {trajectory.model_version for trajectory in context.pool.trajectories(tenant="default")}
    adapter = Path(made.model) / "adapter"
    assert made.weights_hash == _hash(made.model) == _hash(str(adapter))
    assert f'"base_model_name_or_path": "{MODEL}"' in (adapter / "adapter_config.json").read_text()
    assert _hash(MODEL) in sampled and len(sampled) == 2, "the first iteration samples from the base"
    assert curve[-1].metrics["loss"] is not None


@pytest.mark.slow
@pytest.mark.parametrize(("dialect", "staleness"), [("vllm", 0), ("sglang", 1)])
def test_a_remote_engine_gets_the_adapter_or_the_merged_model(
    desk: ModuleType, engine_server: ModuleType, tmp_path: Path, dialect: str, staleness: int
) -> None:
    """Samples are scored again, so weights other than those in training would be refused."""
    served = load_local(MODEL).model
    local = LocalEngine(served, max_length=DEFAULT_CONTEXT_TOKENS)
    loaded: list[str] = []

    def load(name: str, folder: str) -> None:
        loaded.append(name)
        restore_weights(served, weight_tensors(load_local(folder).model))
        local.refresh()

    grpo = replace(ROUNDS, staleness=staleness)
    with engine_server.serving(engine_server.Engine(local, "default", load=load)) as server:
        rollouts = RolloutConfig(place="engine", url=server.url, dialect=dialect)  # type: ignore[arg-type]
        with desk.opened(tmp_path / "run", _config(desk, grpo, rollouts=rollouts)) as context:
            train_grpo(context, BASE, {"sums": 1.0}, "grpo", reward=_reward)
            sampled = {trajectory.model_version for trajectory in context.pool.trajectories(tenant="default")}
    assert sampled == set(loaded[:-1]), "the last weights are only evaluated"
    assert loaded[0] == _hash(MODEL) and len(loaded) == (2 if staleness else 3)


def test_the_incumbents_share_is_blended_into_the_whole_model(desk: ModuleType, tmp_path: Path) -> None:
    local = load_local(MODEL).model
    with torch.no_grad():
        for parameter in local.parameters():
            parameter.mul_(0.5)  # training finds no better weights: neither these nor its own solve a sum
    save_version(local, tmp_path / "halved", companions=model_folder(MODEL))
    parent = replace(BASE, version="halved", model=str(tmp_path / "halved"))
    grpo = replace(ROUNDS, incumbent_share=0.25)
    with desk.opened(tmp_path / "run", _config(desk, grpo)) as context:
        made = train_grpo(context, parent, {"sums": 1.0}, "grpo")
    before = weight_tensors(load_local(MODEL).model)
    for name, tensor in weight_tensors(load_local(made.model).model).items():
        torch.testing.assert_close(tensor, (0.75 * 0.5 + 0.25) * before[name])
    assert not (Path(made.model) / "adapter").exists(), "no adapter represents a blend"


def test_an_adapter_on_an_adapter_loads_to_the_same_weights(desk: ModuleType, tmp_path: Path) -> None:
    """Its base is the other adapter's folder, whose base is nano's."""
    runtime, first, second = AgentRuntime(desk.kit(), Limits()), tmp_path / "first", tmp_path / "second"
    for version, folder in ((BASE, first), (replace(BASE, model=str(first)), second)):
        trained = PolicyWorker(runtime, version, AdapterSettings(2)).model
        with torch.no_grad():
            for name, parameter in trained.named_parameters():
                if "lora_B" in name:
                    parameter.fill_(0.01)
        save_adapter(trained, folder)
        assert _hash(str(folder)) == weights_hash(trained)
    assert _hash(str(first)) != _hash(str(second))


def test_a_plan_counts_what_is_trained(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path, _config(desk)) as context:
        shape = model_shape(PolicyWorker(context.runtime, BASE, context.adapter).model)
        whole = model_shape(load_local(MODEL).model)
    assert whole.trained == whole.parameters
    assert shape.trained == shape.parameters - whole.parameters
    added = whole.layers * LORA.rank * (2 * whole.width + whole.inner + whole.width)
    assert shape.trained == added


def test_every_setting_has_an_effect(desk: ModuleType) -> None:
    config = _config(desk, lora=AdapterSettings(rank=3, alpha=5, targets=("q_proj",)))
    assert adapter_settings(config, seed=7) == AdapterSettings(3, 5, ("q_proj",), 7)
    assert adapter_settings(_config(desk, lora=None), seed=7) is None


def test_without_the_packages_nothing_is_started(desk: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("upturn.loop.run.preflight.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"lora\.rank = 2 needs PEFT, .* pip install 'upturn\[lora\]'"):
        check_names(_config(desk), desk.kit())
    few_bits = OptimiserSettings(precision="bfloat16_weights", moments="8bit")
    config = _config(desk, lora=AdapterSettings(rank=2, base="nf4"))
    agents = tuple(replace(agent, sampling=SamplingSettings(calls_only=True)) for agent in config.agents[:1])
    config = config.with_sections(GrpoSettings(optimiser=few_bits), optimiser=few_bits, agents=agents)
    with pytest.raises(ConfigError) as caught:
        check_names(config, desk.kit())
    needed = [problem.partition(", which is not installed") for problem in caught.value.problems]
    assert [(problem, cure) for problem, _, cure in needed if cure] == [
        ("lora.rank = 2 needs PEFT", ": pip install 'upturn[lora]'"),
        ("lora.base = 'nf4' needs bitsandbytes", ": pip install 'upturn[quantised]'"),
        ("optimiser.moments = '8bit' needs bitsandbytes", ": pip install 'upturn[quantised]'"),
        ("agents[0].sampling.calls_only = true needs llguidance", ": pip install 'upturn[grammar]'"),
    ]
