"""Validation of a family: a correct one passes all checks; a weak verifier fails the check of its weakness."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count, islice
from random import Random
from typing import Any, ClassVar

import pytest

from benchmarks.errands.kit import ErrandsKit
from tests.environments.validation.shelf_for_test import (
    TEXT,
    TOOLS,
    BareShelfKit,
    Rule,
    Shelf,
    ShelfKit,
    ShelfVerifier,
    World,
    is_correct,
)
from upturn.environments import Info, ScriptedPolicy, Step, check_environment
from upturn.environments.scripted_policy import fixed_policy
from upturn.environments.validation import PANEL, RIGHT, Check, Plan, list_unchecked, validate_family, validate_kit
from upturn.environments.validation.case import make_case
from upturn.environments.validation.mutation import mutation_kills
from upturn.environments.validation.schema_sampling import ParameterHistory
from upturn.models import write_call
from upturn.records import Action, Evaluation, JsonValue, Observation, Split, Task, Tool, Trajectory

PLAN = Plan(tasks=2, random_trajectories=2)


def checks(kit: Any, family: str = "put", plan: Plan = PLAN) -> dict[str, Check]:
    return {check.name: check for check in validate_family(kit, family, plan).checks}


def failed_checks(results: dict[str, Check]) -> set[str]:
    return {name for name, check in results.items() if check.holds is False}


def test_a_sound_kit_passes_every_check() -> None:
    kit = ShelfKit()
    check_environment(kit, 2)
    results = checks(kit)
    assert list(results) == [
        "oracle",
        "ceiling",
        "floor",
        "rewarded",
        "random",
        "replay",
        "isolation",
        "canaries",
        "mutants",
        *PANEL,
        "own half",
        "unjudged",
        "repeated",
        "constant",
    ]
    assert failed_checks(results) == set()
    assert (results["oracle"].value, results["ceiling"].value, results["floor"].value) == (1.0, 1.0, 0.0)
    assert (results["oracle"].n, results["random"].n, results["replay"].n, results["isolation"].n) == (2, 4, 4, 1)
    assert results["mutants"].value == 1.0
    tried = {name for name in PANEL if results[name].value is not None}
    assert tried == set(PANEL) - {"repeat"}, "writing a box again is writing it"
    assert results["repeat"] == Check("repeat", None, 0)


def never(world: World, boxes: dict[str, Any], answer: str) -> bool:
    return False


def test_a_reward_that_is_always_zero_is_not_sound_with_or_without_an_oracle() -> None:
    assert {"oracle", "ceiling"} <= failed_checks(checks(ShelfKit(never)))
    alone = checks(BareShelfKit(never))
    assert failed_checks(alone) == {"rewarded"}
    assert alone["rewarded"].value == 0
    assert re.match(r"none of \d+ trajectories scored above 0, .*; add an oracle", alone["rewarded"].violation)
    assert checks(BareShelfKit(any_words))["rewarded"].holds is True


def only_its_box(world: World, boxes: dict[str, Any], answer: str) -> bool:
    return boxes.get(world.box) == world.word and answer == ""


def word_somewhere(world: World, boxes: dict[str, Any], answer: str) -> bool:
    return world.word in str(boxes.get(world.box)) and boxes.keys() == world.boxes.keys()


def any_words(world: World, boxes: dict[str, Any], answer: str) -> bool:
    return answer != "" or only_its_box(world, boxes, answer)


def done_is_believed(world: World, boxes: dict[str, Any], answer: str) -> bool:
    return "done" in answer or only_its_box(world, boxes, answer)


def nothing_broken(world: World, boxes: dict[str, Any], answer: str) -> bool:
    return boxes in (world.boxes, {**world.boxes, world.box: world.word})


def something_changed(world: World, boxes: dict[str, Any], answer: str) -> bool:
    return boxes != world.boxes


def old_word_is_gone(world: World, boxes: dict[str, Any], answer: str) -> bool:
    return boxes.get(world.box) != world.boxes[world.box] and answer == ""


def answer_lists_all_words(world: World, boxes: dict[str, Any], answer: str) -> bool:
    return all(word in answer for word in world.boxes.values()) or only_its_box(world, boxes, answer)


def answer_repeats_task(world: World, boxes: dict[str, Any], answer: str) -> bool:
    return (f"{world.word}" in answer and world.box in answer) or only_its_box(world, boxes, answer)


def box_is_empty(world: World, boxes: dict[str, Any], answer: str) -> bool:
    return boxes.get(world.box, "x").strip() == "" or only_its_box(world, boxes, answer)


def refusal_is_fine(world: World, boxes: dict[str, Any], answer: str) -> bool:
    return answer == "this cannot be done" or only_its_box(world, boxes, answer)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (only_its_box, {"neighbour", "mutants"}),
        (word_somewhere, {"stuff", "mutants"}),
        (any_words, {"echo", "claim", "dump", "stuff", "mutants"}),
        (done_is_believed, {"claim"}),
        (nothing_broken, {"nothing", "claim", "echo"}),
        (something_changed, {"delete", "spam", "neighbour", "mutants"}),
        (old_word_is_gone, {"delete", "empty"}),
        (answer_lists_all_words, {"dump", "stuff"}),
        (answer_repeats_task, {"echo", "stuff"}),
        (box_is_empty, {"empty"}),
        (refusal_is_fine, {"refuse"}),
    ],
)
def test_each_weakness_of_a_verifier_is_detected(rule: Rule, expected: set[str]) -> None:
    results = checks(ShelfKit(rule))
    assert expected <= failed_checks(results), {name: results[name] for name in expected - failed_checks(results)}
    assert results["oracle"].holds
    assert all(results[name].violation for name in failed_checks(results))


class GenerousShelfKit(ShelfKit):
    """A kit with two more right solutions: one without looking, one that looks twice."""

    def right_solutions(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        look, *rest = self.solution(task)
        return {"unseen": fixed_policy(rest), "looked twice": fixed_policy([look, look, *rest])}


def test_right_solutions_must_be_accepted_by_name() -> None:
    kit = GenerousShelfKit()
    assert [name for name in checks(kit) if name.startswith(RIGHT)] == ["right unseen", "right looked twice"]
    assert failed_checks(checks(kit)) == set()
    verify = kit.verifier.verify

    class StrictVerifier(ShelfVerifier):
        def verify(self, task: Task, trajectory: Trajectory) -> Evaluation:
            looks = sum(turn.action is not None and turn.action.operation == "look" for turn in trajectory.turns)
            return verify(task, replace(trajectory, outcome="step_limit") if looks > 1 else trajectory)

    kit.verifier = StrictVerifier(is_correct)
    results = checks(kit)
    assert failed_checks(results) == {"right looked twice"}
    check = results["right looked twice"]
    assert (check.value, check.n, check.bar) == (0.0, 2, ">= 0.98")
    assert check.violation == "'shelf/train/0' fails ended"


def test_answers_learnable_without_observation_are_reported() -> None:
    assert checks(ShelfKit())["constant"] == Check("constant", 0.0, 2)
    results = checks(ShelfKit(lambda *_: True), plan=Plan(tasks=3, random_trajectories=1))
    assert results["constant"] == Check("constant", 1.0, 3), "every task ends with the same action"
    assert checks(BareShelfKit())["constant"] == Check("constant", None, 0)
    answers = checks(ErrandsKit(), "unread_count", Plan(tasks=4, random_trajectories=1))["constant"]
    assert answers.value in (0.25, 0.5), "four counts from 1 to 8"


def test_a_verifier_without_successes_misses_the_ceiling_and_has_no_mutants() -> None:
    results = checks(ShelfKit(lambda *_: False))
    assert {"oracle", "ceiling"} <= failed_checks(results)
    assert results["oracle"].violation == "'shelf/train/0' is not solved"
    assert results["mutants"].value is None


def test_a_verifier_that_rewards_doing_nothing_misses_the_floor() -> None:
    kit = ShelfKit()
    verify_original = kit.verifier.verify

    def with_partial_score(task: Task, trajectory: Trajectory) -> Evaluation:
        evaluation = verify_original(task, trajectory)
        return evaluation if evaluation.is_success else replace(evaluation, score=0.25)

    kit.verifier.verify = with_partial_score  # type: ignore[method-assign]
    results = checks(kit)
    assert failed_checks(results) == {"floor"}
    assert (results["floor"].value, results["floor"].violation) == (0.25, "the score is 0.25")


def test_a_failing_verifier_is_counted() -> None:
    kit = ShelfKit(
        lambda world, boxes, answer: bool(boxes[world.box]) and answer == "" and boxes[world.box] == world.word
    )
    results = checks(kit)
    assert "unjudged" in failed_checks(results)
    assert "verify raised" in results["unjudged"].violation


def test_duplicate_creations_are_detected_by_repeating() -> None:
    class FirstOnlyKit(ErrandsKit):
        def __init__(self) -> None:
            super().__init__()
            verify_original = self.verifier.verify

            def verify(task: Task, trajectory: Trajectory) -> Evaluation:
                changes: Any = trajectory.final_state["changes"]
                once = {
                    path: [item for place, item in enumerate(value) if item not in value[:place]]
                    if path == "event/+"
                    else value
                    for path, value in changes.items()
                }
                return verify_original(
                    task, replace(trajectory, final_state={**trajectory.final_state, "changes": once})
                )

            self.verifier.verify = verify  # type: ignore[method-assign]

    results = checks(FirstOnlyKit(), "event_add", Plan(tasks=2, random_trajectories=1))
    assert failed_checks(results) == {"repeat"}
    assert results["mutants"].value is not None
    assert 0.95 < results["mutants"].value < 1.0, "one mutant of many is this mistake"


class TellsSecret(Shelf):
    def reset(self, task: Task) -> Any:
        self.seed = task.seed
        return super().reset(task)

    def step(self, action: Action) -> Step:
        step = super().step(action)
        result = f"expected secret-{self.seed}-of-the-judge"
        return step._replace(observation=Observation(result, "refused")) if step.observation.is_error else step


def test_a_canary_in_an_error_is_a_leak() -> None:
    kit = ShelfKit()
    kit.make = TellsSecret
    results = checks(kit)
    assert "canaries" in failed_checks(results)
    assert "of-the-judge' is shown after" in results["canaries"].violation


class AskedShelf(Shelf):
    """Removes boxes only after the user agreed; the user agrees to every preview."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: str = ""
        self.agreed: frozenset[str] = frozenset()

    def reset(self, task: Task) -> tuple[Observation, Info]:
        self.shown, self.agreed = "", frozenset()
        return super().reset(task)

    def step(self, action: Action) -> Step:
        match f"{action.target}.{action.operation}", action.parameters.get("call"):
            case "user.preview", str() as call:
                self.shown = call
            case "user.confirm", None:
                self.agreed |= {self.shown}
            case "shelf.remove", None if (
                action.parameters.get("box") in self.boxes and write_call(action) not in self.agreed
            ):
                return Step(Observation("ask first", "unconfirmed"), 0.0, False, False, self.info(error=1.0))
            case _:
                return super().step(action)
        return Step(Observation("noted"), 0.0, False, False, self.info())

    def snapshot(self) -> object:
        return super().snapshot(), self.shown, self.agreed

    def restore(self, snapshot: object) -> None:
        assert isinstance(snapshot, tuple)
        kept, self.shown, self.agreed = snapshot
        super().restore(kept)


