"""The sections of ``upturn.toml`` that all algorithms share: optimiser, adapter, rollouts, curriculum.

The sections of the algorithms are in ``upturn.training``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from upturn.config.settings import (
    Count,
    FilePath,
    ImportPath,
    Name,
    NotNegative,
    Positive,
    Probability,
    Rate,
    Settings,
    Share,
    Url,
    WholeNumber,
    report_unused,
    settings,
)

Packing = Literal["tree", "padded"]
Precision = Literal["float32", "bfloat16", "bfloat16_weights"]
Recomputed = Literal["none", "half", "full"]


@settings
class OptimiserSettings(Settings):
    """The AdamW optimiser and the computation of gradients. ``[optimiser]`` applies to every algorithm; an
    algorithm's table, such as ``[grpo.optimiser]``, overrides it."""

    learning_rate: Positive = 1e-4
    """AdamW learning rate. Reinforcement learning of the nano model collapsed at 8e-4."""
    warmup_steps: WholeNumber = 0
    """Number of steps over which the learning rate rises linearly to its full value. 0 = no warm-up."""
    weight_decay: NotNegative = 0.0
    """AdamW weight decay."""
    beta1: Rate = 0.9
    """AdamW decay rate of the mean of gradients."""
    beta2: Rate = 0.95
    """AdamW decay rate of the mean of squared gradients. The default is below the usual 0.999 because runs last
    only hundreds of steps."""
    max_grad_norm: Positive = 1.0
    """Maximum 2-norm of the whole gradient; a longer gradient is scaled down to it."""
    micro_batch_tokens: Count = 16_384
    """Number of tokens in one forward and backward pass. It limits memory and changes the gradient only by
    rounding."""
    packing: Packing = "tree"
    """Batching of rows. ``tree``: a prefix that rows share is computed once. ``padded``: each row is computed
    alone. The gradient is the same."""
    precision: Precision = "float32"
    """Data type of weights and of forward and backward pass. ``float32``: of both. ``bfloat16``: of the passes, by
    autocast; weights stay in float32. ``bfloat16_weights``: of both, with steps in float32 (``rounding``)."""
    rounding: Literal["master", "stochastic"] = "master"
    """For bfloat16_weights: how small steps add up. ``master``: the optimiser keeps float32 weights.
    ``stochastic``: it keeps none, which saves 4 bytes a trained weight, and rounds at random with an exact mean."""
    moments: Literal["float32", "8bit"] = "float32"
    """Data type of AdamW's two moments. ``8bit`` saves 6 bytes a trained weight and needs bitsandbytes
    (``pip install 'upturn[quantised]'``)."""
    offload: bool = False
    """Whether gradients, moments and float32 weights of the optimiser are in the host's memory and the CPU takes
    the steps. For models on another device."""
    gradient_checkpointing: Recomputed = "none"
    """Layers whose activations the backward pass recomputes from their inputs, which saves memory. ``full`` is a
    third slower, ``half``, every second layer, a sixth."""

    def problems(self) -> Iterator[str | None]:
        """Yields contradictions between fields."""
        yield report_unused(
            self.rounding != "master" and self.precision != "bfloat16_weights",
            f"rounding={self.rounding!r}",
            f"with precision={self.precision!r}, whose weights are in float32; set precision='bfloat16_weights'",
        )


@settings
class AdapterSettings(Settings):
    """Trains a LoRA adapter (arXiv 2106.09685) instead of the whole model, with any algorithm: for a linear layer
    W, the product alpha / rank · B A is trained and W is frozen. There is no dropout, because the trainer would
    then be another policy than the sampler. Versions are still whole models, with the adapter merged
    (docs/models.md)."""

    rank: Count
    """Rank of the adapter: the rows of A and the columns of B."""
    alpha: Count | None = None
    """Scale of the adapter: B A is multiplied by alpha / rank. Unset = twice the rank."""
    targets: tuple[str, ...] = ()
    """Linear layers with an adapter, by the last part of their names, such as ``q_proj``. Empty = all except the
    output layer."""
    seed: WholeNumber | None = None
    """Random seed of A. B starts at 0, so that the adapter changes nothing before the first step. Unset = the run's
    seed."""
    base: Literal["full", "nf4"] = "full"
    """Form of the frozen weights. ``full``: as ``optimiser.precision`` has it. ``nf4``: 4 bits for each weight of a
    linear layer, by bitsandbytes (QLoRA, arXiv 2305.14314); needs ``optimiser.precision = "bfloat16_weights"`` and
    ``pip install 'upturn[quantised]'``. Versions are merged in full precision."""


