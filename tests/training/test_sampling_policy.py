"""Policy gradients on tokens that were sampled at another temperature than 1, and with truncation.

The policy that is trained is the model at the sampling temperature; truncation is corrected for. Both are compared
with exact gradients by enumeration, and with the alternative that trains the model at temperature 1.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from math import comb
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from upturn.config import FULL_DISTRIBUTION, OptimiserSettings, SamplingSettings
from upturn.errors import ConfigError, TrainingError
from upturn.models import Generation, GenerationRequest
from upturn.models.engine import LocalEngine
from upturn.models.engine.sampling.reshape import reshape
from upturn.records import Task, TokenRow, Trajectory, WrittenSpan
from upturn.training import ScoredGroup, ScoredTrajectory, policy_rows
from upturn.training.algorithms.grpo import GrpoSettings, run_grpo
from upturn.training.loss import TokenBatch
from upturn.training.losses import ClippedPolicy
from upturn.training.optimisation import Trainer, WrittenLogprobs, mismatch
from upturn.training.policy_settings import MismatchSettings
from upturn.training.runs import RunOptions

Model = Callable[..., PreTrainedModel]
Make = Callable[..., Trajectory]
CORRECTION = MismatchSettings(weight="token", weight_cap=2.0)
HEAT, TRUNCATED = 0.7, SamplingSettings(top_p=0.9)
PROMPT, WRITTEN = (1, 5, 2), 5


class Sampler:
    """Trajectories of one turn from a ``LocalEngine``."""

    def __init__(self, model: PreTrainedModel, make: Make, heat: float, options: SamplingSettings) -> None:
        self.model, self.make, self.heat, self.options = model, make, heat, options
        self.engine = LocalEngine(model, slots=32, max_length=30)

    def trajectories(self, count: int, seed: int) -> list[Trajectory]:
        self.engine.refresh()
        generations = asyncio.run(self._generate(count, seed))
        return [self._trajectory(generation, f"{seed}/{index}") for index, generation in enumerate(generations)]

    async def _generate(self, count: int, seed: int) -> list[Generation]:
        requests = [
            GenerationRequest(
                PROMPT, WRITTEN, (), self.heat, f"{seed}/{index}", (index, 0), seed * 1000 + index, self.options
            )
            for index in range(count)
        ]
        return await asyncio.gather(*map(self.engine.generate, requests))

    def _trajectory(self, generation: Generation, name: str) -> Trajectory:
        tokens = PROMPT + generation.token_ids
        span = WrittenSpan(0, len(PROMPT), len(tokens))
        row = TokenRow(tokens, (span,), generation.logprobs, None, generation.sampling_logprobs)
        made = self.make(tokens, ((0, len(PROMPT), len(tokens)),), name=name, temperature=self.heat)
        return replace(made, rows=(row,), sampling=self.options.as_parameters())


def sharp(tiny_model: Model) -> PreTrainedModel:
    model = tiny_model()
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(5)  # type: ignore[operator]  # far from uniform
    return model.requires_grad_(True)


def log_mass(model: PreTrainedModel, trajectory: Trajectory) -> Tensor:
    """log of the probability that top-p keeps, at each written token, by a dense pass."""
    (row,) = trajectory.rows
    with torch.no_grad():
        logits = model(torch.tensor([row.token_ids])).logits[0, len(PROMPT) - 1 : -1]
    kept = reshape(logits, [TRUNCATED] * len(logits), [HEAT] * len(logits)).isfinite()
    masses: Tensor = (logits / HEAT).log_softmax(-1).where(kept, torch.tensor(-torch.inf)).logsumexp(-1)
    return masses


@pytest.mark.parametrize("packing", ["tree", "padded"])
@pytest.mark.parametrize("options", [FULL_DISTRIBUTION, TRUNCATED], ids=["tempered", "truncated"])
def test_the_recomputed_ratio_before_the_first_step_is_one(
    tiny_model: Model, make_trajectory: Make, options: SamplingSettings, packing: str
) -> None:
    model = sharp(tiny_model)
    trajectories = Sampler(model, make_trajectory, HEAT, options).trajectories(24, 1)
    rows = [row for trajectory in trajectories for row in policy_rows(trajectory, [1.0])]
    score = Trainer(model, OptimiserSettings(packing=packing)).score  # type: ignore[arg-type]
    old = score(rows)
    sampled = np.concatenate([row.old_logprobs for row in rows if row.old_logprobs is not None])
    log_ratios = np.concatenate(old) - sampled
    # what was sampled from is π_T on the kept tokens, divided by their probability
    expected = np.zeros_like(sampled)
    if options is TRUNCATED:
        expected = np.concatenate([log_mass(model, trajectory).numpy() for trajectory in trajectories])
        assert expected.min() < -0.02
    np.testing.assert_allclose(np.exp(log_ratios - expected), 1.0, atol=1e-4)
    again = score([replace(row, old_logprobs=logprobs) for row, logprobs in zip(rows, old, strict=True)])
    np.testing.assert_allclose(np.exp(np.concatenate(again) - np.concatenate(old)), 1.0, atol=1e-4)


def gradient_by_enumeration(logits: Tensor, gains: Tensor, options: SamplingSettings) -> Tensor:
    """The mean gradient of the objective over all tokens that can be sampled, each with its probability."""
    leaf = logits.clone().requires_grad_(True)
    sampled = reshape(logits[None], [options], [HEAT]).log_softmax(-1)[0]
    possible = sampled.isfinite().nonzero()[:, 0]
    logprobs = (leaf / HEAT).log_softmax(-1)[possible]
    old, drawn = logprobs.detach(), sampled[possible]
    corrections = mismatch(
        WrittenLogprobs(old.numpy(), drawn.numpy(), np.arange(len(possible))), CORRECTION
    ).corrections
    batch = TokenBatch(
        logprobs,
        old,
        gains[possible],
        torch.ones(len(possible), dtype=torch.bool),
        corrections=torch.from_numpy(corrections),
    )
    (ClippedPolicy(0.2, 0.28).losses(batch) * drawn.exp()).sum().backward()
    assert leaf.grad is not None
    return -leaf.grad


@pytest.mark.parametrize("options", [FULL_DISTRIBUTION, TRUNCATED], ids=["tempered", "truncated"])
def test_the_mean_gradient_is_the_exact_one(options: SamplingSettings) -> None:
    generator = torch.Generator().manual_seed(2)
    logits, gains = 2 * torch.randn(12, generator=generator), torch.randn(12, generator=generator)
    leaf = logits.clone().requires_grad_(True)
    kept = reshape(logits[None], [options], [HEAT])[0].isfinite()
    assert (options is TRUNCATED) == (not kept.all())
    (
        (leaf / HEAT).softmax(-1) * gains * kept
    ).sum().backward()  # of the reward that the policy earns on those tokens
    torch.testing.assert_close(gradient_by_enumeration(logits, gains, options), leaf.grad)


def test_equal_rewards_have_no_gradient_in_the_mean() -> None:
    logits = 2 * torch.randn(12, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(
        gradient_by_enumeration(logits, torch.ones(12), FULL_DISTRIBUTION), torch.zeros(12), atol=1e-6, rtol=0
    )


def served(logit: Tensor, heat: float) -> Tensor:
    """The probability that exactly one of five tokens, all from one distribution over two, is the second."""
    share = torch.sigmoid(logit / heat)
    return comb(5, 1) * share * (1 - share) ** 4


def test_only_the_policy_at_the_sampling_temperature_has_the_right_fixed_point() -> None:
    """The best share is 1/5. Who trains the model at temperature 1 reaches it there, and serves a smaller one."""
    values = {}
    for trained in (0.5, 1.0):
        logit = torch.zeros((), requires_grad=True)
        optimiser = torch.optim.Adam([logit], lr=0.05)
        for _ in range(400):
            optimiser.zero_grad()
            (-served(logit, trained)).backward()
            optimiser.step()
        values[trained] = float(served(logit.detach(), 0.5))
    assert values[0.5] == pytest.approx(0.8**4, abs=1e-4)
    assert values[1.0] < 0.6 * values[0.5]


def test_a_toy_learns_truncated_and_tempered_as_at_temperature_1(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    """The reward is the share of written tokens that equal 7; one in twenty at first."""

    def learn(heat: float, options: SamplingSettings, correction: MismatchSettings | None) -> float:
        model = tiny_model()
        sampler = Sampler(model, make_trajectory, heat, options)

        def scored(count: int, seed: int) -> list[ScoredTrajectory]:
            return [
                ScoredTrajectory(trajectory, (trajectory.rows[0].token_ids[len(PROMPT) :].count(7) / WRITTEN,))
                for trajectory in sampler.trajectories(count, seed)
            ]

        def collect(iteration: int) -> list[ScoredGroup]:
            return [ScoredGroup(Task("task", "", "", ""), tuple(scored(24, iteration + 1)))]

        settings = GrpoSettings(
            iterations=25,
            minibatches=1,
            passes=2,
            optimiser=OptimiserSettings(learning_rate=1e-2),
            evaluate_every=None,
            keep="final",
            temperature=heat,
            sampling=options,
            mismatch=correction,
        )
        run_grpo(model, collect, settings, RunOptions(0, tmp_path / str(heat)))
        rewards = [sum(member.turn_rewards or ()) for member in scored(48, 99)]
        return sum(rewards) / len(rewards)

    plain, truncated = learn(1.0, FULL_DISTRIBUTION, None), learn(HEAT, TRUNCATED, CORRECTION)
    assert plain > 0.9 and truncated > 0.9


def test_options_need_a_correction(make_trajectory: Make, tiny_model: Model, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"sampling \(top_p = 0\.9\) draws from another distribution.*set mismatch"
    ):
        GrpoSettings(sampling=TRUNCATED)
    made = Sampler(tiny_model(), make_trajectory, 1.0, TRUNCATED).trajectories(2, 1)
    groups = [
        ScoredGroup(
            Task("task", "", "", ""), (*(ScoredTrajectory(one, (float(i),)) for i, one in enumerate(made)),)
        )
    ]
    plain = GrpoSettings(iterations=1, evaluate_every=None, keep="final")
    with pytest.raises(TrainingError, match=r"'1/\d' was sampled with options such as top_p.*set mismatch"):
        run_grpo(tiny_model(), lambda _: groups, plain, RunOptions(0, tmp_path))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"temperature": 0.0}, "temperature 0.0: greedy tokens have no probability ratio"),
        ({"temperature": 0.7}, "temperature 0.7, but only log-probs of the model at temperature 1 were recorded"),
        ({"sampling": {"top_p": 0.5}}, "temperature 1.0, top_p = 0.5, but only log-probs of the model"),
    ],
)
def test_without_the_sampled_distribution_s_logprobs_a_ratio_is_refused(
    make_trajectory: Make, change: dict[str, object], problem: str
) -> None:
    changed = replace(make_trajectory(), **change)  # type: ignore[arg-type]
    with pytest.raises(TrainingError, match=problem):
        policy_rows(changed, (1.0,))