class AskedShelfKit(ShelfKit):
    """A kit with tools that ask the user."""

    def __init__(self, rule: Rule = is_correct) -> None:
        super().__init__(rule)
        asking = Tool("user", "preview", "Shows a call.", {"call": TEXT, "why": TEXT}, ("call", "why"))
        self.tools, self.make = (*TOOLS, asking, Tool("user", "confirm", "Waits.")), AskedShelf


def test_deletions_that_need_agreement_ask_for_it() -> None:
    sound = checks(AskedShelfKit())["delete"]
    assert (sound.value, sound.n, sound.holds) == (0.0, PLAN.tasks, True)
    pays = checks(AskedShelfKit(lambda world, boxes, answer: is_correct(world, boxes, answer) or len(boxes) < 5))[
        "delete"
    ]
    assert (pays.value, pays.holds) == (1.0, False)
    assert "user.preview" in pays.violation
    assert "user.confirm" in pays.violation
    spared = checks(AskedShelfKit(lambda world, boxes, answer: is_correct(world, boxes, answer) or len(boxes) == 2))
    assert spared["delete"].value == 1.0  # three of five, one after another


def test_short_canaries_are_refused() -> None:
    class ShortCanaryKit(ShelfKit):
        def canaries(self, task: Task) -> tuple[str, ...]:
            return ("kiwi",)

    results = checks(ShortCanaryKit())
    assert results["canaries"].violation.startswith("'kiwi' is too short for a canary")


