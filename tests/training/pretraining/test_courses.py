"""How the shipped models are made: pure batches, schedules without gaps, demonstrations that are right."""

import re
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.errands import FAMILIES as ERRAND_FAMILIES
from benchmarks.errands import MODEL
from benchmarks.errands.pretraining.course import ERRANDS
from upturn.environments.office.generation.family import call
from upturn.environments.office.state.simulated_user import PATIENCE
from upturn.environments.office.tasks import FAMILIES as OFFICE_FAMILIES
from upturn.environments.office.tasks import LATER
from upturn.errors import UnknownNameError
from upturn.models import CompactRenderer, write_call
from upturn.models.shipped import load_local
from upturn.records import Action, Observation
from upturn.training.pretraining import COURSES, Course, Phase, course_named, new_model
from upturn.training.pretraining.demonstration import SEEN_WEIGHT, Demonstration, Step, render
from upturn.training.pretraining.office_course import OFFICE
from upturn.training.pretraining.office_walks import UNDRILLED, drilled
from upturn.training.pretraining.phase import BUCKET, ROWS, kinds_of_step
from upturn.training.pretraining.steps import PretrainingSteps

HELD_OUT = {
    "nano": [text for family in OFFICE_FAMILIES.values() for text in family.heldout],
    "nano-errands": [text for family in ERRAND_FAMILIES.values() for text in family.heldout],
}
DRILLS = ("drill", "order")
"""Kinds that are about writing one operation: no task ends with it, and whether it is refused is no matter."""
both = pytest.mark.parametrize("course", [OFFICE, ERRANDS], ids=lambda course: course.model)


def kinds_of(course: Course) -> list[str]:
    return sorted({kind for phase in course.schedule for kind in phase.mixture})


def renderer_of(course: Course) -> CompactRenderer:
    return CompactRenderer(load_local("nano" if course is OFFICE else MODEL).tokenizer)


def test_courses_are_found_by_their_model() -> None:
    assert list(COURSES) == ["nano"]
    assert course_named("nano") is OFFICE
    with pytest.raises(UnknownNameError, match="no course makes a model 'pico'; known: nano"):
        course_named("pico")


@both
def test_schedule_has_no_gap(course: Course) -> None:
    assert course.schedule[0].first_step == 0
    for earlier, later in pairwise(course.schedule):
        assert later.first_step == earlier.first_step + earlier.steps
    assert course.schedule[-1].first_step + course.schedule[-1].steps == course.steps


def test_learning_rate_warms_up_and_falls_to_a_tenth() -> None:
    phase = Phase("p", 0, 100, {}, 1e-3, warmup_steps=10, decay_steps=50)
    assert [phase.learning_rate_factor(step) for step in (0, 4, 9, 50, 75)] == pytest.approx([0.1, 0.5, 1, 1, 0.5])
    assert phase.learning_rate_factor(99) == pytest.approx(0.1)
    assert min(phase.learning_rate_factor(step) for step in range(10, 100)) >= 0.1


@both
def test_kinds_are_a_pure_function_of_the_step_and_numbers_never_repeat(course: Course) -> None:
    numbers: set[int] = set()
    for phase in course.schedule:
        for step in (0, BUCKET):
            found = kinds_of_step(phase, step)
            assert found == kinds_of_step(phase, step)
            assert len(found) == ROWS * BUCKET
            assert {kind for kind, _ in found} <= set(phase.mixture)
            assert numbers.isdisjoint(number for _, number in found)
            numbers.update(number for _, number in found)


@both
def test_resumed_phase_draws_the_same_steps(course: Course) -> None:
    phase, renderer = course.schedule[-1], renderer_of(course)
    straight = PretrainingSteps(phase, course.walk, renderer)
    steps = [straight.unit(step) for step in range(BUCKET)]
    resumed = PretrainingSteps(phase, course.walk, renderer).unit(2)
    (wanted,), (found,) = steps[2].minibatches[0], resumed.minibatches[0]
    assert len(found.rows) == ROWS
    for mine, theirs in zip(found.rows, wanted.rows, strict=True):
        assert np.array_equal(mine.token_ids, theirs.token_ids)
        assert np.array_equal(mine.weights, theirs.weights)
    assert found.denominator == pytest.approx(sum(float(row.weights.sum()) for row in found.rows))
    weights = {float(weight) for row in found.rows for weight in row.weights}
    assert weights - {0.0} == {1.0, float(np.float32(SEEN_WEIGHT))}
    assert (0.0 in weights) == (course is OFFICE)


