"""The content of a report as records; the page is a pure function of them.

All shares are in [0, 1], all differences are after − before in the same unit. Unmeasured parts are None or empty,
and the page omits them.
"""

from typing import Literal

from upturn.records import EvaluationVerdict, GateResult, Outcome, Release, Result, record

Sampling = Literal["sampled", "greedy"]
"""``sampled``: at the temperature the agent serves with."""

RoutingEventKind = Literal["start", "promote", "hold", "rollback", "other"]
ChangeKind = Literal["reward", "cost", "effort"]
LineageKind = Literal["snapshot", "run", "version", "release"]


@record
class Estimate:
    """A measured value with its uncertainty."""

    value: float
    low: float | None = None
    """Lower end of the 95 % interval; None = no interval was computed."""
    high: float | None = None
    n: int | None = None
    """Number of tasks behind the value; None = not a sample of tasks."""

    @property
    def is_above_zero(self) -> bool:
        """True when the whole interval is above zero; False without an interval."""
        return self.low is not None and self.low > 0

    @property
    def is_below_zero(self) -> bool:
        """True when the whole interval is below zero."""
        return self.high is not None and self.high < 0

    @property
    def is_significant(self) -> bool:
        """True when the interval excludes zero."""
        return self.is_above_zero or self.is_below_zero


@record
class RunFacts:
    """The run of this report."""

    run: str
    command: str
    seed: int
    machine: str
    version: str
    """Upturn's version."""
    config_hash: str
    wall_seconds: float | None = None
    """None = the run is not finished."""
    peak_rss_mb: float | None = None


@record
class Headline:
    """The main comparison of the report."""

    before: Estimate
    after: Estimate
    gain: Estimate
    """Paired, task by task: after − before."""
    basis: str
    """The tasks, phrased to follow their number: ``held-out tasks (unseen templates …)``."""
    gain_sft: Estimate | None = None
    """Paired: after SFT − before. None = no SFT, or not measured."""
    gain_grpo: Estimate | None = None
    """Paired: after − after SFT. None = no GRPO, or not measured."""


@record
class Success:
    """Success within one level or family."""

    name: str
    success: Estimate
    level: int | None = None
    """None = not tied to one level."""


@record
class Measurement:
    """Held-out success of one version with one kind of sampling."""

    stage: str
    """``before``, ``after SFT``, …; measurements are listed in the order of the versions."""
    sampling: Sampling
    overall: Estimate
    levels: tuple[Success, ...] = ()
    families: tuple[Success, ...] = ()


@record
class CurvePoint:
    """One training iteration."""

    iteration: int
    reward: float | None = None
    """Mean over the training tasks of the iteration; None = not logged."""
    unseen: Estimate | None = None
    """Success on training templates in unseen worlds, which select the best weights; not the held-out tasks. None =
    not measured in this iteration."""
    tokens: int | None = None
    """Model-written tokens trained on so far."""


@record
class LearningCurve:
    """The learning curve of one training run."""

    algorithm: str
    points: tuple[CurvePoint, ...]
    page: str = ""
    """Address of the run's page, relative to this one; empty = there is none."""


@record
class Share:
    """One agent version's share of something."""

    agent_version: str
    share: float


@record
class RoutingPoint:
    """The routing shares after a number of tasks."""

    task: int
    """Tasks routed so far."""
    shares: tuple[Share, ...]
    """Versions without traffic may be omitted."""


@record
class RoutingEvent:
    """A change of the versions in service."""

    task: int
    label: str
    kind: RoutingEventKind = "other"


@record
class Routing:
    """Routing shares over time."""

    points: tuple[RoutingPoint, ...]
    measure: str
    """The meaning of a share: ``share of the last 100 tasks`` or ``mean probability over families``."""
    events: tuple[RoutingEvent, ...] = ()
    best_agent_share: Estimate | None = None
    """Mean final probability of the best agent over the families where one clearly leads."""


@record
class Canary:
    """One candidate's release."""

    title: str
    """``The trained candidate``"""
    release: Release
    threshold: float
    """E-value at which the canary acts, e.g. 40."""


