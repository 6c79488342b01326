"""All checks of one task family: what is measured, against which bar, and the first violation of each.

Order, for every task: exploration (``case``); oracle, doing nothing, random actions, the panel, the kit's own
attacks, its unusual right solutions, mutants; then its recorded actions replayed, alone and interleaved with those
of the previous task. All observations are searched for canaries.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from random import Random
from typing import NamedTuple

from upturn.environments.kit import EnvironmentKit
from upturn.environments.oracle_protocol import SolutionsKit, content_hash, world_hash_of
from upturn.environments.scripted_policy import MAX_TURNS as TURNS
from upturn.environments.scripted_policy import ScriptedPolicy, fixed_policy, play
from upturn.environments.validation.attack import PANEL, AttackRun, run_attack, run_kit_attacks, summarize_actions
from upturn.environments.validation.case import MAX_TURNS, Case, actions_of, make_case, random_policy
from upturn.environments.validation.determinism import isolation_difference, replay_difference
from upturn.environments.validation.leak import earned_canaries, first_leak, leak_of, short_canaries
from upturn.environments.validation.mutation import mutation_kills
from upturn.environments.validation.schema_sampling import ParameterHistory
from upturn.errors import error_text
from upturn.records import Evaluation, Split, Task, Trajectory

SPLITS: tuple[Split, ...] = ("train", "heldout")
RANDOM_BAR = 0.01
KILL_BAR = 0.95
RIGHT_BAR = 0.98
RIGHT = "right "
"""Start of the names of checks of unusual right solutions."""
REPEATED_BAR = 0.05
"""Two of the default 40 tasks: so few may be equal by chance. With more, the family has about 400 cases or fewer:
success on held-out tasks may be memorisation, and n tasks count for fewer than n."""


class Plan(NamedTuple):
    """The extent of a validation."""

    tasks: int = 40
    """Per family, half of them held out."""
    seed: int = 0
    """Seed of the tasks and of all randomness."""
    random_trajectories: int = 20
    """Per task."""


class Check(NamedTuple):
    """One figure of one family."""

    name: str
    value: float | None
    """None = not applicable."""
    n: int
    """Tasks, attack runs or mutants checked."""
    bar: str = ""
    """``>= 1``; empty = none."""
    holds: bool | None = None
    is_share: bool = True
    """True = hits out of ``n``; False = a score."""
    violation: str = ""
    """The first violation of the bar; empty = none."""


class FamilyReport(NamedTuple):
    """The checks of a family."""

    family: str
    level: int
    checks: tuple[Check, ...]


@dataclass(slots=True)
class _Count:
    """Hits out of tries, and the first violation."""

    hits: int = 0
    tries: int = 0
    violation: str = ""
    price: float = 0.0
    """The highest score of a success that does not count as a hit; 0 = every success does."""

    def add(self, *, is_hit: bool, violation: str = "") -> None:
        """``violation``: as text; empty = none."""
        self.hits += is_hit
        self.tries += 1
        self.violation = self.violation or violation

    def check(self, name: str, *, least: float | None = None, most: float | None = None) -> Check:
        """The share of hits against one bar, or none."""
        share = _check(name, self.hits / max(1, self.tries), self.tries, least=least, most=most)
        return share if share.holds is None else share._replace(violation=self.violation)

    def sample_check(self, name: str, *, most: float) -> Check:
        """The share of hits in a sample: it misses the bar if the lower limit of its exact interval is above it."""
        check = self.check(name, most=most)
        if check.holds is not False or _is_above(self.hits, self.tries, most):
            return check
        return check._replace(holds=True, violation="")


def _check(name: str, value: float, n: int, *, least: float | None = None, most: float | None = None) -> Check:
    if not n:
        return Check(name, None, 0)
    if least is not None:
        return Check(name, value, n, f">= {least:g}", value >= least)
    return Check(name, value, n) if most is None else Check(name, value, n, f"<= {most:g}", value <= most)


def _is_above(hits: int, tries: int, rate: float) -> bool:
    """Whether the lower limit of the exact 95 % interval (Clopper and Pearson 1934) of the share is above ``rate``.

    That is the case if so many hits have a probability below 2.5 % at ``rate``.
    """
    fewer = (math.comb(tries, count) * rate**count * (1 - rate) ** (tries - count) for count in range(hits))
    return 1 - math.fsum(fewer) < 0.025


def _score_check(
    name: str, value: float, n: int, *, least: float | None = None, most: float | None = None
) -> Check:
    check = _check(name, value, n, least=least, most=most)
    return check._replace(is_share=not n, violation=f"the score is {value:g}" if check.holds is False else "")


def _priced_check(name: str, count: _Count) -> Check:
    check = count.check(f"own {name}", most=0)
    return check._replace(bar=f"{check.bar} above a score of {count.price:g}") if count.price else check


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
    kit_attacks: dict[str, _Count] = field(default_factory=dict)
    best: float = 0.0
    """The highest score of any trajectory."""
    evaluated: int = 0
    """Trajectories with a score."""
    right: dict[str, _Count] = field(default_factory=dict)
    """By unusual right solution."""
    contents: set[str] = field(default_factory=set)
    final_actions: Counter[str] = field(default_factory=Counter)
    """By the oracle's final action: tasks that it solves alone."""

    def checks(self) -> tuple[Check, ...]:
        """All checks in display order.

        ``constant``: the share of tasks solved by the best final action alone, which needs no observation.
        """
        tasks, best = self.oracle.tries, max(self.final_actions.values(), default=0)
        return (
            self.oracle.check("oracle", least=1),
            _score_check("ceiling", min(self.ceilings, default=0), len(self.ceilings), least=1),
            _score_check("floor", max(self.floors, default=0), len(self.floors), most=0),
            self._rewarded(),
            self.random.sample_check("random", most=RANDOM_BAR),
            self.replay.check("replay", least=1),
            self.isolation.check("isolation", least=1),
            self.canaries.check("canaries", most=0),
            self.mutants.check("mutants", least=KILL_BAR),
            *(count.check(name, most=0) for name, count in self.panel.items()),
            *(_priced_check(name, count) for name, count in self.kit_attacks.items()),
            *(count.check(f"{RIGHT}{name}", least=RIGHT_BAR) for name, count in self.right.items()),
            self.unjudged.check("unjudged", most=0),
            self.repeated.check("repeated", most=REPEATED_BAR),
            _check("constant", best / max(1, tasks), tasks),
        )

    def _rewarded(self) -> Check:
        """Without an oracle: whether anything that was tried scored above 0."""
        if self.oracle.tries:
            return Check("rewarded", None, 0)
        violation = (
            ""
            if self.best > 0
            else f"none of {self.evaluated} trajectories scored above 0, as with a reward that is always 0; add an "
            "oracle, which shows that the reward can be earned"
        )
        return Check(
            "rewarded", self.best, self.evaluated, "> 0", self.best > 0, is_share=False, violation=violation
        )


