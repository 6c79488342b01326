"""Trajectories: all turns of one agent version on one task, with the sampled tokens."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from upturn.records.json import JsonValue
from upturn.records.record import record

Outcome = Literal[
    "finished", "step_limit", "token_limit", "time_limit", "program_error", "model_error", "environment_error"
]
"""How a trajectory ended. ``finished``: the agent ended it, which is not success. ``program_error``: the agent's
program failed, which is a failure of the agent; ``model_error``, ``environment_error``: something else broke it."""

Origin = Literal["sampled", "rendered"]
"""``sampled``: with the tokens and log-probs of a model that Upturn ran. ``rendered``: written by a rule, a person
or an external API; its rows, if any, were tokenized from text afterwards, and policy gradients reject them."""


@record
class Action:
    """One action of an agent on its environment."""

    target: str
    """Name of the app, or ``user``; empty = the operation is a function's whole name."""
    operation: str
    parameters: Mapping[str, JsonValue] = field(default_factory=dict)
    thought: str = ""

    @property
    def name(self) -> str:
        """``target.operation``, as ``Tool.name``."""
        return f"{self.target}.{self.operation}" if self.target else self.operation


@record
class Observation:
    """What the agent sees of its environment."""

    text: str
    code: str = "ok"
    """``ok``, or the machine-readable code of the action's error."""

    @property
    def is_error(self) -> bool:
        """True if the action was rejected. A rejected action changes nothing, unless a fault was injected."""
        return self.code != "ok"


@record
class ModelUsage:
    """Tokens of model calls outside of a rollout's own model: of endpoints, programs, and calls of clients."""

    prompt_tokens: int = 0
    written_tokens: int = 0
    cached_tokens: int = 0
    """Of ``prompt_tokens``: read from the cache of the model's server, as far as it reports them."""
    cache_write_tokens: int = 0
    """Of ``prompt_tokens``: written to that cache."""
    cache_write_1h_tokens: int = 0
    """Of ``cache_write_tokens``: kept for an hour."""
    is_estimated: bool = False
    """True = a server has not reported the tokens of a call, and they are estimated by length."""

    def plus(self, other: "ModelUsage") -> "ModelUsage":
        """Returns the sums."""
        return ModelUsage(
            self.prompt_tokens + other.prompt_tokens,
            self.written_tokens + other.written_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.cache_write_1h_tokens + other.cache_write_1h_tokens,
            self.is_estimated or other.is_estimated,
        )


@record
class Turn:
    """One observation and the agent's action on it."""

    observation: Observation
    """What the agent saw before acting."""
    text: str
    """The agent's raw output, before it was parsed as an action."""
    action: Action | None
    """None = the text could not be parsed; the environment returned an error."""
    reward: float = 0.0
    """The environment's reward for the action."""
    costs: Mapping[str, float] = field(default_factory=dict)
    """Safety and error costs of the action, by component. Never added to the reward."""
    state_hash: str = ""
    """Hash of the environment's state before the action; empty = the environment has no hash."""
    potential: float | None = None
    """Progress in that state, in [0, 1]. For training; agents never see it. None = not reported."""
    call: int = 0
    """Index of the action within its message. Above 0, the message of the turn before had further calls: the text
    and tokens are a part of it, and the observation was not shown before this action."""
    repairs: tuple[str, ...] = ()
    """What the parser repaired in the call, by name."""
    refusal: str = ""
    """Why the text could not be parsed, ``reason: detail``; empty = it was, or the parser gives no reason."""
    message: str = ""
    """JSON that only the agent reads, in the first turn of a message. Of an endpoint: the message as the server
    sent it, which later calls repeat with its ids, thoughts and signatures; empty = it is written from text and
    action. Of a program: its model calls (``CapturedCalls``); empty = it made none. Of an imported conversation:
    who said what before (``pool.ingestion``)."""
    usage: ModelUsage | None = None
    """Of an endpoint, a program or a client's calls: what the model calls used, in the first turn of a message.
    None = there was no such call, or its tokens are unknown."""


