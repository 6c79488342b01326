"""The sections of ``upturn.toml`` beside those of training and release.

Field documentation stands under each field; ``docs/configuration.md`` is made from it. Values are checked one by
one here; settings that contradict each other are found in ``contradiction``.
"""

import re
from dataclasses import field
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from upturn.config.settings import (
    Count,
    FilePath,
    ImportPath,
    Name,
    Positive,
    Probability,
    Settings,
    Share,
    WholeNumber,
    settings,
)

HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+\Z")
"""What models are called on the Hugging Face hub: owner and name."""


def _some_weight(weights: dict[str, float]) -> dict[str, float]:
    """Refuses weights that leave nothing to reward."""
    if not weights:
        raise ValueError("weights must name at least one reward component")
    return weights


@settings
class RunConfig(Settings):
    """How a run is made repeatable and where it leaves its files."""

    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    """Everything random is derived from it."""
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None  # many thousands only end in a lack of memory
    """Threads torch may use; left out = one per usable core, at most the container's CPU quota."""
    directory: FilePath = "runs"
    """Folder that holds one folder per run. Paths in this file are relative to where the command is started."""


@settings
class PoolConfig(Settings):
    """The store of all evidence."""

    path: FilePath = ""
    """Database file that several runs share; empty = ``pool.db`` in the run's own folder."""
    tenant: Name = "default"
    """Whose evidence this is. Reads never cross tenants."""


@settings
class ReadinessConfig(Settings):
    """What the pool must hold before anything is trained from it."""

    points: Count = 5000
    """Evaluated trajectories."""
    clean_share: Share = 0.95
    """Share of them that passes every quality check."""
    categories: Count = 5
    """Task families among them."""
    privacy: bool = True
    """Whether unmasked personal data in the evidence stops training."""
    decisions: WholeNumber = 1
    """Routing decisions: the arbiter works and collects."""


