"""Bodies of requests about a tenant's evidence."""

from typing import Annotated, Any

from pydantic import Field, JsonValue

from upturn.dialects import RequestError
from upturn.gateway.openapi import Wire
from upturn.pool import Axis, BatchCriteria, Priorities
from upturn.pool.answers import MOST_POINTS, Contents, read_moment
from upturn.records import EvaluationVerdict, Origin, Outcome, Split

Names = Annotated[list[Annotated[str, Field(min_length=1, max_length=200)]], Field(max_length=100)]
Text = Annotated[str, Field(max_length=1_000)]
_NOT_CRITERIA = frozenset({"seed", "bound", "freeze", "contents", "who", "why", "priorities", "since", "before"})


def _only_train() -> list[Split]:
    return ["train"]


class DecisionBody(Wire):
    """A routing decision of a router elsewhere, with its task unless that is stored."""

    decision: dict[str, JsonValue]
    """The fields of ``Decision``; ``tenant`` may be left out."""
    task: dict[str, JsonValue] | None = None
    """The fields of ``Task``."""


class ExecutionBody(Wire):
    """What an agent did elsewhere, with its task unless that is stored."""

    trajectory: dict[str, JsonValue]
    """The fields of ``Trajectory``."""
    task: dict[str, JsonValue] | None = None
    """The fields of ``Task``."""


class EvaluationBody(Wire):
    """The evaluation of a stored trajectory."""

    evaluation: dict[str, JsonValue]
    """The fields of ``Evaluation``."""


class PrioritiesBody(Wire):
    """A point of value 1 is exp(priority) times as likely as one of value 0."""

    success: float = 0.0
    efficiency: float = 0.0
    novelty: float = 0.0


class BatchBody(Wire):
    """The criteria of a batch; what is left out is any."""

    size: Annotated[int, Field(ge=1, le=MOST_POINTS)] = 1_000
    families: Names = Field(default_factory=list)
    environments: Names = Field(default_factory=list)
    levels: Annotated[list[int], Field(max_length=100)] = Field(default_factory=list)
    tags: Names = Field(default_factory=list)
    """Only of tasks that have all of these tags."""
    agents: Names = Field(default_factory=list)
    agent_versions: Names = Field(default_factory=list)
    splits: Annotated[list[Split], Field(max_length=2)] = Field(default_factory=_only_train)
    origins: Annotated[list[Origin], Field(max_length=2)] = Field(default_factory=list)
    outcomes: Annotated[list[Outcome], Field(max_length=20)] = Field(default_factory=list)
    verdicts: Annotated[list[EvaluationVerdict], Field(max_length=3)] = Field(default_factory=list)
    min_score: float | None = None
    max_score: float | None = None
    since: Annotated[str, Field(max_length=40)] | None = None
    """Recorded at or after this day or time (ISO 8601, UTC)."""
    before: Annotated[str, Field(max_length=40)] | None = None
    """Recorded before this day or time."""
    is_clean: bool = False
    balance: Annotated[list[Axis], Field(max_length=4)] = Field(default_factory=list)
    max_per_task: Annotated[int, Field(ge=1)] | None = None
    priorities: PrioritiesBody = PrioritiesBody()
    heldout_share: float = 0.0
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] = 0
    """Which of the points that meet the criteria."""
    bound: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    """Only what the pool had up to this sequence number; the answer has the one that was used."""
    freeze: bool = False
    """Whether the batch is stored as a snapshot."""
    contents: Contents = "none"
    """Of the lines: the records of each point, too. ``raw`` needs the role admin, and ``why``."""
    why: Text = ""
    """For raw contents."""
    who: Annotated[str, Field(max_length=200)] = ""

    @property
    def criteria(self) -> BatchCriteria:
        """The criteria; raises RequestError for a contradiction."""
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in self
            if name not in _NOT_CRITERIA
        }
        given["since"], given["before"] = moment("since", self.since), moment("before", self.before)
        try:
            return BatchCriteria(**given, priorities=Priorities(**self.priorities.model_dump()))
        except ValueError as exc:
            raise RequestError(str(exc)) from exc


def moment(name: str, text: str | None) -> float | None:
    """Returns seconds since 1970; None = no limit. Raises RequestError for text that is no time."""
    try:
        return None if text is None else read_moment(text)
    except ValueError as exc:
        raise RequestError(f"{name}: {exc}", field=name) from exc