@record
class Change:
    """A quantity before and after."""

    name: str
    kind: ChangeKind
    before: Estimate | None
    """None = missing, not zero."""
    after: Estimate | None
    difference: Estimate | None = None
    """after − before, with its interval; None = not compared."""
    unit: str = ""


@record
class StateChange:
    """One difference between two states of an environment."""

    path: str
    """``mail.inbox.3.read``"""
    before: str | None
    """As JSON; None = absent."""
    after: str | None
    """As JSON; None = removed."""


@record
class TranscriptTurn:
    """The agent's text and the observation after it."""

    text: str
    observation: str
    code: str = "ok"
    """``ok``, or the name of the action's error."""


@record
class Transcript:
    """One trajectory, turn by turn."""

    stage: str
    agent_version: str
    turns: tuple[TranscriptTurn, ...]
    outcome: Outcome
    verdict: EvaluationVerdict
    gates: tuple[GateResult, ...] = ()
    changes: tuple[StateChange, ...] | None = None
    """Changes of the environment's state; None = not recorded, empty = no change."""


@record
class TaskStory:
    """One task with trajectories of several versions."""

    task_id: str
    family: str
    level: int
    instruction: str
    attempts: tuple[Transcript, ...]
    chosen_because: str = ""
    """How this task was selected: it is not an average one."""


@record
class LineageStep:
    """One link of the chain from evidence to release."""

    kind: LineageKind
    id: str
    details: tuple[str, ...] = ()


@record
class ReadinessRow:
    """One prerequisite of training, compared with two thresholds."""

    name: str
    measured: str
    threshold: str
    """This run's."""
    holds: bool
    production_threshold: str
    production_holds: bool


@record
class CoverageRow:
    """The recorded share of one step."""

    name: str
    covered: int
    total: int
    bar: float
    """Smallest acceptable share."""

    @property
    def share(self) -> float | None:
        """covered / total; None when the total is 0."""
        return self.covered / self.total if self.total else None

    @property
    def holds(self) -> bool:
        """True when the share meets the bar; False when the total is 0."""
        return self.share is not None and self.share >= self.bar


@record
class FloorRow:
    """Success rates of a family for the oracle, doing nothing and random actions."""

    family: str
    oracle: Estimate | None
    nothing: Estimate | None
    random: Estimate | None
    """Random valid actions."""


@record
class GuardrailRow:
    """One family in the check against forgetting."""

    family: str
    difference: Estimate
    """Paired, candidate − incumbent, with n."""
    is_shown_worse: bool
    """True: the family's own test, corrected over families, shows a loss."""
    incumbent: float | None = None
    candidate: float | None = None


@record
class Guardrail:
    """The check against forgetting, with its families."""

    rows: tuple[GuardrailRow, ...]
    is_passed: bool
    rule: str
    """The rule that blocks a candidate, in one sentence."""
    pooled: Estimate | None = None
    """Difference over the families in which the incumbent was strong; None = there are none."""
    is_kept_back: bool = False
    """True: the candidate entered no canary."""


@record
class NextCommand:
    """A suggested command."""

    command: str
    purpose: str


@record
class ReportContent:
    """The whole page."""

    title: str
    facts: RunFacts
    headline: Headline | None = None
    measurements: tuple[Measurement, ...] = ()
    curves: tuple[LearningCurve, ...] = ()
    routing: Routing | None = None
    canaries: tuple[Canary, ...] = ()
    changes: tuple[Change, ...] = ()
    story: TaskStory | None = None
    lineage: tuple[LineageStep, ...] = ()
    readiness: tuple[ReadinessRow, ...] = ()
    coverage: tuple[CoverageRow, ...] = ()
    floors: tuple[FloorRow, ...] = ()
    guardrails: tuple[Guardrail, ...] = ()
    """One per validated candidate."""
    results: tuple[Result, ...] = ()
    bars_note: str = ""
    """Which bars a short run is not meant to meet, and why; empty = it is meant to meet all."""
    next_commands: tuple[NextCommand, ...] = ()
    notes: tuple[str, ...] = ()
    """How it was measured, one or two sentences each."""
