"""A minimal environment: one function samples a task and its expected answer, another grades the action.

For tasks that one action answers, with any targets and operations. Not for tasks of several steps or with a state
that actions change: write an ``EnvironmentKit`` for those.

Order of checks of an action: the task is still open; the action names an operation; it can be recorded. An action
that fails a check gets an error observation and costs 1 as ``error``; the first action that passes ends the task.
Only the verifier calls ``check``; the environment never does.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from upturn.environments.action import malformed_text
from upturn.environments.cases import Cases, Expected
from upturn.environments.environment import Info, Step
from upturn.environments.oracle_protocol import CANARY_LENGTH
from upturn.environments.scripted_policy import ScriptedPolicy, fixed_policy
from upturn.errors import RecordError, WorldError
from upturn.records import (
    Action,
    Evaluation,
    GateResult,
    JsonValue,
    Observation,
    Split,
    Task,
    Tool,
    Trajectory,
    fields_json,
    from_fields,
)
from upturn.rewards import Rubric, sum_costs

Make: TypeAlias = Callable[..., tuple[str, Expected]]
"""``make(rng)`` or ``make(rng, split=…)`` → (instruction, expected). All randomness must come from ``rng``."""
Check: TypeAlias = Callable[[Action, Expected], bool | float]
"""True or 1.0 = success; a number below 1 is partial credit in the score. Must accept any action."""
WriteHint: TypeAlias = Callable[[Expected], str]
"""The answer in words, for training with hints (STaR); never shown to agents otherwise."""
Solve: TypeAlias = Callable[[Expected], Action]
"""The correct action, for ``upturn env validate``."""


def one_step(  # noqa: PLR0913  # the parts of a kit, each a separate option
    name: str,
    make: Make | Mapping[str, Make],
    check: Check,
    *,
    version: int = 1,
    level: int = 1,
    hint: WriteHint | None = None,
    oracle: Solve | None = None,
    tools: Sequence[Tool] = (),
) -> "OneStepKit":
    """A kit of tasks that one action answers; name it as ``module:name`` in ``upturn.toml``.

    ``make`` is one function, for a family called ``name``, or several by family. A ``make`` with an argument
    ``split`` gets ``"train"`` or ``"heldout"`` and can reserve phrasings for the latter; without it held-out tasks
    differ from training tasks by their seed only. ``version`` is the verifier's: raise it when ``check`` changes.
    ``hint``: None = no hints. ``oracle``: None = no known solution, and less can be validated. ``tools``: described
    to models with a chat template; one with a ``text_parameter`` takes a plain answer. Empty = none are described.
    """
    makes = dict(make) if isinstance(make, Mapping) else {name: make}
    cases = Cases(name, makes, _read_case, returns="(instruction, expected), a text and a mapping")
    verifier = OneStepVerifier(cases, check, version=version)
    return OneStepKit(cases, verifier, level=level, write_hint=hint, solve=oracle, tools=tools)


class _Case(NamedTuple):
    instruction: str
    expected: Expected


def _read_case(result: object) -> _Case | None:
    match result:
        case (str() as instruction, Mapping() as expected) if instruction:
            return _Case(instruction, expected)
    return None


class OneStepEnvironment:
    """One task: shows the instruction and takes the first valid action."""

    def __init__(self, cases: Cases[_Case]) -> None:
        self._cases = cases
        self._instruction: str | None = None
        self._action: Action | None = None

    def reset(self, task: Task) -> tuple[Observation, Info]:
        """Samples the task's case again; raises WorldError for tasks of other environments."""
        self._instruction = self._cases.of(task).instruction
        self._action = None
        return Observation(self._instruction), self._info()

    def step(self, action: Action) -> Step:
        """Accepts the action and ends the task, or refuses it."""
        if self._instruction is None:
            raise WorldError(f"{self._cases.name!r} has no task yet; call reset(task) first")
        if self._action is not None:
            return self._refuse("is_over", "the task is over; reset starts another")
        if not action.operation:
            usual = "write one call: target.operation name=value; name=value"
            return self._refuse("malformed", malformed_text(action, usual))
        try:
            fields_json(action)
        except RecordError as exc:
            return self._refuse("bad_value", str(exc))
        self._action = action
        return Step(Observation("done"), 0.0, True, False, self._info())

    def state(self) -> Mapping[str, JsonValue]:
        """The accepted action; None before."""
        return {"action": None if self._action is None else json.loads(fields_json(self._action))}

    def snapshot(self) -> object:
        """The action accepted so far."""
        return self._action

    def restore(self, snapshot: object) -> None:
        """Restores a snapshot of the same task."""
        assert snapshot is None or isinstance(snapshot, Action)
        self._action = snapshot

    def _info(self, **costs: float) -> Info:
        encoded = json.dumps([self._instruction, self.state()["action"]])
        return Info({}, costs, state_hash=hashlib.blake2b(encoded.encode(), digest_size=8).hexdigest())

    def _refuse(self, code: str, message: str) -> Step:
        return Step(Observation(message, code), 0.0, self._action is not None, False, self._info(error=1.0))