@settings
class RolloutConfig(Settings):
    """Where rollouts for training are sampled."""

    place: Literal["process", "ray", "engine"] = "process"
    """Sampler of the rollouts. ``process``: the training process. ``ray``: workers of a Ray cluster. ``engine``: an
    inference engine at a URL that returns token ids and log-probs."""
    workers: Count = 2
    """For ray: number of workers."""
    address: str = ""
    """For ray: ``host:port`` of a running cluster, or ``auto``. Empty = a new cluster on this machine."""
    gpus_per_worker: NotNegative = 0.0
    """For ray: GPUs that each worker gets and samples on. Below 1, workers share a GPU: with 0.5, two of them. 0 =
    workers sample on CPUs."""
    url: Url = ""
    """For engine: base URL, such as ``http://localhost:30000``."""
    dialect: Literal["vllm", "sglang"] = "sglang"
    """For engine: its API. SGLang loads whole models. vLLM loads the adapter if ``[lora]`` trains one, else whole
    models, which needs ``VLLM_SERVER_DEV_MODE=1``."""
    weights: Literal["auto", "float32", "bfloat16"] = "auto"
    """For engine: data type of whole models' files that it loads. ``auto``: that of the agent's model folder."""
    logprobs: Literal["auto", "raw", "processed"] = "auto"
    """For engine: which log-probs it returns. ``raw``: the model's at temperature 1. ``processed``: those of the
    distribution that it samples from, which policy gradients need at other temperatures. ``auto``: the engine's
    default, raw for vLLM and processed for SGLang."""
    api_key_env: str = ""
    """For engine: name of the environment variable with the API key. Empty = no key is sent,
    unless ``api_key_file`` names one."""
    api_key_file: FilePath = ""
    """For engine: file with the API key as its content, in place of ``api_key_env``; relative to the folder of the
    configuration file."""
    timeout_seconds: Positive = 120.0
    """For engine: timeout of one try of a request, also of loading weights."""
    max_length: Count | None = None
    """For engine: maximum context length in tokens; a trajectory ends when no room for another token is left. Unset
    = unknown, and the engine rejects longer contexts."""
    folder: FilePath = ""
    """For ray and engine: folder through which weights are transferred; the sampler must see it at the same path.
    It holds the weights that the sampler has, and is emptied at the end. Empty = the run's folder."""


CurriculumPolicy = Literal["uniform", "failure_weighted", "levels"]
DEFAULT_FLOOR = 0.4
"""Minimum weight of a family, relative to one that always fails."""
DEFAULT_MIX: Mapping[int, float] = {1: 0.10, 2: 0.15, 3: 0.25, 4: 0.30, 5: 0.20}
"""Share of each level, from single steps (1) to long work across apps (5); the hard levels have most, the hardest a
little less. With fewer levels, their shares are scaled to sum to 1."""


@settings
class GateSettings(Settings):
    """Skips families by their estimated success rate p. The G rewards of a group are all equal with probability p^G
    + (1 − p)^G, and then the group has no training signal. DAPO (arXiv 2503.14476, section 3.2) drops such groups
    after sampling; the gate does not sample them."""

    low: Rate = 0.05
    """Success rate below which a family is skipped."""
    high: Annotated[float, Field(gt=0, le=1)] = 0.95
    """Success rate above which a family is skipped. Two in three groups of 8 have no training signal at 0.05 or at
    0.95."""
    probe_share: Probability = 0.1
    """Maximum share of tasks from skipped families, which keep their estimates up to date."""

    def problems(self) -> Iterator[str | None]:
        """Yields contradictions between fields."""
        yield f"low={self.low!r} must be less than high={self.high!r}" if self.low >= self.high else None
        is_open = self.low == 0 and self.high == 1
        yield report_unused(is_open, "a gate", "with low=0 and high=1; narrow it or omit it")


