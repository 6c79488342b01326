"""Explores one task without a model: the oracle's solution, what each tool does, and the words of its world.

Order: the oracle's trajectory, where there is an oracle; then every tool is tried from the initial state with
values that fit its schema and occur in the world; accepted calls, calls that changed the state and calls that ended
the task are recorded. For a kit without tool descriptions, the tools are those of its oracle, ``user.answer`` and
``user.finish``.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from upturn.environments.environment import Environment, Step
from upturn.environments.kit import EnvironmentKit, tools_of
from upturn.environments.oracle_protocol import OracleKit, oracle_of
from upturn.environments.scripted_policy import ScriptedPolicy, play
from upturn.environments.validation.schema_sampling import ParameterHistory, Vocabulary, text_parameters
from upturn.records import Action, Evaluation, Observation, Task, Tool, Trajectory, Turn

MAX_TURNS = 200
"""For an oracle or an attack: more than any task should need."""
_ROUNDS = 2
"""Ids from listings of the first round are used in the second."""
_TRIES = 8
"""Calls of a tool per round."""
_RETRY_FACTOR = 5
"""Factor for more tries at the end for tools without an accepted call."""
_MAX_TRIES = 400
"""Calls of all tools per round: kits with many tools get fewer of each."""
_MAX_CALLS = 6
"""Accepted calls recorded per tool."""
_TEXT = {"type": "string"}
_USER_TOOLS = (Tool("user", "answer", "", {"text": dict(_TEXT)}, ("text",)), Tool("user", "finish", ""))
REFUSAL_OPERATIONS = frozenset({"refuse", "decline", "reject", "abort", "cancel", "escalate"})
"""Operations that end a task as not done."""


def actions_of(trajectory: Trajectory) -> tuple[Action, ...]:
    """The actions of a trajectory."""
    return tuple(turn.action for turn in trajectory.turns if turn.action is not None)


@dataclass(frozen=True, slots=True)
class Solution:
    """The oracle's solution."""

    trajectory: Trajectory
    evaluation: Evaluation
    changing: tuple[int, ...]
    """Indices of the actions that changed the state, without the final one."""

    @property
    def actions(self) -> tuple[Action, ...]:
        """All actions."""
        return actions_of(self.trajectory)

    @property
    def work(self) -> tuple[Action, ...]:
        """All actions but the one that ended the task."""
        return self.actions[:-1] if self.trajectory.outcome == "finished" else self.actions

    @property
    def end(self) -> tuple[Action, ...]:
        """The action that ended the task; empty where none did."""
        return self.actions[len(self.work) :]


class TriedCall(NamedTuple):
    """An action in the initial state and the observation after it."""

    action: Action
    observation: Observation


@dataclass(frozen=True, slots=True)
class Case:
    """A task with the results of exploring it."""

    kit: EnvironmentKit
    task: Task
    oracle_kit: OracleKit | None
    """The kit, where it implements ``OracleKit``."""
    tools: Mapping[str, Tool]
    """By name."""
    solution: Solution | None
    """None = no oracle."""
    vocabulary: Vocabulary
    tried_calls: tuple[TriedCall, ...]
    """All calls tried in the initial state, including refused ones."""
    observations: tuple[str, ...]
    """Distinct observations of the world."""
    calls: Mapping[str, tuple[Action, ...]]
    """By tool: calls accepted in the initial state that did not end the task."""
    changing_calls: tuple[Action, ...]
    """Accepted calls that changed the state."""
    final_tools: tuple[Tool, ...]
    """Tools that end the task as done."""
    refusal_tools: tuple[Tool, ...]
    """Tools that end the task as not done."""

    def final_calls(self, text: str | None = None) -> list[Action]:
        """Actions that end the task with this text; None = without any."""
        if text is None:
            return [Action(tool.target, tool.operation) for tool in self.final_tools if not tool.required]
        return [_with_text(tool, text) for tool in self.final_tools if _takes_text(tool)]

    @property
    def is_solvable(self) -> bool:
        """Whether the oracle ends the task as done; False without an oracle."""
        end = self.solution.end if self.solution is not None else ()
        return bool(end) and end[0].operation not in REFUSAL_OPERATIONS

    def refusal_calls(self, text: str) -> list[Action]:
        """Actions that end the task as not done, with this text where one is accepted."""
        return [_with_text(tool, text) for tool in self.refusal_tools if _takes_text(tool) or not tool.required]


def _takes_text(tool: Tool) -> bool:
    """Whether a text is the only parameter that the tool requires."""
    names = text_parameters(tool)
    return bool(names) and set(tool.required) <= set(names)


def _with_text(tool: Tool, text: str) -> Action:
    names = text_parameters(tool)[: max(1, len(tool.required))]
    return Action(tool.target, tool.operation, dict.fromkeys(names, text))


