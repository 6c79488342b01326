"""Trajectories as transitions of reinforcement learning: state, action, reward, next state (S, A, R, S′).

A state is what the agent saw anew, with the hash of the environment's state where the environment has one. What it
saw before is in the states of the transitions before, so that a trajectory of n turns has n observations and not
n². Pure, except for ``transitions``, which reads pages of a pool.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import fsum
from typing import NamedTuple

from sqlalchemy import select

from upturn.pool.ingestion import is_imported
from upturn.pool.quality import missing_reward
from upturn.pool.reader import Experience, PoolReader
from upturn.pool.schema import calls, decisions
from upturn.records import MODEL_CALL, Action, Observation, Outcome, Task, Trajectory

_PAGE = 100
"""Trajectories whose decisions are read at once."""
_TERMINAL: frozenset[Outcome] = frozenset(("finished", "program_error"))
"""The agent ended these itself. A limit or a failure of something else cuts a trajectory off in a state from which
it could have gone on."""


class State(NamedTuple):
    """What an agent saw, and what is known of its environment at that moment."""

    observation: Observation
    state_hash: str = ""
    """Hash of the environment's state; empty = there is none."""
    potential: float | None = None
    """Progress in [0, 1]; None = not reported."""


class Assignment(NamedTuple):
    """The routing decision that gave a task to an agent version."""

    decision_id: str
    propensity: float


@dataclass(frozen=True, slots=True)
class Transition:
    """One turn of a trajectory."""

    trajectory_id: str
    task_id: str
    family: str
    agent_version: str
    turn: int
    """From 0."""
    turns: int
    """Number of the trajectory's turns."""
    state: State
    text: str
    """What the agent wrote."""
    action: Action | None
    """None = the text could not be read as an action."""
    step_reward: float | None
    """The environment's reward for the action. None = no environment gave rewards: an imported conversation, or a
    client's calls."""
    outcome_reward: float | None
    """The trajectory's score, on the last turn only. None = another turn, or the evaluation is missing."""
    costs: Mapping[str, float]
    next_state: State
    """On the last turn the final observation, whose state has no hash."""
    is_last: bool
    is_terminal: bool
    """True = the agent ended the trajectory with this action, and no value follows. A last turn that is not
    terminal is truncated: a limit ended the trajectory, or a model or environment failed."""
    logprob: float | None
    """Log-probability of the turn's tokens under the policy and the sampling options that wrote them, summed. None
    = there are no sampled tokens, or their distribution is not recorded."""
    written_tokens: int
    """Number of sampled tokens of the turn; 0 = none are recorded."""
    model_version: str
    """Hash of the weights that wrote the turn; empty = not sampled by Upturn."""
    assignment: Assignment | None
    """None = no decision is stored, as for rollouts of training and imports."""

    @property
    def reward(self) -> float | None:
        """The outcome's reward on the last turn, the environment's on others; None = missing, which is not 0."""
        return self.outcome_reward if self.is_last else self.step_reward

    @property
    def is_truncated(self) -> bool:
        """True = the trajectory was cut off after this turn, and a value may follow."""
        return self.is_last and not self.is_terminal


def transitions_of(experience: Experience, assignment: Assignment | None = None) -> Iterator[Transition]:
    """Yields the transitions of a data point, in order; none if it has no turns."""
    task, trajectory, evaluation = experience
    score = None if evaluation is None or missing_reward(experience) else evaluation.score
    has_environment = task.environment != MODEL_CALL and not is_imported(trajectory)
    written = _written(trajectory)
    states = [State(turn.observation, turn.state_hash, turn.potential) for turn in trajectory.turns]
    states.append(State(trajectory.final_observation))
    last = len(trajectory.turns) - 1
    for index, turn in enumerate(trajectory.turns):
        is_last, sampled = index == last, written.get(index, _NOTHING)
        yield Transition(
            trajectory.id,
            task.id,
            task.family,
            trajectory.agent_version,
            index,
            last + 1,
            states[index],
            turn.text,
            turn.action,
            turn.reward if has_environment else None,
            score if is_last else None,
            turn.costs,
            states[index + 1],
            is_last,
            is_last and trajectory.outcome in _TERMINAL,
            sampled.logprob,
            sampled.tokens,
            sampled.model_version,
            assignment,
        )


def transitions(pool: PoolReader, experiences: Iterable[Experience], *, tenant: str) -> Iterator[Transition]:
    """Yields the transitions of the tenant's data points, which ``pool.experiences`` and ``experiences_in`` read.

    Memory is bounded by a page of trajectories.
    """
    for experience, assignment in assigned(pool, experiences, tenant=tenant):
        yield from transitions_of(experience, assignment)


def assigned(
    pool: PoolReader, experiences: Iterable[Experience], *, tenant: str
) -> Iterator[tuple[Experience, Assignment | None]]:
    """Yields each data point of the tenant with the latest decision for its task and agent version."""
    rest = iter(experiences)
    while page := list(islice(rest, _PAGE)):
        known = _assignments(pool, page, tenant)
        for experience in page:
            yield experience, known.get((experience.task.id, experience.trajectory.agent_version))


def _assignments(pool: PoolReader, page: Sequence[Experience], tenant: str) -> dict[tuple[str, str], Assignment]:
    """Returns the latest decision of each task and version; a sealed episode has those of its calls."""
    tasks = {experience.task.id: experience.task for experience in page}
    episodes = {task.episode: task.id for task in tasks.values() if _is_episode(task) and task.episode is not None}
    others = [task.id for task in tasks.values() if not _is_episode(task)]
    columns = (decisions.c.chosen, decisions.c.id, decisions.c.propensity)
    by_task = select(decisions.c.task_id, *columns).where(
        decisions.c.task_id.in_(others), decisions.c.tenant == tenant
    )
    by_episode = (  # a call has the id of its decision, and an index by episode
        select(calls.c.episode, *columns)
        .join_from(calls, decisions, decisions.c.id == calls.c.id)
        .where(calls.c.tenant == tenant, calls.c.episode.in_(list(episodes)))
    )
    known: dict[tuple[str, str], Assignment] = {}
    with pool.engine.connect() as connection:
        for row in connection.execute(by_task.order_by(decisions.c.sequence)) if others else ():
            known[row.task_id, row.chosen] = Assignment(row.id, row.propensity)
        for row in connection.execute(by_episode.order_by(decisions.c.sequence)) if episodes else ():
            known[episodes[row.episode], row.chosen] = Assignment(row.id, row.propensity)
    return known


def _is_episode(task: Task) -> bool:
    return task.environment == MODEL_CALL and task.episode is not None


class _Written(NamedTuple):
    """The sampled tokens of a turn."""

    tokens: int
    logprob: float | None
    model_version: str


_NOTHING = _Written(0, None, "")


def _written(trajectory: Trajectory) -> dict[int, _Written]:
    """Returns what was sampled in each turn, by its index."""
    is_plain = trajectory.temperature == 1.0 and not trajectory.sampling
    written: dict[int, _Written] = {}
    for row in trajectory.rows if trajectory.origin == "sampled" else ():
        logprobs = row.sampling_logprobs or (row.logprobs if is_plain else ())
        start = 0
        for span in row.spans:
            stop = start + span.stop - span.start
            logprob = fsum(logprobs[start:stop]) if len(logprobs) >= stop else None
            count, before, _ = written.get(span.turn, _Written(0, 0.0, ""))
            whole = None if logprob is None or before is None else before + logprob
            written[span.turn] = _Written(
                count + span.stop - span.start, whole, span.model_version or trajectory.model_version
            )
            start = stop
    return written
