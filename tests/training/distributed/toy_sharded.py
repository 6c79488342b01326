"""A program that trains tiny models in one or several processes: ``torchrun … toy_sharded.py FOLDER PART``.

PART is a key of ``PARTS``. Each case writes a folder with its run and the results of the first process.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from upturn.config import AdapterSettings, OptimiserSettings
from upturn.errors import TrainingError
from upturn.records import Observation, Task, TokenRow, Trajectory, Turn, WrittenSpan
from upturn.records.preference import PreferencePair
from upturn.training import ScoredGroup, ScoredTrajectory, TrainingRow
from upturn.training.algorithms.dpo import DpoSettings, run_dpo
from upturn.training.algorithms.grpo import GrpoSettings, run_grpo
from upturn.training.algorithms.online_dpo import OnlineDpoSettings
from upturn.training.algorithms.online_dpo.run import run_online_dpo
from upturn.training.algorithms.ppo import CreditSettings, CriticSettings, PpoSettings
from upturn.training.algorithms.ppo.run import run_ppo
from upturn.training.algorithms.sft import SftSettings, run_sft
from upturn.training.data.async_rollouts import AheadCollect
from upturn.training.distributed.process_group import (
    World,
    all_gather,
    connect,
    world_from_environment,
)
from upturn.training.distributed.rank0 import Rank0Calls
from upturn.training.distributed.sharding import gather_tensors, shard
from upturn.training.distributed.weights import weight_tensors
from upturn.training.evaluation_result import EvaluationResult
from upturn.training.optimisation.adapter import add_adapter
from upturn.training.optimisation.critic import value_model
from upturn.training.optimisation.full_weights import FullCopy
from upturn.training.optimisation.trainer import Trainer
from upturn.training.pair_settings import PairSettings
from upturn.training.policy_settings import KlSettings, MismatchSettings, ObjectiveSettings
from upturn.training.runs import RunOptions
from upturn.training.runs.model_folder import save_version

SEED = 5
OPTIMISER = OptimiserSettings(learning_rate=1e-3, micro_batch_tokens=40)


@dataclass(frozen=True)
class Case:
    optimiser: OptimiserSettings = OPTIMISER
    tied: bool = True
    lora: bool = False
    evaluated: bool = False
    units: int = 4


def model(*, tied: bool = True, seed: int = 0, lora: bool = False) -> PreTrainedModel:
    torch.manual_seed(seed)
    built = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=21,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            intermediate_size=48,
            max_position_embeddings=64,
            tie_word_embeddings=tied,
            use_cache=False,
        )
    )
    if not lora:
        return built
    add_adapter(built, AdapterSettings(4, targets=("q_proj", "v_proj"), seed=seed))
    return built


def rows(count: int, *, seed: int = 3) -> list[TrainingRow]:
    """Rollouts of which pairs share a prefix."""
    rng = np.random.default_rng(seed)
    training_rows = []
    for index in range(count):
        prefix = np.random.default_rng(index // 2).integers(0, 21, 6)
        tokens = np.concatenate([prefix, rng.integers(0, 21, int(rng.integers(3, 16)))])
        positions = np.arange(5, len(tokens))
        weights = np.ones(len(positions), dtype=np.float32)
        training_rows.append(TrainingRow(f"row {index}", tokens, positions, weights, None))
    return training_rows


def sft(case: Case, folder: Path, world: World | None) -> PreTrainedModel:
    trained = model(tied=case.tied, lora=case.lora)
    shard(trained, world)
    settings = SftSettings(
        epochs=2 if case.evaluated else 1,
        batch_rows=7,
        optimiser=case.optimiser,
        checkpoint_every=1,
        evaluate_every=1 if case.evaluated else None,
        keep="best" if case.evaluated else "final",
    )
    held_out = rows(5, seed=4) if case.evaluated else None
    run_sft(trained, rows(7 * case.units), settings, RunOptions(SEED, folder, evaluate=held_out))
    return trained


def copy_trajectory(name: str, tokens: Sequence[int], logprobs: Sequence[float]) -> Trajectory:
    """A rollout of the copy task, whose tokens are written from the fourth on."""
    row = TokenRow(tuple(tokens), (WrittenSpan(0, 3, len(tokens)),), tuple(logprobs))
    return Trajectory(
        id=name,
        task_id=f"copy {tokens[1]}",
        agent_version="nano@1",
        turns=(Turn(Observation(""), "", None),),
        final_observation=Observation(""),
        outcome="finished",
        origin="sampled",
        rows=(row,),
        temperature=1.0,
    )


def dpo(folder: Path, world: World | None) -> PreTrainedModel:
    """The sides of a pair differ in length, and pairs in size."""
    trained = model()
    shard(trained, world)
    pairs = []
    for index in range(9):
        symbol, longer = 3 + index % 5, [7, 8, 9][: index % 3]
        sides = ([1, symbol, 2, symbol], [1, symbol, 2, 0, *longer])
        good, bad = (
            copy_trajectory(f"{index}/{name}", side, [-1.0] * (len(side) - 3)) for name, side in enumerate(sides)
        )
        pairs.append(PreferencePair(f"{index}", good, bad, "group", margin=1.0))
    run_dpo(trained, pairs, DpoSettings(batch_pairs=3, optimiser=OPTIMISER), RunOptions(SEED, folder))
    return trained


@dataclass
class Copying:
    """Prompt ``[1, x, 2]``, two written tokens, reward 1 for each x."""

    whole: FullCopy

    def collect(self, iteration: int) -> list[ScoredGroup]:
        generator = torch.Generator().manual_seed(iteration)
        return [self._group(symbol, generator) for symbol in (3, 4, 5)]

    def score(self, _: int) -> EvaluationResult:
        with torch.no_grad():
            logits = self.whole.model(torch.tensor([[1, x, 2] for x in (3, 4, 5)])).logits
        chosen = logits[:, -1].softmax(-1)[[0, 1, 2], [3, 4, 5]]
        return EvaluationResult(float(chosen.mean()), {"length": 2.0}, measure="probability of a right copy")

    def _group(self, symbol: int, generator: torch.Generator) -> ScoredGroup:
        members = []
        for number in range(6):
            tokens, logprobs = [1, symbol, 2], list[float]()
            for _ in range(2):
                with torch.no_grad():
                    probabilities = self.whole.model(torch.tensor([tokens])).logits[0, -1].softmax(-1)
                token = int(torch.multinomial(probabilities, 1, generator=generator))
                tokens.append(token)
                logprobs.append(float(probabilities[token].log()))
            trajectory = copy_trajectory(f"{symbol}/{number}", tokens, logprobs)
            members.append(ScoredTrajectory(trajectory, (float(tokens[3:].count(symbol)) + 0.1 * number,)))
        return ScoredGroup(Task(f"copy {symbol}", "copy", "copy", "toy"), tuple(members))


def grpo(settings: GrpoSettings, folder: Path, world: World | None, *, lora: bool = False) -> PreTrainedModel:
    trained = model(lora=lora)
    whole = FullCopy(trained, world)
    shard(trained, world)
    task = Copying(whole)
    calls = Rank0Calls(world, {"collect": task.collect, "score": task.score}, whole.refresh)
    run_grpo(
        trained,
        calls.function("collect"),
        settings,
        RunOptions(SEED, folder, evaluate=calls.function("score")),
    )
    return trained


def ppo(folder: Path, world: World | None) -> PreTrainedModel:
    """A value for each written token, from a separately sharded critic."""
    trained = model()
    whole, critic = FullCopy(trained, world), value_model(trained)
    for network in (trained, critic):
        shard(network, world)
    task = Copying(whole)
    run_ppo(
        trained,
        Rank0Calls(world, {"collect": task.collect}, whole.refresh).function("collect"),
        PpoSettings(
            iterations=3, optimiser=OPTIMISER, credit=CreditSettings("token"), evaluate_every=None, keep="final"
        ),
        RunOptions(SEED, folder),
        critic=critic,
    )
    return trained


def split_into_turns(group: ScoredGroup) -> ScoredGroup:
    """One turn for each written token; the first has reward 0."""
    members = []
    for member in group.members:
        (row,) = member.trajectory.rows
        rows = (replace(row, spans=(WrittenSpan(0, 3, 4), WrittenSpan(1, 4, 5))),)
        trajectory = replace(member.trajectory, turns=member.trajectory.turns * 2, rows=rows)
        members.append(replace(member, trajectory=trajectory, turn_rewards=(0.0, *(member.turn_rewards or ()))))
    return replace(group, members=tuple(members))


def online_dpo(folder: Path, world: World | None) -> PreTrainedModel:
    """Pairs of actions, half by a separately sharded critic; a copy of the initial weights as reference."""
    trained = model()
    whole, critic = FullCopy(trained, world), value_model(trained)
    for network in (trained, critic):
        shard(network, world)
    task = Copying(whole)

    def collect(index: int) -> list[ScoredGroup]:
        return [split_into_turns(group) for group in task.collect(index)]

    run_online_dpo(
        trained,
        Rank0Calls(world, {"collect": collect}, whole.refresh).function("collect"),
        OnlineDpoSettings(
            iterations=3,
            pairs=PairSettings(by="turn", monte_carlo_share=0.5, gamma=0.9),
            critic=CriticSettings(learning_rate=1e-3),
            reference="initial",
            optimiser=replace(
                OPTIMISER, learning_rate=2e-4
            ),  # rounding alone changes weights with hardly any gradient
            evaluate_every=None,
            keep="final",
        ),
        RunOptions(SEED, folder),
        critic=critic,
    )
    return trained


PLAIN = GrpoSettings(iterations=3, optimiser=OPTIMISER, evaluate_every=1, cost_limits={"length": 3.0})
KEPT_CLOSE = replace(
    PLAIN, objective=ObjectiveSettings(kl=KlSettings(coefficient=0.1)), mismatch=MismatchSettings(), passes=2
)
RUNS: dict[str, Callable[[Path, World | None], PreTrainedModel]] = {
    "sft": lambda folder, world: sft(Case(), folder, world),
    "untied": lambda folder, world: sft(Case(tied=False), folder, world),
    "padded": lambda folder, world: sft(Case(replace(OPTIMISER, packing="padded")), folder, world),
    "one-micro-batch": lambda folder, world: sft(Case(replace(OPTIMISER, micro_batch_tokens=999)), folder, world),
    "clipped": lambda folder, world: sft(Case(replace(OPTIMISER, max_grad_norm=0.1)), folder, world),
    "evaluated": lambda folder, world: sft(Case(evaluated=True), folder, world),
    "bfloat16": lambda folder, world: sft(Case(replace(OPTIMISER, precision="bfloat16")), folder, world),
    "checkpointed": lambda folder, world: sft(
        Case(replace(OPTIMISER, gradient_checkpointing="full")), folder, world
    ),
    "lora": lambda folder, world: sft(Case(lora=True), folder, world),
    "lora-bfloat16-checkpointed": lambda folder, world: sft(
        Case(replace(OPTIMISER, precision="bfloat16", gradient_checkpointing="full"), lora=True), folder, world
    ),
    "grpo": lambda folder, world: grpo(PLAIN, folder, world),
    "grpo-lora": lambda folder, world: grpo(PLAIN, folder, world, lora=True),
    "dpo": dpo,
    "grpo-kept-close": lambda folder, world: grpo(KEPT_CLOSE, folder, world),
    "ppo": ppo,
    "online-dpo": online_dpo,
}


def equal(folder: Path, world: World | None) -> None:
    """All runs; writes their weights and the share of each process."""
    for name, run in RUNS.items():
        trained = run(folder / name, world)
        tensors = weight_tensors(trained)
        whole = gather_tensors(tensors, world)
        facts = {
            "sharded": all(isinstance(tensor, DTensor) for tensor in trained.parameters()),
            "local": sum(_local(tensor).numel() for tensor in tensors.values()),
            "all": sum(tensor.numel() for tensor in tensors.values()),
        }
        facts_of_all = all_gather(world, facts)
        if world is None or world.is_first:
            safetensors.torch.save_file(
                {key: tensor.contiguous() for key, tensor in whole.items()}, folder / f"{name}.safetensors"
            )
            (folder / f"{name}.json").write_text(json.dumps(facts_of_all))


def killed(folder: Path, world: World | None) -> None:
    """The last process dies in the third unit, once."""
    assert world is not None
    mark = folder / "killed"

    def die() -> None:
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)

    trained = model()
    shard(trained, world)
    if world.rank == world.size - 1 and not mark.exists():
        _at_step(3, die)
    settings = SftSettings(batch_rows=7, optimiser=OPTIMISER, checkpoint_every=1)
    run_sft(trained, rows(7 * 4), settings, RunOptions(SEED, folder / "run"))


def refused(folder: Path, world: World | None) -> None:
    """Writes each process's error where the processes differ, or one fails."""
    assert world is not None
    rank = world.rank

    def train(seed: int, learning_rate: float) -> None:
        trained = model()
        shard(trained, world)
        settings = SftSettings(batch_rows=7, optimiser=replace(OPTIMISER, learning_rate=learning_rate))
        run_sft(trained, rows(7), settings, RunOptions(seed, folder / "refused"))

    def explode() -> None:
        trained = model()
        shard(trained, world)
        huge = replace(OPTIMISER, learning_rate=1e30)
        run_sft(trained, rows(70), SftSettings(batch_rows=7, optimiser=huge), RunOptions(0, folder / "exploded"))

    failing = Rank0Calls(world, {"nothing": lambda: dict[str, int]()["nothing"]}, lambda: None)
    tries: dict[str, Callable[[], object]] = {
        "other weights": lambda: shard(model(seed=rank), world),
        "other seed": lambda: train(SEED + rank, 1e-3),
        "other setting": lambda: train(SEED, 1e-3 * (1 + rank)),
        "first fails": failing.function("nothing"),
        "other call": Rank0Calls(world, {"a": list}, lambda: None).function("ab"[rank]),
        "explodes": explode,
        "saved": lambda: save_version(_sharded_model(world), folder / "version"),
        "copied too late": lambda: FullCopy(_sharded_model(world), world),
        "sharded twice": lambda: shard(_sharded_model(world), world),
        "sampled ahead": lambda: AheadCollect(_sharded_model(world), lambda *_: [], staleness=1, iterations=2),
        "too many processes": lambda: [len(scores) for scores in _alone(model(), world).score(rows(1))],
    }
    errors = {}
    for name, act in tries.items():
        try:
            errors[name] = repr(act())
        except (TrainingError, LookupError, ValueError) as exc:
            errors[name] = f"{type(exc).__name__}: {exc}"
    (folder / f"errors-{rank}.json").write_text(json.dumps(errors))


def short(folder: Path, world: World | None) -> None:
    """One run."""
    RUNS["sft"](folder / "sft", world)


def left(folder: Path, world: World | None) -> None:
    """The last process exits with success while the others train."""
    assert world is not None
    if world.rank == world.size - 1:
        _at_step(3, lambda: os._exit(0))
    RUNS["sft"](folder / "sft", world)


PARTS: dict[str, Callable[[Path, World | None], None]] = {
    "equal": equal,
    "short": short,
    "killed": killed,
    "refused": refused,
    "left": left,
}


def _sharded_model(world: World | None) -> PreTrainedModel:
    sharded = model()
    shard(sharded, world)
    return sharded


def _alone(trained: PreTrainedModel, world: World | None) -> Trainer:
    shard(trained, world)
    return Trainer(trained, OPTIMISER)


def _local(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _at_step(step: int, act: Callable[[], None]) -> None:
    before: Any = Trainer.step
    count = 0

    def stepping(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        if count == step:
            act()
        return before(*arguments)

    Trainer.step = stepping  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    torch.set_num_threads(1)
    with connect(world_from_environment()) as this:
        PARTS[sys.argv[2]](Path(sys.argv[1]), this)
