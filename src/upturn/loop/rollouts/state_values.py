"""What attempts still earn from each of their states on, measured by continuing them (VinePPO, arXiv 2410.01679).

Attempts that share a history, token for token, share its continuations. All continuations of a call are alive
together, as many as the runtime has slots, so that they are computed in batches. A continuation whose judgement is
missing, or whose environment broke, is left out of the mean: missing is not zero.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from statistics import fmean
from typing import NamedTuple, TypeAlias

from upturn.agents import BranchPoint, branch_points, full_trajectory
from upturn.environments import verify
from upturn.errors import WorldError
from upturn.loop.agent_runtime import AgentRuntime, Purpose
from upturn.records import AgentVersion, Evaluation, Task, Trajectory
from upturn.training import ScoredGroup, ScoredTrajectory, StateValue

Returns: TypeAlias = tuple[float, ...]
_END = StateValue(0.0, None)
"""After the last turn nothing is earned any more, whatever ended the attempt."""


class Continued(NamedTuple):
    """What continuations earned."""

    returns: tuple[tuple[tuple[Returns, ...] | None, ...], ...]
    """By group, member and turn: one number for each judged continuation from the state before that turn. None = an
    unscorable member, which is not continued."""
    tokens: int
    """Written by all continuations."""
    attempts: int
    missing: int
    """Continuations that could not be judged, or whose environment broke."""


class Measured(NamedTuple):
    """Groups whose members know the values of their states."""

    groups: list[ScoredGroup]
    tokens: int
    """Written by the continuations."""


@dataclass(frozen=True, slots=True)
class Continuations:
    """How states are continued."""

    count: int
    """From each state."""
    earned: Callable[[Trajectory, Evaluation], float | None]
    """What an attempt earns with its last turn; None = missing. It is given the whole attempt: a continuation's
    rows come after those of what it goes on from."""
    gamma: float = 1.0
    """Discount per turn."""


class _State(NamedTuple):
    task: Task
    branch_point: BranchPoint


_Key: TypeAlias = tuple[str, tuple[object, ...]]


def measure_values(
    runtime: AgentRuntime,
    version: AgentVersion,
    groups: Sequence[ScoredGroup],
    purpose: Purpose,
    *,
    how: Continuations,
) -> Measured:
    """The groups with ``state_values``. A state none of whose continuations could be judged is not measured."""
    found = continued(runtime, version, groups, purpose, how=how)
    return Measured(
        [
            replace(
                group,
                members=tuple(
                    member if states is None else with_values(member, states)
                    for member, states in zip(group.members, of_group, strict=True)
                ),
            )
            for group, of_group in zip(groups, found.returns, strict=True)
        ],
        found.tokens,
    )


def with_values(member: ScoredTrajectory, states: Sequence[Returns]) -> ScoredTrajectory:
    """The member with the mean of each state's returns; an empty state is not measured."""
    values = (StateValue(fmean(each), len(each)) if each else None for each in states)
    return replace(member, state_values=(*values, _END))


def continued(
    runtime: AgentRuntime,
    version: AgentVersion,
    groups: Sequence[ScoredGroup],
    purpose: Purpose,
    *,
    how: Continuations,
) -> Continued:
    """Continues every scorable member from the state before each of its turns, with the version as it serves now.

    Raises WorldError where the environment does not repeat itself, or breaks so often that an attempt's first state
    has no value.
    """
    states, keys = _entered(runtime, groups)
    jobs = [(version, state.task, number) for state in states.values() for number in range(how.count)]
    begin = [state.branch_point for state in states.values() for _ in range(how.count)]
    made = runtime.attempt(jobs, purpose, begin)
    rewards = [
        None
        if trajectory.outcome == "environment_error"  # whatever a verifier makes of it
        else how.earned(full_trajectory(trajectory, each), verify(runtime.kit.verifier, job[1], trajectory))
        for job, each, trajectory in zip(jobs, begin, made, strict=True)
    ]
    earned: dict[_Key, Returns] = {}
    for place, (key, state) in enumerate(states.items()):
        at = range(place * how.count, (place + 1) * how.count)
        earned[key] = tuple(
            _return(made[each], reward, after=len(state.branch_point.turns), gamma=how.gamma)
            for each in at
            if (reward := rewards[each]) is not None
        )
    _check_first(states, earned, made)
    return Continued(
        tuple(
            tuple(None if own is None else tuple(earned[key] for key in own) for own in of_group)
            for of_group in keys
        ),
        sum(trajectory.usage.written_tokens for trajectory in made),
        len(made),
        sum(reward is None for reward in rewards),
    )


def written_from_states(runtime: AgentRuntime, groups: Sequence[ScoredGroup]) -> int:
    """Tokens that the members wrote from each of their states on, states that they share once: about as many as one
    continuation of each would write. Raises WorldError as ``continued`` does."""
    attempts = {member.trajectory.id: member.trajectory for group in groups for member in group.members}
    return sum(
        span.stop - span.start
        for state in _entered(runtime, groups).states.values()
        for row in attempts[state.branch_point.source].rows
        for span in row.spans
        if span.turn >= len(state.branch_point.turns)
    )


class _Entered(NamedTuple):
    """The states of scorable members."""

    states: dict[_Key, _State]
    """In the order in which they were met."""
    keys: list[list[list[_Key] | None]]
    """By group, member and turn; None = an unscorable member."""


def _entered(runtime: AgentRuntime, groups: Sequence[ScoredGroup]) -> _Entered:
    found = _Entered({}, [])
    for group in groups:
        found.keys.append([])
        for member in group.members:
            if not member.is_scorable:
                found.keys[-1].append(None)
                continue
            own = branch_points(member.trajectory, group.task, runtime.kit.environment(group.task))
            found.keys[-1].append([_key(group.task, each) for each in own])
            for each in own:
                found.states.setdefault(_key(group.task, each), _State(group.task, each))
    return found


def _check_first(states: Mapping[_Key, _State], earned: Mapping[_Key, Returns], made: Sequence[Trajectory]) -> None:
    """Raises WorldError where continuations broke and an attempt's first state has no value.

    No credit can do without that one; later states may be missing where the estimator allows it.
    """
    broken = [each.error for each in made if each.outcome == "environment_error"]
    lost = [state for key, state in states.items() if not state.branch_point.turns and not earned[key]]
    if broken and lost:
        raise WorldError(
            f"{len(broken)} of {len(made)} continuations ended in environment_error, so the first state of attempt "
            f"{lost[0].branch_point.source!r} has no value; the first broke with {broken[0]}; mend the "
            "environment's restore(), reset() or step(), or let snapshot() raise NotImplementedError to have "
            "actions repeated instead"
        )


def turn_rewards(trajectory: Trajectory, earned: float) -> Returns:
    """What the environment gave for each turn; the last one, where the outcome was decided, has ``earned`` too.

    Of an attempt with turns.
    """
    *before, last = (turn.reward for turn in trajectory.turns)
    return (*before, last + earned)


def _return(continuation: Trajectory, earned: float, *, after: int, gamma: float) -> float:
    """The discounted sum of its rewards from turn ``after`` on; it may have ended before that turn."""
    if len(continuation.turns) <= after:
        return earned
    return fsum(gamma**turn * reward for turn, reward in enumerate(turn_rewards(continuation, earned)[after:]))


def _key(task: Task, branch_point: BranchPoint) -> _Key:
    """Equal where everything that was read and written is."""
    read = tuple((turn.observation.text, turn.text) for turn in branch_point.turns)
    tokens = tuple(row.token_ids for row in branch_point.rows)
    return task.id, (read, tokens, branch_point.observation.text, branch_point.observation.code)
