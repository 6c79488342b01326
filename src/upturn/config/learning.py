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
"""Named algorithms; their settings stand in ``upturn.training.algorithms.presets``."""


LevelName = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,3})$")]
"""A level as a key of a table, which is text."""


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


class LoraConfig(Section):
    """A LoRA adapter in place of the whole model, whatever it learns from; versions are whole models all the same,
    with the adapter merged (docs/models.md)."""

    rank: Annotated[int, Field(ge=0)] = 0
    """Of the adapter's matrices; 0 = the whole model is trained."""
    alpha: Count | None = None
    """The adapter's product is multiplied by alpha / rank; left out = twice the rank."""
    targets: tuple[str, ...] = ()
    """Linear layers that have an adapter, by the last part of their names, such as ``q_proj``; empty = all but the
    output layer."""


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
    """engine: how it is asked. SGLang takes whole models while it runs, vLLM adapters only, which need
    ``lora.rank``."""
    api_key_env: str = ""
    """engine: name of the environment variable that holds the key; empty = no key is sent."""
    timeout_seconds: Positive = 120.0
    """engine: of one try of one request; loading weights is one too."""
    max_length: Count | None = None
    """engine: tokens of the longest context that it takes; an attempt that leaves no room for one more ends there.
    Left out = unknown: the engine refuses it."""
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
    cost_budgets: dict[str, Annotated[float, Field(ge=0)]] | None = None
    """How much of these costs, such as ``safety``, an attempt in practice may have on average: a multiplier for
    each takes them off the reward, and rises while they are above budget. Left out = costs are no part of
    practice."""
    multiplier_rate: Positive | None = None
    """By how much of what is above the budget a multiplier rises in a round; left out = 0.1."""


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
    """Optimiser steps a round is split over, at most one for each task that teaches something; left out = as the
    preset has it, without one 2."""
    algorithm: AlgorithmConfig = AlgorithmConfig()
    """How the weights are updated."""
    advantage: AdvantageConfig = AdvantageConfig()
    """What a turn is credited with."""


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
    final_mix: dict[LevelName, Annotated[float, Field(gt=0, le=1)]] | None = None
    """Share of each level once the highest is learned, such as ``{1 = 0.3, 2 = 0.7}``; they add up to 1. Left out =
    .1, .15, .25, .3 and .2 of levels 1 to 5, scaled to those that there are."""


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
