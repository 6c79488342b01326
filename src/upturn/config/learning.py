"""The sections of ``upturn.toml`` that say how agents learn: one for each way. Every default lives here.

Field documentation stands under each field; ``docs/configuration.md`` is made from it.
"""

from typing import Annotated, Literal

from pydantic import Field

from upturn.config.section import Count, FilePath, Positive, Probability, Section, Share

PresetName = Literal[
    "grpo",
    "dr_grpo",
    "rloo",
    "dapo",
    "gspo",
    "cispo",
    "reinforce_pp",
    "reinforce_pp_baseline",
    "lite_ppo",
    "scale_rl",
    "agent_recipe",
]
"""Named algorithms; their settings stand in ``upturn.training.presets``."""


class OptimiserConfig(Section):
    """How weights are stepped, whatever they learn from."""

    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """AdamW's."""
    max_grad_norm: Positive = 1.0
    """The whole gradient is scaled down to this norm when it is longer."""
    micro_batch_tokens: Count = 16_384
    """Tokens computed at once. Bounds memory, never changes the gradient beyond rounding."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of forward and backward pass; weights and optimiser stay in float32."""
    gradient_checkpointing: bool = False
    """Whether activations are computed again in the backward pass: less memory, a third slower."""


class RolloutConfig(Section):
    """Where practice samples its attempts."""

    place: Literal["process", "ray", "engine"] = "process"
    """``process``: here. ``ray``: in workers of a Ray cluster. ``engine``: by an engine at a URL that returns token
    ids and log-probs."""
    workers: Count = 2
    """ray: how many."""
    address: str = ""
    """ray: ``host:port`` or ``auto`` of a running cluster; empty = one of its own on this machine."""
    url: Annotated[str, Field(pattern=r"^(https?://.+)?$")] = ""
    """engine: such as ``http://localhost:30000``."""
    dialect: Literal["vllm", "sglang"] = "sglang"
    """engine: how it is asked. Whole models are handed over, which SGLang takes while it runs; vLLM takes adapters
    only."""
    folder: FilePath = ""
    """ray, engine: where weights are handed over, readable under the same path for whoever samples; empty = in the
    run's folder."""


class SftConfig(Section):
    """Training on the agents' own verified successes."""

    enabled: bool = True
    """Whether this step runs."""
    epochs: Count = 1
    """Passes over the selected trajectories."""
    learning_rate: Positive = 1e-3
    """Of AdamW."""
    batch_rows: Count = 32
    """Trajectory rows in one optimiser step."""
    min_score: Share = 0.8
    """Score from which a verified success is learned from."""


class KlConfig(Section):
    """KL divergence from the weights before training, in the loss. What is left out is as in the preset."""

    coefficient: Annotated[float, Field(ge=0)] | None = None
    """Weight of the term; 0 = none."""
    estimator: Literal["k1", "k2", "k3", "abs"] | None = None
    """How it is estimated from single tokens; without preset ``k3``."""
    unbiased: bool | None = None
    """Whether the estimate is weighted with the probability ratio; for k1 and k3."""
    target: Positive | None = None
    """KL per token that the coefficient adapts to; needs ``horizon``."""
    horizon: Count | None = None
    """Attempts over which it adapts."""


class MismatchConfig(Section):
    """What to do about a sampler whose log-probs are not the trainer's."""

    recompute: bool = False
    """Whether the trainer computes its own log-probs before each round's first step, compares and uses them."""
    weight: Literal["none", "token", "sequence"] = "none"
    """Importance weights: by token or by attempt."""
    weight_cap: Positive | None = None
    """The largest weight; left out = bounded by the mask of the same level."""
    mask: Literal["none", "token", "sequence", "geometric", "k3"] = "none"
    """What is left out: tokens or attempts outside of [mask_low, mask_high]."""
    mask_low: Positive | None = None
    """Smallest ratio that stays; not for ``k3``."""
    mask_high: Positive | None = None
    """Largest ratio (``k3``: divergence) that stays."""


