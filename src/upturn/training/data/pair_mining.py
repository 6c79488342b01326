"""Pairs from groups: which of two attempts at one task is better, as a whole or in a single turn. No torch here.

Whole attempts: the best of a group against the worst. Single turns, as in Agent Q (arXiv 2408.07199, section 4.2):
wherever attempts share a history and then write different things, the actions are compared by

    Q(h, a) = α·Q̂(h, a) + (1 − α)·Q_critic(h, a),

with Q̂ the mean of what the attempts that took the action went on to earn, or of its reward plus the measured value
of the state it led to. Departures: Q̂ comes from the attempts of a group, which share beginnings as those of a tree
search do; all pairs of actions of a node that differ by more than θ are kept.

What earned the same, what wrote the same, and what has no value is left out and counted. Which pairs are made does
not depend on the order of a group's members, and turning all values round turns every pair round.
"""

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
from upturn.training.data.collection import check_group, check_ids
from upturn.training.pair_settings import PairSettings


class ActionValues(Protocol):
    """A critic: what it thinks actions are worth. ``action_value`` has one that learns."""

    def __call__(self, group: ScoredGroup, /) -> "_Values":
        """By member, then by turn, on the scale of the rewards; None or NaN = it does not say. The group has only
        members that can be compared, by id.

        May depend on the group and the weights only.
        """


class Pairing(NamedTuple):
    """What groups teach by comparison."""

    pairs: tuple[PreferencePair, ...]
    left_out: Mapping[str, int]
    """By cause. Attempts: ``unscorable`` (no reward), ``tokenless`` (nothing written). Comparisons: ``equal``
    (worth the same), ``close`` (by no more than the least margin), ``identical`` (wrote the same). Actions:
    ``unvalued``."""

    def metrics(self) -> dict[str, float]:
        """As they stand on the curve."""
        named = {"equal": "equal_pairs", "close": "close_pairs", "identical": "identical_pairs"}
        counts = {named.get(cause, cause): float(count) for cause, count in self.left_out.items()}
        return {"pairs": float(len(self.pairs)), **counts}


_CAUSES = ("unscorable", "tokenless", "equal", "close", "identical", "unvalued")


def pairs_of(groups: Sequence[ScoredGroup], settings: PairSettings, critic: ActionValues | None = None) -> Pairing:
    """The pairs of all groups, in their order.

    Raises TrainingError for attempts at other tasks than their group's, ids that are given twice, rewards or values
    that do not fit the turns, and a critic that is missing or would do nothing.
    """
    if (critic is None) != (settings.monte_carlo_share == 1):
        shown = "no critic" if critic is None else "a critic"
        raise TrainingError(
            f"monte_carlo_share={settings.monte_carlo_share!r} with {shown}: a critic counts where the share is "
            "less than 1, and is needed there; give both or neither"
        )
    check_ids(groups)
    left_out: Counter[str] = Counter(dict.fromkeys(_CAUSES, 0))
    pairs: list[PreferencePair] = []
    for group in groups:
        check_group(group)
        usable = _usable(group, left_out)
        if settings.by == "trajectory":
            pairs += _whole(usable, settings, left_out)
        else:
            pairs += _by_turn(usable, settings, critic, left_out=left_out)
    return Pairing(tuple(pairs), left_out)


def _usable(group: ScoredGroup, left_out: Counter[str]) -> ScoredGroup:
    """The members that can be compared, by their number as attempts, so that their order does not matter, nor ids
    that hold a run's name."""
    members = []
    for member in sorted(group.members, key=lambda each: (each.trajectory.attempt, each.trajectory.id)):
        if not member.is_scorable:
            left_out["unscorable"] += 1
        elif not any(row.spans for row in member.trajectory.rows):
            left_out["tokenless"] += 1
        else:
            members.append(member)
    return ScoredGroup(group.task, tuple(members))


def _whole(group: ScoredGroup, settings: PairSettings, left_out: Counter[str]) -> Iterator[PreferencePair]:
    if len(group.members) < 2:
        return
    values = [_earned(member, settings.gamma)[0] for member in group.members]
    best, worst = values.index(max(values)), values.index(min(values))
    sides = [_Side(group.members[each].trajectory, values[each], None) for each in (best, worst)]
    yield from _compared(sides[0], sides[1], settings.min_margin, left_out=left_out, source="group")


def _earned(member: ScoredTrajectory, gamma: float) -> tuple[float, ...]:
    """From each turn on; raises TrainingError for rewards that do not fit the turns."""
    rewards = checked_rewards(member)
    assert rewards is not None  # by the choice of members
    return rewards_to_go(rewards, gamma)


