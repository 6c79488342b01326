"""The sections of ``upturn.toml`` for ways of learning that ``upturn train`` runs and the loop does not.

Field documentation stands under each field; ``docs/configuration.md`` is made from it.
"""

from typing import Annotated, Literal

from pydantic import Field

from upturn.config.learning import PracticeConfig, RoundsConfig
from upturn.config.section import Count, FilePath, Positive, Section, Share


class CriticConfig(Section):
    """The network that learns what states are worth, beside the policy."""

    learning_rate: Positive = 3e-4
    """Of its AdamW; higher than the policy's, so that values follow it."""
    minibatches: Count = 2
    """Optimiser steps that one pass over a round's attempts is split into, at most one for each task."""
    passes: Count = 2
    """How often it uses a round's attempts."""
    alone_iterations: Annotated[int, Field(ge=0)] = 0
    """Rounds at the beginning in which it learns and nothing goes by it yet: ``ppo`` leaves the policy as it is,
    ``dpo-rounds`` pairs by what was earned alone."""
    value_clip: Positive | None = None
    """How far a value may move in a round before its error has no gradient; left out = any."""


class CreditConfig(Section):
    """Generalised advantage estimation: how rewards and values become advantages."""

    step: Literal["turn", "token"] = "turn"
    """What has a value and an advantage: a whole action, or each written token."""
    gamma: Share = 1.0
    """Discount per step."""
    trace: Share | None = None
    """λ: 0 trusts the next value alone, 1 the rewards alone; left out = 0.9 by turn, 1 by token."""
    value_trace: Share | None = None
    """λ of the returns that values are fitted to; left out = the same."""
    is_whitened: bool = True
    """Whether a round's advantages are given mean 0 and standard deviation 1."""


class ClipConfig(Section):
    """Bounds on how much likelier or less likely an action may become in a round."""

    by: Literal["token", "turn"] = "token"
    """Whose ratio is bounded: each token's own, or one for a turn."""
    low: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Ratios are bounded at 1 − low …"""
    high: Positive | None = None
    """… and at 1 + high; left out = 0.2 and 0.28 by token, 0.05 and 0.07 by turn."""


class PpoConfig(PracticeConfig):
    """``upturn train ppo``: practice with a critic, which says what each turn was worth."""

    minibatches: Count = 2
    """Optimiser steps a round is split over, at most one for each task that teaches something."""
    passes: Count = 1
    """How often a round's attempts are used."""
    credit: CreditConfig = CreditConfig()
    """How rewards and values become advantages."""
    clip: ClipConfig = ClipConfig()
    """How far a round may move the policy."""
    critic: CriticConfig = CriticConfig()
    """The value network."""


class PairConfig(Section):
    """The loss of pairs."""

    kind: Literal["sigmoid", "ipo"] = "sigmoid"
    """``sigmoid``: DPO's. ``ipo``: a square around a fixed margin, for preferences that are certain."""
    beta: Positive = 0.1
    """How strongly the reference holds; smaller lets the model move further for the same preference."""
    label_smoothing: Annotated[float, Field(ge=0, lt=0.5)] = 0.0
    """Share of pairs taken to be the wrong way round."""
    is_length_normalised: bool = False
    """Whether each side counts by its mean token instead of the sum."""
    sft_coefficient: Positive | None = None
    """Of a supervised term on the better sides; left out = none."""


class DpoConfig(Section):
    """``upturn train dpo``: learning from pairs of attempts that the pool holds: two versions' at one task, and
    what people corrected."""

    epochs: Count = 1
    """Passes over the pairs."""
    learning_rate: Positive = 1e-4
    """Of AdamW."""
    batch_pairs: Count = 32
    """Pairs in one optimiser step."""
    old: str = ""
    """Id of one of two agent versions whose attempts at the same tasks are compared, such as ``nano@base``; empty =
    corrections only."""
    new: str = ""
    """Id of the other."""
    min_margin: Annotated[float, Field(ge=0)] = 0.0
    """Pairs are kept where scores differ by more than this."""
    reference: Literal["initial", "recorded"] = "initial"
    """The policy that preferences are measured from: the weights before training, or whoever sampled."""
    objective: PairConfig = PairConfig()
    """The loss."""