@record
class WrittenSpan:
    """Tokens ``start:stop`` of a row, written by the model in the turn with index ``turn``."""

    turn: int
    start: int
    stop: int
    model_version: str = ""
    """Hash of the weights that wrote it; empty = the trajectory's ``model_version``."""


@record
class TokenRow:
    """A training row: tokens exactly as the model read and sampled them.

    A trajectory has one row as long as every prompt extends the previous tokens; otherwise a new row starts.
    """

    token_ids: tuple[int, ...]
    spans: tuple[WrittenSpan, ...]
    """Ascending and disjoint. Tokens outside of them have zero loss."""
    logprobs: tuple[float, ...]
    """The model's log-probabilities (at temperature 1) of the written tokens, spans concatenated. Empty for
    rendered rows, and where the sampler reports only ``sampling_logprobs``."""
    fork_cause: str | None = None
    """Why this row does not extend the previous one; None = the trajectory's first row."""
    sampling_logprobs: tuple[float, ...] = ()
    """Log-probabilities of the written tokens in the distribution that they were drawn from. Empty = the same as
    ``logprobs`` for a trajectory at temperature 1 without ``Trajectory.sampling``; otherwise not recorded."""


@record
class Usage:
    """Tokens and time of one trajectory."""

    prompt_tokens: int = 0
    written_tokens: int = 0
    seconds: float = 0.0
    """Wall-clock time; not reproducible."""


@record
class Trajectory:
    """One agent version's work on one task."""

    id: str
    task_id: str
    agent_version: str
    """``AgentVersion.id``"""
    turns: tuple[Turn, ...]
    final_observation: Observation
    """The observation after the last action."""
    outcome: Outcome
    origin: Origin
    rows: tuple[TokenRow, ...] = ()
    attempt: int = 0
    """Index of this trajectory among those of the same task and agent version, from 0."""
    seed: int = 0
    temperature: float | None = None
    """None = not sampled by Upturn."""
    model_version: str = ""
    """Hash of the weights that sampled the tokens, the last ones if several did; empty = not sampled by Upturn."""
    final_state: Mapping[str, JsonValue] = field(default_factory=dict)
    """The environment's state after the last action, sufficient to run a verifier again."""
    usage: Usage = Usage()
    dropped_calls: int = 0
    """Further calls of the last message, which were not made because the trajectory ended. Their tokens are in the
    last row, without a span."""
    error: str = ""
    """The error message, for the outcomes that are errors."""
    sampling: Mapping[str, JsonValue] = field(default_factory=dict)
    """The options that changed the sampled distribution besides the temperature, such as ``top_p``; empty =
    none."""
    cached_tokens: int = 0
    """Of ``usage.prompt_tokens``: read from the cache of a model's server, as far as it reports them."""
    cache_write_tokens: int = 0
    """Of ``usage.prompt_tokens``: written to that cache."""
    cache_write_1h_tokens: int = 0
    """Of ``cache_write_tokens``: kept for an hour."""
    is_usage_estimated: bool = False
    """True = a model's server has not reported all tokens, and ``usage`` is partly estimated by length."""

    @property
    def model_versions(self) -> tuple[str, ...]:
        """Hashes of all weights that wrote its tokens, the oldest first; the trajectory's own where it has none."""
        spans = sorted((span for row in self.rows for span in row.spans), key=lambda span: span.turn)
        return tuple(dict.fromkeys(span.model_version or self.model_version for span in spans)) or (
            self.model_version,
        )

    @property
    def results(self) -> tuple[Observation, ...]:
        """The observation after each turn."""
        return (*(turn.observation for turn in self.turns), self.final_observation)[1:]


@record
class Group:
    """Trajectories of the same task; relative advantages are computed within a group."""

    task_id: str
    trajectories: tuple[Trajectory, ...]