class AlgorithmConfig(Section):
    """How the weights are updated. What is left out is as in the preset."""

    kind: Literal["clipped", "gspo", "cispo"] | None = None
    """The policy loss; without preset ``clipped``."""
    clip_low: Annotated[float, Field(gt=0, le=1)] | None = None
    """The probability ratio is bounded at 1 − clip_low …"""
    clip_high: Positive | None = None
    """… and at 1 + clip_high; without preset what is usual for the kind, for ``clipped`` 0.2 and 0.28."""
    dual_clip: Annotated[float, Field(gt=1)] | None = None
    """Bound of the loss of bad tokens that became likely, for ``clipped``; left out = none."""
    stale_limit: Positive | None = None
    """Mean log-prob gap to the sampler above which the bad turns of an attempt are dropped; left out = never."""
    aggregation: Literal["token_mean", "sequence_mean", "constant"] | None = None
    """What the loss is an average over; without preset ``token_mean``."""
    constant_tokens: Count | None = None
    """For ``constant``: divisor per attempt; left out = environment.max_turns · environment.max_action_tokens."""
    passes: Count | None = None
    """How often a round's attempts are used; without preset once."""
    sampling_rounds: Annotated[int, Field(ge=1, le=99)] | None = None
    """Times that tasks are drawn in a round until as many have a signal as are wanted (dynamic sampling); without
    preset 1: once, whatever comes."""
    staleness: Annotated[int, Field(ge=0, le=99)] = 0
    """Rounds that the weights may be old which attempts are sampled with. More than 0: the next rounds are sampled
    while weights are updated, each on half of the threads; environments are then entered from two threads. 0 = in
    turn."""
    cost_limits: dict[str, Annotated[float, Field(ge=0)]] | None = None
    """Held-out cost per task, such as ``safety`` or ``error``, above which weights are not kept and training
    stops; the judge must give it. Empty = no limit; left out = as in the preset."""
    kl: KlConfig = KlConfig()
    """KL divergence from the weights before training."""
    mismatch: MismatchConfig = MismatchConfig()
    """Sampler against trainer."""


class AdvantageConfig(Section):
    """What a turn is credited with (docs/training.md). What is left out is as in the preset."""

    estimator: Literal["trajectory", "turn", "state", "tree", "monte_carlo", "divergence"] | None = None
    """Who is compared with whom; without preset ``trajectory``: whole attempts."""
    continuations: Count | None = None
    """Attempts that go on from each state, to measure what it is worth, for ``monte_carlo`` and ``divergence``;
    they cost the tokens that they write. Left out = 8."""
    gamma: Annotated[float, Field(gt=0, le=1)] | None = None
    """Discount of a reward per earlier turn; without preset 1."""
    baseline: Literal["group_mean", "leave_one_out", "none"] | None = None
    """What is subtracted; without preset the mean of all attempts at the task."""
    scale: Literal["none", "std", "mean", "batch_std", "whiten"] | None = None
    """What is divided by; without preset nothing."""
    turn_weight: Positive | None = None
    """Weight of turn credit beside the outcome's; left out = the estimator's alone."""
    anchor: Literal["state_hash", "observation"] | None = None
    """What tells that two turns began in one state, for ``state``: the environment's hash, or what was seen;
    without preset ``state_hash``."""
    is_shaped: bool | None = None
    """Whether rewards are shaped by the environment's potential, as r + gamma·Φ(s′) − Φ(s), for ``trajectory`` and
    ``turn``; without preset they are not."""
    error_probability: Probability | None = None
    """How often, at most, an attempt may be blamed or praised without cause, for ``divergence``; left out =
    0.05."""
    value_range: Positive | None = None
    """Largest possible return minus smallest, penalties included, for ``divergence``; left out = 1, which with
    ``rewards.overlong_tokens`` is too little: set 2."""


class RoundsConfig(Section):
    """What all ways of learning that go in rounds share."""

    iterations: Count = 40
    """Rounds."""
    learning_rate: Positive = 1e-4
    """Of AdamW. With the nano model 8e-4 was seen to collapse."""
    decay: Literal["none", "linear", "cosine"] = "none"
    """How the learning rate falls over the rounds, towards 0 after the last."""
    evaluate_every: Count = 5
    """Rounds between two evaluations on fresh training tasks, none of them held out; the best weights are kept."""
    patience: Count | None = None
    """Evaluations in a row without a new best after which training stops; left out = it does not."""
    target_score: Share | None = None
    """Evaluation score at which training stops; left out = no target."""


