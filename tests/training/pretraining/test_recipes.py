"""Recipes of the shipped models: pure batches, schedules without gaps, correct demonstrations."""

import re
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.errands import FAMILIES as ERRAND_FAMILIES
from benchmarks.errands import MODEL
from benchmarks.errands.pretraining.recipe import ERRANDS
from upturn.environments.office.generation.family import call
from upturn.environments.office.state.simulated_user import PATIENCE
from upturn.environments.office.tasks import FAMILIES as OFFICE_FAMILIES
from upturn.environments.office.tasks import LATER
from upturn.errors import UnknownNameError
from upturn.models import CompactRenderer, write_call
from upturn.models.shipped import load_local
from upturn.records import Action, Observation
from upturn.training.pretraining import RECIPES, Demonstration, Phase, Recipe, find_recipe, new_model
from upturn.training.pretraining.demonstration import OBSERVATION_WEIGHT, Step, WeightedTokens, render
from upturn.training.pretraining.office_demonstrations import UNDRILLED, drilled_families
from upturn.training.pretraining.office_recipe import OFFICE
from upturn.training.pretraining.recipe import BUCKET, ROWS
from upturn.training.pretraining.steps import PretrainingSteps

HELD_OUT = {
    "nano": [text for family in OFFICE_FAMILIES.values() for text in family.heldout],
    "nano-errands": [text for family in ERRAND_FAMILIES.values() for text in family.heldout],
}
DRILLS = ("drill", "order")
"""Kinds with a single operation: it ends no task, and may be refused."""
both_recipes = pytest.mark.parametrize("recipe", [OFFICE, ERRANDS], ids=lambda recipe: recipe.model)
recipes_by_cost = pytest.mark.parametrize(
    "recipe", [pytest.param(OFFICE, marks=pytest.mark.slow), ERRANDS], ids=lambda recipe: recipe.model
)
"""The office draws four seconds of demonstrations."""


def kinds_of(recipe: Recipe) -> list[str]:
    return sorted({kind for phase in recipe.schedule for kind in phase.mixture})


def renderer_of(recipe: Recipe) -> CompactRenderer:
    return CompactRenderer(load_local("nano" if recipe is OFFICE else MODEL).tokenizer)


def test_recipes_are_found_by_their_model() -> None:
    assert list(RECIPES) == ["nano"]
    assert find_recipe("nano") is OFFICE
    with pytest.raises(UnknownNameError, match="no recipe for a model 'pico'; known: nano"):
        find_recipe("pico")


@both_recipes
def test_schedule_has_no_gap(recipe: Recipe) -> None:
    assert recipe.schedule[0].first_step == 0
    for earlier, later in pairwise(recipe.schedule):
        assert later.first_step == earlier.first_step + earlier.steps
    assert recipe.schedule[-1].first_step + recipe.schedule[-1].steps == recipe.steps


def test_learning_rate_warms_up_and_falls_to_a_tenth() -> None:
    phase = Phase("p", 0, 100, {}, 1e-3, warmup_steps=10, decay_steps=50)
    assert [phase.learning_rate_factor(step) for step in (0, 4, 9, 50, 75)] == pytest.approx([0.1, 0.5, 1, 1, 0.5])
    assert phase.learning_rate_factor(99) == pytest.approx(0.1)
    assert min(phase.learning_rate_factor(step) for step in range(10, 100)) >= 0.1


@both_recipes
def test_kinds_are_a_pure_function_of_the_step_and_numbers_never_repeat(recipe: Recipe) -> None:
    numbers: set[int] = set()
    for phase in recipe.schedule:
        for step in (0, BUCKET):
            kinds = phase.bucket_kinds(step)
            assert kinds == phase.bucket_kinds(step)
            assert len(kinds) == ROWS * BUCKET
            assert {kind for kind, _ in kinds} <= set(phase.mixture)
            assert numbers.isdisjoint(number for _, number in kinds)
            numbers.update(number for _, number in kinds)