class OneStepVerifier:
    """Grades with ``check``, from the task and the recorded final state alone."""

    def __init__(self, cases: Cases[_Case], check: Check, *, version: int) -> None:
        self.name = f"{cases.name}/{version}"
        self._cases = cases
        self._check = check
        self._rubric = Rubric(self.name, {"quality": 1.0})

    def verify(self, task: Task, trajectory: Trajectory) -> Evaluation:
        """Gates: the agent ended the task with an action, and ``check`` accepts it. Propagates its exceptions."""
        case = self._cases.of(task)
        stored = trajectory.final_state.get("action")
        action = None if stored is None else from_fields(Action, json.dumps(stored))
        quality = 0.0 if action is None else self._quality(action, case.expected)
        gates = (
            GateResult("answered", action is not None and trajectory.outcome == "finished", trajectory.outcome),
            GateResult("right", quality >= 1.0, f"{quality:g}"),
        )
        costs = sum_costs(trajectory.turns, ("error",))
        return self._rubric.evaluate(trajectory, gates, shortest=1, costs=costs, components={"quality": quality})

    def _quality(self, action: Action, expected: Expected) -> float:
        """The result of ``check`` in [0, 1]; raises WorldError for anything else."""
        value = self._check(action, expected)
        if not isinstance(value, bool | int | float) or not 0 <= value <= 1:
            raise WorldError(
                f"check of {self._cases.name!r} must return True, False or a number in 0..1; got {value!r}"
            )
        return float(value)


class OneStepKit:
    """The ``EnvironmentKit`` that ``one_step`` returns."""

    def __init__(
        self,
        cases: Cases[_Case],
        verifier: OneStepVerifier,
        *,
        level: int,
        write_hint: WriteHint | None = None,
        solve: Solve | None = None,
        tools: Sequence[Tool] = (),
    ) -> None:
        self.name = cases.name
        self.families: Mapping[str, int] = dict.fromkeys(cases.families, level)
        self.verifier = verifier
        self.tools = tuple(tools)
        self._cases = cases
        self._write_hint = write_hint
        self._solve = solve

    def environment(self, task: Task) -> OneStepEnvironment:  # noqa: ARG002  # every task has the same kind
        """A new environment; ``reset`` samples its case."""
        return OneStepEnvironment(self._cases)

    def hint(self, task: Task) -> str | None:
        """The task's hint; None where there is none."""
        return None if self._write_hint is None else self._write_hint(self._cases.of(task).expected)

    def oracle(self, task: Task) -> ScriptedPolicy | None:
        """A policy that takes the correct action; None where there is no oracle."""
        return None if self._solve is None else fixed_policy((self._solve(self._cases.of(task).expected),))

    def canaries(self, task: Task) -> tuple[str, ...]:
        """The expected values as text, where they are long enough and not in the instruction."""
        texts = (str(value) for value in self._cases.of(task).expected.values())
        return tuple(text for text in texts if len(text) >= CANARY_LENGTH and text not in task.instruction)

    def attacks(self, task: Task) -> Mapping[str, ScriptedPolicy]:  # noqa: ARG002  # as every OracleKit's
        """None besides the general ones."""
        return {}

    def may_differ(self, task: Task, path: Sequence[str], value: JsonValue) -> bool:  # noqa: ARG002  # as above
        """Everything but the action's parameters: ``check`` decides on target and operation."""
        return tuple(path[:2]) != ("action", "parameters")

    def tasks(self, *, seed: int, split: Split, families: Sequence[str]) -> Iterator[Task]:
        """Endless tasks, each family once a round. Streams of different seeds share no task."""
        return self._cases.tasks(seed=seed, split=split, levels=self.families, families=families)
