"""Training on traffic: what is taken, that it is frozen, what is said where there is nothing, that it learns."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.loop.trainers.traffic.traffic_pool import config, episode, rating, renderer, store
from upturn.errors import ConfigError, TrainingError
from upturn.loop.cycle import run_cycle
from upturn.loop.progress import NoProgress
from upturn.loop.rollouts import PolicyWorker
from upturn.loop.run import Context, open_run, version_of
from upturn.loop.trainers import check
from upturn.loop.trainers.algorithms import dpo, kto, offline, sft
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
        "omitted episodes: 1 without feedback that counts, 2 that are not good, 1 of another model whose contents "
        "are deleted (gateway.keep_days)"
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
        pytest.raises(TrainingError, match="omitted episodes: 1 without feedback"),
    ):
        sft._load(context, worker_of(context))


LOADERS: dict[str, Callable[[Context, PolicyWorker], object]] = {
    "sft": sft._load,
    "kto": kto.load_ratings,
    "dpo": dpo.load_pairs,
    "offline": lambda context, worker: offline.load_trajectories(context, worker.renderer),
}


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
    expected = {
        ("sft", "mixed"): 2,
        ("sft", "good"): 1,
        ("kto", "mixed"): 3,
        ("dpo", "mixed"): 1,
        ("offline", "mixed"): 4,
    }
    assert way.number == expected.get((name, contents), 0)


def test_only_some_algorithms_train_on_traffic(tmp_path: Path) -> None:
    path = mixed(tmp_path)
    with pytest.raises(
        ConfigError, match=r"\[traffic\] has no effect with `upturn train grpo`: sft, dpo, kto, offline"
    ):
        check(config(path), "grpo")
    check(config(path), "sft")
    with opened(path) as context, pytest.raises(ConfigError, match=r"\[traffic\] has no effect in the loop"):
        run_cycle(context, 1)


def test_readiness_without_traffic_or_agent_to_train(tmp_path: Path) -> None:
    settings = config(store(tmp_path / "pool.db"))
    with Pool.open(tmp_path / "pool.db", read_only=True) as pool:
        assert survey_pool(pool, settings) == []


def two_versions(folder: Path) -> Path:
    """Five episodes of each of two versions: two to the same prompt, two more, and one prompt of its own."""
    records: list[Any] = []
    answers = {
        "nano@base": [
            ("go", "user.go", 1.0),
            ("go", "user.run", 0.0),
            ("sit", "user.sit", 0.0),
            ("up", "user.up", 0.5),
        ],
        "nano@new": [
            ("go", "user.walk", 0.5),
            ("go", "user.fly", 0.5),
            ("sit", "user.rest", 1.0),
            ("no", "user.no", 1.0),
        ],
    }
    for version, given in answers.items():
        for number, (prompt, answer, value) in enumerate(given):
            name = f"{version[5:]}{number}"
            records += [*episode(name, prompt, answer, version=version), rating(name, value, metric="success")]
    return store(folder / "pool.db", *records)


def sides(loaded: dpo.LoadedPairs) -> list[tuple[str, str, float | None]]:
    return [(*names([pair.chosen, pair.rejected]), pair.margin) for pair in loaded.pairs]  # type: ignore[misc]


def test_dpo_compares_two_versions_at_the_same_prompts(tmp_path: Path) -> None:
    notes = Notes()
    chosen = {"old": "nano@base", "new": "nano@new"}
    with opened(two_versions(tmp_path), notes=notes, dpo=chosen) as context:
        loaded = dpo.load_pairs(context, worker_of(context))
    assert sides(loaded) == [("base0/0", "new0/0", 0.5), ("new1/0", "base1/0", 0.5), ("new2/0", "base2/0", 1.0)]
    assert {pair.source for pair in loaded.pairs} == {"deployment"}
    assert all(pair.chosen.task_id == pair.rejected.task_id for pair in loaded.pairs)
    assert notes.lines[-1] == "omitted episodes: 2 without an episode of the other version with the same prompt"


def test_dpo_without_versions_compares_the_best_episode_of_a_prompt_with_its_worst(tmp_path: Path) -> None:
    notes = Notes()
    with opened(two_versions(tmp_path), notes=notes) as context:
        loaded = dpo.load_pairs(context, worker_of(context))
    assert sides(loaded) == [("base0/0", "base1/0", 1.0), ("new2/0", "base2/0", 1.0)]
    assert (
        notes.lines[-1] == "omitted episodes: 2 alone with their prompt, 2 with rewards that do not differ enough"
    )


def test_pairs_of_equal_texts_and_small_margins_are_left_out(tmp_path: Path) -> None:
    path = store(
        tmp_path / "pool.db",
        *episode("a", "go", "user.go"),
        *episode("b", "go", "user.go", version="nano@new"),
        *episode("c", "sit", "user.sit"),
        *episode("d", "sit", "user.rest", version="nano@new"),
        *(rating(name, value, metric="success") for name, value in {"a": 1, "b": 0, "c": 0.75, "d": 0.5}.items()),
    )
    wanted = {"old": "nano@base", "new": "nano@new", "min_margin": 0.25}
    with opened(path, dpo=wanted) as context, pytest.raises(TrainingError) as caught:
        dpo.load_pairs(context, worker_of(context))
    assert "no pair of episodes of the versions 'nano@base' and 'nano@new' with the same prompt" in str(
        caught.value
    )
    assert "2 with rewards that do not differ enough, 2 in pairs that wrote the same" in str(caught.value)


def sampled(folder: Path) -> Path:
    """Two episodes with the same prompt, one alone, one greedy, one of an unknown temperature, one of a server."""
    return store(
        folder / "pool.db",
        *episode("a", "go", "user.go"),
        *episode("b", "go", "user.run", version="nano@new"),
        *episode("c", "sit", "user.sit"),
        *episode("d", "go", "user.fly", temperature=0.0),
        *episode("e", "go", "user.fly", temperature=None),
        *episode("f", "go", "user.fly", version="gpt@1", logprob=None),
        *(
            rating(name, value)
            for name, value in {"a": 1.0, "b": -1.0, "c": 1.0, "d": 1.0, "e": 1.0, "f": 1.0}.items()
        ),
    )


def test_offline_takes_sampled_episodes_in_groups_of_one_prompt(tmp_path: Path) -> None:
    notes = Notes()
    with opened(sampled(tmp_path), notes=notes) as context:
        loaded = offline.load_trajectories(context, renderer())
    assert [(names([member.trajectory])[0], member.turn_rewards) for _, member in loaded.scored] == [
        ("a/0", (1.0,)),
        ("b/0", (0.0,)),
    ]
    assert len({task.id for task, _ in loaded.scored}) == 1
    assert notes.lines[-1] == (
        "omitted episodes: 1 whose model returned no tokens and log-probs, 2 sampled greedily, at an unknown "
        "temperature or at several, or with other options than recorded, 1 alone with their prompt"
    )


def test_offline_without_a_baseline_of_the_task_takes_episodes_that_are_alone(tmp_path: Path) -> None:
    settings = {"advantage": {"baseline": "none", "scale": "whiten"}}
    with opened(sampled(tmp_path), offline=settings) as context:
        loaded = offline.load_trajectories(context, renderer())
    assert names(member.trajectory for _, member in loaded.scored) == ["a/0", "b/0", "c/0"]


def test_offline_refuses_rendered_episodes_with_the_cure(tmp_path: Path) -> None:
    path = store(
        tmp_path / "pool.db", *episode("f", "go", "user.fly", version="gpt@1", logprob=None), rating("f", 1.0)
    )
    with opened(path) as context, pytest.raises(TrainingError) as caught:
        offline.load_trajectories(context, renderer())
    assert "holds no episode with its sampler's log-probs" in str(caught.value)
    assert "'gpt' returned no token ids and log-probs (1): serve the model as kind local_model" in str(caught.value)
    alone = store(tmp_path / "alone.db", *episode("a", "go", "user.go"), rating("a", 1.0))
    with opened(alone, "alone") as context, pytest.raises(TrainingError) as caught:
        offline.load_trajectories(context, renderer())
    assert 'Set [offline] advantage = { baseline = "none", scale = "whiten" }' in str(caught.value)


def test_offline_refuses_settings_of_other_rewards(tmp_path: Path) -> None:
    path = sampled(tmp_path)
    with pytest.raises(ConfigError) as caught:
        check(
            config(path, rewards={"weights": {"speed": 1.0}}, offline={"advantage": {"estimator": "components"}}),
            "offline",
        )
    assert [problem.partition(" has no effect with [traffic]")[0] for problem in caught.value.problems] == [
        "rewards.weights = {'speed': 1.0}",
        "offline.advantage.estimator = 'components'",
    ]
