"""Training on traffic: what is taken, that it is frozen, what is said where there is nothing, that it learns."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.loop.trainers.traffic.traffic_pool import config, episode, mean_logprob, rating, renderer, store
from upturn.errors import ConfigError, TrainingError
from upturn.loop.cycle import run_cycle
from upturn.loop.progress import NoProgress
from upturn.loop.rollouts import PolicyWorker
from upturn.loop.run import Context, open_run, version_of
from upturn.loop.trainers import check
from upturn.loop.trainers.algorithms import kto, sft
from upturn.loop.trainers.traffic import survey_pool
from upturn.pool import Pool
from upturn.records import AgentVersion


@pytest.fixture(autouse=True)
def _desk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))


class Notes(NoProgress):
    """Keeps what is noted."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)


def opened(
    path: Path, name: str = "run", notes: NoProgress | None = None, **sections: Any
) -> AbstractContextManager[Context]:
    """A training run on the pool."""
    return open_run(config(path, **sections), path.parent / name, "train-x", notes or NoProgress())


def worker_of(context: Context) -> PolicyWorker:
    """The agent in training."""
    return PolicyWorker(context.runtime, parent_of(context))


def parent_of(context: Context) -> AgentVersion:
    """The agent before."""
    agent = context.config.improved_agent
    assert agent is not None
    return version_of(agent)


def mixed(folder: Path) -> Path:
    """Two good episodes, a bad one, an undecided one, one without feedback and a good one of another model."""
    foreign_task, foreign = episode("f", "go", "done", version="gpt@1", logprob=None)
    return store(
        folder / "pool.db",
        *episode("a", "open the door", "user.open door=1"),
        *episode("b", "open the door", "user.open door=2"),
        *episode("c", "close the door", "user.close door=1"),
        *episode("d", "close the door", "user.close door=2"),
        *episode("e", "wait", "user.wait"),
        *(foreign_task, foreign),
        *(rating(name, value) for name, value in {"a": 1.0, "b": 1.0, "c": -1.0, "d": 1.0, "f": 1.0}.items()),
        rating("d", -1.0, number=1),
    )


def names(trajectories: Any) -> list[str]:
    return [trajectory.id.split(":")[2] for trajectory in trajectories]


def test_sft_imitates_good_episodes_in_their_own_tokens(tmp_path: Path) -> None:
    notes = Notes()
    with opened(mixed(tmp_path), notes=notes) as context:
        loaded = sft._load(context, worker_of(context))
        (snapshot,) = context.pool.snapshots()
    assert names(loaded.trajectories) == ["a/0", "b/0"]
    assert loaded.snapshot == snapshot.id
    assert loaded.description == "2 good episodes"
    (row,) = loaded.trajectories[0].rows
    assert renderer().read(row.token_ids[row.spans[0].start :]).text == "user.open door=1"
    assert notes.lines[-1] == (
        "omitted episodes: 1 without feedback that counts, 2 that are not good, 1 without tokens of the trained "
        "agent's model"
    )


def test_kto_needs_good_and_bad_episodes(tmp_path: Path) -> None:
    with opened(mixed(tmp_path)) as context:
        ratings = kto.load_ratings(context, worker_of(context)).ratings
    assert {names([rated.trajectory])[0]: rated.is_desirable for rated in ratings} == {
        "a/0": True,
        "b/0": True,
        "c/0": False,
    }
    good_only = store(tmp_path / "good.db", *episode("a", "open", "user.open"), rating("a", 1.0))
    with (
        opened(good_only, "good") as context,
        pytest.raises(TrainingError, match=r"holds no bad episode \(reward below 0.5\) of the tenant 'default'"),
    ):
        kto.load_ratings(context, worker_of(context))


def test_thresholds_decide_what_is_good_and_bad(tmp_path: Path) -> None:
    stars = {"a": 0.9, "b": 0.6, "c": 0.4, "d": 0.1}
    path = store(
        tmp_path / "pool.db",
        *(record for name in stars for record in episode(name, name, f"user.say text={name}")),
        *(rating(name, value, metric="success") for name, value in stars.items()),
    )
    with opened(path, traffic={"good_above": 0.8, "bad_below": 0.2}) as context:
        ratings = kto.load_ratings(context, worker_of(context)).ratings
    assert {names([rated.trajectory])[0]: rated.is_desirable for rated in ratings} == {"a/0": True, "d/0": False}


