"""The contract checker: a correct environment passes, and problems of faulty ones are named."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, ClassVar

import pytest

from upturn.environments import Environment, EnvironmentKit, Info, Step, Verifier, check_environment, is_blocking
from upturn.errors import WorldError
from upturn.records import (
    Action,
    Evaluation,
    GateResult,
    JsonValue,
    Observation,
    Split,
    Task,
    Trajectory,
)
from upturn.rewards import evaluation_id, verdict_of

ADD = Action("counter", "add")
PROBES = (ADD, Action("counter", "finish"), Action("", ""), Action("counter", "add", {"by": [1]}))


class Counter:
    """Count to the number in the instruction, then finish."""

    def __init__(self) -> None:
        self.total = 0
        self.is_over = False

    def reset(self, task: Task) -> tuple[Observation, Info]:
        self.total, self.is_over = 0, False
        return Observation(task.instruction), self.info()

    def step(self, action: Action) -> Step:
        if self.is_over or action.target != "counter" or action.parameters:
            return self.refuse()
        if action.operation == "finish":
            self.is_over = True
        else:
            self.total += 1
        return Step(Observation(str(self.total)), 0.0, self.is_over, False, self.info())

    def refuse(self) -> Step:
        return Step(Observation("no", "refused"), 0.0, self.is_over, False, self.info(error=1.0))

    def info(self, **costs: float) -> Info:
        return Info({}, costs, state_hash=f"{self.total}/{self.is_over}")

    def state(self) -> Mapping[str, JsonValue]:
        return {"total": self.total}

    def snapshot(self) -> object:
        return (self.total, self.is_over)

    def restore(self, snapshot: object) -> None:
        assert isinstance(snapshot, tuple)
        self.total, self.is_over = snapshot


class CounterVerifier:
    """Success if the counter equals the number of the task's seed."""

    name = "counter/1"

    def verify(self, task: Task, trajectory: Trajectory) -> Evaluation:
        gates = (
            GateResult("ended", trajectory.outcome == "finished"),
            GateResult("total", trajectory.final_state["total"] == task.seed),
        )
        verdict = verdict_of(gates)
        score = float(verdict == "success")
        return Evaluation(
            evaluation_id(self.name, trajectory.id),
            task.id,
            trajectory.id,
            self.name,
            verdict,
            gates,
            {},
            {},
            score,
        )


class CounterKit:
    """A correct kit with replaceable parts."""

    name = "counter"

    def __init__(self) -> None:
        self.families: Mapping[str, int] = {"low": 1, "high": 2}
        self.verifier: Verifier = CounterVerifier()
        self.make: Callable[[], Environment] = Counter

    def environment(self, task: Task) -> Environment:
        return self.make()

    def tasks(self, *, seed: int, split: Split, families: Sequence[str]) -> Iterator[Task]:
        for number in count():
            for family in families:
                yield self.task(family, 2 * (1000 * seed + number) + (split == "heldout"), split)

    def task(self, family: str, seed: int, split: Split) -> Task:
        instruction = f"count {family} to {seed}"
        return Task(f"counter/{family}/{seed}", instruction, family, self.name, self.families[family], seed, split)


def test_a_correct_environment_passes() -> None:
    kit = CounterKit()
    assert isinstance(kit, EnvironmentKit)
    check_environment(kit)
    check_environment(kit, 3, probes=PROBES)


class Blank(CounterKit):
    families: Mapping[str, int]

    def __init__(self) -> None:
        super().__init__()
        self.families = {}


class LevelZero(CounterKit):
    def __init__(self) -> None:
        super().__init__()
        self.families = {"low": 0}


class OtherTasksEachTime(CounterKit):
    numbers = count(0, 2)

    def task(self, family: str, seed: int, split: Split) -> Task:
        return super().task(family, next(self.numbers) + (split == "heldout"), split)


class SameTasksForAllSeeds(CounterKit):
    def tasks(self, *, seed: int, split: Split, families: Sequence[str]) -> Iterator[Task]:
        return super().tasks(seed=0, split=split, families=families)


class OneFamilyFirst(CounterKit):
    def tasks(self, *, seed: int, split: Split, families: Sequence[str]) -> Iterator[Task]:
        return super().tasks(seed=seed, split=split, families=sorted(families)[:1])


