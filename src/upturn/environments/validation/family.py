"""All checks of one task family: what is measured, against which bar, and the first breach of each in words.

Order, for every task: it is solved and scouted (``case``); oracle, doing nothing, random actions, the panel, the
kit's own attacks, mutants; then its recorded actions again, alone and beside those of the task before it. Whatever
an attempt was shown is searched for canaries.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from random import Random
from typing import NamedTuple

from upturn.environments.kit import EnvironmentKit
from upturn.environments.oracle_protocol import content_hash, world_of
from upturn.environments.scripted_policy import following, play
from upturn.environments.validation.attack import PANEL, Attempted, attempts, own_attempts, written
from upturn.environments.validation.case import Case, actions_of, make_case, random_player
from upturn.environments.validation.determinism import isolation_difference, replay_difference
from upturn.environments.validation.leak import earned_by, first_leak, leak_of, short_canaries
from upturn.environments.validation.mutation import mutation_kills
from upturn.environments.validation.schema_sampling import Habits
from upturn.errors import described
from upturn.records import Evaluation, Split, Task, Trajectory

SPLITS: tuple[Split, ...] = ("train", "heldout")
RANDOM_BAR = 0.01
KILL_BAR = 0.95
REPEATED_BAR = 0.05
"""Two of the 40 tasks that are tried by default: so few may fall on the same case by chance. Where more do, the
family has some 400 cases or fewer: success on held-out tasks may be memory, and n tasks say less than n."""


class Plan(NamedTuple):
    """How much is tried."""

    tasks: int = 40
    """Of each family, half of them held out."""
    seed: int = 0
    """Of the tasks and of everything random."""
    random_attempts: int = 20
    """At each task."""


class Check(NamedTuple):
    """One figure of one family."""

    name: str
    value: float | None
    """None = not applicable: there was nothing to try."""
    n: int
    """Tasks, attempts or mutants that were tried."""
    bar: str = ""
    """``>= 1``; empty = none is set."""
    holds: bool | None = None
    is_share: bool = True
    """Whether it is hits out of ``n``; a score otherwise."""
    breach: str = ""
    """What broke the bar first, in words."""


class FamilyReport(NamedTuple):
    """What was found out about a family."""

    family: str
    level: int
    checks: tuple[Check, ...]


@dataclass(slots=True)
class _Count:
    """Hits out of tries, and what was said of the first try that was not as it should be."""

    hits: int = 0
    tries: int = 0
    words: str = ""

    def add(self, *, is_hit: bool, words: str = "") -> None:
        """``words``: of a try that is a breach; empty = it is none."""
        self.hits += is_hit
        self.tries += 1
        self.words = self.words or words

    def check(self, name: str, *, least: float | None = None, most: float | None = None) -> Check:
        """Against one bar, or none."""
        if not self.tries:
            return Check(name, None, 0)
        share = self.hits / self.tries
        if least is not None:
            return Check(name, share, self.tries, f">= {least:g}", share >= least, breach=self.words)
        if most is not None:
            return Check(name, share, self.tries, f"<= {most:g}", share <= most, breach=self.words)
        return Check(name, share, self.tries)


@dataclass(slots=True)
class _Tally:
    """What a family's tasks came to so far."""

    oracle: _Count = field(default_factory=_Count)
    ceilings: list[float] = field(default_factory=list)
    floors: list[float] = field(default_factory=list)
    random: _Count = field(default_factory=_Count)
    replay: _Count = field(default_factory=_Count)
    isolation: _Count = field(default_factory=_Count)
    canaries: _Count = field(default_factory=_Count)
    mutants: _Count = field(default_factory=_Count)
    unjudged: _Count = field(default_factory=_Count)
    repeated: _Count = field(default_factory=_Count)
    panel: dict[str, _Count] = field(default_factory=lambda: {name: _Count() for name in PANEL})
    own: dict[str, _Count] = field(default_factory=dict)
    contents: set[str] = field(default_factory=set)
    last_words: Counter[str] = field(default_factory=Counter)
    """By the oracle's last action: tasks that it solves without the work before it."""

    def checks(self) -> tuple[Check, ...]:
        """In the order of tables."""
        return (
            self.oracle.check("oracle", least=1),
            _score("ceiling", min(self.ceilings, default=0), len(self.ceilings), least=1),
            _score("floor", max(self.floors, default=0), len(self.floors), most=0),
            self.random.check("random", most=RANDOM_BAR),
            self.replay.check("replay", least=1),
            self.isolation.check("isolation", least=1),
            self.canaries.check("canaries", most=0),
            self.mutants.check("mutants", least=KILL_BAR),
            *(count.check(name, most=0) for name, count in self.panel.items()),
            *(count.check(f"own {name}", most=0) for name, count in self.own.items()),
            self.unjudged.check("unjudged", most=0),
            self.repeated.check("repeated", most=REPEATED_BAR),
            self._constant(),
        )

    def _constant(self) -> Check:
        """The one last word that solves most tasks: what a policy can learn without looking."""
        tasks = self.oracle.tries
        best = max(self.last_words.values(), default=0)
        return Check("constant", best / tasks if tasks else None, tasks)