class PairingConfig(Section):
    """How attempts become pairs."""

    by: Literal["trajectory", "turn"] = "trajectory"
    """What is paired: the best attempt at a task with the worst, or different actions after one history."""
    min_margin: Annotated[float, Field(ge=0)] = 0.0
    """Pairs are kept where one side is better by more than this; with a critic, whose values differ by chance, set
    it above 0."""
    gamma: Share = 1.0
    """Discount per turn of what is earned."""
    valued_by: Literal["returns", "state_values"] = "returns"
    """What an action was worth, for ``by = "turn"``: what the attempts that took it went on to earn, or its reward
    and the value of the state that it led to, measured by going on from there."""
    continuations: Count | None = None
    """Attempts that go on from each state, for ``valued_by = "state_values"``; they cost the tokens that they
    write. Left out = 8."""
    monte_carlo_share: Share = 1.0
    """Of an action's worth, what is measured so; the rest is what a critic thinks, which is trained beside the
    policy; for ``by = "turn"``. 1 = there is no critic."""


class DpoRoundsConfig(PracticeConfig):
    """``upturn train dpo-rounds``: pairs of the agent's own fresh attempts, in rounds."""

    attempts: Annotated[int, Field(ge=2)] = 8
    """Attempts at each task, which are paired."""
    epochs: Count = 1
    """Passes over a round's pairs."""
    batch_pairs: Count = 32
    """Pairs in one optimiser step."""
    reference: Literal["recorded", "initial"] = "recorded"
    """The weights that a round began with, or those before training."""
    pairs: PairingConfig = PairingConfig()
    """Which pairs."""
    objective: PairConfig = PairConfig()
    """The loss."""
    critic: CriticConfig = CriticConfig()
    """The value network, for ``pairs.monte_carlo_share`` below 1."""


class KtoConfig(Section):
    """``upturn train kto``: learning from thumbs on single attempts that the pool holds."""

    epochs: Count = 1
    """Passes over the attempts."""
    learning_rate: Positive = 1e-4
    """Of AdamW."""
    batch_trajectories: Annotated[int, Field(ge=2)] = 32
    """Attempts in one optimiser step."""
    beta: Positive = 0.1
    """How strongly the weights before training hold."""
    desirable_weight: Positive = 1.0
    """What a good attempt counts."""
    undesirable_weight: Positive = 1.0
    """What a bad one counts."""


class ImitationConfig(PracticeConfig):
    """Rounds of supervised training on what the agent itself did well."""

    iterations: Count = 5
    """Rounds of attempting, selecting and training."""
    tasks_per_iteration: Count = 96
    """Tasks in one round."""
    learning_rate: Positive = 1e-3
    """Of AdamW."""
    decay: Literal["none", "linear", "cosine"] = "linear"
    """How the learning rate falls within each round."""
    evaluate_every: Count = 1
    """Rounds between two evaluations on fresh training tasks, none of them held out; the best weights are kept."""
    epochs: Count = 4
    """Passes over what a round selected."""
    batch_rows: Count = 32
    """Rows in one optimiser step."""
    threshold: Share = 0.8
    """What an attempt must have earned to be learned from."""
    top: Count = 4
    """The most that are kept of one task in a round, of as many attempts at most."""
    prefer: Literal["reward", "shortest", "diverse"] = "reward"
    """Which of a task's successes go first: the best, the shortest, or after the best the least alike."""


class RejectionConfig(ImitationConfig):
    """``upturn train rejection``: many attempts at each task, the best distinct successes trained on, once."""

    iterations: Annotated[int, Field(ge=1, le=1)] = 1
    """One round; for more there is ``iterated``."""
    tasks_per_iteration: Count = 192
    """Tasks that are attempted."""
    attempts: Count = 16
    """Attempts at each task."""


class IteratedConfig(ImitationConfig):
    """``upturn train iterated``: rounds of attempting and training on the successes, each from where the last
    ended."""


