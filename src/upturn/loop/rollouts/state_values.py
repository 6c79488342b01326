"""State values measured by continuing trajectories from each of their states (VinePPO, arXiv 2410.01679).

Trajectories that share a history, token for token, share its continuations. All continuations of a call run at the
same time, as many as the runtime has slots, so that they are computed in batches. A continuation that could not be
verified, or whose environment broke, is left out of the mean: missing is not zero.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from statistics import fmean
from typing import NamedTuple, TypeAlias

from upturn.agents import BranchPoint, branch_points, full_trajectory
from upturn.environments import verify_all
from upturn.errors import WorldError
from upturn.loop.agent_runtime import AgentRuntime, Purpose
from upturn.records import AgentVersion, Evaluation, Task, Trajectory
from upturn.training import ScoredGroup, ScoredTrajectory, StateValue

Reward: TypeAlias = Callable[[Trajectory, Evaluation], float | None]
"""Reward of a whole trajectory with its evaluation; None means missing."""
Returns: TypeAlias = tuple[float, ...]


class ContinuationReturns(NamedTuple):
    """Returns of the continuations from the states of groups."""

    returns: tuple[tuple[tuple[Returns, ...] | None, ...], ...]
    """By group, member and turn: one number for each verified continuation from the state before that turn. None
    for an unscorable member, which is not continued."""
    tokens: int
    """Written by all continuations."""
    continuations: int
    missing: int
    """Continuations that could not be verified, or whose environment broke."""


class MeasuredGroups(NamedTuple):
    """Groups whose members have state values."""

    groups: list[ScoredGroup]
    tokens: int
    """Written by the continuations."""


@dataclass(frozen=True, slots=True)
class ContinuationSpec:
    """How states are continued."""

    count: int
    """Continuations from each state."""
    reward: Reward
    """Receives the whole trajectory: the rows of a continuation follow those of the trajectory that it
    continues."""
    gamma: float = 1.0
    """Discount per turn."""
    has_turn_rewards: bool = True
    """Whether the environment's rewards for single turns are part of a return, or ``reward`` alone."""


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
    spec: ContinuationSpec,
) -> MeasuredGroups:
    """The groups with ``state_values``; a state without a verified continuation has none."""
    result = sample_continuations(runtime, version, groups, purpose, spec=spec)
    measured = [
        replace(
            group,
            members=tuple(
                member if states is None else add_state_values(member, states)
                for member, states in zip(group.members, group_returns, strict=True)
            ),
        )
        for group, group_returns in zip(groups, result.returns, strict=True)
    ]
    return MeasuredGroups(measured, result.tokens)


def add_state_values(member: ScoredTrajectory, states: Sequence[Returns]) -> ScoredTrajectory:
    """The member with the mean return of each state, None for a state without returns.

    After the last turn nothing more is earned, however the trajectory ended.
    """
    values = (StateValue(fmean(returns), len(returns)) if returns else None for returns in states)
    return replace(member, state_values=(*values, StateValue(0.0, None)))


def sample_continuations(
    runtime: AgentRuntime,
    version: AgentVersion,
    groups: Sequence[ScoredGroup],
    purpose: Purpose,
    *,
    spec: ContinuationSpec,
) -> ContinuationReturns:
    """Continues every scorable member from the state before each of its turns, with the version as it serves now.

    Raises WorldError where the environment is not deterministic, or breaks so often that the first state of a
    trajectory has no value.
    """
    states, keys = _collect_states(runtime, groups)
    jobs = [(version, state.task, number) for state in states.values() for number in range(spec.count)]
    starts = [state.branch_point for state in states.values() for _ in range(spec.count)]
    continuations = runtime.rollout(jobs, purpose, starts)
    whole = [full_trajectory(item, start) for item, start in zip(continuations, starts, strict=True)]
    judged = [(task, trajectory) for (_, task, _), trajectory in zip(jobs, whole, strict=True)]
    rewards = [
        None
        if trajectory.outcome == "environment_error"  # whatever the verifier returns for it
        else spec.reward(trajectory, evaluation)
        for trajectory, evaluation in zip(whole, verify_all(runtime.kit.verifier, judged), strict=True)
    ]
    returns: dict[_Key, Returns] = {}
    for index, (key, state) in enumerate(states.items()):
        own = slice(index * spec.count, (index + 1) * spec.count)
        returns[key] = tuple(
            _discounted_return(continuation, reward, after=len(state.branch_point.turns), gamma=spec.gamma)
            if spec.has_turn_rewards
            else reward
            for continuation, reward in zip(continuations[own], rewards[own], strict=True)
            if reward is not None
        )
    _check_first_states(states, returns, continuations)
    return ContinuationReturns(
        tuple(
            tuple(None if member is None else tuple(returns[key] for key in member) for member in group)
            for group in keys
        ),
        sum(continuation.usage.written_tokens for continuation in continuations),
        len(continuations),
        rewards.count(None),
    )