def test_a_resumed_run_trains_on_the_episodes_that_it_began_with(tmp_path: Path) -> None:
    path = mixed(tmp_path)
    with opened(path) as context:
        before = kto.load_ratings(context, worker_of(context)).ratings
    store(path, *(rating(name, -1.0, number=9) for name in "aab"), rating("e", 1.0), rating("d", 1.0, number=2))
    with opened(path) as context:
        assert kto.load_ratings(context, worker_of(context)).ratings == before
    with opened(path, "anew") as context:
        anew = {
            names([rated.trajectory])[0]: rated.is_desirable
            for rated in kto.load_ratings(context, worker_of(context)).ratings
        }
    assert anew == {"c/0": False, "d/0": True, "e/0": True}


def test_a_run_sees_the_traffic_of_its_tenant_only(tmp_path: Path) -> None:
    path = store(
        tmp_path / "pool.db",
        *episode("a", "open", "user.open"),
        *episode("a", "open", "user.open", tenant="other"),
        rating("a", 1.0, tenant="other"),
    )
    with (
        opened(path) as context,
        pytest.raises(TrainingError, match="of 1 sealed episodes are omitted: 1 without feedback"),
    ):
        sft._load(context, worker_of(context))


LOADERS: dict[str, Callable[[Context, PolicyWorker], object]] = {"sft": sft._load, "kto": kto.load_ratings}


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize("contents", ["mixed", "good", "unrated"])
def test_readiness_says_what_the_trainer_does(name: str, contents: str, tmp_path: Path) -> None:
    opening = episode("a", "open", "user.open")
    path = mixed(tmp_path) if contents == "mixed" else store(tmp_path / "pool.db", *opening)
    if contents == "good":
        store(path, rating("a", 1.0))
    with opened(path) as context:
        (way,) = (way for way in survey_pool(context.pool, context.config) if way.name == name)
        refusal = ""
        try:
            LOADERS[name](context, worker_of(context))
        except TrainingError as error:
            refusal = str(error)
    assert way.refusal == refusal
    assert (way.number > 0) == (refusal == "")
    expected = {("sft", "mixed"): 2, ("sft", "good"): 1, ("kto", "mixed"): 3}
    assert way.number == expected.get((name, contents), 0)


def test_only_some_algorithms_train_on_traffic(tmp_path: Path) -> None:
    path = mixed(tmp_path)
    with pytest.raises(ConfigError, match=r"\[traffic\] has no effect with `upturn train grpo`: sft, kto"):
        check(config(path), "grpo")
    check(config(path), "sft")
    with opened(path) as context, pytest.raises(ConfigError, match=r"\[traffic\] has no effect in the loop"):
        run_cycle(context, 1)


def test_readiness_without_traffic_or_agent_to_train(tmp_path: Path) -> None:
    settings = config(store(tmp_path / "pool.db"))
    with Pool.open(tmp_path / "pool.db", read_only=True) as pool:
        assert survey_pool(pool, settings) == []


GOOD = {"open the door": "user.open door=1", "close the door": "user.close door=1", "wait": "user.wait"}
BAD = {"open the door": "user.open door=2", "close the door": "user.close door=2", "wait": "user.stop"}


def rated(folder: Path) -> Path:
    """Four good and four bad answers to each prompt, by different users."""
    records: list[Any] = []
    for number in range(4):
        for (prompt, good), bad in zip(GOOD.items(), BAD.values(), strict=True):
            records += [*episode(f"{prompt}+{number}", prompt, good), rating(f"{prompt}+{number}", 1.0)]
            records += [*episode(f"{prompt}-{number}", prompt, bad), rating(f"{prompt}-{number}", -1.0)]
    return store(folder / "pool.db", *records)


def margin(model: str) -> float:
    """How much likelier good answers are than bad ones, per token and over all prompts."""
    return sum(
        mean_logprob(model, prompt, GOOD[prompt]) - mean_logprob(model, prompt, BAD[prompt]) for prompt in GOOD
    ) / len(GOOD)


def test_sft_on_good_episodes_makes_their_answers_likely(tmp_path: Path) -> None:
    with opened(rated(tmp_path), sft={"epochs": 36, "batch_rows": 12, "optimiser": {"warmup_steps": 0}}) as context:
        before = parent_of(context)
        after = sft.train(context, before, None, "sft")  # type: ignore[arg-type]
    assert margin(after.model) > margin(before.model) + 1.0
    assert min(mean_logprob(after.model, prompt, GOOD[prompt]) for prompt in GOOD) > -1.0
    assert after.parent == before.id
    assert after.tenants == ("default",)


def test_kto_on_thumbs_makes_good_answers_likelier_than_bad_ones(tmp_path: Path) -> None:
    settings = {"epochs": 15, "batch_trajectories": 24, "optimiser": {"learning_rate": 3e-4}}
    with opened(rated(tmp_path), kto=settings) as context:
        before = parent_of(context)
        after = kto.train(context, before, None, "kto")  # type: ignore[arg-type]
    assert margin(after.model) > margin(before.model) + 1.0