@settings
class ContextConfig(Settings):
    """How much of a long attempt the agent is shown, for local_model and endpoint. When the context would exceed
    its budget, the history is rewritten down to the low mark: the latest turns whole, older ones as summaries,
    those left out that have least to do with the instruction and the latest observation."""

    tokens: Count | None = None
    """Of the whole context: what is read and what is written in a turn; left out = it only grows. Estimated for an
    endpoint, at three bytes a token."""
    window_turns: Count = 8
    """The latest turns, which are shown whole where they fit."""
    low_mark: Probability = 0.6
    """Share of ``tokens`` that the history is cut down to. A cut starts a new training row and makes caches of the
    prompt useless, so it should be seldom: lower is seldomer."""
    observation_tokens: Count | None = None
    """The most of one observation that is shown, with a note of how much is left out; left out = a quarter of
    ``tokens``."""
    summary_tokens: Count = 48
    """What is left of a result that is older than the window; of what was done, the call stays."""

    def longest_observation(self, tokens: int) -> int:
        """The most of one observation that is shown, in a context of so many tokens."""
        # A quarter, as the 32 of 128 thousand tokens in the design of the office.
        return self.observation_tokens or max(1, tokens // 4)


@settings
class AgentConfig(Settings):
    """One agent that tasks can be routed to; ``[[agents]]`` once for each."""

    name: Name
    """What decisions and reports call it."""
    kind: Literal["local_model", "rule_based", "callable", "endpoint"]
    """``local_model``: weights that Upturn runs and trains. ``rule_based``, ``callable``: Python code.
    ``endpoint``: any OpenAI-compatible server; routed and recorded, not trained."""
    model: FilePath = ""
    """local_model: ``nano`` (ships with Upturn), a folder, or a Hugging Face name such as
    ``Qwen/Qwen2.5-0.5B-Instruct`` (docs/models.md). endpoint: its name there."""
    url: Annotated[str, Field(pattern=r"^(https?://.+)?$")] = ""
    """endpoint: base URL, such as ``http://localhost:8000/v1``."""
    import_path: ImportPath = ""
    """rule_based, callable: ``module:attribute`` of the code."""
    prompt: str = ""
    """System prompt for local_model and endpoint; empty = none."""
    temperature: Annotated[float, Field(ge=0, le=5)] = 1.0
    """Sampling temperature while serving, for local_model and endpoint; 0 = greedy."""
    template_options: dict[str, bool | int | float | str] = field(default_factory=dict)
    """local_model: variables of its chat template, such as ``{ enable_thinking = false }``; empty = the template's
    own defaults."""
    weights: Literal["float32", "bfloat16"] = "float32"
    """local_model: how its weights are held. ``bfloat16`` takes half of the memory and rounds, for agents that are
    not trained."""
    api_key_env: str = ""
    """endpoint: name of the environment variable that holds the key; empty = no key is sent."""
    environments: tuple[str, ...] = ()
    """Environments the agent can act in; empty = any."""
    load_cap: Count | None = None
    """Tasks it may have in flight; left out = no cap."""
    context: ContextConfig = ContextConfig()
    """How much of a long attempt it is shown."""


@settings
class Limits(Settings):
    """What one trajectory may take."""

    max_turns: Count = 16
    """Actions in one trajectory."""
    max_tokens: Count | None = None
    """Tokens of context in one trajectory, prompt and observations included; left out = unlimited."""
    max_action_tokens: Count = 64
    """Tokens written in one action."""
    max_seconds: Positive | None = None
    """Wall clock of one trajectory, after which it ends even while its agent is asked, whose turn is not recorded;
    an environment is never interrupted. Left out = unlimited."""


@settings
class EnvironmentConfig(Limits):
    """Where the agents act."""

    name: Annotated[str, Field(min_length=1)] = "office"
    """A registered environment, or ``module:name`` of your own kit or of a function that makes it."""
    verifier: ImportPath = ""
    """``module:factory`` of the judge of finished trajectories; empty = the environment's own."""


@settings
class TaskConfig(Settings):
    """What the agents work on."""

    file: FilePath = ""
    """JSON Lines file of tasks, training and held-out; empty = the environment makes them from the seed. Where
    anything is trained, one training task in eight is set aside to choose weights on (docs/loop.md)."""
    families: tuple[str, ...] = ()
    """Task families the environment makes; empty = all it has."""
    train_families: tuple[str, ...] = ()
    """Those of them that are trained on and evaluated; empty = all that are served."""
    levels: tuple[Count, ...] = ()
    """Levels of difficulty the environment makes; empty = all it has."""
    count: Count = 5000
    """Tasks routed to the agents in each cycle."""
    heldout_count: Count = 400
    """Tasks that are never trained on; every before-and-after comparison is made on them. At least 30 where
    anything is trained."""


@settings
class RoutingConfig(Settings):
    """How an agent is chosen for a task."""

    policy: Literal["thompson", "rule_based", "uniform"] = "thompson"
    """``thompson`` learns from outcomes by family; ``rule_based`` follows ``rules``; ``uniform`` is a control."""
    floor: Annotated[float, Field(gt=0, le=0.05)] = 0.05
    """Share of decisions spent on exploring all agents alike."""
    discount: Annotated[float, Field(gt=0, le=1)] = 0.995
    """What is left of old evidence after each outcome in its family; 1 = nothing is forgotten."""
    default_agent: str = ""
    """rule_based: the agent for families that no rule names."""
    rules: dict[str, str] = field(default_factory=dict)
    """rule_based: agent by task family."""


@settings
class RewardConfig(Settings):
    """What counts as good work."""

    weights: Annotated[dict[str, Positive], AfterValidator(_some_weight)] = field(
        default_factory=lambda: {"success": 0.8, "efficiency": 0.2}
    )
    """Weight of each reward component in the score; components without weight are recorded only. Costs are
    never weighted in: they bound what may be released."""
    overlong_tokens: Count | None = None
    """Tokens written in one attempt from which practice takes 1 off its reward (DAPO); left out = no penalty."""
    overlong_buffer: Count | None = None
    """Tokens before that over which the penalty rises from 0."""


@settings
class LoopConfig(Settings):
    """How often, and whom, the loop improves."""

    cycles: Count = 1
    """Times the whole circle is run."""
    improve: str = ""
    """Name of the agent to train; empty = the only local_model agent."""
    train: tuple[Literal["sft", "grpo"], ...] = ("sft", "grpo")
    """What a cycle trains a candidate with; empty = it routes and records only. ``upturn train`` does not look at
    it."""