class StarConfig(ImitationConfig):
    """``upturn train star``: what failed is attempted again with the answer as a hint, successes are trained on as
    if there had been none, and every round starts from the weights before training."""

    mentions: tuple[str, ...] = ("hint",)
    """Words that give away that there was help: attempts that write one are not learned from."""


class SelfRepairConfig(ImitationConfig):
    """``upturn train self-repair``: as ``star``, but the second attempt is told what went wrong, not the answer."""

    mentions: tuple[str, ...] = ("hint",)
    """Words that give away that there was help: attempts that write one are not learned from."""


class WorldModelConfig(RoundsConfig):
    """``upturn train world-model``: learning what the environment answers, from attempts that the pool holds,
    before any task is practised."""

    evaluate_every: Count = 5
    """Rounds between two evaluations on answers in held-out tasks; the best weights are kept."""
    transitions_per_iteration: Count = 32
    """Answers that are predicted in one round."""
    attempts: Annotated[int, Field(ge=2)] = 8
    """Predictions of each, which are compared with each other."""
    threshold: Annotated[float, Field(ge=0.5, le=1)] = 0.9
    """Likeness from which a prediction is right."""
    common_ratio: Annotated[float, Field(ge=0)] = 1.0
    """Answers that are a tool's most common one are kept at most this many times as often as its others."""
    warm_up_epochs: Annotated[int, Field(ge=0)] = 3
    """Supervised passes over the answers before practice, for a model that cannot write any; 0 = none."""
    warm_up_learning_rate: Positive = 3e-4
    """Of them; with 1e-3 nano was seen to forget how to act."""


class OfflineConfig(RoundsConfig):
    """``upturn train offline``: policy optimisation on attempts that the pool holds, with the log-probs of whoever
    sampled them."""

    groups: Count = 24
    """Tasks in one round, each with all its attempts; they come round again, in another order."""
    minibatches: Count = 2
    """Optimiser steps a round is split over, at most one for each task that teaches something."""
    max_age: Annotated[int, Field(ge=0)] | None = None
    """Versions of the agent between the newest and the one that sampled an attempt, beyond which it is left out;
    left out = any age."""
    weight_cap: Positive = 2.0
    """The largest importance weight of a token."""


class RftConfig(Section):
    """``upturn train rft``: reinforcement from ten to fifty tasks, with the controls that say whether its gain is
    real: the same training with other rewards, from several seeds, on a second model."""

    examples: Annotated[int, Field(ge=2, le=1000)] = 30
    """Training tasks, the only ones that are practised."""
    iterations: Count = 20
    """Rounds of attempting and updating."""
    tasks_per_iteration: Count = 10
    """Tasks in one round, drawn from the examples."""
    attempts: Annotated[int, Field(ge=2)] = 8
    """Attempts at each task."""
    learning_rate: Positive = 1e-4
    """Of AdamW."""
    seeds: Count = 3
    """Trainings with each reward, the seed of the run and those after it."""
    controls: tuple[Literal["random", "format"], ...] = ("random", "format")
    """What the training is repeated with: chance, at the success rate on the examples before training (0.5 where
    that is 0 or 1), and the form of actions alone."""
    second_base: FilePath = ""
    """Another local model (``nano``, a folder or a name) that all of it is repeated on; empty = none, and the card
    says so."""


class MixtureConfig(PracticeConfig):
    """``upturn train mixture``: practice with successes, pairs or thumbs from a pool in the same steps, each part
    with its own denominator. Practice is told by ``[grpo.algorithm]`` and ``[grpo.advantage]``, the other parts by
    the sections of their name; of those, epochs and learning rates are the mixture's own."""

    attempts: Annotated[int, Field(ge=2)] = 8
    """Attempts at each task, which are compared with each other."""
    minibatches: Count = 2
    """Optimiser steps that a round of practice is split over, at most one for each task that teaches something;
    each other part has one step in a round."""
    sft: Annotated[float, Field(ge=0)] = 1.0
    """Weight of supervised training on the pool's verified successes beside practice's 1; 0 = none."""
    dpo: Annotated[float, Field(ge=0)] = 0.0
    """Weight of pairs; 0 = none."""
    kto: Annotated[float, Field(ge=0)] = 0.0
    """Weight of thumbs; 0 = none."""
