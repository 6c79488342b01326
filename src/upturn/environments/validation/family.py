"""All checks of one task family: what is measured, against which bar, and the first violation of each in words.

Order, for every task: exploration (``case``); oracle, doing nothing, random actions, the panel, the kit's own
attacks, mutants; then its recorded actions replayed, alone and interleaved with those of the previous task. All
observations are searched for canaries.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from random import Random
from typing import NamedTuple

from upturn.environments.kit import EnvironmentKit
from upturn.environments.oracle_protocol import content_hash, world_hash_of
from upturn.environments.scripted_policy import fixed_policy, play
from upturn.environments.validation.attack import PANEL, AttackRun, run_attack, run_kit_attacks, summarize_actions
from upturn.environments.validation.case import Case, actions_of, make_case, random_policy
from upturn.environments.validation.determinism import isolation_difference, replay_difference
from upturn.environments.validation.leak import earned_canaries, first_leak, leak_of, short_canaries
from upturn.environments.validation.mutation import mutation_kills
from upturn.environments.validation.schema_sampling import ParameterHistory
from upturn.errors import described
from upturn.records import Evaluation, Split, Task, Trajectory

SPLITS: tuple[Split, ...] = ("train", "heldout")
RANDOM_BAR = 0.01
KILL_BAR = 0.95
REPEATED_BAR = 0.05
"""Two of the default 40 tasks: so few may be equal by chance. With more, the family has about 400 cases or fewer:
success on held-out tasks may be memorisation, and n tasks count for fewer than n."""


class Plan(NamedTuple):
    """How much is checked."""

    tasks: int = 40
    """Per family, half of them held out."""
    seed: int = 0
    """Seed of the tasks and of all randomness."""
    random_attempts: int = 20
    """Per task."""


class Check(NamedTuple):
    """One figure of one family."""

    name: str
    value: float | None
    """None = not applicable."""
    n: int
    """Tasks, attempts or mutants checked."""
    bar: str = ""
    """``>= 1``; empty = none is set."""
    holds: bool | None = None
    is_share: bool = True
    """True = hits out of ``n``; False = a score."""
    breach: str = ""
    """The first violation of the bar, in words."""


class FamilyReport(NamedTuple):
    """The checks of a family."""

    family: str
    level: int
    checks: tuple[Check, ...]


@dataclass(slots=True)
class _Count:
    """Hits out of tries, and a description of the first violation."""

    hits: int = 0
    tries: int = 0
    words: str = ""

    def add(self, *, is_hit: bool, words: str = "") -> None:
        """``words``: describes a violation; empty = none."""
        self.hits += is_hit
        self.tries += 1
        self.words = self.words or words

    def check(self, name: str, *, least: float | None = None, most: float | None = None) -> Check:
        """The check against one bar, or none."""
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
    """The counts of a family so far."""

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
    """By the oracle's final action: tasks that it solves alone."""

    def checks(self) -> tuple[Check, ...]:
        """All checks in display order."""
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
        """The final action that solves most tasks alone: what a policy can learn without observing."""
        tasks = self.oracle.tries
        best = max(self.last_words.values(), default=0)
        return Check("constant", best / tasks if tasks else None, tasks)


def validate_family(kit: EnvironmentKit, family: str, plan: Plan) -> FamilyReport:
    """All checks of one family. Propagates the kit's exceptions."""
    tally, habits = _Tally(), ParameterHistory()
    before: tuple[Task, Trajectory] | None = None
    for task in tasks_of(kit, family, plan):
        rng = Random(f"validate/{plan.seed}/{task.id}")
        case = make_case(kit, task, habits, rng)
        checks = _TaskChecks(case, tally)
        checks.solve()
        checks.do_nothing()
        checks.compare()
        checks.act_at_random(rng, plan.random_attempts)
        checks.attack()
        checks.mutate()
        for recorded in checks.recorded:
            words = replay_difference(kit, task, recorded)
            tally.replay.add(is_hit=not words, words=words and f"{task.id!r}: {words}")
        if before is not None:
            words = isolation_difference(kit, (task, checks.recorded[0]), before)
            tally.isolation.add(is_hit=not words, words=words)
        before = (task, checks.recorded[-1])
    return FamilyReport(family, kit.families[family], tally.checks())


def tasks_of(kit: EnvironmentKit, family: str, plan: Plan) -> Iterator[Task]:
    """Training and held-out tasks in turn; at least one of each."""
    streams = [kit.tasks(seed=plan.seed, split=split, families=[family]) for split in SPLITS]
    for number in range(max(plan.tasks, len(streams))):
        yield from islice(streams[number % len(streams)], 1)