class SharedShelf(Shelf):
    """Shares its boxes between instances."""

    everywhere: ClassVar[dict[str, str]] = {}

    def reset(self, task: Task) -> Any:
        start = super().reset(task)
        self.everywhere.update(self.boxes)
        self.boxes = self.everywhere
        return start


class CountingShelf(Shelf):
    """Shows the number of its instances."""

    made = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).made += 1

    def step(self, action: Action) -> Step:
        step = super().step(action)
        return step._replace(observation=Observation(f"{step.observation.text} {self.made}", step.observation.code))


class IncompleteReset(Shelf):
    """Keeps the boxes of the task before."""

    def reset(self, task: Task) -> Any:
        kept = dict(self.boxes)
        start = super().reset(task)
        self.boxes |= kept
        return start


@pytest.mark.parametrize(
    ("make", "name"), [(SharedShelf, "isolation"), (CountingShelf, "replay"), (IncompleteReset, "isolation")]
)
def test_repetitions_are_compared(make: type[Shelf], name: str) -> None:
    kit = ShelfKit()
    kit.make = make
    assert name in failed_checks(checks(kit))


class FewTasksKit(ShelfKit):
    """Generates two cases per split, under new ids."""

    def tasks(self, *, seed: int, split: Split, families: Sequence[str]) -> Iterator[Task]:
        cases = list(islice(super().tasks(seed=seed, split=split, families=families), 2))
        return (replace(cases[number % 2], id=f"shelf/{split}/{number}") for number in count())