class PracticeConfig(RoundsConfig):
    """Practice in the environment: what all ways of learning from fresh attempts share."""

    tasks_per_iteration: Count = 24
    """Tasks in one round."""
    attempts: Count = 8
    """Attempts at each task; at least two where they are compared with each other, as by default."""
    incumbent_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the serving version's weights in those of the candidate; more keeps more of what it could do before
    (WiSE-FT, arXiv 2109.01903)."""


class GrpoConfig(PracticeConfig):
    """Reinforcement in the environment: several attempts at each task, compared with each other."""

    enabled: bool = True
    """Whether this step of the loop runs."""
    families: tuple[str, ...] = ()
    """Task families that are practised and examined; empty = all that are served."""
    preset: PresetName | None = None
    """A named algorithm, which ``algorithm``, ``advantage`` and ``minibatches`` change where they say something
    (docs/training.md); left out = centred rewards, clip 0.2/0.28, mean over tokens, no KL."""
    minibatches: Count | None = None
    """Optimiser steps a round is split over; left out = as the preset has it, without one 2."""
    algorithm: AlgorithmConfig = AlgorithmConfig()
    """How the weights are updated."""
    advantage: AdvantageConfig = AdvantageConfig()
    """What a turn is credited with."""


class CriticConfig(Section):
    """The network that learns what states are worth, beside the policy."""

    learning_rate: Positive = 3e-4
    """Of its AdamW; higher than the policy's, so that values follow it."""
    minibatches: Count = 2
    """Optimiser steps that one pass over a round's attempts is split into."""
    passes: Count = 2
    """How often it uses a round's attempts."""
    alone_iterations: Annotated[int, Field(ge=0)] = 0
    """Rounds at the beginning that train it alone."""
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
    """Optimiser steps a round is split over."""
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


class DpoRoundsConfig(PracticeConfig):
    """``upturn train dpo-rounds``: pairs of the agent's own fresh attempts, in rounds."""

    by: Literal["trajectory", "turn"] = "trajectory"
    """What is paired: the best attempt at a task with the worst, or different actions after one history."""
    min_margin: Annotated[float, Field(ge=0)] = 0.0
    """Pairs are kept where one side is better by more than this."""
    epochs: Count = 1
    """Passes over a round's pairs."""
    batch_pairs: Count = 32
    """Pairs in one optimiser step."""
    reference: Literal["recorded", "initial"] = "recorded"
    """The weights that a round began with, or those before training."""
    objective: PairConfig = PairConfig()
    """The loss."""


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
    top: Count | None = 4
    """The most that are kept of one task in a round."""
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
    threshold: Annotated[float, Field(gt=0, le=1)] = 0.9
    """Likeness from which a prediction is right."""
    common_ratio: Annotated[float, Field(ge=0)] | None = 1.0
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
    """Optimiser steps a round is split over."""
    max_age: Annotated[int, Field(ge=0)] | None = None
    """Versions of the agent between the newest and the one that sampled an attempt, beyond which it is left out;
    left out = any age."""
    weight_cap: Positive = 2.0
    """The largest importance weight of a token."""


class GateConfig(Section):
    """Which families are admitted to practice, by their estimated success."""

    low: Annotated[float, Field(ge=0, lt=1)] = 0.05
    """A family rests while it succeeds less often than this …"""
    high: Annotated[float, Field(gt=0, le=1)] = 0.95
    """… or more often than this."""
    probe_share: Probability = 0.1
    """Share of the tasks that resting families still get together, at most."""


class LevelConfig(Section):
    """The schedule by levels, for ``policy = "levels"``."""

    advance_at: Annotated[float, Field(gt=0, le=1)] = 0.7
    """Success of the current level from which the next becomes current."""
    ahead_share: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Share of the next level in what easier levels leave."""
    easier_share: Annotated[float, Field(ge=0.1, le=0.2)] = 0.15
    """Share of the levels below the current one, against forgetting."""
    max_drop: Probability = 0.15
    """An easier level that falls by more than this below its best is practised again."""


class CurriculumConfig(Section):
    """What is practised next, given what came of earlier practice: for ``grpo`` and ``ppo``."""

    policy: Literal["uniform", "failure_weighted", "levels"] | None = None
    """``uniform``: all families alike. ``failure_weighted``: by what fails now. ``levels``: from easy to hard. Left
    out = families by what they failed before practice, to the end."""
    window: Count = 10
    """Rounds that success is estimated from, the last ones."""
    min_attempts: Count = 16
    """Judged attempts in them from which there is an estimate."""
    is_gated: bool = False
    """Whether families that nearly always or never succeed rest."""
    gate: GateConfig = GateConfig()
    """When they rest; for ``is_gated = true``."""
    levels: LevelConfig = LevelConfig()
    """The schedule by levels."""


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
    """What the training is repeated with: chance at the success rate from before, and the form of actions alone."""
    second_base: FilePath = ""
    """Another local model (``nano``, a folder or a name) that all of it is repeated on; empty = none, and the card
    says so."""
