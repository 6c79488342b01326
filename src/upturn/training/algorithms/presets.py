"""Named algorithms as settings: what a paper does, where we depart from it, and why. No torch here.

A preset sets what makes the algorithm; how long to train, how fast and on what stays with the user:
``replace(preset("dapo"), iterations=200)``. Group sizes belong to whoever collects and are named where a paper's
result rests on them. In all of them a group of one gives no gradient, unscorable attempts stay out of baselines,
and groups without a signal count in the denominator unless sampling is dynamic.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from upturn.errors import ConfigError
from upturn.training.advantages import AdvantageSettings
from upturn.training.policy_settings import DynamicSamplingSettings, KlSettings, ObjectiveSettings
from upturn.training.settings import GrpoSettings, OptimiserSettings

LONGEST = 1024
"""Written tokens of the longest rollout, the constant of Dr. GRPO and RLOO: 16 actions of 64 tokens, as an
environment allows if nothing else is configured."""


@dataclass(frozen=True, slots=True)
class Preset:
    """One named algorithm."""

    settings: GrpoSettings
    source: str
    departures: tuple[str, ...] = ()
    """What differs from the source, each with its reason."""


def preset(name: str) -> GrpoSettings:
    """The settings of a named algorithm; raises ConfigError for a name that is not in ``PRESETS``."""
    found = PRESETS.get(name)
    if found is None:
        raise ConfigError([f"unknown preset {name!r}; known: {', '.join(PRESETS)}"])
    return found.settings


def _clipped(low: float, high: float, kl: KlSettings | None = None) -> ObjectiveSettings:
    return ObjectiveSettings(clip_low=low, clip_high=high, kl=kl)


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "grpo": Preset(
            GrpoSettings(
                minibatches=1,
                objective=ObjectiveSettings(
                    clip_low=0.2, clip_high=0.2, aggregation="sequence_mean", kl=KlSettings(0.04)
                ),
                advantage=AdvantageSettings(scale="std"),
            ),
            "DeepSeekMath, arXiv 2402.03300: standardised rewards, mean of rollouts' token means, k3 with β = .04",
        ),
        "dr_grpo": Preset(
            GrpoSettings(
                objective=ObjectiveSettings(
                    clip_low=0.2, clip_high=0.2, aggregation="constant", constant_tokens=LONGEST
                ),
            ),
            "Dr. GRPO, arXiv 2503.20783: centred rewards, one constant for all rollouts, no KL",
        ),
        "rloo": Preset(
            GrpoSettings(
                minibatches=1,
                objective=ObjectiveSettings(
                    clip_low=0.2, clip_high=0.2, aggregation="constant", constant_tokens=LONGEST
                ),
                advantage=AdvantageSettings(baseline="leave_one_out"),
            ),
            "RLOO, arXiv 2402.14740: the mean of the other attempts as baseline, a rollout's log-probs summed",
            (
                "no KL penalty in the reward: a KL term of the loss is a setting of its own (objective.kl)",
                "the sum is divided by a constant, so that the limit on the gradient's norm means the same for all",
            ),
        ),
        "dapo": Preset(
            GrpoSettings(
                objective=_clipped(0.2, 0.28),
                advantage=AdvantageSettings(scale="std"),
                dynamic_sampling=DynamicSamplingSettings(),
            ),
            "DAPO, arXiv 2503.14476: a higher upper clip, token mean, groups without a signal replaced, no KL; "
            "16 attempts at each task",
            (
                "2 minibatches instead of 16: ours are far smaller than 8,192 rollouts",
                "its soft overlong penalty belongs to rewards: see upturn.rewards.budget",
                "a round's surplus of groups is trained on, not thrown away",
            ),
        ),
        "gspo": Preset(
            GrpoSettings(
                minibatches=4,
                objective=ObjectiveSettings("gspo", clip_low=3e-4, clip_high=4e-4, aggregation="sequence_mean"),
                advantage=AdvantageSettings(scale="std"),
            ),
            "GSPO, arXiv 2507.18071: one ratio for each rollout, clipped at 1 − 3e-4 and 1 + 4e-4, 4 minibatches",
            ("in its token form, which is the same where a rollout has one advantage",),
        ),
        "cispo": Preset(
            GrpoSettings(
                objective=ObjectiveSettings("cispo", clip_low=1.0, clip_high=4.0),
                advantage=AdvantageSettings(scale="std"),
            ),
            "MiniMax-M1, arXiv 2506.13585: bounded ratios as weights of log-probs, token mean, no KL",
            ("the cap, which the paper does not give, is 5, the value that TRL documents",),
        ),
        "reinforce_pp": Preset(
            GrpoSettings(
                objective=_clipped(0.2, 0.2, KlSettings(0.01, "k2")),
                advantage=AdvantageSettings(baseline="none", scale="whiten"),
            ),
            "REINFORCE++, arXiv 2501.03262: returns whitened over the whole batch, no group needed",
            (
                "KL is k2 in the loss: its mean gradient is that of k1 in the reward, but each token here gets its "
                "own part only",
            ),
        ),
        "reinforce_pp_baseline": Preset(
            GrpoSettings(
                objective=_clipped(0.2, 0.2, KlSettings(0.01, "k2")),
                advantage=AdvantageSettings(scale="whiten"),
            ),
            "REINFORCE++-baseline, arXiv 2501.03262: the group's mean subtracted, then whitened over the batch; "
            "k2 in the loss",
        ),
        "lite_ppo": Preset(
            GrpoSettings(
                objective=_clipped(0.2, 0.2),
                advantage=AdvantageSettings(scale="batch_std"),
            ),
            "Lite PPO, arXiv 2508.08221: the group's mean, the batch's standard deviation, token mean",
        ),
        "scale_rl": Preset(
            GrpoSettings(
                objective=ObjectiveSettings("cispo", clip_low=1.0, clip_high=4.0),
                advantage=AdvantageSettings(scale="batch_std"),
            ),
            "ScaleRL, arXiv 2510.13786: CISPO with the batch's standard deviation; the output layer in float32",
            (
                "token mean instead of a mean by task: the paper finds the difference small",
                "tasks that are nearly always solved stay in: which tasks to practise is the sampler's to say",
            ),
        ),
        "agent_recipe": Preset(
            GrpoSettings(
                iterations=3000,
                minibatches=1,
                objective=_clipped(0.1, 0.1, KlSettings(0.04, unbiased=True)),
                optimiser=OptimiserSettings(learning_rate=5e-7),
                cost_limits={"safety": 0.02},
            ),
            "A recipe for productivity agents of 70 B parameters: GRPO, 256 tasks × 8 attempts, ε = .1, β = .04, "
            "learning rate 5e-7, 3,000–5,000 iterations, the first 500 on levels 1 and 2 only, stopped when safety "
            "degrades",
            (
                "rewards are centred, not standardised: the group's deviation over-weights tasks that are nearly "
                "solved or nearly impossible (arXiv 2503.20783)",
                "token mean: a mean within each rollout goes easy on long failures (arXiv 2503.20783)",
                "the KL estimate is unbiased: plain k3 in a loss has the gradient of the opposite divergence",
                "safety limits a held-out cost; as a weight in the reward, quality could buy a violation back",
                "the learning rate is for full weights of that size; the model that ships needs about 1e-4",
                "no curriculum: which tasks come first is the sampler's to say, not the update's. The loop "
                "practises families by how much they still fail; a run with tasks.levels = [1, 2] can come first",
                "in the loop iterations and learning rate are those of the configuration, as with every preset",
            ),
        ),
    }
)
"""By name."""
