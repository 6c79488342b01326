"""Pairs from groups: which of two trajectories of a task is better, as a whole or in a single turn. No torch here.

Whole trajectories: the best of a group with the worst. Single turns, as in Agent Q (arXiv 2408.07199, section 4.2):
where trajectories share a history and then write different tokens, the actions are compared by

Q(h, a) = α·Q̂(h, a) + (1 − α)·Q_critic(h, a),

with Q̂ the mean return-to-go of the trajectories that took the action, or its reward plus the measured value of the
next state. Departures: Q̂ comes from the trajectories of a group, which share prefixes as those of a tree search
do; all pairs of actions of a node that differ by more than θ are used.

Comparisons of equal values, of the same written tokens, and without a value are dropped and counted. The pairs do
not depend on the order of a group's members, and negating all values swaps the sides of every pair."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple, Protocol, TypeAlias

from upturn.errors import TrainingError
from upturn.records import PreferencePair, PreferenceSource, Trajectory, written_tokens
from upturn.training.advantage import ScoredGroup, ScoredTrajectory
from upturn.training.advantages import (
    History,
    checked_rewards,
    differ,
    mean_of,
    measured_values,
    rewards_to_go,
    shared_histories,
)
from upturn.training.data.collection import check_groups
from upturn.training.pair_settings import PairSettings

_Values: TypeAlias = Sequence[Sequence[float | None]]
"""By member, then by turn; None = unknown."""


class ActionValues(Protocol):
    """A critic of actions; ``online_dpo.action_value`` has a trained one."""

    def __call__(self, group: ScoredGroup, /) -> _Values:
        """Returns values by member, then by turn, on the scale of the rewards; None or NaN = unknown. The group has
        comparable members only, sorted by their number and id.

        May depend on the group and the weights only.
        """


class MinedPairs(NamedTuple):
    """The pairs of groups, and counts of what was dropped."""

    pairs: tuple[PreferencePair, ...]
    dropped: Mapping[str, int]
    """By cause. Trajectories: ``unscorable`` (no reward), ``tokenless`` (nothing written). Comparisons: ``equal``
    (same value), ``close`` (difference at most the minimum margin), ``identical`` (same tokens). Actions:
    ``unvalued``."""

    def metrics(self) -> dict[str, float]:
        """The metrics of the learning curve."""
        names = {"equal": "equal_pairs", "close": "close_pairs", "identical": "identical_pairs"}
        counts = {names.get(cause, cause): float(count) for cause, count in self.dropped.items()}
        return {"pairs": float(len(self.pairs)), **counts}


_CAUSES = ("unscorable", "tokenless", "equal", "close", "identical", "unvalued")


def mine_pairs(
    groups: Sequence[ScoredGroup], settings: PairSettings, critic: ActionValues | None = None
) -> MinedPairs:
    """Returns the pairs of all groups, in their order.

    Raises TrainingError for trajectories of another task than their group's, duplicate ids, rewards or values that
    do not fit the turns, and a critic that is missing or has no effect."""
    if (critic is None) != (settings.monte_carlo_share == 1):
        shown = "no critic" if critic is None else "a critic"
        raise TrainingError(
            f"monte_carlo_share={settings.monte_carlo_share!r} with {shown}: a critic counts where the share is "
            "less than 1, and is needed there; give both or neither"
        )
    check_groups(groups)
    dropped: Counter[str] = Counter(dict.fromkeys(_CAUSES, 0))
    pairs: list[PreferencePair] = []
    for group in groups:
        comparable = _comparable(group, dropped)
        if settings.by == "trajectory":
            pairs += _trajectory_pairs(comparable, settings, dropped)
        else:
            pairs += _turn_pairs(comparable, settings, critic, dropped=dropped)
    return MinedPairs(tuple(pairs), dropped)


def _comparable(group: ScoredGroup, dropped: Counter[str]) -> ScoredGroup:
    """The comparable members, sorted by their number, so that neither their order nor ids that contain a run's name
    matter."""
    members = []
    for member in sorted(group.members, key=lambda member: (member.trajectory.attempt, member.trajectory.id)):
        if not member.is_scorable:
            dropped["unscorable"] += 1
        elif not any(row.spans for row in member.trajectory.rows):
            dropped["tokenless"] += 1
        else:
            members.append(member)
    return ScoredGroup(group.task, tuple(members))


class _Side(NamedTuple):
    """One of two trajectories, or actions, that are compared."""

    trajectory: Trajectory
    value: float
    turn: int | None
    """None = the whole trajectory."""

    @property
    def name(self) -> str:
        return self.trajectory.id if self.turn is None else f"{self.trajectory.id}@{self.turn}"

    @property
    def turns(self) -> tuple[int, ...] | None:
        return None if self.turn is None else (self.turn,)


def _trajectory_pairs(
    group: ScoredGroup, settings: PairSettings, dropped: Counter[str]
) -> Iterator[PreferencePair]:
    if len(group.members) < 2:
        return
    values = [_returns(member, settings.gamma)[0] for member in group.members]
    best, worst = (
        _Side(group.members[values.index(value)].trajectory, value, None) for value in (max(values), min(values))
    )
    yield from _compare(best, worst, settings.min_margin, dropped=dropped, source="group")


def _turn_pairs(
    group: ScoredGroup, settings: PairSettings, critic: ActionValues | None, *, dropped: Counter[str]
) -> Iterator[PreferencePair]:
    nodes = _nodes(group)
    estimates = _estimates(group, settings, critic)
    for actions in nodes.values():
        if len(actions) < 2:
            continue
        sides = []
        for occurrences in actions.values():
            value = _action_value(occurrences, estimates)
            if value is None:
                dropped["unvalued"] += 1
            else:
                member, turn = occurrences[0]
                sides.append(_Side(group.members[member].trajectory, value, turn))
        for first, second in combinations(sides, 2):
            yield from _compare(first, second, settings.min_margin, dropped=dropped, source="turn")


def _compare(
    first: _Side, second: _Side, min_margin: float, *, dropped: Counter[str], source: PreferenceSource
) -> Iterator[PreferencePair]:
    """Yields the pair, or counts why there is none."""
    better, worse = (first, second) if first.value >= second.value else (second, first)
    margin = better.value - worse.value
    if not differ([better.value, worse.value]):
        dropped["equal"] += 1
    elif margin <= min_margin:
        dropped["close"] += 1
    elif written_tokens(better.trajectory, better.turns) == written_tokens(worse.trajectory, worse.turns):
        dropped["identical"] += 1
    else:
        yield PreferencePair(
            f"{better.name} > {worse.name}",
            better.trajectory,
            worse.trajectory,
            source,
            margin,
            better.turns,
            worse.turns,
        )


_Occurrences: TypeAlias = list[tuple[int, int]]
"""Member and turn of each occurrence of an action."""


def _nodes(group: ScoredGroup) -> dict[History, dict[object, _Occurrences]]:
    """By history, then by written tokens."""
    nodes: dict[History, dict[object, _Occurrences]] = {}
    for member, histories in enumerate(shared_histories(group)):
        for turn, history in enumerate(histories):
            written = written_tokens(group.members[member].trajectory, (turn,))
            nodes.setdefault(history, {}).setdefault(written, []).append((member, turn))
    return nodes


def _estimates(
    group: ScoredGroup, settings: PairSettings, critic: ActionValues | None
) -> list[tuple[float, _Values]]:
    """The estimates that Q is a weighted sum of, each with its weight."""
    share = settings.monte_carlo_share
    estimates: list[tuple[float, _Values]] = []
    if share:
        estimates.append((share, [_measured(member, settings) for member in group.members]))
    if critic is not None:
        estimates.append((1 - share, _check_values(critic(group), group)))
    return estimates


def _action_value(occurrences: _Occurrences, estimates: Sequence[tuple[float, _Values]]) -> float | None:
    """Q of an action, over all its occurrences; None = an estimate is unknown."""
    total = 0.0
    for weight, values in estimates:
        known = [value for member, turn in occurrences if (value := values[member][turn]) is not None]
        if not known:
            return None
        total += weight * mean_of(known)
    return total


def _returns(member: ScoredTrajectory, gamma: float) -> tuple[float, ...]:
    """The return-to-go of each turn; raises TrainingError for rewards that do not fit the turns."""
    rewards = checked_rewards(member)
    assert rewards is not None  # by the choice of members
    return rewards_to_go(rewards, gamma)


def _measured(member: ScoredTrajectory, settings: PairSettings) -> Sequence[float | None]:
    """The return-to-go of each turn, or its reward plus the value of the next state (None = unknown)."""
    if settings.valued_by == "returns":
        return _returns(member, settings.gamma)
    rewards, values = checked_rewards(member), measured_values(member)
    assert rewards is not None  # by the choice of members
    return [
        None if after is None else reward + settings.gamma * after.mean
        for reward, after in zip(rewards, values[1:], strict=True)
    ]


def _check_values(values: _Values, group: ScoredGroup) -> _Values:
    """Returns the critic's values with NaN as None; raises TrainingError unless there is one value per turn."""
    expected, actual = [len(member.trajectory.turns) for member in group.members], list(map(len, values))
    if actual != expected:
        raise TrainingError(
            f"the critic gave values for {actual!r} turns of a group at task {group.task.id!r} whose members, by "
            f"id, have {expected!r}; give one value per turn, None where unknown"
        )
    return [[None if value is None or math.isnan(value) else value for value in turns] for turns in values]
