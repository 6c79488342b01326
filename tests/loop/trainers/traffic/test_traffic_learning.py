"""Traffic with feedback makes the model better, by each algorithm that trains on it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.loop.trainers.traffic.traffic_pool import config, episode, mean_logprob, rating, store
from upturn.errors import ConfigError
from upturn.loop.progress import NoProgress
from upturn.loop.run import Context, open_run, version_of
from upturn.loop.trainers import check, run_training
from upturn.loop.trainers.algorithms import dpo, kto, offline, sft
from upturn.loop.trainers.model_card import card
from upturn.records import AgentVersion

GOOD = {"open the door": "user.open door=1", "close the door": "user.close door=1", "wait": "user.wait"}
BAD = {"open the door": "user.open door=2", "close the door": "user.close door=2", "wait": "user.stop"}


def rated(folder: Path) -> Path:
    """Two good and two bad answers to each prompt, by different users."""
    records: list[Any] = []
    for number in range(2):
        for (prompt, good), bad in zip(GOOD.items(), BAD.values(), strict=True):
            records += [*episode(f"{prompt}+{number}", prompt, good), rating(f"{prompt}+{number}", 1.0)]
            records += [*episode(f"{prompt}-{number}", prompt, bad), rating(f"{prompt}-{number}", -1.0)]
    return store(folder / "pool.db", *records)


def margin(model: str) -> float:
    """How much likelier good answers are than bad ones, per token and over all prompts."""
    return sum(
        mean_logprob(model, prompt, GOOD[prompt]) - mean_logprob(model, prompt, BAD[prompt]) for prompt in GOOD
    ) / len(GOOD)


Train = Callable[[Context, AgentVersion, Any, str], AgentVersion]


@pytest.mark.parametrize(
    ("name", "train", "settings"),
    [
        ("sft", sft.train, {"epochs": 12, "batch_rows": 6, "optimiser": {"warmup_steps": 0}}),
        ("kto", kto.train, {"epochs": 12, "batch_trajectories": 24, "optimiser": {"learning_rate": 3e-4}}),
        ("dpo", dpo.train, {"epochs": 12, "optimiser": {"learning_rate": 3e-4}}),
        (
            "offline",
            offline.train,
            {"iterations": 10, "evaluate_every": False, "keep": "final", "optimiser": {"learning_rate": 3e-4}},
        ),
    ],
)
def test_good_answers_become_likelier_than_bad_ones(
    name: str, train: Train, settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    with open_run(
        config(rated(tmp_path), **{name: settings}), tmp_path / "run", "train-x", NoProgress()
    ) as context:
        agent = context.config.improved_agent
        assert agent is not None
        before = version_of(agent)
        after = train(context, before, None, name)
        (snapshot,) = context.pool.snapshots()
    assert margin(after.model) > margin(before.model) + 1.0
    assert (after.parent, after.tenants, after.snapshot) == (before.id, ("default",), snapshot.id)


def test_a_run_without_evaluation_makes_a_version_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    settings = config(rated(tmp_path), {"evaluate": False}, sft={"epochs": 1})
    with open_run(settings, tmp_path / "run", "train-sft", NoProgress()) as context:
        result = run_training(context, "sft")
        text = card(context, result)
        rollouts = [row for row in context.pool.selected(tenant="default") if row.family != "general"]
    assert result.candidate.parent == result.incumbent.id
    assert (result.validation, result.results(), rollouts) == (None, [], [])
    assert "The version is not evaluated (traffic.evaluate): a canary on live feedback decides" in text
    assert "| environment |" not in text
    assert "evaluations included" not in text
    with pytest.raises(
        ConfigError, match=r"offline\.evaluate_every = 5 has no effect with traffic\.evaluate = false"
    ):
        check(settings, "offline")