@recipes_by_cost
def test_resumed_phase_draws_the_same_steps(recipe: Recipe) -> None:
    phase, renderer = recipe.schedule[-1], renderer_of(recipe)
    uninterrupted = PretrainingSteps(phase, recipe.demonstration, renderer)
    steps = [uninterrupted.unit(step) for step in range(BUCKET)]
    resumed = PretrainingSteps(phase, recipe.demonstration, renderer).unit(2)
    (expected,), (actual,) = steps[2].minibatches[0], resumed.minibatches[0]
    assert len(actual.rows) == ROWS
    for row, expected_row in zip(actual.rows, expected.rows, strict=True):
        assert np.array_equal(row.token_ids, expected_row.token_ids)
        assert np.array_equal(row.weights, expected_row.weights)
    assert actual.denominator == pytest.approx(sum(float(row.weights.sum()) for row in actual.rows))
    weights = {float(weight) for row in actual.rows for weight in row.weights}
    assert weights - {0.0} == {1.0, float(np.float32(OBSERVATION_WEIGHT))}
    assert (0.0 in weights) == (recipe is OFFICE)


@both_recipes
def test_digest_changes_with_demonstrations_and_tokens(recipe: Recipe) -> None:
    phase, renderer = recipe.schedule[0], renderer_of(recipe)
    digest = PretrainingSteps(phase, recipe.demonstration, renderer).digest()
    assert digest == PretrainingSteps(phase, recipe.demonstration, renderer).digest()

    def shifted(kind: str, number: int) -> Demonstration:
        return recipe.demonstration(kind, number + 1)

    assert digest != PretrainingSteps(phase, shifted, renderer).digest()
    other_renderer = renderer_of(ERRANDS if recipe is OFFICE else OFFICE)
    assert digest != PretrainingSteps(phase, recipe.demonstration, other_renderer).digest()


@pytest.mark.parametrize(
    ("recipe", "kind"),
    [(recipe, kind) for recipe in (OFFICE, ERRANDS) for kind in kinds_of(recipe)],
    ids=[f"{recipe.model} {kind}" for recipe in (OFFICE, ERRANDS) for kind in kinds_of(recipe)],
)
def test_demonstrations_are_repeatable_and_end_with_the_user(recipe: Recipe, kind: str) -> None:
    for number in range(5):
        steps = recipe.demonstration(kind, number)
        assert steps == recipe.demonstration(kind, number)
        assert kind in DRILLS or steps[-1].action.target == "user"
        assert not steps[0].observation.is_error


def test_sift_drills_list_all_of_a_kind_in_order() -> None:
    for number in range(50):
        (question, search, _), (listing, answer, _) = OFFICE.demonstration("sift", number)
        kind = search.parameters["subject"]
        assert question.text == f"which ones are {kind}?"
        rows = [re.fullmatch(r"(\w\d{3}) .+? \*(?: \[(.+)\])?", line) for line in listing.text.splitlines()]
        assert str(answer.parameters["text"]).split(",") == [row[1] for row in rows if row and row[2] == kind]


def test_later_families_are_not_in_the_demonstrations() -> None:
    assert len(drilled_families()) == 115
    assert {*drilled_families(), *UNDRILLED} == set(OFFICE_FAMILIES) - LATER
    assert not LATER & set(OFFICE.families)


@pytest.mark.parametrize("kind", ["pairs", "turned"])
def test_pairs_are_repeated_in_another_order(kind: str) -> None:
    orders = set()
    for number in range(60):
        ((observation, answer, _),) = OFFICE.demonstration(kind, number)
        words, answered_words = observation.text.split(), str(answer.parameters["text"]).split()
        pairs = list(zip(words[::2], words[1::2], strict=True))
        answered_pairs = list(zip(answered_words[::2], answered_words[1::2], strict=True))
        orders.add(tuple(pairs.index(pair if kind == "pairs" else pair[::-1]) for pair in answered_pairs))
        assert len(set(answered_pairs)) == min(len(pairs), 6)
    assert len(orders) > 30


def _columns(text: str) -> dict[str, dict[str, str]]:
    """The columns of a table, a sheet or a list: for each row's first word, the value."""
    if not text.startswith(("1 table: ", "columns ")):
        ends = [(line.split()[0], line.split()[-1]) for line in text.splitlines()]
        return {"id": {name: object_id for object_id, name in ends}, "name": dict(ends)}
    lines = text.removeprefix("1 table: ").split(" / ") if "table:" in text else text.splitlines()[1:]
    headers, *rows = [re.sub(r"^\d+: ", "", line).split(" | ") for line in lines]
    return {header: {row[0]: row[index] for row in rows} for index, header in enumerate(headers) if index}


