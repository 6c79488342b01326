"""Weights that are handed over: which arrive, under which name, and what is refused."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from upturn.agents import Job, ModelSession, Reply, RolloutRequest, Setting, run_rollouts
from upturn.config import OptimiserSettings
from upturn.environments import Info, Step
from upturn.errors import ModelError, TrainingError
from upturn.loop.rollouts.weight_sync import EngineReceiver, Handover
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
    """An environment that says one token and wants it back."""

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


def practise(model: Any, iteration: int, attempts: int = 8) -> list[ScoredGroup]:
    """Groups of attempts at copying each symbol."""
    tasks = [Task(f"copy {symbol}", str(symbol), "copy", "toy") for symbol in SYMBOLS]
    setting = Setting(f"run/{iteration}", OneToken(), "toy@1", model, seed=iteration)
    jobs = [
        Job(RolloutRequest(task, number, index), setting)
        for index, task in enumerate(tasks)
        for number in range(attempts)
    ]
    found = asyncio.run(run_rollouts(jobs, Copying))
    members = [ScoredTrajectory(each, tuple(turn.reward for turn in each.turns)) for each in found]
    return [
        ScoredGroup(task, tuple(members[index * attempts : (index + 1) * attempts]))
        for index, task in enumerate(tasks)
    ]


def trajectories(groups: Sequence[ScoredGroup]) -> list[Trajectory]:
    found = [member.trajectory for group in groups for member in group.members]
    assert {each.error for each in found} == {""}
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


def test_the_weights_that_were_given_sample_under_their_hash_and_score_as_they_did(
    engine_server: ModuleType, tmp_path: Path
) -> None:
    mine, served = tiny(1), Served(engine_server, tiny(2))
    with engine_server.serving(served.engine):
        engine = sglang(served)
        handover = Handover(mine, EngineReceiver(engine), tmp_path / "weights")
        assert handover.give() == weights_hash(mine) == engine.version
        found = trajectories(practise(engine, 0))
        assert {each.model_version for each in found} == {weights_hash(mine)}
        scored = rescore(
            found,
            Trainer(mine, OptimiserSettings(learning_rate=1e-3)).score,
            version=weights_hash(mine),
            seed=0,
        )
        assert scored.tokens == 8 and scored.largest_gap < 1e-5
        assert handover.give() == engine.version
        assert len(served.folders) == 1, "the same weights are not handed over twice"


def test_a_remote_engine_samples_what_the_local_one_samples(engine_server: ModuleType, tmp_path: Path) -> None:
    """Tokens equal with probability above 1 − 1e-4: rounding may move one across a boundary, of 32."""
    served = Served(engine_server, tiny(1))
    with engine_server.serving(served.engine):
        engine = RemoteEngine(RemoteSettings(served.engine.url), "start")
        remote = trajectories(practise(engine, 4))
    local = trajectories(practise(LocalEngine(tiny(1), slots=64, max_length=32), 4))
    assert [each.rows[0].token_ids for each in remote] == [each.rows[0].token_ids for each in local]
    np.testing.assert_allclose(
        [each.rows[0].logprobs[0] for each in remote], [each.rows[0].logprobs[0] for each in local], atol=1e-5
    )


def test_an_engine_that_kept_its_old_weights_is_found_by_scoring_again(
    engine_server: ModuleType, tmp_path: Path
) -> None:
    mine, served = sharper(tiny(1)), Served(engine_server, sharper(tiny(2)))
    served.engine.load = None  # it says that it took them
    with engine_server.serving(served.engine):
        engine = sglang(served)
        version = Handover(mine, EngineReceiver(engine), tmp_path).give()
        found = trajectories(practise(engine, 0))
        score = Trainer(mine, OptimiserSettings(learning_rate=1e-3)).score
        with pytest.raises(TrainingError, match="other tokens than it sampled, or log-probs of other weights"):
            rescore(found, score, version=version, seed=0)


def test_sampling_ahead_through_a_remote_engine_stamps_each_iteration_with_the_weights_that_were_promised(
    engine_server: ModuleType, tmp_path: Path
) -> None:
    """Staleness 1: iteration i comes from the weights after i − 1 iterations, and learns all the same."""
    model, served = tiny(1), Served(engine_server, tiny(2))
    seen: list[set[str]] = []
    with engine_server.serving(served.engine):
        engine = sglang(served)
        handover = Handover(tiny(3), EngineReceiver(engine), tmp_path / "weights")
        (tmp_path / "weights" / "mine").mkdir(parents=True)

        def sample(iteration: int, weights: Mapping[str, Tensor]) -> list[ScoredGroup]:
            handover.give(weights)
            groups = practise(engine, iteration)
            seen.append({each.model_version for each in trajectories(groups)})
            return groups

        settings = GrpoSettings(
            iterations=4, optimiser=OptimiserSettings(learning_rate=1e-2), evaluate_every=None, keep="final"
        )
        with AheadCollect(model, sample, staleness=1, iterations=4) as collect:
            run_grpo(model, collect, settings, RunOptions(1, tmp_path / "run"))
    assert all(len(versions) == 1 for versions in seen)
    assert len(set.union(*seen)) == 3, "the first two iterations share the weights from before training"
    assert len(list((tmp_path / "weights").iterdir())) == 2 + 1, "older folders are removed, nothing else"


def test_an_engine_that_was_not_given_the_promised_weights_is_refused(
    engine_server: ModuleType, tmp_path: Path
) -> None:
    model, served = tiny(1), Served(engine_server, tiny(2))
    with engine_server.serving(served.engine):
        engine = sglang(served)
        Handover(tiny(3), EngineReceiver(engine), tmp_path).give()
        with (
            AheadCollect(model, lambda i, _: practise(engine, i), staleness=1, iterations=2) as collect,
            pytest.raises(TrainingError, match="must be those after 0 iterations"),
        ):
            collect(0)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # peft calls what transformers has renamed
def test_an_adapter_goes_to_vllm_as_a_folder_and_its_tokens_score_with_the_model_that_has_it(
    engine_server: ModuleType, tmp_path: Path
) -> None:
    peft = pytest.importorskip("peft", reason="the extra lora is not installed")
    torch.manual_seed(4)
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    mine: Any = peft.get_peft_model(tiny(1), config)
    merged = tiny(1)
    local = LocalEngine(merged, slots=64, max_length=32)

    def load(name: str, folder: str) -> None:
        taken = peft.PeftModel.from_pretrained(tiny(1), folder).merge_and_unload()
        restore_weights(merged, weight_tensors(taken))
        local.refresh()

    with engine_server.serving(engine_server.Engine(local, "base", load=load)) as server:
        engine = RemoteEngine(RemoteSettings(server.url, retries=0), "base")
        version = Handover(mine, EngineReceiver(engine), tmp_path).give()
        assert server.adapters == {version}
        found = trajectories(practise(engine, 0))
        assert {each.model_version for each in found} == {version}
        score = Trainer(mine, OptimiserSettings(learning_rate=1e-3)).score
        assert rescore(found, score, version=version, seed=0).largest_gap < 1e-4
        before = copy_tensors(weight_tensors(mine))
        with torch.no_grad():
            next(each for name, each in mine.named_parameters() if "lora_B" in name).add_(0.1)
        handover = Handover(mine, EngineReceiver(engine), tmp_path)
        changed = handover.give()
        assert changed != version and handover.give(before) == version and server.adapters == {version}


def test_a_form_that_the_engine_does_not_take_is_refused_before_anything_is_saved(
    engine_server: ModuleType, tmp_path: Path
) -> None:
    vllm = EngineReceiver(RemoteEngine(RemoteSettings("http://127.0.0.1:1"), "base"))
    with pytest.raises(
        TrainingError, match="takes adapters while it runs, Qwen2ForCausalLM has no adapter: train with"
    ):
        Handover(tiny(), vllm, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_weights_that_would_load_as_others_are_refused(tmp_path: Path) -> None:
    class Nobody:
        form = "checkpoint"

        def take(self, folder: Path, version: str) -> None:
            raise AssertionError

    receiver: Any = Nobody()
    model: Any = tiny()
    with pytest.raises(TrainingError, match="only float32 weights can be handed over"):
        Handover(model.to(torch.bfloat16), receiver, tmp_path).give()


def test_an_engine_that_cannot_read_the_folder_is_named_and_asked_again_next_time(
    engine_server: ModuleType, tmp_path: Path
) -> None:
    served = Served(engine_server, tiny(2))
    taken: Callable[[str, str], None] = served.engine.load

    def load(name: str, folder: str) -> None:
        raise OSError(f"{folder}: no such folder here")

    served.engine.load = load
    with engine_server.serving(served.engine):
        handover = Handover(tiny(1), EngineReceiver(sglang(served)), tmp_path)
        with pytest.raises(ModelError, match="no such folder here"):
            handover.give()
        served.engine.load = taken
        assert handover.give() == weights_hash(served.model)
