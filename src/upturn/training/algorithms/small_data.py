"""Reinforcement fine-tuning from 10 to 50 tasks: the settings. Reward and controls: ``upturn.rewards.acceptance``.

No torch here. What a few tasks gave says little by itself: run it beside a random reward of the same rate and
beside the format alone, from several seeds, and on another base model.
"""

from upturn.training.algorithms.presets import Preset
from upturn.training.policy_settings import KlSettings, ObjectiveSettings
from upturn.training.settings import GrpoSettings

SMALL_DATA = Preset(
    GrpoSettings(
        iterations=60,
        minibatches=1,
        objective=ObjectiveSettings(clip_low=0.2, clip_high=0.2, kl=KlSettings(0.04, unbiased=True)),
        patience=4,
    ),
    "Reinforcement fine-tuning as a vendor describes it (10 prompts, a 32-billion-parameter model, one family of "
    "tasks, no interval; no settings published), on the GRPO of DeepSeekMath, arXiv 2402.03300; 16 attempts at "
    "each task",
    (
        "a KL term to the weights before training, with the unbiased estimate: what the few tasks do not ask for "
        "is held in place by nothing else",
        "one optimiser step an iteration: a second one on the same few groups fits them before it helps others",
        "rewards are centred, not standardised: with acceptance and format, the deviation of a group without any "
        "acceptance would blow the format up to the size of an acceptance",
        "patience: tasks that come back every iteration are learned by heart, which shows as held-out success that "
        "no longer rises",
    ),
)
"""Its reward is ``accepted_and_formed``: yes or no, and a little for the format."""