def validate_family(kit: EnvironmentKit, family: str, plan: Plan) -> FamilyReport:
    """All checks of one family. Raises whatever the kit raises."""
    tally, habits = _Tally(), Habits()
    before: tuple[Task, Trajectory] | None = None
    for task in tasks_of(kit, family, plan):
        rng = Random(f"validate/{plan.seed}/{task.id}")
        case = make_case(kit, task, habits, rng)
        worked = _Worked(case, tally)
        worked.solve()
        worked.do_nothing()
        worked.compare()
        worked.act_at_random(rng, plan.random_attempts)
        worked.attack()
        worked.mutate()
        for recorded in worked.recorded:
            words = replay_difference(kit, task, recorded)
            tally.replay.add(is_hit=not words, words=words and f"{task.id!r}: {words}")
        if before is not None:
            words = isolation_difference(kit, (task, worked.recorded[0]), before)
            tally.isolation.add(is_hit=not words, words=words)
        before = (task, worked.recorded[-1])
    return FamilyReport(family, kit.families[family], tally.checks())


def tasks_of(kit: EnvironmentKit, family: str, plan: Plan) -> Iterator[Task]:
    """Half of them for training, half held out; at least one of each."""
    streams = [kit.tasks(seed=plan.seed, split=split, families=[family]) for split in SPLITS]
    for place in range(max(plan.tasks, len(streams))):
        yield from islice(streams[place % len(streams)], 1)