class RepeatedIds(CounterKit):
    def task(self, family: str, seed: int, split: Split) -> Task:
        return replace(super().task(family, seed, split), id=f"counter/{family}")


class WrongLevel(CounterKit):
    def task(self, family: str, seed: int, split: Split) -> Task:
        return replace(super().task(family, seed, split), level=3)


class NoInstruction(CounterKit):
    def task(self, family: str, seed: int, split: Split) -> Task:
        return replace(super().task(family, seed, split), instruction="")


class SharedSeeds(CounterKit):
    def task(self, family: str, seed: int, split: Split) -> Task:
        return replace(super().task(family, seed, split), seed=seed // 2)


class HeldoutLikeTraining(CounterKit):
    def task(self, family: str, seed: int, split: Split) -> Task:
        return replace(super().task(family, seed, split), instruction=f"count to three with {family}")


class TasksRaise(CounterKit):
    def task(self, family: str, seed: int, split: Split) -> Task:
        raise KeyError("tasks.csv")


@pytest.mark.parametrize(
    ("kit", "breach"),
    [
        (Blank, "has no task family"),
        (LevelZero, "family 'low' has level 0"),
        (OtherTasksEachTime, "gave different tasks the second time"),
        (SameTasksForAllSeeds, "tasks of seeds 0 and 1 share 'counter/"),
        (OneFamilyFirst, "not one of each family"),
        (RepeatedIds, "6 train tasks have only 2 ids"),
        (WrongLevel, "level 3, split 'train'; expected 'counter', 1, 'train'"),
        (NoInstruction, "has no instruction"),
        (SharedSeeds, "share the seed"),
        (HeldoutLikeTraining, "held-out tasks look like training tasks"),
        (TasksRaise, r"tasks\(seed=0.*raised KeyError"),
    ],
)
def test_faulty_tasks_are_reported(kit: type[CounterKit], breach: str) -> None:
    with pytest.raises(WorldError, match=breach):
        check_environment(kit(), 6, probes=PROBES)


class RaisesOnStep(Counter):
    def step(self, action: Action) -> Step:
        return super().step(replace(action, parameters={"by": action.parameters["by"]}))


class RaisesOnReset(Counter):
    def reset(self, task: Task) -> tuple[Observation, Info]:
        raise OSError("no disk")


class StepReturnsText(Counter):
    def step(self, action: Action) -> Step:
        return super().step(action)._replace(observation="ok")  # type: ignore[arg-type]


class WholeReward(Counter):
    def step(self, action: Action) -> Step:
        return super().step(action)._replace(reward=1)


class NegativeCost(Counter):
    def refuse(self) -> Step:
        return super().refuse()._replace(info=self.info(error=-1.0))


class RefusalCounts(Counter):
    def refuse(self) -> Step:
        self.total += 1
        return super().refuse()


class SilentStart(Counter):
    def reset(self, task: Task) -> tuple[Observation, Info]:
        return Observation(""), super().reset(task)[1]


class RandomWorld(Counter):
    starts = count()

    def reset(self, task: Task) -> tuple[Observation, Info]:
        observation, _ = super().reset(task)
        self.total = next(self.starts)
        return observation, self.info()


class RandomSteps(Counter):
    steps = count()

    def step(self, action: Action) -> Step:
        return super().step(action)._replace(observation=Observation(str(next(self.steps))))


class SharedSnapshot(Counter):
    def snapshot(self) -> object:
        return self

    def restore(self, snapshot: object) -> None:
        assert isinstance(snapshot, SharedSnapshot)
        self.total, self.is_over = snapshot.total, snapshot.is_over


class SnapshotWithoutEnd(Counter):
    """Does not keep the end of the task in snapshots."""

    def restore(self, snapshot: object) -> None:
        assert isinstance(snapshot, tuple)
        self.total = snapshot[0]


class Waits(Counter):
    blocks = True


class WaitsPerhaps(Counter):
    blocks = "sometimes"


class PotentialAboveOne(Counter):
    """Reports a progress of 1.5 after one step."""

    def info(self, **costs: float) -> Info:
        return replace(super().info(**costs), potential=1.5 * self.total)


class WholePotential(Counter):
    def info(self, **costs: float) -> Info:
        return replace(super().info(**costs), potential=0)


class PotentialUnknownAtStart(Counter):
    def info(self, **costs: float) -> Info:
        return replace(super().info(**costs), potential=float("nan"))


class NoSnapshot(Counter):
    def snapshot(self) -> object:
        raise TypeError("cannot pickle a socket")


class NoCopies(Counter):
    def snapshot(self) -> object:
        raise NotImplementedError


class LacksSnapshotMethods(Counter):
    @property
    def snapshot(self) -> Any:
        raise AttributeError("no attribute 'snapshot'")


class StepReturnsNone(Counter):
    def step(self, action: Action) -> Step:
        return None  # type: ignore[return-value]


class StepReturnsFourItems(Counter):
    def step(self, action: Action) -> Step:
        return super().step(action)[:4]  # type: ignore[return-value]


class ResetReturnsNone(Counter):
    def reset(self, task: Task) -> tuple[Observation, Info]:
        return None  # type: ignore[return-value]


class CostIsText(Counter):
    def info(self, **costs: float) -> Info:
        return Info({}, {"error": "1"})  # type: ignore[dict-item]


class ComponentsOfAnotherReward(Counter):
    parts: ClassVar[Any] = {"mood": 1.0}

    def info(self, **costs: float) -> Info:
        return replace(super().info(**costs), reward_components=self.parts)


class ComponentsAreText(ComponentsOfAnotherReward):
    parts: ClassVar[Any] = {"mood": "0"}


class ComponentIsNaN(ComponentsOfAnotherReward):
    parts: ClassVar[Any] = {"mood": float("nan")}


class CostsAreANumber(Counter):
    def info(self, **costs: float) -> Info:
        return Info({}, 0)  # type: ignore[arg-type]


class StateIsNaN(Counter):
    def state(self) -> Mapping[str, JsonValue]:
        return {"total": float("nan")}


class LateStart(Counter):
    def info(self, **costs: float) -> Info:
        return replace(super().info(**costs), sim_time=1.0)


class EndlessTime(Counter):
    def info(self, **costs: float) -> Info:
        return replace(super().info(**costs), sim_time=float("inf"))


class TimeRunsBackwards(Counter):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 3

    def step(self, action: Action) -> Step:
        step, self.calls = super().step(action), self.calls - 1
        return step._replace(info=replace(step.info, sim_time=float(self.calls)))

    def restore(self, snapshot: object) -> None:
        super().restore(snapshot)
        self.calls = 3


@pytest.mark.parametrize(
    ("environment", "breach"),
    [
        (RaisesOnStep, "step.*raised KeyError: 'by'"),
        (RaisesOnReset, "reset of 'counter/low/0' raised OSError: no disk"),
        (StepReturnsText, "step gave 'ok', expected type Observation"),
        (WholeReward, "step gave 1, expected type float"),
        (NegativeCost, r"the costs \{'error': -1.0\}"),
        (RefusalCounts, "with 'refused' changed the state"),
        (SilentStart, "the first observation must be the instruction"),
        (RandomWorld, "twice gave different worlds"),
        (RandomSteps, "had different results in two environments"),
        (SharedSnapshot, r"restore\(\) did not restore the state"),
        (SnapshotWithoutEnd, r"had a different result after restore\(\)"),
        (WaitsPerhaps, "blocks is 'sometimes'; it must be True"),
        (PotentialAboveOne, r"it gave the potential 1.5; potentials are floats in \[0, 1\], or None throughout"),
        (WholePotential, "it gave the potential 0; potentials are floats"),
        (PotentialUnknownAtStart, "it gave the potential nan"),
        (LateStart, "reset gave the simulated time 1.0; it counts from reset and must be 0.0"),
        (EndlessTime, "it gave the simulated time inf; it is seconds since reset"),
        (TimeRunsBackwards, r"simulated time decreased from 2.0 to 1.0"),
        (NoSnapshot, r"snapshot\(\) raised TypeError: cannot pickle a socket"),
        (NoCopies, r"snapshot\(\) raised NotImplementedError"),
        (LacksSnapshotMethods, r"snapshot\(\) raised AttributeError: no attribute 'snapshot'"),
        (StepReturnsNone, r"step\(Action\(.*\) gave None; it must give an observation, a reward, "),
        (StepReturnsFourItems, r"gave \(Observation\(.*, False\); it must give an observation, a reward, "),
        (ResetReturnsNone, "reset of 'counter/low/0' gave None; it must give an observation and an Info"),
        (CostIsText, r"the costs \{'error': '1'\}"),
        (CostsAreANumber, "the costs 0;"),
        (ComponentsOfAnotherReward, r"the reward 0.0 and the components \{'mood': 1.0\}, which do not sum to it"),
        (ComponentsAreText, r"the components \{'mood': '0'\}, which do not sum"),
        (ComponentIsNaN, r"the components \{'mood': nan\}, which do not sum"),
        (StateIsNaN, r"writing state\(\) as JSON raised RecordError"),
    ],
)
def test_faulty_environments_are_reported(environment: type[Counter], breach: str) -> None:
    kit = CounterKit()
    kit.make = environment
    with pytest.raises(WorldError, match=breach):
        check_environment(kit, 2, probes=PROBES)


class PlainTuples(Counter):
    def step(self, action: Action) -> Step:
        return tuple(super().step(action))  # type: ignore[return-value]


def test_every_faulty_environment_is_reported_as_a_violation() -> None:
    kit = CounterKit()
    for environment in (NoSnapshot, StepReturnsNone, ResetReturnsNone, CostIsText):
        kit.make = environment
        with pytest.raises(WorldError, match=r"^environment 'counter' violates its contract: "):
            check_environment(kit, 2, probes=PROBES)


def test_a_step_may_be_a_plain_five_tuple() -> None:
    kit = CounterKit()
    kit.make = PlainTuples
    check_environment(kit, 2, probes=PROBES)


def test_the_blocks_marker_is_checked_and_defaults_to_false() -> None:
    kit = CounterKit()
    kit.make = Waits
    check_environment(kit, 2, probes=PROBES)
    assert [is_blocking(environment) for environment in (Waits(), Counter(), WaitsPerhaps())] == [
        True,
        False,
        False,
    ]


class ChangedVerifier(CounterVerifier):
    """A verifier whose evaluations are changed."""

    def __init__(self, change: Callable[[Task, Trajectory, Evaluation], Any]) -> None:
        self._change = change

    def verify(self, task: Task, trajectory: Trajectory) -> Evaluation:
        evaluation: Evaluation = self._change(task, trajectory, super().verify(task, trajectory))
        return evaluation


SECONDS = count()


def fails(*_: object) -> Evaluation:
    raise ZeroDivisionError("nothing to divide")


@pytest.mark.parametrize(
    ("change", "breach"),
    [
        (fails, r"verify\(\) of \[\] raised ZeroDivisionError: nothing to divide"),
        (lambda *_: None, r"verify\(\) gave a NoneType"),
        (lambda _, __, evaluation: replace(evaluation, rewards={"t": float(next(SECONDS))}), "the second time"),
        (lambda _, __, evaluation: replace(evaluation, task_id="other"), "names .*'other'"),
        (lambda _, __, evaluation: replace(evaluation, evaluator="counter/2"), "names .*'counter/2'"),
        (lambda _, __, evaluation: replace(evaluation, score=1.5), "score 1.5 is not in 0..1"),
        (lambda _, __, evaluation: replace(evaluation, verdict="success"), "a success has failed gates"),
        (
            lambda _, __, evaluation: replace(evaluation, verdict="success", gates=()),
            "doing nothing in 'counter/low/0' is a success",
        ),
    ],
)
def test_faulty_verifiers_are_reported(change: Callable[..., Any], breach: str) -> None:
    kit = CounterKit()
    kit.verifier = ChangedVerifier(change)
    with pytest.raises(WorldError, match=breach):
        check_environment(kit, 2, probes=PROBES)


class IdentityVerifier(CounterVerifier):
    """Gives another reward for an equal trajectory that is another object."""

    def __init__(self) -> None:
        self.first: Trajectory | None = None

    def verify(self, task: Task, trajectory: Trajectory) -> Evaluation:
        self.first = self.first or trajectory
        return replace(super().verify(task, trajectory), rewards={"first": float(trajectory is self.first)})


def test_a_verifier_must_evaluate_stored_trajectories_the_same() -> None:
    kit = CounterKit()
    kit.verifier = IdentityVerifier()
    with pytest.raises(WorldError, match="evaluated the stored trajectory differently"):
        check_environment(kit, 2, probes=PROBES)


def test_a_verifier_needs_a_name() -> None:
    kit = CounterKit()
    kit.verifier = CounterVerifier()
    kit.verifier.name = ""
    with pytest.raises(WorldError, match="verifier has no name"):
        check_environment(kit)