class _Side(NamedTuple):
    """One of two attempts, or actions, that are compared."""

    trajectory: Trajectory
    value: float
    turn: int | None
    """None = the whole attempt."""

    @property
    def name(self) -> str:
        return self.trajectory.id if self.turn is None else f"{self.trajectory.id}@{self.turn}"

    @property
    def turns(self) -> tuple[int, ...] | None:
        return None if self.turn is None else (self.turn,)


def _compared(
    first: _Side, second: _Side, min_margin: float, *, left_out: Counter[str], source: PreferenceSource
) -> Iterator[PreferencePair]:
    """The pair, or why there is none."""
    better, worse = (first, second) if first.value >= second.value else (second, first)
    margin = better.value - worse.value
    if not differ([better.value, worse.value]):
        left_out["equal"] += 1
    elif margin <= min_margin:
        left_out["close"] += 1
    elif written_tokens(better.trajectory, better.turns) == written_tokens(worse.trajectory, worse.turns):
        left_out["identical"] += 1
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


class _Taken(NamedTuple):
    """An action as one attempt took it."""

    member: int
    turn: int


_Actions: TypeAlias = dict[object, list[_Taken]]
"""By what was written."""


def _by_turn(
    group: ScoredGroup, settings: PairSettings, critic: ActionValues | None, *, left_out: Counter[str]
) -> Iterator[PreferencePair]:
    nodes = _nodes(group)
    worth = _Worth(group, settings, critic)
    for actions in nodes.values():
        if len(actions) < 2:
            continue
        sides = []
        for taken in actions.values():
            value = worth(taken)
            if value is None:
                left_out["unvalued"] += 1
            else:
                sides.append(_Side(group.members[taken[0].member].trajectory, value, taken[0].turn))
        for first, second in combinations(sides, 2):
            yield from _compared(first, second, settings.min_margin, left_out=left_out, source="turn")


def _nodes(group: ScoredGroup) -> dict[History, _Actions]:
    """By history, what was done there."""
    nodes: dict[History, _Actions] = {}
    for member, passed in enumerate(shared_histories(group)):
        for turn, history in enumerate(passed):
            written = written_tokens(group.members[member].trajectory, (turn,))
            nodes.setdefault(history, {}).setdefault(written, []).append(_Taken(member, turn))
    return nodes


_Values: TypeAlias = Sequence[Sequence[float | None]]
"""By member, then by turn; None = unknown."""


class _Worth:
    """Q of an action, from all attempts that took it."""

    def __init__(self, group: ScoredGroup, settings: PairSettings, critic: ActionValues | None) -> None:
        self._share = settings.monte_carlo_share
        self._measured: _Values = [_measured(each, settings) for each in group.members] if self._share else []
        self._thought: _Values = [] if critic is None else _checked(critic(group), group)

    def __call__(self, taken: Sequence[_Taken]) -> float | None:
        """None = a part that counts is not known."""
        parts: list[tuple[float, _Values]] = [(self._share, self._measured), (1 - self._share, self._thought)]
        total = 0.0
        for share, values in parts:
            mean = _mean_known(values, taken) if share else 0.0
            if mean is None:
                return None
            total += share * mean
        return total


def _mean_known(values: _Values, taken: Sequence[_Taken]) -> float | None:
    known = [value for each in taken if (value := values[each.member][each.turn]) is not None]
    return mean_of(known) if known else None


def _measured(member: ScoredTrajectory, settings: PairSettings) -> Sequence[float | None]:
    """Of each turn: what followed it, or its reward and the value of the state that it led to (None = unknown)."""
    if settings.valued_by == "returns":
        return _earned(member, settings.gamma)
    rewards, values = checked_rewards(member), measured_values(member)
    assert rewards is not None  # by the choice of members
    return [
        None if after is None else reward + settings.gamma * after.mean
        for reward, after in zip(rewards, values[1:], strict=True)
    ]


def _checked(thought: Sequence[Sequence[float | None]], group: ScoredGroup) -> list[list[float | None]]:
    """What the critic thinks, NaN as None; raises TrainingError where that is not one value per turn."""
    turns = [len(member.trajectory.turns) for member in group.members]
    if [len(each) for each in thought] != turns:
        raise TrainingError(
            f"the critic gave values for {[len(each) for each in thought]!r} turns of a group at task "
            f"{group.task.id!r} whose members, by id, have {turns!r}; give one value per turn, None where unknown"
        )
    return [[None if value is None or math.isnan(value) else value for value in each] for each in thought]
