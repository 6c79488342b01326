"""A trajectory: all turns of one agent version on one task, with the tokens as sampled."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from upturn.records.json import JsonValue
from upturn.records.record import record

Outcome = Literal["finished", "step_limit", "token_limit", "time_limit", "model_error", "environment_error"]
"""How a trajectory ended. ``finished``: the agent ended it, which is not success."""

Origin = Literal["sampled", "rendered"]
"""``sampled``: tokens and log-probs are those of a model of ours. ``rendered``: written by a rule, a person
or a foreign API; its rows (if any) were made from text afterwards and no policy gradient accepts them."""


@record
class Action:
    """What an agent asks its environment to do."""

    target: str
    """The app, or ``user``."""
    operation: str
    parameters: Mapping[str, JsonValue] = field(default_factory=dict)
    thought: str = ""

    @property
    def name(self) -> str:
        """``target.operation``, as ``Tool.name``."""
        return f"{self.target}.{self.operation}"


@record
class Observation:
    """What the agent sees of its environment."""

    text: str
    code: str = "ok"
    """``ok``, or the machine-readable name of what was wrong with the action."""

    @property
    def is_error(self) -> bool:
        """True when the action was refused; a refused action changed nothing, unless a fault was injected."""
        return self.code != "ok"


@record
class Turn:
    """One observation and the action that answered it."""

    observation: Observation
    """What the agent saw before acting."""
    text: str
    """What the agent wrote, before it was read as an action."""
    action: Action | None
    """None: the text could not be read as an action, and the environment answered with an error."""
    reward: float = 0.0
    """The environment's reward for this turn's action."""
    costs: Mapping[str, float] = field(default_factory=dict)
    """Safety and error costs of this turn's action, by component. Never added to the reward."""
    state_hash: str = ""
    """Hash of the environment's state before the action; empty where the environment has none."""
    potential: float | None = None
    """Progress in that state, in [0, 1], for training only: agents never see it. None = the environment reports
    none."""


@record
class WrittenSpan:
    """Tokens ``start:stop`` of a row, written by the model in the turn with this index."""

    turn: int
    start: int
    stop: int


@record
class TokenRow:
    """A training row: tokens exactly as the model saw and sampled them.

    A trajectory has one row as long as every prompt extends the tokens before it; each time it does not,
    a further row starts, with the cause.
    """

    token_ids: tuple[int, ...]
    spans: tuple[WrittenSpan, ...]
    """Ascending, disjoint. All tokens outside of them carry zero loss."""
    logprobs: tuple[float, ...]
    """The sampler's log-probabilities (at temperature 1) of the written tokens, spans concatenated.
    Empty for rendered rows."""
    fork_cause: str | None = None
    """None: the trajectory's first row."""


@record
class Usage:
    """Tokens and time of one trajectory."""

    prompt_tokens: int = 0
    written_tokens: int = 0
    seconds: float = 0.0
    """Wall clock. Not part of any decision, and not reproducible."""


@record
class Trajectory:
    """One agent version's work on one task."""

    id: str
    task_id: str
    agent_version: str
    """``AgentVersion.id``"""
    turns: tuple[Turn, ...]
    final_observation: Observation
    """The environment's answer to the last action."""
    outcome: Outcome
    origin: Origin
    rows: tuple[TokenRow, ...] = ()
    attempt: int = 0
    """Number of this trajectory among those of the same task and agent version, from 0."""
    seed: int = 0
    temperature: float | None = None
    """None: not sampled from a model of ours."""
    model_version: str = ""
    """Hash of the weights that sampled the tokens; empty when none did."""
    final_state: Mapping[str, JsonValue] = field(default_factory=dict)
    """The environment's state after the last action, enough for a verifier to re-run on."""
    usage: Usage = Usage()
    error: str = ""
    """The error, for the outcomes ``model_error`` and ``environment_error``."""

    @property
    def results(self) -> tuple[Observation, ...]:
        """The observation after each turn."""
        return (*(turn.observation for turn in self.turns), self.final_observation)[1:]


@record
class Group:
    """Trajectories of the same task: the unit that relative advantages are computed in."""

    task_id: str
    trajectories: tuple[Trajectory, ...]
