"""The smallest way to bring an environment of one's own: draw an instruction, judge the one action that answers it.

For tasks that one action answers, whatever apps and operations that action names. Not for work in several steps or
with a state that actions change: write an ``EnvironmentKit`` for those.

Order of checks of an action: the task is still open; the action names a target and an operation; it can be written
down. What fails a check is refused with an error observation and costs 1 as ``error``; the first action that passes
ends the task. The verdict is the verifier's, which calls ``check``; the environment itself never does.
"""

import hashlib
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple, TypeAlias

from upturn.environments.environment import Info, Step
from upturn.environments.oracle_protocol import CANARY_LENGTH
from upturn.environments.scripted_policy import Player, following
from upturn.errors import RecordError, UnknownNameError, WorldError
from upturn.records import (
    Action,
    Evaluation,
    GateResult,
    JsonValue,
    Observation,
    Split,
    Task,
    Trajectory,
    fields_json,
    from_fields,
)
from upturn.rewards import Rubric, efficiency, evaluation_id, summed_costs, verdict_of

Right: TypeAlias = Mapping[str, Any]
"""What is right in one case: anything that ``check`` can use. It stays inside and is never stored."""
Make: TypeAlias = Callable[..., tuple[str, Right]]
"""``make(rng)`` or ``make(rng, split=…)`` → (instruction, right). Everything random must come from ``rng``."""
Check: TypeAlias = Callable[[Action, Right], bool | float]
"""True or 1.0 = success; a number below 1 counts in the score without being a success. Must bear any action."""
Tell: TypeAlias = Callable[[Right], str]
"""The answer in words, for training that gives it as a hint (STaR); agents are never told otherwise."""
Solve: TypeAlias = Callable[[Right], Action]
"""The action that is right, for ``upturn env validate``."""

_STREAMS: dict[Split, int] = {"train": 0, "heldout": 1}
"""Even seeds are for training, odd ones held out."""


def one_step(  # noqa: PLR0913  # what a kit is made of, each option by itself
    name: str,
    make: Make | Mapping[str, Make],
    check: Check,
    *,
    version: int = 1,
    level: int = 1,
    hint: Tell | None = None,
    oracle: Solve | None = None,
) -> "OneStepKit":
    """A kit of tasks that one action answers; name it as ``module:name`` in ``upturn.toml``.

    ``make`` is one function, for a family called ``name``, or several by family. A ``make`` with an argument
    ``split`` is told ``"train"`` or ``"heldout"`` and can keep phrasings for the latter; without it held-out tasks
    differ from training tasks by their seed only. ``version`` names the judge: raise it when ``check`` changes.
    ``hint``: None = there are no hints. ``oracle``: None = no solution is known, and less can be validated.
    """
    makes = dict(make) if isinstance(make, Mapping) else {name: make}
    if not name or not makes:
        raise WorldError(f"an environment needs a name and a family, got {name!r} with {list(makes)!r}")
    return OneStepKit(_Cases(name, makes, check), version=version, level=level, tell=hint, solve=oracle)


class _Case(NamedTuple):
    instruction: str
    right: Right


class _Cases:
    """Cases by family and seed, drawn anew each time, and their check."""

    def __init__(self, name: str, makes: Mapping[str, Make], check: Check) -> None:
        self.name = name
        self._makes = makes
        self._check = check
        self._knows_split = {
            family: "split" in inspect.signature(make).parameters for family, make in makes.items()
        }

    @property
    def families(self) -> tuple[str, ...]:
        return tuple(self._makes)

    def draw(self, family: str, seed: int, split: Split) -> _Case:
        """The same arguments give the same case, as long as ``make`` draws from its generator only."""
        if family not in self._makes:
            raise UnknownNameError(f"{self.name} has no family {family!r}; it has: {', '.join(self._makes)}")
        rng = Random(f"{self.name}/{family}/{seed}")
        options = {"split": split} if self._knows_split[family] else {}
        drawn = self._makes[family](rng, **options)
        match drawn:
            case (str() as instruction, Mapping() as right) if instruction:
                return _Case(instruction, right)
        raise WorldError(
            f"make of {self.name!r} must return (instruction, right), a text and a mapping; got {drawn!r}"
        )

    def of(self, task: Task) -> _Case:
        """The task's case; raises WorldError for a task that this ``make`` does not give."""
        case = self.draw(task.family, task.seed, task.split)
        if task.environment != self.name or task.instruction != case.instruction:
            raise WorldError(
                f"task {task.id!r} ({task.instruction!r}) is not from this {self.name!r}, which has "
                f"{case.instruction!r} in its place; make must draw from its generator only, and stored tasks need "
                "the make that drew them"
            )
        return case

    def quality(self, action: Action, right: Right) -> float:
        """What ``check`` says, in [0, 1]; raises WorldError for anything else."""
        value = self._check(action, right)
        if not isinstance(value, bool | int | float) or not 0 <= value <= 1:
            raise WorldError(f"check of {self.name!r} must return True, False or a number in 0..1; got {value!r}")
        return float(value)


