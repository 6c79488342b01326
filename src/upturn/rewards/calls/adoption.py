"""How often tools are used, with the denominator stated. Pure functions.

A rate of adoption means nothing without what it is a share of: here of all episodes, and of the eligible ones, in
which the tool helps. What helps is known to the task's author, or from a comparison of success with and without the
tool.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from upturn.interval import clopper_pearson_interval
from upturn.records import Result, Trajectory, record
from upturn.rewards.calls.use import CallUse, call_uses, valid_tools


@record
class ToolAdoption:
    """Counts of one tool."""

    tool: str
    episodes: int
    """With at least one accepted call."""
    eligible: int
    """In which the tool helps."""
    adopting: int
    """Eligible, and with at least one accepted call."""
    useful: int
    """Eligible, and with a call whose result was used."""


@record
class Adoption:
    """Counts over episodes. A call is one that the environment accepted."""

    episodes: int
    calling: int
    """Episodes with a call of any tool."""
    known: int
    """Episodes of which it is known what helps; the counts below are of these."""
    known_calling: int
    """With a call of any tool."""
    eligible: int
    """Episodes in which some tool helps."""
    adopting: int
    """Eligible episodes with a call of a tool that helps."""
    useful: int
    """Adopting episodes in which the result of such a call was used."""
    silent: int
    """Episodes in which no tool helps and none was called."""
    tools: tuple[ToolAdoption, ...]
    """By name: the tools that were called or help somewhere."""

    def results(self) -> Sequence[Result]:
        """The rates with exact intervals, their denominators in ``n``; those without a denominator are left out.

        ``precision``: of the episodes with a call, those in which a tool that helps was called. ``irrelevance``: of
        the episodes that need no tool, those without a call.
        """
        shares = [
            ("adoption of all episodes", self.calling, self.episodes),
            ("adoption of eligible episodes", self.adopting, self.eligible),
            ("useful adoption of eligible episodes", self.useful, self.eligible),
            ("precision", self.adopting, self.known_calling),
            ("irrelevance", self.silent, self.known - self.eligible),
        ]
        for tool in self.tools:
            shares.append((f"{tool.tool}: adoption of all episodes", tool.episodes, self.episodes))
            shares.append((f"{tool.tool}: adoption of eligible episodes", tool.adopting, tool.eligible))
            shares.append((f"{tool.tool}: useful adoption of eligible episodes", tool.useful, tool.eligible))
        return [clopper_pearson_interval(part, whole).result(name) for name, part, whole in shares if whole]


class _Episode(NamedTuple):
    called: frozenset[str]
    used: frozenset[str]
    helping: frozenset[str] | None


def adoption_of(episodes: Iterable[tuple[Trajectory, Collection[str] | None]]) -> Adoption:
    """The counts of trajectories, each with the names of the tools that help in its task.

    Empty = the task needs none; None = unknown: the episode counts among all episodes only.
    """
    counted = [_episode(trajectory, helping) for trajectory, helping in episodes]
    known = [(item.called, item.used, item.helping) for item in counted if item.helping is not None]
    names = sorted({name for item in counted for name in (*item.called, *(item.helping or ()))})
    return Adoption(
        episodes=len(counted),
        calling=sum(bool(item.called) for item in counted),
        known=len(known),
        known_calling=sum(bool(called) for called, _, _ in known),
        eligible=sum(bool(helping) for _, _, helping in known),
        adopting=sum(bool(called & helping) for called, _, helping in known),
        useful=sum(bool(used & helping) for _, used, helping in known),
        silent=sum(not called and not helping for called, _, helping in known),
        tools=tuple(
            ToolAdoption(
                name,
                episodes=sum(name in item.called for item in counted),
                eligible=sum(name in helping for _, _, helping in known),
                adopting=sum(name in called & helping for called, _, helping in known),
                useful=sum(name in used & helping for _, used, helping in known),
            )
            for name in names
        ),
    )


def _episode(trajectory: Trajectory, helping: Collection[str] | None) -> _Episode:
    uses = call_uses(trajectory)
    return _Episode(valid_tools(uses), _used_tools(uses), None if helping is None else frozenset(helping))


def _used_tools(uses: Sequence[CallUse]) -> frozenset[str]:
    return frozenset(use.name for use in uses if use.is_used)