def count_tokens_after_states(runtime: AgentRuntime, groups: Sequence[ScoredGroup]) -> int:
    """Tokens that the members wrote after each of their distinct states: an estimate of one continuation of each.

    Raises WorldError as ``sample_continuations`` does.
    """
    trajectories = {member.trajectory.id: member.trajectory for group in groups for member in group.members}
    return sum(
        span.stop - span.start
        for state in _collect_states(runtime, groups).states.values()
        for row in trajectories[state.branch_point.source].rows
        for span in row.spans
        if span.turn >= len(state.branch_point.turns)
    )


class _CollectedStates(NamedTuple):
    states: dict[_Key, _State]
    """The distinct states of scorable members, in order of appearance."""
    keys: list[list[list[_Key] | None]]
    """By group, member and turn; None for an unscorable member."""


def _collect_states(runtime: AgentRuntime, groups: Sequence[ScoredGroup]) -> _CollectedStates:
    states: dict[_Key, _State] = {}
    keys: list[list[list[_Key] | None]] = []
    for group in groups:
        task, group_keys = group.task, list[list[_Key] | None]()
        keys.append(group_keys)
        for member in group.members:
            if not member.is_scorable:
                group_keys.append(None)
                continue
            points = branch_points(member.trajectory, task, runtime.kit.environment(task))
            member_keys = [_key(task, point) for point in points]
            group_keys.append(member_keys)
            for key, point in zip(member_keys, points, strict=True):
                states.setdefault(key, _State(task, point))
    return _CollectedStates(states, keys)


def _check_first_states(
    states: Mapping[_Key, _State], returns: Mapping[_Key, Returns], continuations: Sequence[Trajectory]
) -> None:
    """Raises WorldError where continuations broke and the first state of a trajectory has no value.

    Every estimator needs that value; later states may be missing where the estimator allows it.
    """
    errors = [continuation.error for continuation in continuations if continuation.outcome == "environment_error"]
    missing = [state for key, state in states.items() if not state.branch_point.turns and not returns[key]]
    if errors and missing:
        raise WorldError(
            f"{len(errors)} of {len(continuations)} continuations ended in environment_error, so the first state "
            f"of trajectory {missing[0].branch_point.source!r} has no value; the first error was {errors[0]}; fix "
            "the environment's restore(), reset() or step(), or let snapshot() raise NotImplementedError to have "
            "actions repeated instead"
        )


def turn_rewards(trajectory: Trajectory, reward: float) -> Returns:
    """The environment's reward for each turn, with ``reward`` added to the last one. Needs at least one turn."""
    *before, last = (turn.reward for turn in trajectory.turns)
    return (*before, last + reward)


def _discounted_return(continuation: Trajectory, reward: float, *, after: int, gamma: float) -> float:
    """Discounted sum of the rewards from turn ``after`` on; the continuation may have ended before that turn."""
    if len(continuation.turns) <= after:
        return reward
    return fsum(gamma**turn * value for turn, value in enumerate(turn_rewards(continuation, reward)[after:]))


def _key(task: Task, point: BranchPoint) -> _Key:
    """Equal for states with the same history, read and written."""
    texts = tuple((turn.observation.text, turn.text) for turn in point.turns)
    tokens = tuple(row.token_ids for row in point.rows)
    return task.id, (texts, tokens, point.observation.text, point.observation.code)