@settings
class LevelSettings(Settings):
    """The schedule by levels: most tasks are of the current level, some of the next and some of easier ones."""

    advance_at: Annotated[float, Field(gt=0, le=1)] = 0.7
    """Success rate of the current level at which the next level becomes current."""
    ahead_share: Rate = 0.2
    """Share of the next level in the tasks that are not from easier levels; the rest are from the current level."""
    easier_share: Annotated[float, Field(ge=0.1, le=0.2)] = 0.15
    """Share of tasks from levels below the current one, against forgetting. The gate does not apply to them."""
    max_drop: Probability = 0.15
    """Largest drop of an easier level's success rate below its best. At a larger drop the level is sampled together
    with the current one until it recovers."""
    final_mix: Mapping[Annotated[int, Field(ge=0, le=9999)], Annotated[float, Field(gt=0, le=1)]] | None = None
    """Share of each level after the highest has reached ``advance_at``, such as ``{1 = 0.3, 2 = 0.7}``; the shares
    sum to 1. Unset = .1, .15, .25, .3 and .2 for levels 1 to 5, scaled to the existing levels."""

    def problems(self) -> Iterator[str | None]:
        """Yields contradictions between fields."""
        mix = self.final_mix
        if mix is not None and not (mix and abs(sum(mix.values()) - 1) < 1e-6):
            yield f"final_mix must have positive shares that add up to 1, got {dict(mix)!r}"


@settings
class CurriculumSettings(Settings):
    """The curriculum of ``grpo`` and ``ppo``: which tasks are sampled next, given the success on earlier ones.
    Without this section, families are sampled by their failure rate before training."""

    policy: CurriculumPolicy = "levels"
    """Sampling of families. ``uniform``: all with equal weight. ``failure_weighted``: by their current failure
    rate. ``levels``: by the schedule in ``levels`` from easy to hard, and within a level by the current failure
    rate."""
    failure_floor: Annotated[float, Field(gt=0, le=1)] | None = None
    """Minimum weight of a family; a family that always fails has weight 1. Not for ``uniform``. Unset = 0.4."""
    window: Count = 10
    """Number of latest iterations from which success rates are estimated; older ones are of other weights."""
    min_trajectories: Count = 16
    """Minimum number of evaluated trajectories in the ``window`` for an estimate. A family with fewer is sampled,
    and its level does not advance."""
    gate: GateSettings | None = None
    """Skips families that almost always or almost never succeed. Unset = no family is skipped."""
    levels: LevelSettings | None = None
    """The schedule by levels, for policy ``levels``. Unset = its defaults."""

    def problems(self) -> Iterator[str | None]:
        """Yields contradictions between fields."""
        yield report_unused(
            self.policy == "uniform" and self.failure_floor is not None,
            f"failure_floor={self.failure_floor!r}",
            "with policy='uniform', where all families have the same weight; omit it",
        )
        yield report_unused(
            self.policy != "levels" and self.levels is not None,
            "levels",
            f"with policy={self.policy!r}; set policy='levels' or omit it",
        )

    @property
    def floor(self) -> float:
        """``failure_floor``, or its default if unset."""
        return DEFAULT_FLOOR if self.failure_floor is None else self.failure_floor


IMPORTANCE: Mapping[str, float] = {"essential": 1.0, "important": 0.7, "optional": 0.3, "pitfall": -0.9}
"""Weights of RaR (arXiv 2507.17746, explicit aggregation)."""
MeasureKind = Literal[
    "format", "cosine", "lcpo_exact", "lcpo_max", "within", "repetition", "repeated_calls", "tool_use", "function"
]
_FIELDS_OF: Mapping[MeasureKind, tuple[str, ...]] = {
    "cosine": ("tokens",),
    "lcpo_exact": ("tokens", "alpha"),
    "lcpo_max": ("tokens", "alpha", "delta"),
    "within": ("tokens",),
    "repetition": ("size",),
    "function": ("function",),
}
_REQUIRED = ("tokens", "size", "function")


def weights_in_numbers(weights: Mapping[str, float | str]) -> dict[str, float]:
    """Returns the weights with the number of each word."""
    return {name: IMPORTANCE[weight] if isinstance(weight, str) else weight for name, weight in weights.items()}


def _checked_weights(weights: dict[str, float | str]) -> dict[str, float | str]:
    for name, weight in weights.items():
        if isinstance(weight, str) and weight not in IMPORTANCE:
            raise ValueError(f"the weight of {name!r} must be a number or one of {', '.join(IMPORTANCE)}")
    if not any(weight > 0 for weight in weights_in_numbers(weights).values()):
        raise ValueError("weights must name at least one reward component with a positive weight")
    return weights