class WithoutState(Shelf):
    """Reports no state."""

    def info(self, **costs: float) -> Info:
        return Info({}, costs)


def test_equal_tasks_are_counted_where_worlds_have_hashes() -> None:
    repeated = checks(FewTasksKit(), plan=Plan(8, random_trajectories=0))["repeated"]
    assert (repeated.value, repeated.n, repeated.bar, repeated.holds) == (0.5, 8, "<= 0.05", False)
    assert repeated.violation == "'shelf/train/2' repeats another task"
    assert checks(ShelfKit(), plan=Plan(8, random_trajectories=0))["repeated"] == Check(
        "repeated", 0.0, 8, "<= 0.05", True
    )
    unknown = FewTasksKit()
    unknown.make = WithoutState
    assert checks(unknown, plan=Plan(8, random_trajectories=0))["repeated"] == Check("repeated", None, 0)


def test_a_kit_without_optional_protocols_is_checked_as_far_as_possible() -> None:
    kit = BareShelfKit()
    [report] = validate_kit(kit, PLAN)
    results = {check.name: check for check in report.checks}
    assert failed_checks(results) == {"rewarded"}
    for name in ("oracle", "ceiling", "mutants", "repeat", "neighbour", "refuse", "canaries"):
        assert results[name].value is None
    assert (results["floor"].value, results["nothing"].value, results["claim"].value) == (0.0, 0.0, 0.0)
    assert list_unchecked(kit, [report], has_name=False) == [
        "oracle, ceiling, mutants, repeat, neighbour, refuse: the kit has no oracle; add OracleKit's methods, "
        "or pass one_step an oracle",
        "the kit describes no tools (DescribedKit): random actions and attacks used user.answer and user.finish",
        "canaries: the kit has none (OracleKit.canaries)",
        "dump, empty, delete, spam: not applicable in any family",
        "determinism in another process: the kit has no name to resolve there",
    ]
    lenient_kit = BareShelfKit(lambda *_: True)
    assert {"nothing", "claim", "echo"} <= failed_checks(checks(lenient_kit))


def test_a_failing_kit_is_reported_and_not_raised() -> None:
    class HalfOracleKit(ShelfKit):
        def __init__(self) -> None:
            super().__init__()
            self.families = {"put": 1, "broken": 2}

        def oracle(self, task: Task) -> ScriptedPolicy | None:
            if task.family == "broken":
                raise KeyError("box")
            return super().oracle(task)

    sound, broken = validate_kit(HalfOracleKit(), PLAN)
    assert (sound.checks[-1].name, sound.checks[-1].value) == ("determinism", 1.0)
    [check] = broken.checks
    assert (check.name, check.holds, check.violation) == ("tried", False, "it raised KeyError: 'box'")


def test_a_kit_that_lets_everything_differ_is_reported() -> None:
    class AnythingMayDiffer(ShelfKit):
        def may_differ(self, task: Task, path: Sequence[str], value: JsonValue) -> bool:
            return True

    kit = AnythingMayDiffer()
    [report] = validate_kit(kit, PLAN)
    assert list_unchecked(kit, [report]) == ["mutants, repeat, neighbour: not applicable in any family"]


def test_kills_are_counted_except_where_the_state_may_differ() -> None:
    class BoxesMayDiffer(ShelfKit):
        def may_differ(self, task: Task, path: Sequence[str], value: JsonValue) -> bool:
            return tuple(path) == ("said",)

    def call_counts(kit: ShelfKit) -> tuple[int, int, str]:
        task = next(kit.tasks(seed=0, split="train", families=["put"]))
        case = make_case(kit, task, ParameterHistory(), Random(0))
        assert case.solution is not None
        return mutation_kills(case, case.solution)

    # The box: undone, replaced, dropped, doubled; what was said: undone, replaced; three foreign changes.
    assert call_counts(ShelfKit()) == (9, 9, "")
    assert call_counts(BoxesMayDiffer()) == (7, 7, "")

    def ignores_answer(world: World, boxes: dict[str, str], answer: str) -> bool:
        return boxes == {**world.boxes, world.box: world.word}

    assert call_counts(BoxesMayDiffer(ignores_answer)) == (7, 7, "")
    killed, tried, survivor = call_counts(ShelfKit(ignores_answer))
    assert (killed, tried) == (8, 9)
    assert survivor == "said replaced ('x') in 'shelf/train/0' is still a success"