def test_row_drills_repeat_the_named_column() -> None:
    for number in range(100):
        ((observation, answer, _),) = OFFICE.demonstration("rows", number)
        table, _, header = observation.text.rpartition("\n")
        values = _columns(table)[header]
        words = str(answer.parameters["text"]).split()
        assert len(set(words[::2])) == min(len(values), 6)
        assert [values[key] for key in words[::2]] == words[1::2]


def test_question_drills_look_up_the_neighbouring_cell() -> None:
    for number in range(100):
        steps = OFFICE.demonstration("questions", number)
        table, _, first = steps[0].observation.text.rpartition("\n")
        questions = [first, *(step.observation.text for step in steps[1:])]
        for question, (_, answer, _) in zip(questions, steps, strict=True):
            cells = re.findall(r"the (\S+) of (\S+?)\??$", question)
            ((header, key),) = cells or [pair[::-1] for pair in re.findall(r"(\S+): (\S+)\?", question)]
            assert answer.parameters == {"text": _columns(table)[header][key]}, (table, question)


@recipes_by_cost
def test_no_demonstration_shows_a_held_out_phrasing(recipe: Recipe) -> None:
    held_out = [re.sub(r"\\{\w+\\}", r".+", re.escape(text)) for text in HELD_OUT[recipe.model]]
    pattern = re.compile("|".join(held_out))
    for text in HELD_OUT[recipe.model]:
        assert pattern.search(re.sub(r"\{\w+\}", "it", text))
    for kind in kinds_of(recipe):
        for number in range(40):
            instruction = recipe.demonstration(kind, number)[0].observation.text
            assert not pattern.search(instruction), (kind, instruction)


@both_recipes
def test_only_actions_have_full_weight(recipe: Recipe) -> None:
    renderer = renderer_of(recipe)
    steps = recipe.demonstration(recipe.families[0], 3)
    tokens = render(renderer, steps)
    assert len(tokens.token_ids) == len(tokens.weights)
    written = [token for token, weight in zip(*tokens, strict=True) if weight == 1]
    assert written == [token for step in steps for token in renderer.write(step.action)]
    assert isinstance(tokens, WeightedTokens)
    assert tokens.weights[0] == OBSERVATION_WEIGHT
    assert set(tokens.weights) == {OBSERVATION_WEIGHT, 1.0}


def test_mistakes_have_no_weight() -> None:
    renderer = renderer_of(OFFICE)
    observation, action = Observation("no: that is not what I asked for"), Action("user", "finish")
    mistake, step = Step(observation, action, is_mistake=True), Step(observation, action)
    with_mistake, without = render(renderer, [step, mistake, step]), render(renderer, [step, step, step])
    assert with_mistake.token_ids == without.token_ids
    pairs = zip(with_mistake.weights, without.weights, strict=True)
    changed = [index for index, pair in enumerate(pairs) if len(set(pair)) > 1]
    assert len(changed) == len(renderer.write(action))
    assert {with_mistake.weights[index] for index in changed} == {0.0}
    assert {without.weights[index] for index in changed} == {1.0}


def test_declined_previews_are_corrected_or_given_up() -> None:
    ends = set()
    for number in range(100):
        steps = OFFICE.demonstration("declined", number)
        mistakes = [index for index, step in enumerate(steps) if step.is_mistake]
        *_, last = mistakes
        assert len(mistakes) in {1, PATIENCE}
        for index in mistakes:
            assert steps[index].action.operation == "preview"
            assert steps[index + 1].action == call("user.confirm")
            assert steps[index + 2].observation.text.startswith("no: that is not what I asked for")
        after = steps[last + 2 :]
        if len(mistakes) == PATIENCE:
            assert after[0].observation.text.endswith("and agree to nothing more")
            assert [step.action.operation for step in after] == ["refuse"]
        else:
            proposed, confirmed, agreed, *_ = after
            assert [proposed.action.operation, confirmed.action.operation] == ["preview", "confirm"]
            assert proposed.action.parameters["call"] == write_call(agreed.action)
            assert agreed.observation.text == "yes, go on"
        ends.add(steps[-1].action.operation)
    assert ends == {"finish", "refuse"}


@both_recipes
def test_untrained_model_depends_on_the_seed_only(recipe: Recipe) -> None:
    first, again, other = (new_model(recipe, seed) for seed in (1, 1, 2))
    weights = [next(model.parameters()).detach() for model in (first, again, other)]
    assert bool((weights[0] == weights[1]).all())
    assert not bool((weights[0] == weights[2]).all())
    assert 1_000_000 <= first.num_parameters() <= 3_000_000
