"""Named algorithms as settings: the papers, our departures from them, and the reasons. No torch here.

A preset sets what defines the algorithm, as ``[grpo]`` would; the user's settings take precedence. Length, learning
rate and tasks of the training are the user's: ``replace(preset("dapo"), iterations=200)``. Group sizes are
mentioned where a paper's result depends on them. In all presets a group of one has no gradient, unscorable
trajectories are excluded from baselines, and groups without a signal count in the denominator unless sampling is
dynamic."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True, slots=True)
class Preset:
    """A named algorithm."""

    values: Mapping[str, Any]
    """Settings of the section."""
    source: str
    departures: tuple[str, ...] = ()
    """Differences from the source, with reasons."""


def _clips(low: float, high: float, **further: Any) -> dict[str, Any]:
    return {"clip_low": low, "clip_high": high, **further}


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "grpo": Preset(
            {
                "minibatches": 1,
                "objective": _clips(0.2, 0.2, aggregation="sequence_mean", kl={"coefficient": 0.04}),
                "advantage": {"scale": "std"},
            },
            "DeepSeekMath, arXiv 2402.03300: standardised rewards, mean of rollouts' token means, k3 with β = .04",
        ),
        "dr_grpo": Preset(
            {"objective": _clips(0.2, 0.2, aggregation="constant")},
            "Dr. GRPO, arXiv 2503.20783: centred rewards, one constant for all rollouts, no KL",
        ),
        "rloo": Preset(
            {
                "minibatches": 1,
                "objective": _clips(0.2, 0.2, aggregation="constant"),
                "advantage": {"baseline": "leave_one_out"},
            },
            "RLOO, arXiv 2402.14740: the mean of the other trajectories as baseline, a rollout's log-probs summed",
            (
                "no KL penalty in the reward: a KL term of the loss is a setting of its own (objective.kl)",
                "the sum is divided by a constant, so that the limit on the gradient's norm means the same for all",
            ),
        ),
        "dapo": Preset(
            {"objective": _clips(0.2, 0.28), "advantage": {"scale": "std"}, "dynamic_sampling": {}},
            "DAPO, arXiv 2503.14476: a higher upper clip, token mean, groups without a signal replaced, no KL; "
            "16 trajectories per task",
            (
                "2 minibatches instead of 16: ours are far smaller than 8,192 rollouts",
                "its soft overlong penalty belongs to rewards: see upturn.rewards.budget",
                "a round's surplus of groups is trained on, not thrown away",
            ),
        ),
        "gspo": Preset(
            {
                "minibatches": 4,
                "objective": _clips(3e-4, 4e-4, kind="gspo", aggregation="sequence_mean"),
                "advantage": {"scale": "std"},
            },
            "GSPO, arXiv 2507.18071: one ratio for each rollout, clipped at 1 − 3e-4 and 1 + 4e-4, 4 minibatches",
            ("in its token form, which is the same where a rollout has one advantage",),
        ),
        "cispo": Preset(
            {"objective": _clips(1.0, 4.0, kind="cispo"), "advantage": {"scale": "std"}},
            "MiniMax-M1, arXiv 2506.13585: bounded ratios as weights of log-probs, token mean, no KL",
            ("the cap, which the paper does not give, is 5, the value that TRL documents",),
        ),
        "sapo": Preset(
            {
                "objective": {"kind": "sapo", "aggregation": "sequence_mean"},
                "advantage": {"scale": "std"},
            },
            "SAPO, arXiv 2511.20347: a sigmoid of each token's ratio instead of a clip, τ⁺ = 1 and τ⁻ = 1.05, mean "
            "of rollouts' token means, no KL",
        ),
        "vespo": Preset(
            {
                "minibatches": 4,
                "objective": {"kind": "vespo"},
                "advantage": {"scale": "std"},
            },
            "VESPO, arXiv 2602.10693: the product of a rollout's ratios, weighed by W^k·e^{λ(1 − W)} with k = 2 "
            "and λ = 3, for negative advantages 3 and 2; token mean, no KL, 4 minibatches (the paper has 4 to 64)",
            ("the ratio is to the sampler's recorded log-probs, which includes the sampler's mismatch",),
        ),
        "reinforce_pp": Preset(
            {
                "objective": _clips(0.2, 0.2, kl={"coefficient": 0.01, "estimator": "k2"}),
                "advantage": {"baseline": "none", "scale": "whiten"},
            },
            "REINFORCE++, arXiv 2501.03262: returns whitened over the whole batch, no group needed",
            (
                "KL is k2 in the loss: its mean gradient is that of k1 in the reward, but each token gets its own "
                "part only",
            ),
        ),
        "reinforce_pp_baseline": Preset(
            {
                "objective": _clips(0.2, 0.2, kl={"coefficient": 0.01, "estimator": "k2"}),
                "advantage": {"scale": "whiten"},
            },
            "REINFORCE++-baseline, arXiv 2501.03262: the group's mean subtracted, then whitened over the batch; "
            "k2 in the loss",
        ),
        "gdpo": Preset(
            {
                "objective": _clips(0.2, 0.2, aggregation="sequence_mean"),
                "advantage": {"estimator": "components", "scale": "whiten"},
            },
            "GDPO, arXiv 2601.05242: each component of the reward standardised within the group, the weighted sum "
            "whitened over the batch",
            (
                "the batch's mean and deviation weigh a trajectory by its written tokens, as in the authors' code; "
                "the paper's equation counts each once",
                "no KL, which the paper's equations leave out for clarity",
            ),
        ),
        "lite_ppo": Preset(
            {"objective": _clips(0.2, 0.2), "advantage": {"scale": "batch_std"}},
            "Lite PPO, arXiv 2508.08221: the group's mean, the batch's standard deviation, token mean",
        ),
        "scale_rl": Preset(
            {"objective": _clips(1.0, 4.0, kind="cispo"), "advantage": {"scale": "batch_std"}},
            "ScaleRL, arXiv 2510.13786: CISPO with the batch's standard deviation; the output layer in float32",
            (
                "token mean instead of a mean by task: the paper finds the difference small",
                "tasks that are nearly always solved stay in: the sampler decides which tasks to sample",
            ),
        ),
        "agent_recipe": Preset(
            {
                "minibatches": 1,
                "objective": _clips(0.1, 0.1, kl={"coefficient": 0.04, "unbiased": True}),
                "cost_limits": {"safety": 0.02},
            },
            "A recipe for productivity agents of 70 B parameters: GRPO, 256 tasks × 8 trajectories, ε = .1, β = "
            ".04, learning rate 5e-7, 3,000–5,000 iterations, the first 500 on levels 1 and 2 only, stopped when "
            "safety degrades",
            (
                "rewards are centred, not standardised: the group's deviation over-weights tasks that are nearly "
                "solved or nearly impossible (arXiv 2503.20783)",
                "token mean: a mean within each rollout penalises long failures less (arXiv 2503.20783)",
                "the KL estimate is unbiased: plain k3 in a loss has the gradient of the opposite divergence",
                "safety limits a held-out cost; as a weight in the reward, quality could buy a violation back",
                "iterations and learning rate are the configuration's, as with every preset: the recipe's are for "
                "full weights of that size, the model that ships needs about 1e-4",
                "no curriculum: the order of tasks belongs to the sampler, not to the update. The loop samples "
                "families by their failure rate; a run with tasks.levels = [1, 2] can precede",
            ),
        ),
    }
)
"""By name."""
