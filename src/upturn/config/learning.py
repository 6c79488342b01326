"""The sections of ``upturn.toml`` that all algorithms share: optimiser, adapter, rollouts, curriculum.

The sections of the algorithms are in ``upturn.training``.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field

from upturn.config.settings import (
    Count,
    FilePath,
    NotNegative,
    Positive,
    Probability,
    Rate,
    Settings,
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
