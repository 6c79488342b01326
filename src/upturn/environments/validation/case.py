"""One task as a checker without a model sees it: what its tools do there, what is found, and how it is solved.

Order: the oracle's attempt, where there is an oracle; then every tool is tried with values that fit its schema and
are found in the world, each time from the initial state; what was accepted, what changed the state and what ended
the task is kept. Where a kit describes no tools, they are those that its oracle uses and ``user.answer`` and
``user.finish``.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from upturn.environments.environment import Environment, Step
from upturn.environments.kit import EnvironmentKit, tools_of
from upturn.environments.oracle_protocol import ProvenKit, oracle_of
from upturn.environments.scripted_policy import Player, play
from upturn.environments.validation.schema_sampling import Habits, Vocabulary, text_parameters
from upturn.records import Action, Evaluation, Observation, Task, Tool, Trajectory, Turn

MOST_TURNS = 200
"""Of an oracle or an attack: more than any task should take."""
_ROUNDS = 2
"""Ids that listings show in the first are used in the second."""
_TRIES = 8
"""Of a tool in a round."""
_PERSISTENCE = 5
"""Times as many tries in the end for tools that nothing was accepted of."""
_MOST_TRIES = 400
"""Of all tools in a round: kits with many tools have fewer of each."""
_KEPT = 6
"""Accepted calls of a tool that are kept."""
_TEXT = {"type": "string"}
_USUAL = (
    Tool("user", "answer", "", {"text": dict(_TEXT)}, ("text",)),
    Tool("user", "finish", ""),
)
REFUSALS = frozenset({"refuse", "decline", "reject", "abort", "cancel", "escalate"})
"""Operations that end a task by saying that it is not done: never a claim."""


def actions_of(trajectory: Trajectory) -> tuple[Action, ...]:
    """What was done."""
    return tuple(turn.action for turn in trajectory.turns if turn.action is not None)


@dataclass(frozen=True, slots=True)
class Solved:
    """The oracle's attempt."""

    trajectory: Trajectory
    evaluation: Evaluation
    changing: tuple[int, ...]
    """Places of the actions that changed the state, without the one that ended the task."""

    @property
    def actions(self) -> tuple[Action, ...]:
        """All of them."""
        return actions_of(self.trajectory)

    @property
    def work(self) -> tuple[Action, ...]:
        """Without the one that ended the task."""
        return self.actions[:-1] if self.trajectory.outcome == "finished" else self.actions

    @property
    def end(self) -> tuple[Action, ...]:
        """The one that ended the task; empty where none did."""
        return self.actions[len(self.work) :]


class Answered(NamedTuple):
    """One action and what was seen after it."""

    action: Action
    observation: Observation


@dataclass(frozen=True, slots=True)
class Case:
    """A task with all that was found out about it."""

    kit: EnvironmentKit
    task: Task
    proven: ProvenKit | None
    """The kit again, where it proves itself."""
    tools: Mapping[str, Tool]
    """By name."""
    solved: Solved | None
    """None = the kit knows no oracle."""
    vocabulary: Vocabulary
    answers: tuple[Answered, ...]
    """All that was tried in the initial state, and what was seen then, errors too."""
    readings: tuple[str, ...]
    """What the world shows of itself, each once."""
    calls: Mapping[str, tuple[Action, ...]]
    """By tool: calls that were accepted in the initial state and did not end the task."""
    changers: tuple[Action, ...]
    """Those of them that changed the state."""
    closers: tuple[Tool, ...]
    """Tools that end the task, without refusals."""
    refusals: tuple[Tool, ...]
    """Tools that end the task undone."""

    @property
    def wordless(self) -> list[Action]:
        """Ways to end the task that say nothing."""
        return [Action(tool.target, tool.operation) for tool in self.closers if not tool.required]

    def saying(self, text: str) -> list[Action]:
        """Ways to end the task by this text."""
        return [_said(tool, text) for tool in self.closers if _takes_text(tool)]

    def refusing(self, text: str) -> list[Action]:
        """Ways to end the task undone, with this text where one is taken."""
        return [_said(tool, text) for tool in self.refusals if _takes_text(tool) or not tool.required]


def _takes_text(tool: Tool) -> bool:
    """Whether a text is enough for the tool."""
    names = text_parameters(tool)
    return bool(names) and set(tool.required) <= set(names)


def _said(tool: Tool, text: str) -> Action:
    names = text_parameters(tool)[: max(1, len(tool.required))]
    return Action(tool.target, tool.operation, dict.fromkeys(names, text))


