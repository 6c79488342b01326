"""Hand-over of weights: what the sampler receives, under which name, and what is refused."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from upturn.agents import Job, ModelSession, Reply, RolloutRequest, Setting, run_rollouts
from upturn.config import OptimiserSettings
from upturn.environments import Info, Step
from upturn.errors import ModelError, TrainingError
from upturn.loop.weight_sync import WeightSync, sync_with_engine
from upturn.models.engine import LocalEngine, weights_hash
from upturn.models.remote import RemoteEngine, RemoteSettings
from upturn.records import Action, Observation, Task, Trajectory, Turn
from upturn.training.advantage import ScoredGroup, ScoredTrajectory
from upturn.training.algorithms.grpo import GrpoSettings, run_grpo
from upturn.training.data.async_rollouts import AheadCollect
from upturn.training.distributed.weights import copy_tensors, restore_weights, weight_tensors
from upturn.training.optimisation.sampler_check import rescore
from upturn.training.optimisation.trainer import Trainer
from upturn.training.runs import RunOptions
from upturn.training.runs.model_folder import load_version

SYMBOLS = (3, 4, 5, 6)


def tiny(seed: int = 0) -> PreTrainedModel:
    torch.manual_seed(seed)
    model: PreTrainedModel = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=20,
            hidden_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            intermediate_size=64,
            max_position_embeddings=32,
            tie_word_embeddings=True,
            use_cache=False,
        )
    )
    return model


def sharper(model: PreTrainedModel) -> PreTrainedModel:
    embedding: Any = model.get_input_embeddings()
    with torch.no_grad():
        embedding.weight.mul_(1.5)
    return model


class Copying:
    """An environment that shows one token and rewards its repetition."""

    def __init__(self, task: Task) -> None:
        self.symbol = int(task.instruction)

    def reset(self, task: Task) -> tuple[Observation, Info]:
        return Observation(task.instruction), Info({}, {})

    def step(self, action: Action) -> Step:
        return Step(Observation("done"), float(action.operation == str(self.symbol)), True, False, Info({}, {}))

    def state(self) -> Mapping[str, Any]:
        return {}

    def snapshot(self) -> object:
        return None

    def restore(self, snapshot: object) -> None:
        pass


class OneToken:
    """Writes one token after ``[1, x, 2]``."""

    async def act(self, turns: Sequence[Turn], observation: Observation, model: ModelSession) -> Reply:
        written = await model.generate([1, int(observation.text), 2], max_tokens=1, stop_ids=())
        return Reply(str(written.token_ids[0]), Action("user", str(written.token_ids[0])))


def sample_groups(model: Any, iteration: int, group_size: int = 8) -> list[ScoredGroup]:
    """Groups of rollouts that copy each symbol."""
    tasks = [Task(f"copy {symbol}", str(symbol), "copy", "toy") for symbol in SYMBOLS]
    setting = Setting(f"run/{iteration}", OneToken(), "toy@1", model, seed=iteration)
    jobs = [
        Job(RolloutRequest(task, number, index), setting)
        for index, task in enumerate(tasks)
        for number in range(group_size)
    ]
    found = asyncio.run(run_rollouts(jobs, Copying))
    members = [ScoredTrajectory(item, tuple(turn.reward for turn in item.turns)) for item in found]
    return [
        ScoredGroup(task, tuple(members[index * group_size : (index + 1) * group_size]))
        for index, task in enumerate(tasks)
    ]


def trajectories(groups: Sequence[ScoredGroup]) -> list[Trajectory]:
    found = [member.trajectory for group in groups for member in group.members]
    assert {item.error for item in found} == {""}
    return found


class Served:
    """A model behind an engine server, which takes whole models from folders."""

    def __init__(self, server: ModuleType, model: PreTrainedModel) -> None:
        self.model = model
        self.local = LocalEngine(model, slots=64, max_length=32)
        self.engine = server.Engine(self.local, "start", load=self.load)
        self.folders: list[str] = []

    def load(self, name: str, folder: str) -> None:
        self.folders.append(folder)
        restore_weights(self.model, weight_tensors(load_version(Path(folder))))
        self.local.refresh()


def sglang(served: Served) -> RemoteEngine:
    return RemoteEngine(RemoteSettings(served.engine.url, "sglang", retries=0), "start")


def test_pushed_weights_sample_under_their_hash_and_score_the_same(
    engine_server: ModuleType, tmp_path: Path
) -> None:
    model, served = tiny(1), Served(engine_server, tiny(2))
    with engine_server.serving(served.engine):
        engine = sglang(served)
        sync = sync_with_engine(engine, tmp_path / "weights")
        assert sync.push(model) == weights_hash(model) == engine.version
        found = trajectories(sample_groups(engine, 0))
        assert {item.model_version for item in found} == {weights_hash(model)}
        scored = rescore(
            found,
            Trainer(model, OptimiserSettings(learning_rate=1e-3)).score,
            version=weights_hash(model),
            seed=0,
        )
        assert scored.tokens == 8 and scored.largest_gap < 1e-5
        assert sync.push(model) == engine.version
        assert len(served.folders) == 1, "the same weights are not handed over twice"


def test_a_remote_engine_samples_what_the_local_one_samples(engine_server: ModuleType, tmp_path: Path) -> None:
    """Tokens equal with probability above 1 − 1e-4: rounding may move one across a boundary, of 32."""
    served = Served(engine_server, tiny(1))
    with engine_server.serving(served.engine):
        engine = RemoteEngine(RemoteSettings(served.engine.url), "start")
        remote = trajectories(sample_groups(engine, 4))
    local = trajectories(sample_groups(LocalEngine(tiny(1), slots=64, max_length=32), 4))
    assert [item.rows[0].token_ids for item in remote] == [item.rows[0].token_ids for item in local]
    np.testing.assert_allclose(
        [item.rows[0].logprobs[0] for item in remote], [item.rows[0].logprobs[0] for item in local], atol=1e-5
    )


def test_an_engine_that_did_not_load_the_weights_is_detected_by_rescoring(
    engine_server: ModuleType, tmp_path: Path
) -> None:
    model, served = sharper(tiny(1)), Served(engine_server, sharper(tiny(2)))
    served.engine.load = None  # reports success all the same
    with engine_server.serving(served.engine):
        engine = sglang(served)
        version = sync_with_engine(engine, tmp_path).push(model)
        found = trajectories(sample_groups(engine, 0))
        score = Trainer(model, OptimiserSettings(learning_rate=1e-3)).score
        with pytest.raises(TrainingError, match="other tokens than it sampled, or log-probs of other weights"):
            rescore(found, score, version=version, seed=0)


def test_sampling_ahead_with_a_remote_engine_uses_the_promised_weights(
    engine_server: ModuleType, tmp_path: Path
) -> None:
    """Staleness 1: iteration i is sampled with the weights after i − 1 iterations, and trains all the same."""
    model, served = tiny(1), Served(engine_server, tiny(2))
    seen: list[set[str]] = []
    with engine_server.serving(served.engine):
        engine, sampler = sglang(served), tiny(3)
        sync = sync_with_engine(engine, tmp_path / "weights")
        (tmp_path / "weights" / "other").mkdir(parents=True)

        def sample(iteration: int, weights: Mapping[str, Tensor]) -> list[ScoredGroup]:
            restore_weights(sampler, weights)
            sync.push(sampler)
            groups = sample_groups(engine, iteration)
            seen.append({trajectory.model_version for trajectory in trajectories(groups)})
            return groups

        settings = GrpoSettings(
            iterations=4, optimiser=OptimiserSettings(learning_rate=1e-2), evaluate_every=None, keep="final"
        )
        with AheadCollect(model, sample, staleness=1, iterations=4) as collect:
            run_grpo(model, collect, settings, RunOptions(1, tmp_path / "run"))
    assert all(len(versions) == 1 for versions in seen)
    assert len(set.union(*seen)) == 3, "the first two iterations share the weights from before training"
    assert len(list((tmp_path / "weights").iterdir())) == 1 + 1, "older folders are removed, nothing else"


def test_an_engine_without_the_promised_weights_is_refused(engine_server: ModuleType, tmp_path: Path) -> None:
    model, served = tiny(1), Served(engine_server, tiny(2))
    with engine_server.serving(served.engine):
        engine = sglang(served)
        sync_with_engine(engine, tmp_path).push(tiny(3))
        with (
            AheadCollect(model, lambda i, _: sample_groups(engine, i), staleness=1, iterations=2) as collect,
            pytest.raises(TrainingError, match="must be that of the weights after 0 iterations"),
        ):
            collect(0)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # peft calls a renamed function of transformers
def test_vllm_receives_an_adapter_as_a_folder_and_its_tokens_score_the_same(
    engine_server: ModuleType, tmp_path: Path
) -> None:
    peft = pytest.importorskip("peft", reason="the extra lora is not installed")
    torch.manual_seed(4)
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    model: Any = peft.get_peft_model(tiny(1), config)
    merged = tiny(1)
    local = LocalEngine(merged, slots=64, max_length=32)

    def load(name: str, folder: str) -> None:
        loaded = peft.PeftModel.from_pretrained(tiny(1), folder).merge_and_unload()
        restore_weights(merged, weight_tensors(loaded))
        local.refresh()

    with engine_server.serving(engine_server.Engine(local, "base", load=load)) as server:
        engine = RemoteEngine(RemoteSettings(server.url, retries=0), "base")
        version = sync_with_engine(engine, tmp_path).push(model)
        assert server.adapters == {version}
        found = trajectories(sample_groups(engine, 0))
        assert {item.model_version for item in found} == {version}
        score = Trainer(model, OptimiserSettings(learning_rate=1e-3)).score
        assert rescore(found, score, version=version, seed=0).largest_gap < 1e-4
        before = copy_tensors(weight_tensors(model))
        with torch.no_grad():
            next(each for name, each in model.named_parameters() if "lora_B" in name).add_(0.1)
        sync = sync_with_engine(engine, tmp_path)
        changed = sync.push(model)
        restore_weights(model, before)
        assert changed != version and sync.push(model) == version and server.adapters == {version}


def test_an_unsupported_form_is_refused_before_anything_is_saved(engine_server: ModuleType, tmp_path: Path) -> None:
    vllm = RemoteEngine(RemoteSettings("http://127.0.0.1:1"), "base")
    with pytest.raises(
        TrainingError, match="takes adapters while it runs, Qwen2ForCausalLM has no adapter: train with"
    ):
        sync_with_engine(vllm, tmp_path).push(tiny())
    assert list(tmp_path.iterdir()) == []


def test_weights_that_would_load_differently_are_refused(tmp_path: Path) -> None:
    def load(folder: Path, version: str) -> None:
        pytest.fail("the weights must not be handed over")

    model: Any = tiny()
    with pytest.raises(TrainingError, match="only float32 weights can be handed over"):
        WeightSync(load, tmp_path).push(model.to(torch.bfloat16))


def test_what_a_killed_run_left_is_removed_from_folder_and_sampler(tmp_path: Path) -> None:
    loaded, unloaded = list[str](), list[str]()
    left, partial = tmp_path / ("a" * 32), tmp_path / f".{'b' * 32}.partial"
    for folder in (left, partial, tmp_path / "other"):
        folder.mkdir()
    sync = WeightSync(lambda _, version: loaded.append(version), tmp_path, stored="float32", unload=unloaded.append)
    version = sync.push(tiny(1))
    assert loaded == [version] and unloaded == [left.name]
    assert {path.name for path in tmp_path.iterdir()} == {version, "other"}
    sync.push(sharper(tiny(1)))
    assert len(loaded) == 2 and len(list(tmp_path.iterdir())) == 2, "one folder of weights at a time"
    sync.close()
    assert unloaded == [left.name, loaded[1]]
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_rounded_weights_have_the_name_of_those_in_training(tmp_path: Path) -> None:
    loaded: list[tuple[Path, str]] = []
    model = tiny(1)
    sync = WeightSync(lambda *arguments: loaded.append(arguments), tmp_path, stored="bfloat16")
    assert sync.push(model) == weights_hash(model)
    ((folder, version),) = loaded
    tensors = load_file(folder / "model.safetensors")
    assert version == weights_hash(model) and {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}
    for name, tensor in weight_tensors(model).items():
        assert name not in tensors or torch.equal(tensors[name], tensor.to(torch.bfloat16))
    assert len(tensors) >= 10


def test_a_failed_push_is_reported_and_repeated_next_time(engine_server: ModuleType, tmp_path: Path) -> None:
    served = Served(engine_server, tiny(2))
    working: Callable[[str, str], None] = served.engine.load

    def load(name: str, folder: str) -> None:
        raise OSError(f"{folder}: no such folder here")

    served.engine.load = load
    with engine_server.serving(served.engine):
        sync = sync_with_engine(sglang(served), tmp_path)
        with pytest.raises(ModelError, match="no such folder here"):
            sync.push(tiny(1))
        served.engine.load = working
        assert sync.push(tiny(1)) == weights_hash(served.model)