class _TaskChecks:
    """The checks of one task; adds to the family's tally."""

    def __init__(self, case: Case, tally: _Tally) -> None:
        self.recorded: list[Trajectory] = []
        """Trajectories to replay: the oracle's or doing nothing, and a random one."""
        self._case = case
        self._tally = tally
        proven = case.proven
        self._canaries: Sequence[str] = () if proven is None else proven.canaries(case.task)
        self._earned = earned_canaries(case.solved.trajectory, self._canaries) if case.solved is not None else {}
        if short := short_canaries(self._canaries):
            tally.canaries.add(is_hit=True, words=f"{short[0]!r} is too short for a canary, it may occur by chance")
        for action, observation in case.answers if self._canaries else ():
            leak = leak_of(action, observation, self._canaries, self._earned)
            tally.canaries.add(is_hit=bool(leak), words=leak and f"{case.task.id!r}: {leak}")

    def solve(self) -> None:
        """The oracle reaches the ceiling."""
        solved = self._case.solved
        if solved is None:
            return
        self.recorded.append(solved.trajectory)
        judged = self._evaluated(solved.trajectory)
        is_hit = judged is not None and judged.is_success
        self._tally.oracle.add(is_hit=is_hit, words="" if is_hit else f"{self._case.task.id!r} is not solved")
        if judged is not None and judged.score is not None:
            self._tally.ceilings.append(judged.score)
        case = self._case
        guessed = self._evaluated(play(case.kit.environment(case.task), case.task, fixed_policy(solved.end)))
        if guessed is not None and guessed.is_success:
            self._tally.last_words[summarize_actions(solved.end)] += 1

    def do_nothing(self) -> None:
        """Doing nothing scores the floor."""
        case = self._case
        idle = play(case.kit.environment(case.task), case.task, fixed_policy(()))
        judged = self._evaluated(idle)
        if judged is not None and judged.score is not None:
            self._tally.floors.append(judged.score)
        if not self.recorded:
            self.recorded.append(idle)

    def compare(self) -> None:
        """No two tasks are equal; skipped where the kit's worlds have no hash."""
        world = world_hash_of(self._case.kit, self._case.task)
        if not world:
            return
        content = content_hash(self._case.task, world)
        is_repeated = content in self._tally.contents
        words = f"{self._case.task.id!r} repeats another task" if is_repeated else ""
        self._tally.repeated.add(is_hit=is_repeated, words=words)
        self._tally.contents.add(content)

    def act_at_random(self, rng: Random, count: int) -> None:
        """Random calls of the tools with values from the world."""
        case = self._case
        player = random_policy(case, rng)
        for number in range(0 if player is None else count):
            assert player is not None  # the range is empty otherwise
            trajectory = play(case.kit.environment(case.task), case.task, player)
            self._count_attempts(
                self._tally.random, [AttackRun(summarize_actions(actions_of(trajectory)), trajectory)]
            )
            if not number:
                self.recorded.append(trajectory)

    def attack(self) -> None:
        """Each attack of the panel, and the kit's own: a task counts once, as a success if any attempt succeeds."""
        for name, attack in PANEL.items():
            self._count_attempts(self._tally.panel[name], run_attack(self._case, attack))
        for attempted in run_kit_attacks(self._case):
            self._count_attempts(self._tally.own.setdefault(attempted.description, _Count()), [attempted])

    def mutate(self) -> None:
        """Wrong goal states."""
        if self._case.solved is None or not self._case.solved.evaluation.is_success:
            return
        kills, mutants = mutation_kills(self._case, self._case.solved), self._tally.mutants
        mutants.hits += kills.killed
        mutants.tries += kills.tried
        mutants.words = mutants.words or kills.survivor

    def _count_attempts(self, count: _Count, tried: Sequence[AttackRun] | Iterator[AttackRun]) -> None:
        success, is_tried = "", False
        for attempted in tried:
            is_tried = True
            judged = self._evaluated(attempted.trajectory)
            if judged is not None and judged.is_success:
                success = success or f"{self._case.task.id!r} by {attempted.description}"
        if is_tried:
            count.add(is_hit=bool(success), words=success and f"success in {success}")

    def _evaluated(self, trajectory: Trajectory) -> Evaluation | None:
        """The verifier's evaluation; None where it raises, which is counted. Also searches for canaries."""
        case = self._case
        if self._canaries:
            leak = first_leak(trajectory, self._canaries, self._earned)
            self._tally.canaries.add(is_hit=bool(leak), words=leak and f"{case.task.id!r}: {leak}")
        try:
            evaluation = case.kit.verifier.verify(case.task, trajectory)
        except Exception as exc:  # noqa: BLE001  # third-party code: counted as a violation
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
