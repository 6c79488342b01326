"""How often tools are used, with the denominator stated. Pure functions.

A rate of adoption means nothing without what it is a share of: here of all episodes, and of the eligible ones, in
which the tool helps. What helps is known to the task's author, or from a comparison of success with and without the
tool.
"""

from collections.abc import Collection, Iterable, Sequence

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
            ("precision", self.adopting, self.calling),
            ("irrelevance", self.silent, self.episodes - self.eligible),
        ]
        for tool in self.tools:
            shares.append((f"{tool.tool}: adoption of all episodes", tool.episodes, self.episodes))
            shares.append((f"{tool.tool}: adoption of eligible episodes", tool.adopting, tool.eligible))
            shares.append((f"{tool.tool}: useful adoption of eligible episodes", tool.useful, tool.eligible))
        return [clopper_pearson_interval(part, whole).result(name) for name, part, whole in shares if whole]


def adoption_of(episodes: Iterable[tuple[Trajectory, Collection[str]]]) -> Adoption:
    """The counts of trajectories, each with the names of the tools that help in its task; none = it needs none."""
    counted = [(call_uses(trajectory), frozenset(helping)) for trajectory, helping in episodes]
    names = sorted({name for uses, helping in counted for name in (*valid_tools(uses), *helping)})
    helped = [(valid_tools(uses), _used_tools(uses), helping) for uses, helping in counted]
    return Adoption(
        episodes=len(helped),
        calling=sum(bool(called) for called, _, _ in helped),
        eligible=sum(bool(helping) for _, _, helping in helped),
        adopting=sum(bool(called & helping) for called, _, helping in helped),
        useful=sum(bool(used & helping) for _, used, helping in helped),
        silent=sum(not called and not helping for called, _, helping in helped),
        tools=tuple(
            ToolAdoption(
                name,
                episodes=sum(name in called for called, _, _ in helped),
                eligible=sum(name in helping for _, _, helping in helped),
                adopting=sum(name in called & helping for called, _, helping in helped),
                useful=sum(name in used & helping for _, used, helping in helped),
            )
            for name in names
        ),
    )


def _used_tools(uses: Sequence[CallUse]) -> frozenset[str]:
    return frozenset(use.name for use in uses if use.is_used)
