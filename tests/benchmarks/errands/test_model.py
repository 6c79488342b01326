"""The model of errands solves simple tasks, and its card's figures are reproducible."""

import json
from hashlib import sha256
from itertools import islice
from pathlib import Path

import pytest
import torch

from benchmarks.errands import LEARNED, MODEL
from benchmarks.errands.kit import ErrandsKit
from benchmarks.errands.pretraining.recipe import ERRANDS
from upturn.config import Limits
from upturn.loop.agent_runtime import AgentRuntime, Purpose
from upturn.loop.build_nano import HELDOUT_TASKS, limits_of
from upturn.loop.evaluation.evaluate import evaluate_version, evaluation_tasks
from upturn.models.shipped import CARD
from upturn.records import AgentVersion

VERSION = AgentVersion("nano", "base", "local_model", model=MODEL, parameters={"temperature": 1.0})


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def test_files_match_the_card() -> None:
    card = json.loads((Path(MODEL) / CARD).read_text())
    assert card["name"] == ERRANDS.model
    for file, name in (("model.safetensors", "weights_sha256"), ("tokenizer.json", "tokenizer_sha256")):
        assert sha256((Path(MODEL) / file).read_bytes()).hexdigest() == card[name]


def test_the_model_solves_simple_tasks() -> None:
    kit = ErrandsKit()
    tasks = list(islice(kit.tasks(seed=11, split="train", families=["mail_file"]), 24))
    result = evaluate_version(
        AgentRuntime(kit, Limits(max_turns=4, max_tokens=120, max_action_tokens=40)),
        VERSION,
        tasks,
        Purpose("simple", 0, 0.0),
        pool=None,
    )
    # At a true rate of .8 fewer than 12 of 24 have probability 1e-3.
    assert result.rate() >= 0.5


@pytest.mark.slow
@pytest.mark.parametrize(("name", "temperature"), [("sampled", 1.0), ("greedy", 0.0)])
def test_the_cards_figures_are_reproducible(name: str, temperature: float) -> None:
    card = json.loads((Path(MODEL) / CARD).read_text())
    kit = ErrandsKit()
    tasks = evaluation_tasks(
        kit, LEARNED, HELDOUT_TASKS // 2, seed=card["seed"] + 17, split="heldout"
    )  # other tasks
    result = evaluate_version(
        AgentRuntime(kit, limits_of(ERRANDS)), VERSION, tasks, Purpose(f"again/{name}", 1, temperature), pool=None
    )
    figure = card["heldout"][name]
    for measured, expected in [
        (result.interval(), figure),
        *((result.interval(level=level), card["heldout"][f"{name}_L{level}"]) for level in (1, 2, 3)),
    ]:
        pooled = (measured.mean * measured.n + expected["value"] * expected["n"]) / (measured.n + expected["n"])
        deviation = (pooled * (1 - pooled) * (1 / measured.n + 1 / expected["n"])) ** 0.5
        # Four deviations: a false alarm in about 6e-5 of comparisons.
        assert abs(measured.mean - expected["value"]) <= 4 * deviation + 1e-9