def make_case(kit: EnvironmentKit, task: Task, habits: Habits, rng: Random) -> Case:
    """Lets the oracle work and tries every tool; ``habits`` learns from what is accepted."""
    solved = _solve(kit, task)
    tools = {tool.name: tool for tool in _known_tools(kit, solved)}
    scout = _Scout(kit, task, Vocabulary(task.instruction, habits))
    tries = max(1, min(_TRIES, _MOST_TRIES // max(1, len(tools))))
    for _ in range(_ROUNDS):
        for tool in tools.values():
            scout.explore(tool, tries, rng)
    for tool in tools.values():
        if tool.name not in scout.closers and not scout.calls[tool.name]:
            scout.explore(tool, _PERSISTENCE * tries, rng)
    if solved is not None and solved.end:
        scout.closers.setdefault(f"{solved.end[0].target}.{solved.end[0].operation}")
    return Case(
        kit,
        task,
        kit if isinstance(kit, ProvenKit) else None,
        tools,
        solved,
        scout.vocabulary,
        tuple(scout.answers),
        tuple(scout.readings),
        {name: tuple(calls.values()) for name, calls in scout.calls.items()},
        tuple(scout.changers.values()),
        *_closers(tools[name] for name in scout.closers),
    )


def _closers(tools: Iterable[Tool]) -> tuple[tuple[Tool, ...], tuple[Tool, ...]]:
    """Those that end a task as done, and refusals."""
    chosen = list(tools)
    refusals = tuple(tool for tool in chosen if tool.operation in REFUSALS)
    return tuple(tool for tool in chosen if tool not in refusals), refusals


def _solve(kit: EnvironmentKit, task: Task) -> Solved | None:
    oracle = oracle_of(kit, task)
    if oracle is None:
        return None
    environment = kit.environment(task)
    trajectory = play(environment, task, oracle, max_turns=MOST_TURNS)
    hashes = [turn.state_hash for turn in trajectory.turns]
    last = len(hashes) - (trajectory.outcome == "finished")
    hashes.append("")  # after the last action: unknown, and taken as another state
    changing = tuple(place for place in range(last) if not hashes[place] or hashes[place] != hashes[place + 1])
    return Solved(trajectory, kit.verifier.verify(task, trajectory), changing)


def _known_tools(kit: EnvironmentKit, solved: Solved | None) -> Iterable[Tool]:
    """The kit's; otherwise those that the oracle uses, with any text for each parameter, and the usual ones."""
    described = tools_of(kit)
    if described:
        return described
    parameters: defaultdict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for action in () if solved is None else solved.actions:
        parameters[action.target, action.operation].update(dict.fromkeys(action.parameters))
    used = (
        Tool(target, operation, "", {name: dict(_TEXT) for name in names}, tuple(names))
        for (target, operation), names in parameters.items()
    )
    return {tool.name: tool for tool in (*_USUAL, *used)}.values()


class _Scout:
    """Tries calls in the initial state of one task and keeps what came of them."""

    def __init__(self, kit: EnvironmentKit, task: Task, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.answers: list[Answered] = []
        self.readings: dict[str, None] = {}
        self.calls: defaultdict[str, dict[str, Action]] = defaultdict(dict)
        self.changers: dict[str, Action] = {}
        self.closers: dict[str, None] = {}
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
        """Calls the tool with different parameters, until enough calls are known."""
        for _ in range(tries):
            if len(self.calls[tool.name]) >= _KEPT:
                return
            action = Action(tool.target, tool.operation, self.vocabulary.draw(tool, rng))
            written = repr(action)
            if written not in self._tried:
                self._tried.add(written)
                self._note(tool, action, written, self._environment.step(action))

    def _note(self, tool: Tool, action: Action, written: str, step: Step) -> None:
        self.answers.append(Answered(action, step.observation))
        self.vocabulary.learn(tool, action, step.observation)
        has_changed = not step.info.state_hash or step.info.state_hash != self._state_hash
        if not step.observation.is_error:
            if step.is_terminated:
                self.closers.setdefault(tool.name)
            else:
                self.readings.setdefault(step.observation.text)
                self.calls[tool.name][written] = action
                if has_changed:
                    self.changers[written] = action
        if has_changed or step.is_terminated:
            self._restore()

    def _restore(self) -> None:
        if self._snapshot is None:
            self._environment.reset(self._task)
        else:
            self._environment.restore(self._snapshot)


def is_refused(trajectory: Trajectory, place: int) -> bool:
    """Whether the action at this place was answered with an error, or never taken."""
    after = [turn.observation for turn in trajectory.turns[1:]] + [trajectory.final_observation]
    return place >= len(trajectory.turns) or after[place].is_error


def random_player(case: Case, rng: Random) -> Player | None:
    """Calls any tool that was ever accepted, with values that it may take; None where there is no such tool."""
    closers = {tool.name for tool in case.closers}
    tools = [tool for name, tool in case.tools.items() if case.calls.get(name) or name in closers]

    def act(_task: Task, _turns: Sequence[Turn], _observation: Observation) -> Action:
        tool = rng.choice(tools)
        return Action(tool.target, tool.operation, case.vocabulary.draw(tool, rng, is_blind=True))

    return act if tools else None