def validate_family(kit: EnvironmentKit, family: str, plan: Plan) -> FamilyReport:
    """All checks of one family. Propagates the kit's exceptions."""
    tally, history = _Tally(), ParameterHistory()
    previous: tuple[Task, Trajectory] | None = None
    for task in tasks_of(kit, family, plan):
        rng = Random(f"validate/{plan.seed}/{task.id}")
        case = make_case(kit, task, history, rng)
        checks = _TaskChecks(case, tally)
        checks.run_oracle()
        checks.do_nothing()
        checks.find_repeated_task()
        checks.run_random_policy(rng, plan.random_trajectories)
        checks.run_attacks()
        checks.accept_right_solutions()
        checks.kill_mutants()
        for recorded in checks.recorded:
            difference = replay_difference(kit, task, recorded)
            tally.replay.add(is_hit=not difference, violation=difference and f"{task.id!r}: {difference}")
        if previous is not None:
            difference = isolation_difference(kit, (task, checks.recorded[0]), previous)
            tally.isolation.add(is_hit=not difference, violation=difference)
        previous = (task, checks.recorded[-1])
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
        kit = case.oracle_kit
        self._canaries: Sequence[str] = () if kit is None else kit.canaries(case.task)
        self._earned = (
            earned_canaries(case.solution.trajectory, self._canaries) if case.solution is not None else {}
        )
        if short := short_canaries(self._canaries):
            tally.canaries.add(
                is_hit=True, violation=f"{short[0]!r} is too short for a canary, it may occur by chance"
            )
        for action, observation in case.tried_calls if self._canaries else ():
            leak = leak_of(action, observation, self._canaries, self._earned)
            tally.canaries.add(is_hit=bool(leak), violation=leak and f"{case.task.id!r}: {leak}")

    def run_oracle(self) -> None:
        """The oracle reaches the ceiling."""
        solution = self._case.solution
        if solution is None:
            return
        self.recorded.append(solution.trajectory)
        evaluation = self._evaluate(solution.trajectory)
        is_solved = evaluation is not None and evaluation.is_success
        violation = "" if is_solved else f"{self._case.task.id!r} is not solved"
        self._tally.oracle.add(is_hit=is_solved, violation=violation)
        if evaluation is not None and evaluation.score is not None:
            self._tally.ceilings.append(evaluation.score)
        final_only = self._evaluate(self._play(fixed_policy(solution.end)))
        if final_only is not None and final_only.is_success:
            self._tally.final_actions[summarize_actions(solution.end)] += 1

    def do_nothing(self) -> None:
        """Doing nothing scores the floor."""
        idle = self._play(fixed_policy(()))
        evaluation = self._evaluate(idle)
        if evaluation is not None and evaluation.score is not None:
            self._tally.floors.append(evaluation.score)
        if not self.recorded:
            self.recorded.append(idle)

    def find_repeated_task(self) -> None:
        """No two tasks are equal; skipped where the kit's worlds have no hash."""
        world = world_hash_of(self._case.kit, self._case.task)
        if not world:
            return
        content = content_hash(self._case.task, world)
        is_repeated = content in self._tally.contents
        violation = f"{self._case.task.id!r} repeats another task" if is_repeated else ""
        self._tally.repeated.add(is_hit=is_repeated, violation=violation)
        self._tally.contents.add(content)

    def run_random_policy(self, rng: Random, count: int) -> None:
        """Random calls of the tools with values from the world."""
        policy = random_policy(self._case, rng)
        if policy is None:
            return
        for number in range(count):
            trajectory = self._play(policy)
            run = AttackRun(summarize_actions(actions_of(trajectory)), trajectory)
            self._count_successes(self._tally.random, [run])
            if not number:
                self.recorded.append(trajectory)

    def run_attacks(self) -> None:
        """Each attack of the panel, and the kit's own: a task counts once, as a success if any script succeeds."""
        for name, attack in PANEL.items():
            self._count_successes(self._tally.panel[name], run_attack(self._case, attack))
        for run in run_kit_attacks(self._case):
            count = self._tally.kit_attacks.setdefault(run.description, _Count(price=run.most))
            self._count_successes(count, [run])

    def accept_right_solutions(self) -> None:
        """The kit's unusual right solutions are accepted."""
        kit = self._case.kit
        solutions = kit.right_solutions(self._case.task) if isinstance(kit, SolutionsKit) else {}
        for name, policy in solutions.items():
            evaluation = self._evaluate(self._play(policy, max_turns=MAX_TURNS))
            is_accepted = evaluation is not None and evaluation.is_success
            failed = (
                [gate.name for gate in evaluation.gates if not gate.is_passed] if evaluation is not None else []
            )
            violation = "" if is_accepted else f"{self._case.task.id!r} fails {', '.join(failed) or 'unjudged'}"
            self._tally.right.setdefault(name, _Count()).add(is_hit=is_accepted, violation=violation)

    def kill_mutants(self) -> None:
        """Wrong goal states."""
        if self._case.solution is None or not self._case.solution.evaluation.is_success:
            return
        kills, mutants = mutation_kills(self._case, self._case.solution), self._tally.mutants
        mutants.hits += kills.killed
        mutants.tries += kills.tried
        mutants.violation = mutants.violation or kills.survivor

    def _play(self, policy: ScriptedPolicy, *, max_turns: int = TURNS) -> Trajectory:
        return play(self._case.kit.environment(self._case.task), self._case.task, policy, max_turns=max_turns)

    def _count_successes(self, count: _Count, runs: Iterable[AttackRun]) -> None:
        """Counts the runs as one: a success if any of them is, nothing if there are none."""
        success, has_runs = "", False
        for run in runs:
            has_runs = True
            evaluation = self._evaluate(run.trajectory)
            if evaluation is None or not evaluation.is_success:
                continue
            if run.most == 0 or evaluation.score is None or evaluation.score > run.most:
                success = success or f"{self._case.task.id!r} by {run.description}"
        if has_runs:
            count.add(is_hit=bool(success), violation=success and f"success in {success}")

    def _evaluate(self, trajectory: Trajectory) -> Evaluation | None:
        """The verifier's evaluation; None where it raises, which counts as unjudged, as a missing one does. Also
        searches for canaries."""
        case = self._case
        if self._canaries:
            leak = first_leak(trajectory, self._canaries, self._earned)
            self._tally.canaries.add(is_hit=bool(leak), violation=leak and f"{case.task.id!r}: {leak}")
        try:
            evaluation = case.kit.verifier.verify(case.task, trajectory)
        except (Exception, SystemExit) as exc:  # noqa: BLE001  third-party code: counted as a violation
            self._tally.unjudged.add(is_hit=True, violation=f"{case.task.id!r}: verify raised {error_text(exc)}")
            return None
        is_missing = evaluation.verdict == "missing"
        reason = "; ".join(gate.detail for gate in evaluation.gates if not gate.is_passed) or "no reason is given"
        violation = f"{case.task.id!r}: the evaluation is missing: {reason}" if is_missing else ""
        self._tally.unjudged.add(is_hit=is_missing, violation=violation)
        if evaluation.score is not None:
            self._tally.evaluated += 1
            self._tally.best = max(self._tally.best, evaluation.score)
        return evaluation