class _Worked:
    """One task while it is worked on; counts into the family's tally."""

    def __init__(self, case: Case, tally: _Tally) -> None:
        self.recorded: list[Trajectory] = []
        """Attempts to be made again: the oracle's or doing nothing, and a random one."""
        self._case = case
        self._tally = tally
        proven = case.proven
        self._canaries: Sequence[str] = () if proven is None else proven.canaries(case.task)
        self._earned = earned_by(case.solved.trajectory, self._canaries) if case.solved is not None else {}
        if short := short_canaries(self._canaries):
            tally.canaries.add(is_hit=True, words=f"{short[0]!r} is too short for a canary, it may stand anywhere")
        for action, observation in case.answers if self._canaries else ():
            leak = leak_of(action, observation, self._canaries, self._earned)
            tally.canaries.add(is_hit=bool(leak), words=leak and f"{case.task.id!r}: {leak}")

    def solve(self) -> None:
        """The oracle's attempt reaches the ceiling."""
        solved = self._case.solved
        if solved is None:
            return
        self.recorded.append(solved.trajectory)
        judged = self._judged(solved.trajectory)
        is_hit = judged is not None and judged.is_success
        self._tally.oracle.add(is_hit=is_hit, words="" if is_hit else f"{self._case.task.id!r} is not solved")
        if judged is not None and judged.score is not None:
            self._tally.ceilings.append(judged.score)
        case = self._case
        guessed = self._judged(play(case.kit.environment(case.task), case.task, following(solved.end)))
        if guessed is not None and guessed.is_success:
            self._tally.last_words[written(solved.end)] += 1

    def do_nothing(self) -> None:
        """The state after ``reset`` is the floor."""
        case = self._case
        idle = play(case.kit.environment(case.task), case.task, following(()))
        judged = self._judged(idle)
        if judged is not None and judged.score is not None:
            self._tally.floors.append(judged.score)
        if not self.recorded:
            self.recorded.append(idle)

    def compare(self) -> None:
        """No two tasks are alike; where the kit tells nothing of its worlds, nobody knows."""
        world = world_of(self._case.kit, self._case.task)
        if not world:
            return
        content = content_hash(self._case.task, world)
        is_repeated = content in self._tally.contents
        words = f"{self._case.task.id!r} is what another task was" if is_repeated else ""
        self._tally.repeated.add(is_hit=is_repeated, words=words)
        self._tally.contents.add(content)

    def act_at_random(self, rng: Random, count: int) -> None:
        """Actions that the tools allow, with values found in the world."""
        case = self._case
        player = random_player(case, rng)
        for place in range(0 if player is None else count):
            assert player is not None  # the range is empty otherwise
            trajectory = play(case.kit.environment(case.task), case.task, player)
            self._count_ways(self._tally.random, [Attempted(written(actions_of(trajectory)), trajectory)])
            if not place:
                self.recorded.append(trajectory)

    def attack(self) -> None:
        """Each attack of the panel, and the kit's own: a task counts once, by its most successful way."""
        for name, attack in PANEL.items():
            self._count_ways(self._tally.panel[name], attempts(self._case, attack))
        for attempted in own_attempts(self._case):
            self._count_ways(self._tally.own.setdefault(attempted.way, _Count()), [attempted])

    def mutate(self) -> None:
        """Wrong goal states."""
        if self._case.solved is None or not self._case.solved.evaluation.is_success:
            return
        kills, mutants = mutation_kills(self._case, self._case.solved), self._tally.mutants
        mutants.hits += kills.killed
        mutants.tries += kills.tried
        mutants.words = mutants.words or kills.survivor

    def _count_ways(self, count: _Count, ways: Sequence[Attempted] | Iterator[Attempted]) -> None:
        paid, is_tried = "", False
        for attempted in ways:
            is_tried = True
            judged = self._judged(attempted.trajectory)
            if judged is not None and judged.is_success:
                paid = paid or f"{self._case.task.id!r} by {attempted.way}"
        if is_tried:
            count.add(is_hit=bool(paid), words=paid and f"success in {paid}")

    def _judged(self, trajectory: Trajectory) -> Evaluation | None:
        """The verifier's evaluation; None where it breaks, which is counted. Looks for canaries, too."""
        case = self._case
        if self._canaries:
            leak = first_leak(trajectory, self._canaries, self._earned)
            self._tally.canaries.add(is_hit=bool(leak), words=leak and f"{case.task.id!r}: {leak}")
        try:
            evaluation = case.kit.verifier.verify(case.task, trajectory)
        except Exception as exc:  # noqa: BLE001  # of foreign code: counted, and a breach by itself
            self._tally.unjudged.add(is_hit=True, words=f"{case.task.id!r}: verify raised {described(exc)}")
            return None
        self._tally.unjudged.add(is_hit=False)
        return evaluation


def _score(name: str, value: float, n: int, *, least: float | None = None, most: float | None = None) -> Check:
    if not n:
        return Check(name, None, 0)
    bar = f">= {least:g}" if least is not None else f"<= {most:g}"
    holds = value >= least if least is not None else most is None or value <= most
    return Check(name, value, n, bar, holds, is_share=False, breach="" if holds else f"the score is {value:g}")