def make_case(kit: EnvironmentKit, task: Task, history: ParameterHistory, rng: Random) -> Case:
    """Runs the oracle and tries every tool; adds the results of the calls to ``history``."""
    solution = _solve(kit, task)
    tools = {tool.name: tool for tool in _known_tools(kit, solution)}
    explorer = _Explorer(kit, task, Vocabulary(task.instruction, history))
    tries = max(1, min(_TRIES, _MAX_TRIES // max(1, len(tools))))
    for _ in range(_ROUNDS):
        for tool in tools.values():
            explorer.explore(tool, tries, rng)
    for tool in tools.values():
        if tool.name not in explorer.final_tools and not explorer.calls[tool.name]:
            explorer.explore(tool, _RETRY_FACTOR * tries, rng)
    if solution is not None and solution.end:
        explorer.final_tools.setdefault(solution.end[0].name)
    final = [tools[name] for name in explorer.final_tools]
    return Case(
        kit,
        task,
        kit if isinstance(kit, OracleKit) else None,
        tools,
        solution,
        explorer.vocabulary,
        tuple(explorer.tried_calls),
        tuple(explorer.observations),
        {name: tuple(calls.values()) for name, calls in explorer.calls.items()},
        tuple(explorer.changing_calls.values()),
        tuple(tool for tool in final if tool.operation not in REFUSAL_OPERATIONS),
        tuple(tool for tool in final if tool.operation in REFUSAL_OPERATIONS),
    )


def _solve(kit: EnvironmentKit, task: Task) -> Solution | None:
    oracle = oracle_of(kit, task)
    if oracle is None:
        return None
    environment = kit.environment(task)
    trajectory = play(environment, task, oracle, max_turns=MAX_TURNS)
    hashes = [turn.state_hash for turn in trajectory.turns]
    last = len(hashes) - (trajectory.outcome == "finished")
    hashes.append("")  # after the last action: unknown, counts as changed
    changing = tuple(index for index in range(last) if not hashes[index] or hashes[index] != hashes[index + 1])
    return Solution(trajectory, kit.verifier.verify(task, trajectory), changing)


def _known_tools(kit: EnvironmentKit, solution: Solution | None) -> Iterable[Tool]:
    """The kit's tools; otherwise those of the oracle, with free-text parameters, and those of ``user``."""
    described = tools_of(kit)
    if described:
        return described
    parameters: defaultdict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for action in () if solution is None else solution.actions:
        parameters[action.target, action.operation].update(dict.fromkeys(action.parameters))
    used = (
        Tool(target, operation, "", {name: dict(_TEXT) for name in names}, tuple(names))
        for (target, operation), names in parameters.items()
    )
    return {tool.name: tool for tool in (*_USER_TOOLS, *used)}.values()


class _Explorer:
    """Tries calls in the initial state of one task and records the results."""

    def __init__(self, kit: EnvironmentKit, task: Task, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.tried_calls: list[TriedCall] = []
        self.observations: dict[str, None] = {}
        self.calls: defaultdict[str, dict[str, Action]] = defaultdict(dict)
        self.changing_calls: dict[str, Action] = {}
        self.final_tools: dict[str, None] = {}
        self._task = task
        self._tried: set[str] = set()
        self._environment: Environment = kit.environment(task)
        _, info = self._environment.reset(task)
        self._state_hash = info.state_hash
        try:
            self._snapshot: object = self._environment.snapshot()
        except NotImplementedError:
            self._snapshot = None

    def explore(self, tool: Tool, tries: int, rng: Random) -> None:
        """Calls the tool with different parameters until enough calls are accepted."""
        for _ in range(tries):
            if len(self.calls[tool.name]) >= _MAX_CALLS:
                return
            action = Action(tool.target, tool.operation, self.vocabulary.draw(tool, rng))
            key = repr(action)
            if key not in self._tried:
                self._tried.add(key)
                self._record(tool, action, key, self._environment.step(action))

    def _record(self, tool: Tool, action: Action, key: str, step: Step) -> None:
        self.tried_calls.append(TriedCall(action, step.observation))
        self.vocabulary.record(tool, action, step.observation)
        has_changed = not step.info.state_hash or step.info.state_hash != self._state_hash
        if not step.observation.is_error:
            if step.is_terminated:
                self.final_tools.setdefault(tool.name)
            else:
                self.observations.setdefault(step.observation.text)
                self.calls[tool.name][key] = action
                if has_changed:
                    self.changing_calls[key] = action
        if has_changed or step.is_terminated:
            self._restore()

    def _restore(self) -> None:
        if self._snapshot is None:
            self._environment.reset(self._task)
        else:
            self._environment.restore(self._snapshot)


def was_refused(trajectory: Trajectory, index: int) -> bool:
    """Whether the action at this index got an error, or was never taken."""
    return index >= len(trajectory.turns) or trajectory.results[index].is_error


def random_policy(case: Case, rng: Random) -> ScriptedPolicy | None:
    """A policy of random calls to accepted tools with plausible values; None where no tool was ever accepted."""
    final = {tool.name for tool in case.final_tools}
    tools = [tool for name, tool in case.tools.items() if case.calls.get(name) or name in final]

    def act(_task: Task, _turns: Sequence[Turn], _observation: Observation) -> Action:
        tool = rng.choice(tools)
        return Action(tool.target, tool.operation, case.vocabulary.draw(tool, rng, is_blind=True))

    return act if tools else None
