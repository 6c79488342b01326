"""A small environment for the tests of validation: boxes with words, one of which must be replaced."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from random import Random
from typing import Any, NamedTuple

from upturn.environments import Info, ScriptedPolicy, Step
from upturn.environments.scripted_policy import fixed_policy
from upturn.records import Action, Evaluation, GateResult, JsonValue, Observation, Split, Task, Tool, Trajectory
from upturn.rewards import evaluation_id, verdict_of

WORDS = ("kiwi", "plum", "pear", "fig", "lime", "date")
TEXT: dict[str, JsonValue] = {"type": "string"}
TOOLS = (
    Tool("shelf", "look", "Shows the boxes."),
    Tool("shelf", "write", "Writes a text into a box.", {"box": TEXT, "text": TEXT}, ("box", "text")),
    Tool("shelf", "remove", "Takes a box away.", {"box": TEXT}, ("box",)),
    Tool("user", "answer", "Ends the task with words.", {"text": TEXT}, ("text",)),
    Tool("user", "finish", "Ends the task."),
    Tool("user", "refuse", "Ends the task undone.", {"text": TEXT}, ("text",)),
)


class World(NamedTuple):
    """Initial state and goal of a task."""

    boxes: dict[str, str]
    box: str
    word: str


def world_of(task: Task) -> World:
    """Five boxes with words; the task is to put another word into one of them."""
    rng = Random(f"shelf/{task.seed}")
    names = [f"b{number}" for number in rng.sample(range(10, 100), 5)]
    *words, word = rng.sample(WORDS, 6)
    return World(dict(zip(names, words, strict=True)), rng.choice(names), f"{word}-{rng.randint(1000, 9999)}")


class Shelf:
    """Tools to look, write and remove, and two to end the task."""

    def __init__(self) -> None:
        self.boxes: dict[str, str] = {}
        self.answer: str | None = None

    def reset(self, task: Task) -> tuple[Observation, Info]:
        self.boxes, self.answer = dict(world_of(task).boxes), None
        return Observation(task.instruction), self.info()

    def step(self, action: Action) -> Step:
        text, box = action.parameters.get("text"), action.parameters.get("box")
        match f"{action.target}.{action.operation}":
            case "shelf.look" if self.answer is None:
                result = "; ".join(f"{name} holds {word}" for name, word in self.boxes.items())
            case "shelf.write" if (
                self.answer is None and box in self.boxes and isinstance(text, str) and text.isascii()
            ):
                self.boxes[str(box)], result = text, "written"
            case "shelf.remove" if self.answer is None and box in self.boxes:
                result = f"{box} held {self.boxes.pop(str(box))}"
            case "user.answer" | "user.refuse" if self.answer is None and isinstance(text, str) and text.isascii():
                self.answer, result = text, "thank you"
            case "user.finish" if self.answer is None:
                self.answer, result = "", "thank you"
            case _:
                refused = Observation(f"no such thing; the boxes are {', '.join(self.boxes)}", "refused")
                return Step(refused, 0.0, self.answer is not None, False, self.info(error=1.0))
        return Step(Observation(result), 0.0, self.answer is not None, False, self.info())

    def info(self, **costs: float) -> Info:
        return Info({}, costs, state_hash=f"{sorted(self.boxes.items())}/{self.answer!r}")

    def state(self) -> Mapping[str, JsonValue]:
        return {"boxes": dict(self.boxes), "said": self.answer}

    def snapshot(self) -> object:
        return dict(self.boxes), self.answer

    def restore(self, snapshot: object) -> None:
        assert isinstance(snapshot, tuple)
        self.boxes, self.answer = dict(snapshot[0]), snapshot[1]


Rule = Callable[[World, dict[str, Any], str], bool]
"""Whether these boxes and this answer are correct."""


def is_correct(world: World, boxes: dict[str, Any], answer: str) -> bool:
    return boxes == {**world.boxes, world.box: world.word} and answer == ""


class ShelfVerifier:
    """Success if the agent ended the task and the rule accepts the result."""

    name = "shelf/1"

    def __init__(self, rule: Rule) -> None:
        self.rule = rule

    def verify(self, task: Task, trajectory: Trajectory) -> Evaluation:
        boxes, answer = trajectory.final_state.get("boxes"), trajectory.final_state.get("said")
        is_accepted = (
            isinstance(boxes, dict) and isinstance(answer, str) and self.rule(world_of(task), boxes, answer)
        )
        gates = (GateResult("ended", trajectory.outcome == "finished"), GateResult("kept", is_accepted))
        verdict = verdict_of(gates)
        score = float(verdict == "success")
        named = (evaluation_id(self.name, trajectory.id), task.id, trajectory.id, self.name)
        return Evaluation(*named, verdict, gates, {}, {}, score)


class BareShelfKit:
    """A kit with the mandatory contract only; every part can be replaced."""

    name = "shelf"

    def __init__(self, rule: Rule = is_correct) -> None:
        self.families: Mapping[str, int] = {"put": 1}
        self.verifier = ShelfVerifier(rule)
        self.make: Callable[[], Shelf] = Shelf

    def environment(self, task: Task) -> Shelf:
        return self.make()

    def tasks(self, *, seed: int, split: Split, families: Sequence[str]) -> Iterator[Task]:
        for number in count(1000 * seed):
            for family in families:
                task = Task(
                    f"shelf/{split}/{number}", "", family, self.name, seed=2 * number + (split == "heldout")
                )
                world = world_of(task)
                words = f'write "{world.word}" into box {world.box}'
                yield Task(task.id, words, family, self.name, seed=task.seed, split=split)


class ShelfKit(BareShelfKit):
    """A kit with tools, an oracle and canaries."""

    def __init__(self, rule: Rule = is_correct) -> None:
        super().__init__(rule)
        self.tools: Sequence[Tool] = TOOLS

    def solution(self, task: Task) -> tuple[Action, ...]:
        world = world_of(task)
        return (
            Action("shelf", "look"),
            Action("shelf", "write", {"box": world.box, "text": world.word}),
            Action("user", "finish"),
        )

    def oracle(self, task: Task) -> ScriptedPolicy | None:
        return fixed_policy(self.solution(task))

    def canaries(self, task: Task) -> Sequence[str]:
        return (f"secret-{task.seed}-of-the-judge",)

    def attacks(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        return {"half": fixed_policy(self.solution(task)[:-1])}

    def may_differ(self, task: Task, path: Sequence[str], value: JsonValue) -> bool:
        return False