@both
def test_digest_changes_with_demonstrations_and_tokens(course: Course) -> None:
    phase, renderer = course.schedule[0], renderer_of(course)
    own = PretrainingSteps(phase, course.walk, renderer).digest()
    assert own == PretrainingSteps(phase, course.walk, renderer).digest()
    assert own != PretrainingSteps(phase, lambda kind, number: course.walk(kind, number + 1), renderer).digest()
    other = renderer_of(ERRANDS if course is OFFICE else OFFICE)
    assert own != PretrainingSteps(phase, course.walk, other).digest()


@pytest.mark.parametrize(
    ("course", "kind"),
    [(course, kind) for course in (OFFICE, ERRANDS) for kind in kinds_of(course)],
    ids=[f"{course.model} {kind}" for course in (OFFICE, ERRANDS) for kind in kinds_of(course)],
)
def test_demonstrations_are_repeatable_and_end_with_the_user(course: Course, kind: str) -> None:
    for number in range(5):
        steps = course.walk(kind, number)
        assert steps == course.walk(kind, number)
        assert kind in DRILLS or steps[-1].action.target == "user"
        assert not steps[0].observation.is_error


def test_sift_drills_list_all_of_a_kind_in_order() -> None:
    for number in range(50):
        (asked, search, _), (listed, told, _) = OFFICE.walk("sift", number)
        kind = search.parameters["subject"]
        assert asked.text == f"which ones are {kind}?"
        rows = [re.fullmatch(r"(\w\d{3}) .+? \*(?: \[(.+)\])?", line) for line in listed.text.splitlines()]
        assert str(told.parameters["text"]).split(",") == [row[1] for row in rows if row and row[2] == kind]


def test_later_families_are_not_in_the_demonstrations() -> None:
    assert len(drilled()) == 115
    assert {*drilled(), *UNDRILLED} == set(OFFICE_FAMILIES) - LATER
    assert not LATER & set(OFFICE.families)


@pytest.mark.parametrize("kind", ["pairs", "turned"])
def test_pairs_are_repeated_in_another_order(kind: str) -> None:
    orders = set()
    for number in range(60):
        ((shown, told, _),) = OFFICE.walk(kind, number)
        given, said = shown.text.split(), str(told.parameters["text"]).split()
        pairs = list(zip(given[::2], given[1::2], strict=True))
        found = list(zip(said[::2], said[1::2], strict=True))
        orders.add(tuple(pairs.index(each if kind == "pairs" else each[::-1]) for each in found))
        assert len(set(found)) == min(len(pairs), 6)
    assert len(orders) > 30


def _columns(shown: str) -> dict[str, dict[str, str]]:
    """What is shown, by column: what stands beside each word."""
    if not shown.startswith(("1 table: ", "columns ")):
        ends = [(line.split()[0], line.split()[-1]) for line in shown.splitlines()]
        return {"id": {name: one for one, name in ends}, "name": dict(ends)}
    lines = shown.removeprefix("1 table: ").split(" / ") if "table:" in shown else shown.splitlines()[1:]
    header, *rows = [re.sub(r"^\d+: ", "", line).split(" | ") for line in lines]
    return {of: {row[0]: row[place] for row in rows} for place, of in enumerate(header) if place}


def test_row_drills_repeat_the_named_column() -> None:
    for number in range(100):
        ((observation, told, _),) = OFFICE.walk("rows", number)
        shown, _, of = observation.text.rpartition("\n")
        found = _columns(shown)[of]
        said = str(told.parameters["text"]).split()
        assert len(set(said[::2])) == min(len(found), 6)
        assert [found[key] for key in said[::2]] == said[1::2]


