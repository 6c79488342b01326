"""GRPO for a multi-turn agent, with nothing but PyTorch and a randomly initialised language model.

    python examples/grpo_from_scratch.py            trains for a few seconds and prints the reward
    python examples/grpo_from_scratch.py --compare  then trains with Upturn too and compares

The game: the environment shows a digit, the agent writes one, the environment shows the next digit, and so on; the
agent should write the digit that was just shown. Guessing gives a tenth of the points. Read from top to bottom:
the game, the rollout, the advantage, the loss, the loop. A test keeps loss, gradient and weights equal to the
library's.
"""

import argparse
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

DIGITS = 4  # tokens 0 to 3; a game starts with one of them, which is its task
START = 4
VOCABULARY = 10  # tokens 5 to 9 are never correct
TURNS = 3

GROUP_SIZE = 16  # games for each first digit: a group, whose members are compared with each other
PASSES = 2  # optimiser steps on the same games; from the second one on the ratio is no longer 1
CLIP_LOW, CLIP_HIGH = 0.2, 0.28
LEARNING_RATE = 5e-3
BETAS = (0.9, 0.95)
MAX_GRAD_NORM = 1.0


def make_model(seed: int = 0) -> LlamaForCausalLM:
    """An untrained transformer with 19 thousand weights."""
    torch.manual_seed(seed)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=16,
            use_cache=False,
        )
    )


class Games(NamedTuple):
    """B games, GROUP_SIZE for each first digit in turn; L = 1 + 2·TURNS tokens each."""

    tokens: Tensor
    """``(B, L)``: START, then in turn a digit that is shown and one that the agent writes."""
    logprobs: Tensor
    """``(B, TURNS)``: of the agent's tokens, when they were sampled."""
    rewards: Tensor
    """``(B,)``: the share of correct turns."""


WRITTEN = torch.arange(2, 2 * TURNS + 1, 2)  # positions of the agent's tokens; only these are trained


@torch.no_grad()
def play(model: LlamaForCausalLM, iteration: int) -> Games:
    """Games sampled from the model; the same for the same weights and iteration."""
    generator = torch.Generator().manual_seed(iteration)
    shown = torch.arange(DIGITS).repeat_interleave(GROUP_SIZE)[:, None]
    tokens, logprobs, correct = torch.full_like(shown, START), [], []
    for _ in range(TURNS):
        tokens = torch.cat([tokens, shown], dim=1)
        predicted = model(tokens).logits[:, -1].float().log_softmax(-1)
        written = torch.multinomial(predicted.exp(), 1, generator=generator)
        logprobs.append(predicted.gather(1, written))
        correct.append(written == shown)
        tokens = torch.cat([tokens, written], dim=1)
        shown = (shown + 1) % DIGITS
    return Games(tokens, torch.cat(logprobs, dim=1), torch.cat(correct, dim=1).float().mean(dim=1))


def centred(rewards: Tensor) -> Tensor:
    """A = r − mean(r) of the group, for each game. Dividing by the group's deviation, as the first GRPO did, would
    favour tasks that are nearly always or nearly never solved."""
    groups = rewards.view(DIGITS, GROUP_SIZE)
    return (groups - groups.mean(dim=1, keepdim=True)).flatten()


def written_logprobs(model: LlamaForCausalLM, tokens: Tensor) -> Tensor:
    """``(B, TURNS)``: log π of the written tokens. All games have one length, so nothing is padded."""
    logprobs: Tensor = model(tokens).logits.float().log_softmax(-1)
    predicted = logprobs[:, WRITTEN - 1]  # the token at p is predicted at p − 1
    return predicted.gather(2, tokens[:, WRITTEN, None])[..., 0]


def policy_loss(logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor) -> Tensor:
    """The mean over all written tokens of −min(ρA, clip(ρ)·A), with ρ = π/π_old."""
    ratios = (logprobs - old_logprobs).exp()
    clipped = ratios.clamp(1 - CLIP_LOW, 1 + CLIP_HIGH)
    return -torch.minimum(ratios * advantages, clipped * advantages).mean()


class Step(NamedTuple):
    """Figures of one optimiser step."""

    loss: float
    grad_norm: float
    reward: float
    """Mean of the iteration's games."""


def train(model: LlamaForCausalLM, iterations: int) -> list[Step]:
    """Trains the model in place; PASSES steps per iteration."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=BETAS, weight_decay=0.0)
    steps = []
    for iteration in range(iterations):
        games = play(model, iteration)
        advantages = centred(games.rewards)[:, None]  # one number for a whole game
        for _ in range(PASSES):
            optimiser.zero_grad()
            loss = policy_loss(written_logprobs(model, games.tokens), games.logprobs, advantages)
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM)
            optimiser.step()
            steps.append(Step(float(loss.detach()), float(norm), float(games.rewards.mean())))
    return steps


def train_with_library(model: LlamaForCausalLM, iterations: int, folder: str) -> None:
    """The same with Upturn, which writes its curve into the folder; only the game and its rollouts are ours."""
    from pathlib import Path

    from upturn.config import OptimiserSettings
    from upturn.records import Observation, Task, TokenRow, Trajectory, Turn, WrittenSpan
    from upturn.training import ScoredGroup, ScoredTrajectory
    from upturn.training.algorithms.grpo import GrpoSettings, run_grpo
    from upturn.training.runs import RunOptions

    spans = tuple(WrittenSpan(turn, at, at + 1) for turn, at in enumerate(WRITTEN.tolist()))
    turns = (Turn(Observation(""), "", None),) * TURNS

    def collect(iteration: int) -> list[ScoredGroup]:
        members = []
        columns = [column.tolist() for column in play(model, iteration)]
        for index, (tokens, logprobs, reward) in enumerate(zip(*columns, strict=True)):
            task = f"digit {index // GROUP_SIZE}"
            trajectory = Trajectory(
                f"{iteration}/{index}", task, "scratch@1", turns, Observation(""), "finished", "sampled",
                (TokenRow(tuple(tokens), spans, tuple(logprobs)),), temperature=1.0,
            )  # fmt: skip
            members.append(ScoredTrajectory(trajectory, (*(0.0,) * (TURNS - 1), reward)))
        return [
            ScoredGroup(Task(f"digit {digit}", "", "", ""), tuple(members[digit * GROUP_SIZE :][:GROUP_SIZE]))
            for digit in range(DIGITS)
        ]

    settings = GrpoSettings(
        iterations=iterations,
        minibatches=1,
        passes=PASSES,
        optimiser=OptimiserSettings(learning_rate=LEARNING_RATE, max_grad_norm=MAX_GRAD_NORM),
        evaluate_every=None,
        keep="final",
    )
    run_grpo(model, collect, settings, RunOptions(0, Path(folder)))


def main() -> None:
    """Trains, prints every tenth iteration, and optionally compares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--compare", action="store_true", help="also train with Upturn and compare")
    arguments = parser.parse_args()
    ours = make_model()
    for index, step in enumerate(train(ours, arguments.iterations)[::PASSES]):
        if index % 10 == 0 or index == arguments.iterations - 1:
            print(f"iteration {index:3}: reward {step.reward:.2f}, gradient {step.grad_norm:.3f}")
    if arguments.compare:
        import tempfile

        theirs = make_model()
        with tempfile.TemporaryDirectory() as folder:
            train_with_library(theirs, arguments.iterations, folder)
        rewards = [float(play(model, iteration=10_000).rewards.mean()) for model in (ours, theirs)]
        print(f"reward after training: from scratch {rewards[0]:.2f}, with Upturn {rewards[1]:.2f}")


if __name__ == "__main__":
    main()
