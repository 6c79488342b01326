"""The sections of ``upturn.toml`` that all algorithms share: optimiser, adapter, rollouts, curriculum.

Those of single algorithms stand with the algorithms, in ``upturn.training``.
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
    WholeNumber,
    report_unused,
    settings,
)

Packing = Literal["tree", "padded"]
"""``tree``: what rows begin with together is computed once. ``padded``: each row by itself. Same gradient."""
Precision = Literal["float32", "bfloat16"]
"""Of the forward and backward pass; ``bfloat16`` by autocast, weights and optimiser stay in float32."""


@settings
class OptimiserSettings(Settings):
    """AdamW. ``[optimiser]`` holds for every algorithm; an algorithm's own table, such as ``[grpo.optimiser]``,
    goes first."""

    learning_rate: Positive = 1e-4
    """Of AdamW. With the nano model 8e-4 was seen to collapse in reinforcement learning."""
    warmup_steps: WholeNumber = 0
    """Steps over which the learning rate rises linearly to its full value; 0 = none."""
    weight_decay: NotNegative = 0.0
    """AdamW's."""
    beta1: Rate = 0.9
    """Decay of the mean of gradients."""
    beta2: Rate = 0.95
    """Decay of the mean of squared gradients. 0.95, not 0.999: runs last hundreds of steps, and it has to follow
    them."""
    max_grad_norm: Positive = 1.0
    """The whole gradient is scaled down to this 2-norm when it is longer."""
    micro_batch_tokens: Count = 16_384
    """Tokens computed at once. Bounds memory, never changes the gradient beyond rounding."""
    packing: Packing = "tree"
    """``tree``: what rows begin with together is computed once; ``padded``: each row by itself. Same gradient."""
    precision: Precision = "float32"
    """Of forward and backward pass; weights and optimiser stay in float32."""
    gradient_checkpointing: bool = False
    """Whether activations are computed again in the backward pass: less memory, a third slower."""


@settings
class AdapterSettings(Settings):
    """A LoRA adapter (arXiv 2106.09685) in place of the whole model, whatever it learns from: of linear layers W,
    alpha / rank · B A is trained, and W stays as it is. Without dropout, which would make the trainer another
    policy than the sampler. Versions are whole models all the same, with the adapter merged (docs/models.md)."""

    rank: Count
    """Rows of A and columns of B."""
    alpha: Count | None = None
    """The adapter's product is multiplied by alpha / rank; left out = twice the rank."""
    targets: tuple[str, ...] = ()
    """Linear layers that have an adapter, by the last part of their names, such as ``q_proj``; empty = all but the
    output layer."""
    seed: WholeNumber | None = None
    """What A is drawn from; B begins at 0, so that nothing changes before the first step. Left out = the run's."""


@settings
class RolloutConfig(Settings):
    """Where the trajectories that are trained on are sampled."""

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
    ``[lora]``."""
    api_key_env: str = ""
    """engine: name of the environment variable that holds the key; empty = no key is sent."""
    timeout_seconds: Positive = 120.0
    """engine: of one try of one request; loading weights is one too."""
    max_length: Count | None = None
    """engine: tokens of the longest context that it takes; a trajectory that leaves no room for one more ends
    there. Left out = unknown: the engine refuses it."""
    folder: FilePath = ""
    """ray, engine: where weights are handed over, readable under the same path for whoever samples; empty = in the
    run's folder."""


CurriculumPolicy = Literal["uniform", "failure_weighted", "levels"]
USUAL_FLOOR = 0.4
"""Nothing is sampled less than 0.4 times as often as what always fails."""
USUAL_MIX: Mapping[int, float] = {1: 0.10, 2: 0.15, 3: 0.25, 4: 0.30, 5: 0.20}
"""By level, from single steps (1) to long work across apps (5): most of what is hard, the hardest still rare. Where
there are fewer levels, their shares are scaled to 1."""


