"""Building a shipped model: its card is reproducible, and an interrupted build gives the same model."""

import json
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.errands import MODEL
from benchmarks.errands.pretraining.recipe import ERRANDS, PATTERN
from upturn.environments.environment import verify
from upturn.environments.kit import resolve_kit
from upturn.loop import build_nano as nano
from upturn.loop.agent_runtime import AgentRuntime, Purpose
from upturn.loop.build_nano import HELDOUT_TASKS, PASS_TASKS, SAMPLES, build_model, limits_of
from upturn.loop.evaluation.evaluate import evaluate_version, evaluation_tasks, families_of
from upturn.loop.progress import NoProgress
from upturn.models.shipped import CARD, model_folder
from upturn.records import AgentVersion
from upturn.training.pretraining import OFFICE, Recipe
from upturn.training.pretraining.tokenizer import demonstration_texts, new_tokenizer

pytestmark = pytest.mark.slow

RECIPES = (OFFICE, ERRANDS)
ROUNDING = 0.02
"""Share of a family's tasks whose outcome may change with another CPU's rounding."""


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(params=RECIPES, ids=lambda recipe: recipe.model)
def recipe(request: pytest.FixtureRequest) -> Recipe:
    recipe: Recipe = request.param
    return recipe


@pytest.fixture
def card(recipe: Recipe) -> dict[str, Any]:
    card: dict[str, Any] = json.loads((model_folder(model_of(recipe)) / CARD).read_text())
    return card


def model_of(recipe: Recipe) -> str:
    return "nano" if recipe is OFFICE else MODEL


def version_of(recipe: Recipe) -> AgentVersion:
    return AgentVersion("nano", "base", "local_model", model=model_of(recipe), parameters={"temperature": 1.0})


def test_card_has_the_course_s_schedule(recipe: Recipe, card: dict[str, Any]) -> None:
    assert (card["name"], card["steps"]) == (recipe.model, recipe.steps)
    assert [phase["name"] for phase in card["schedule"]] == [phase.name for phase in recipe.schedule]
    assert [phase["mixture"] for phase in card["schedule"]] == [dict(phase.mixture) for phase in recipe.schedule]


@pytest.mark.parametrize(("name", "temperature"), [("sampled", 1.0), ("greedy", 0.0)])
def test_success_by_family_is_that_of_the_card(
    recipe: Recipe, card: dict[str, Any], name: str, temperature: float
) -> None:
    kit = resolve_kit(recipe.environment)
    tasks = evaluation_tasks(kit, recipe.families, HELDOUT_TASKS, seed=card["seed"], split="heldout")
    purpose = Purpose(f"card/{name}", card["seed"], temperature)
    heldout = evaluate_version(AgentRuntime(kit, limits_of(recipe)), version_of(recipe), tasks, purpose, pool=None)
    assert sorted(families_of(heldout.marks)) == sorted(recipe.families)
    for family in recipe.families:
        written, measured = card["heldout"][f"{name}_{family}"], heldout.interval(family=family)
        assert written["n"] == measured.n
        assert abs(written["value"] - measured.mean) <= max(ROUNDING, 1 / measured.n) + 1e-9, family
    assert heldout.rate() == pytest.approx(card["heldout"][name]["value"], abs=ROUNDING)


def test_pass_at_8_is_that_of_the_card(recipe: Recipe, card: dict[str, Any]) -> None:
    kit = resolve_kit(recipe.environment)
    runtime, seed = AgentRuntime(kit, limits_of(recipe)), card["seed"]
    for family in recipe.families:
        tasks = list(islice(kit.tasks(seed=seed + 1, split="train", families=[family]), PASS_TASKS))
        jobs = [(version_of(recipe), task, number) for task in tasks for number in range(SAMPLES)]
        trajectories = runtime.rollout(jobs, Purpose(f"card/pass/{family}", seed, 1.0))
        solved = {
            task.id
            for (_, task, _), trajectory in zip(jobs, trajectories, strict=True)
            if verify(kit.verifier, task, trajectory).is_success
        }
        assert len(solved) / PASS_TASKS == pytest.approx(card["pass_at_8"][family], abs=1 / PASS_TASKS + 1e-9)


class Stops(NoProgress):
    """Progress that interrupts the build at given numbers of finished steps, once each."""

    def __init__(self, *steps: int) -> None:
        self._stops = list(steps)
        self._done = 0

    def stage(self, name: str, total: int | None = None) -> None:
        self._done = 0

    def advance(self, count: int = 1, **figures: float) -> None:
        self._done += count
        if self._stops and self._done == self._stops[0]:
            self._stops.pop(0)
            raise KeyboardInterrupt


def test_interrupted_build_makes_the_same_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    skills, glimpses = ERRANDS.schedule
    short = (
        replace(skills, steps=56, warmup_steps=5, decay_steps=10),  # the first checkpoint is after 50 steps
        replace(glimpses, first_step=56, steps=4, warmup_steps=2, decay_steps=2),
    )
    monkeypatch.setattr(nano, "HELDOUT_TASKS", 9)
    monkeypatch.setattr(nano, "PASS_TASKS", 1)
    texts = [text for number in range(200) for text in demonstration_texts(ERRANDS.demonstration("drill", number))]
    tokenizer = new_tokenizer(texts, PATTERN, ERRANDS.vocabulary)
    recipe = replace(ERRANDS, schedule=short, new_tokenizer=lambda: tokenizer)
    uninterrupted = build_model(
        recipe,
        tmp_path / "uninterrupted-work",
        tmp_path / "uninterrupted",
        seed=3,
        threads=1,
        progress=NoProgress(),
    )
    work, target, progress = tmp_path / "work", tmp_path / "interrupted", Stops(20, 53, 58)
    target.mkdir()
    (target / "config.json").write_text("old")
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            build_model(recipe, work, target, seed=3, threads=1, progress=progress)
        assert [file.name for file in target.iterdir()] == ["config.json"]  # nothing is replaced before the end
    interrupted = build_model(recipe, work, target, seed=3, threads=1, progress=progress)
    assert interrupted == uninterrupted
    for name in ("model.safetensors", "tokenizer.json", "config.json", CARD):
        assert (target / name).read_bytes() == (tmp_path / "uninterrupted" / name).read_bytes()
    assert uninterrupted.weights_sha256 == sha256((target / "model.safetensors").read_bytes()).hexdigest()
    assert sorted(file.name for file in target.iterdir()) == sorted(
        file.name for file in (tmp_path / "uninterrupted").iterdir()
    )