def test_question_drills_look_up_the_neighbouring_cell() -> None:
    for number in range(100):
        walk = OFFICE.walk("questions", number)
        shown, _, first = walk[0].observation.text.rpartition("\n")
        for question, (_, told, _) in zip(
            [first, *(each.observation.text for each in walk[1:])], walk, strict=True
        ):
            asked = re.findall(r"the (\S+) of (\S+?)\??$", question)
            ((of, key),) = asked or [pair[::-1] for pair in re.findall(r"(\S+): (\S+)\?", question)]
            assert told.parameters == {"text": _columns(shown)[of][key]}, (shown, question)


@both
def test_no_demonstration_shows_a_held_out_phrasing(course: Course) -> None:
    held_out = [re.sub(r"\\{\w+\\}", r".+", re.escape(text)) for text in HELD_OUT[course.model]]
    pattern = re.compile("|".join(held_out))
    for text in HELD_OUT[course.model]:
        assert pattern.search(re.sub(r"\{\w+\}", "it", text))
    for kind in kinds_of(course):
        for number in range(40):
            instruction = course.walk(kind, number)[0].observation.text
            assert not pattern.search(instruction), (kind, instruction)


@both
def test_only_actions_have_full_weight(course: Course) -> None:
    renderer = renderer_of(course)
    steps = course.walk(course.families[0], 3)
    found = render(renderer, steps)
    assert len(found.token_ids) == len(found.weights)
    written = [token for token, weight in zip(*found, strict=True) if weight == 1]
    assert written == [token for step in steps for token in renderer.write(step.action)]
    assert isinstance(found, Demonstration)
    assert found.weights[0] == SEEN_WEIGHT
    assert set(found.weights) == {SEEN_WEIGHT, 1.0}


def test_mistakes_have_no_weight() -> None:
    renderer = renderer_of(OFFICE)
    seen, done = Observation("no: that is not what I asked for"), Action("user", "finish")
    wrong, right = Step(seen, done, is_mistake=True), Step(seen, done)
    found = render(renderer, [right, wrong, right])
    count = len(renderer.write(done))
    others = render(renderer, [right, right, right])
    assert found.token_ids == others.token_ids
    changed = [
        place for place, pair in enumerate(zip(found.weights, others.weights, strict=True)) if len(set(pair)) > 1
    ]
    assert len(changed) == count
    assert {found.weights[place] for place in changed} == {0.0}
    assert {others.weights[place] for place in changed} == {1.0}


def test_declined_previews_are_corrected_or_given_up() -> None:
    ends = set()
    for number in range(100):
        walk = OFFICE.walk("declined", number)
        mistakes = [place for place, step in enumerate(walk) if step.is_mistake]
        *_, last = mistakes
        assert len(mistakes) in {1, PATIENCE}
        for place in mistakes:
            assert walk[place].action.operation == "preview"
            assert walk[place + 1].action == call("user.confirm")
            assert walk[place + 2].observation.text.startswith("no: that is not what I asked for")
        after = walk[last + 2 :]
        if len(mistakes) == PATIENCE:
            assert after[0].observation.text.endswith("and agree to nothing more")
            assert [step.action.operation for step in after] == ["refuse"]
        else:
            proposed, confirmed, agreed, *_ = after
            assert [proposed.action.operation, confirmed.action.operation] == ["preview", "confirm"]
            assert proposed.action.parameters["call"] == write_call(agreed.action)
            assert agreed.observation.text == "yes, go on"
        ends.add(walk[-1].action.operation)
    assert ends == {"finish", "refuse"}


@both
def test_untrained_model_depends_on_the_seed_only(course: Course) -> None:
    first, again, other = (new_model(course, seed) for seed in (1, 1, 2))
    weights = [next(model.parameters()).detach() for model in (first, again, other)]
    assert bool((weights[0] == weights[1]).all())
    assert not bool((weights[0] == weights[2]).all())
    assert 1_000_000 <= first.num_parameters() <= 3_000_000