@settings
class GateSettings(Settings):
    """Which families are sampled, by their estimated success p. All G trajectories of a group earn the same with
    probability p^G + (1 − p)^G, and then the group teaches nothing. DAPO (arXiv 2503.14476, section 3.2) drops such
    groups after they were sampled; a gate does not sample them."""

    low: Rate = 0.05
    """A family rests while it succeeds less often than this …"""
    high: Annotated[float, Field(gt=0, le=1)] = 0.95
    """… or more often than this. With groups of 8 two in three are without a signal at 0.05 and at 0.95."""
    probe_share: Probability = 0.1
    """Share of the tasks that resting families still get together, at most, so that their estimates stay fresh."""

    def problems(self) -> Iterator[str | None]:
        """What is wrong with several fields together."""
        yield f"low={self.low!r} must be less than high={self.high!r}" if self.low >= self.high else None
        is_open = self.low == 0 and self.high == 1
        yield report_unused(is_open, "a gate", "with low=0 and high=1; narrow it or leave it out")


@settings
class LevelSettings(Settings):
    """The schedule by levels: most tasks from the current level, some from the next, a share from easier ones."""

    advance_at: Annotated[float, Field(gt=0, le=1)] = 0.7
    """Success of the current level from which the next becomes current."""
    ahead_share: Rate = 0.2
    """Share of the next level in what easier levels leave; the current one has the rest."""
    easier_share: Annotated[float, Field(ge=0.1, le=0.2)] = 0.15
    """Share of the levels below the current one, against forgetting. None of it is gated."""
    max_drop: Probability = 0.15
    """An easier level whose success is more than this below its best is sampled beside the current one until it has
    recovered."""
    final_mix: Mapping[Annotated[int, Field(ge=0, le=9999)], Annotated[float, Field(gt=0, le=1)]] | None = None
    """Share of each level once the highest is learned, such as ``{1 = 0.3, 2 = 0.7}``; they add up to 1. Left out =
    .1, .15, .25, .3 and .2 of levels 1 to 5, scaled to those that there are."""

    def problems(self) -> Iterator[str | None]:
        """What is wrong with several fields together."""
        mix = self.final_mix
        if mix is not None and not (mix and abs(sum(mix.values()) - 1) < 1e-6):
            yield f"final_mix must have positive shares that add up to 1, got {dict(mix)!r}"


@settings
class CurriculumSettings(Settings):
    """Which tasks are sampled next, given how earlier ones ended: for ``grpo`` and ``ppo``. Without this section
    families are sampled by what they failed before training, to the end."""

    policy: CurriculumPolicy = "levels"
    """``uniform``: all families alike. ``failure_weighted``: by what fails now. ``levels``: the schedule of
    ``levels``, from easy to hard, and within a level by what fails now."""
    failure_floor: Annotated[float, Field(gt=0, le=1)] | None = None
    """Least weight of a family, where one that always fails weighs 1; left out = 0.4. Not for ``uniform``."""
    window: Count = 10
    """Iterations that success is estimated from, the last ones; older ones say nothing of the weights of now."""
    min_trajectories: Count = 16
    """Evaluated trajectories in the window that an estimate needs; a family with fewer is sampled, and its level
    does not advance."""
    gate: GateSettings | None = None
    """Families that nearly always or never succeed rest; left out = none does."""
    levels: LevelSettings | None = None
    """The schedule by levels; left out = its defaults, where the policy is ``levels``."""

    def problems(self) -> Iterator[str | None]:
        """What is wrong with several fields together."""
        yield report_unused(
            self.policy == "uniform" and self.failure_floor is not None,
            f"failure_floor={self.failure_floor!r}",
            "with policy='uniform', where all families weigh the same; leave it out",
        )
        yield report_unused(
            self.policy != "levels" and self.levels is not None,
            "levels",
            f"with policy={self.policy!r}; take policy='levels' or leave it out",
        )

    @property
    def floor(self) -> float:
        """The least weight in effect."""
        return USUAL_FLOOR if self.failure_floor is None else self.failure_floor