class OneStepEnvironment:
    """One case: shows the instruction and takes the first action that can be read."""

    def __init__(self, cases: _Cases) -> None:
        self._cases = cases
        self._instruction: str | None = None
        self._action: Action | None = None

    def reset(self, task: Task) -> tuple[Observation, Info]:
        """Draws the task's case again; raises WorldError for tasks of other environments."""
        self._instruction = self._cases.of(task).instruction
        self._action = None
        return Observation(self._instruction), self._info()

    def step(self, action: Action) -> Step:
        """Takes the action and ends the task, or refuses it."""
        if self._instruction is None:
            raise WorldError(f"{self._cases.name!r} has no task yet; call reset(task) first")
        if self._action is not None:
            return self._refused("is_over", "the task is over; reset starts another")
        if not action.target or not action.operation:
            return self._refused("malformed", "write one call: target.operation name=value; name=value")
        try:
            fields_json(action)
        except RecordError as exc:
            return self._refused("bad_value", str(exc))
        self._action = action
        return Step(Observation("done"), 0.0, True, False, self._info())

    def state(self) -> Mapping[str, JsonValue]:
        """The action that was taken; None before."""
        return {"action": None if self._action is None else json.loads(fields_json(self._action))}

    def snapshot(self) -> object:
        """The action taken so far."""
        return self._action

    def restore(self, snapshot: object) -> None:
        """Goes back to a snapshot of the same task."""
        assert snapshot is None or isinstance(snapshot, Action)
        self._action = snapshot

    def _info(self, **costs: float) -> Info:
        written = json.dumps([self._instruction, self.state()["action"]])
        return Info({}, costs, state_hash=hashlib.blake2b(written.encode(), digest_size=8).hexdigest())

    def _refused(self, code: str, message: str) -> Step:
        return Step(Observation(message, code), 0.0, self._action is not None, False, self._info(error=1.0))


class OneStepVerifier:
    """Judges by ``check``, from the task and the recorded final state alone."""

    def __init__(self, cases: _Cases, *, version: int) -> None:
        self.name = f"{cases.name}/{version}"
        self._cases = cases
        self._rubric = Rubric(self.name, {"quality": 1.0})

    def verify(self, task: Task, trajectory: Trajectory) -> Evaluation:
        """Gates: the agent ended the task with an action, and ``check`` calls it right. Raises what it raises."""
        case = self._cases.of(task)
        taken = trajectory.final_state.get("action")
        action = None if taken is None else from_fields(Action, json.dumps(taken))
        quality = 0.0 if action is None else self._cases.quality(action, case.right)
        gates = (
            GateResult("answered", action is not None and trajectory.outcome == "finished", trajectory.outcome),
            GateResult("right", quality >= 1.0, f"{quality:g}"),
        )
        is_success = verdict_of(gates) == "success"
        rewards: dict[str, float | None] = {
            "success": float(is_success),
            "efficiency": efficiency(is_success=is_success, shortest=1, turns=len(trajectory.turns)),
            "quality": quality,
        }
        return Evaluation(
            id=evaluation_id(self.name, trajectory.id),
            task_id=task.id,
            trajectory_id=trajectory.id,
            evaluator=self.name,
            verdict=verdict_of(gates),
            gates=gates,
            rewards=rewards,
            costs=summed_costs(trajectory.turns, ("error",)),
            score=self._rubric.score(rewards),
        )


class OneStepKit:
    """What ``one_step`` makes: an ``EnvironmentKit``."""

    def __init__(
        self, cases: _Cases, *, version: int, level: int, tell: Tell | None = None, solve: Solve | None = None
    ) -> None:
        self.name = cases.name
        self.families: Mapping[str, int] = dict.fromkeys(cases.families, level)
        self.verifier = OneStepVerifier(cases, version=version)
        self._cases = cases
        self._tell = tell
        self._solve = solve

    def environment(self, task: Task) -> OneStepEnvironment:  # noqa: ARG002  # every task has the same kind
        """A new environment; ``reset`` gives it its case."""
        return OneStepEnvironment(self._cases)

    def hint(self, task: Task) -> str | None:
        """What ``hint`` says of the task's case; None where there is none."""
        return None if self._tell is None else self._tell(self._cases.of(task).right)

    def oracle(self, task: Task) -> Player | None:
        """Takes the action that ``oracle`` gives for the task's case; None where there is none."""
        return None if self._solve is None else following((self._solve(self._cases.of(task).right),))

    def canaries(self, task: Task) -> tuple[str, ...]:
        """What is right, as text, where it is long enough and the instruction does not say it."""
        texts = (str(value) for value in self._cases.of(task).right.values())
        return tuple(text for text in texts if len(text) >= CANARY_LENGTH and text not in task.instruction)

    def attacks(self, task: Task) -> Mapping[str, Player]:  # noqa: ARG002  # as every ProvenKit's
        """None beside the general ones."""
        return {}

    def may_differ(self, task: Task, path: Sequence[str], value: JsonValue) -> bool:  # noqa: ARG002  # as above
        """All but the action's parameters: which app and operation is right is up to ``check``."""
        return tuple(path[:2]) != ("action", "parameters")

    def tasks(self, *, seed: int, split: Split, families: Sequence[str]) -> Iterator[Task]:
        """Endless tasks, each family once a round. Streams of different seeds share no task."""
        round_number = 0
        while True:
            number = seed * 1_000_003 + round_number
            for family in families:
                task_seed = 2 * number + _STREAMS[split]
                yield Task(
                    id=f"{self.name}/{family}/{split}/{number}",
                    instruction=self._cases.draw(family, task_seed, split).instruction,
                    family=family,
                    environment=self.name,
                    level=self.families[family],
                    seed=task_seed,
                    split=split,
                )
            round_number += 1