@settings
class MeasureSettings(Settings):
    """``[[rewards.measures]]``: a reward component that is computed from the trajectory and its evaluation, and
    stored with the evaluation (docs/evaluation.md)."""

    name: Name
    """Name of the component."""
    kind: MeasureKind
    """``format``: 1 if every turn parses. ``cosine``, ``lcpo_exact``, ``lcpo_max``, ``within``: success at a length
    of ``tokens``. ``repetition``: share of repeated n-grams. ``repeated_calls``: share of turns that repeat a call
    and its result. ``tool_use``: 1 for a success that used the result of a call. ``function``: your own."""
    tokens: Count | None = None
    """For cosine: written tokens from which the reward no longer changes. For lcpo_exact and lcpo_max: target. For
    within: number up to which a success counts."""
    alpha: Positive | None = None
    """For lcpo_exact and lcpo_max: what a token counts. Unset = 3e-4."""
    delta: Share | None = None
    """For lcpo_max: reward of a success at the target. Unset = 0.5."""
    size: Count | None = None
    """For repetition: n of the n-grams."""
    function: ImportPath = ""
    """For function: ``module:name`` of a function of a trajectory and its evaluation that returns a number, or None
    where it is missing."""

    def problems(self) -> Iterator[str | None]:
        """Yields missing and unused settings of the kind."""
        used = _FIELDS_OF.get(self.kind, ())
        for name in ("tokens", "alpha", "delta", "size", "function"):
            value = getattr(self, name)
            if name in used and name in _REQUIRED and value in (None, ""):
                yield f"kind={self.kind!r} needs {name}"
            yield report_unused(name not in used and value not in (None, ""), name, f"with kind={self.kind!r}")


@settings
class RewardConfig(Settings):
    """The score of a trajectory, and the reward in reinforcement learning."""

    name: Name = "rewards"
    """Name of these rewards in evaluations."""
    version: Count = 1
    """Version of these rewards in evaluations; raise it when a function of a measure changes."""
    weights: Annotated[dict[str, float | str], AfterValidator(_checked_weights)] = field(
        default_factory=lambda: {"success": 0.8, "efficiency": 0.2}
    )
    """Weight of each reward component in the score. A negative weight is a pitfall, which only lowers the score;
    ``essential`` is 1, ``important`` 0.7, ``optional`` 0.3, ``pitfall`` -0.9. Components without a weight are only
    recorded. Costs have no weights: they limit which versions are released. ``model:FOLDER`` is the score, in
    [0, 1], of a reward model of ``upturn train reward-model`` or ``process-reward`` (docs/training.md)."""
    gates: dict[str, float] = field(default_factory=dict)
    """Least value of components; below it only the pitfalls count."""
    sequence: tuple[str, ...] = ()
    """Components with a weight, in order: each counts only where those before it are 1."""
    missing: Literal["renormalise", "unscored"] = "renormalise"
    """A component that could not be computed, such as by a judge that failed. ``renormalise``: the others make the
    reward. ``unscored``: the trajectory has none; for judges that an agent could break on purpose."""
    measures: tuple[MeasureSettings, ...] = ()
    """Further components."""
    overlong_tokens: Count | None = None
    """Number of written tokens in a trajectory from which the overlong penalty of DAPO takes 1 off its reward in
    reinforcement learning. Unset = no penalty."""
    overlong_buffer: Count | None = None
    """Number of tokens below ``overlong_tokens`` over which the overlong penalty rises linearly from 0 to 1."""

    @property
    def numbers(self) -> Mapping[str, float]:
        """``weights`` with the number of each word."""
        return weights_in_numbers(self.weights)

    def problems(self) -> Iterator[str | None]:
        """Yields a sequence of components without a weight, and measures of equal name."""
        for name in self.sequence:
            if self.numbers.get(name, 0.0) <= 0:
                yield f"sequence names {name!r}, which has no positive weight"
        names = [measure.name for measure in self.measures]
        twice = dict.fromkeys(name for name in names if names.count(name) > 1)
        yield f"measures must have different names, got {', '.join(twice)} more than once" if twice else None
        if len(set(self.sequence)) != len(self.sequence) or len(self.sequence) == 1:
            yield f"sequence must name two or more components, each once, got {list(self.sequence)!r}"
