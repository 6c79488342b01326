"""A pool's pairs and thumbs: what is taken, that it is frozen, and what is said where there is none."""

from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmarks.errands import MODEL
from upturn.config import AgentConfig, LoopConfig
from upturn.errors import ConfigError, TrainingError
from upturn.loop.cycle import serve
from upturn.loop.evaluation.evaluate import HeldoutResult, Mark
from upturn.loop.progress import NoProgress
from upturn.loop.rollouts.policy_worker import PolicyWorker
from upturn.loop.run.context import Context, open_run, version_of
from upturn.loop.trainers.algorithms import dpo, kto, mixture
from upturn.loop.trainers.algorithms.dpo import load_pairs
from upturn.loop.trainers.algorithms.kto import load_ratings
from upturn.loop.trainers.pool_data import describe_omissions
from upturn.loop.trainers.train_command import check
from upturn.loop.trainers.training_plan import Plan
from upturn.pool import Pool, Selection
from upturn.pool.preference import correction_pairs, deployment_pairs, trajectory_ratings
from upturn.pool.snapshot import find_snapshot
from upturn.records import Action, Feedback
from upturn.training.algorithms.mixture import MixtureSettings

NANO = AgentConfig(name="nano", kind="local_model", model=MODEL)
SHORT = {"max_turns": 1, "max_tokens": 128}
VERSIONS = {"old": "adder@base", "new": "solver@base"}


def _served(desk: ModuleType, folder: Path, agent: str, count: int) -> None:
    """The first tasks of the stream, into the pool that all share."""
    settings = desk.config((agent,), environment=SHORT, pool={"path": str(folder / "shared.db")})
    with desk.opened(folder / f"{agent}-{count}", settings) as context:
        serve(context, "serve", count)


def _opened(desk: ModuleType, folder: Path, name: str = "now", **dpo: object) -> AbstractContextManager[Context]:
    settings = desk.config(("solver",), environment=SHORT, pool={"path": str(folder / "shared.db")}, dpo=dpo)
    opened: AbstractContextManager[Context] = desk.opened(folder / name, settings)
    return opened


def _say(folder: Path, name: str, trajectory: str, value: float, metric: str = "thumbs") -> None:
    with Pool.open(folder / "shared.db") as pool:
        pool.append(Feedback(name, "trajectory", trajectory, metric, value))


def _attempts(folder: Path, agent: str) -> list[str]:
    with Pool.open(folder / "shared.db", read_only=True) as pool:
        chosen = Selection(agent_versions=(f"{agent}@base",))
        return [item.trajectory_id for item in pool.selected(chosen, tenant="default")]


def test_pairs_are_of_the_products_that_only_one_of_them_solves(desk: ModuleType, tmp_path: Path) -> None:
    _served(desk, tmp_path, "solver", 8)
    _served(desk, tmp_path, "adder", 8)
    with _opened(desk, tmp_path, **VERSIONS) as context:
        worker = PolicyWorker(context.runtime, version_of(NANO))
        pairs = load_pairs(context, worker).pairs
    assert [pair.id for pair in pairs] == sorted(pair.id for pair in pairs)
    assert len(pairs) == 4  # sums and products take turns
    assert {pair.chosen.agent_version for pair in pairs} == {"solver@base"}
    assert {pair.rejected.agent_version for pair in pairs} == {"adder@base"}
    assert all(row.spans for pair in pairs for row in (*pair.chosen.rows, *pair.rejected.rows))


def test_a_run_that_goes_on_learns_from_the_pairs_that_it_began_with(desk: ModuleType, tmp_path: Path) -> None:
    for agent in ("solver", "adder"):
        _served(desk, tmp_path, agent, 4)
    with _opened(desk, tmp_path, **VERSIONS) as context:
        before = load_pairs(context, PolicyWorker(context.runtime, version_of(NANO))).pairs
    for agent in ("solver", "adder"):
        _served(desk, tmp_path, agent, 12)
    with _opened(desk, tmp_path, **VERSIONS) as context:
        after = load_pairs(context, PolicyWorker(context.runtime, version_of(NANO))).pairs
    with _opened(desk, tmp_path, "anew", **VERSIONS) as context:
        anew = load_pairs(context, PolicyWorker(context.runtime, version_of(NANO))).pairs
    assert after == before
    assert len(anew) > len(before)


def test_a_run_that_goes_on_learns_from_the_thumbs_that_it_began_with(desk: ModuleType, tmp_path: Path) -> None:
    _served(desk, tmp_path, "solver", 4)
    first, second, third, _ = _attempts(tmp_path, "solver")
    _say(tmp_path, "a", first, 1.0)
    _say(tmp_path, "b", second, -1.0)
    with _opened(desk, tmp_path) as context:
        before = load_ratings(context, PolicyWorker(context.runtime, version_of(NANO))).ratings
    _say(tmp_path, "c", first, -3.0)
    _say(tmp_path, "d", third, 1.0)
    with _opened(desk, tmp_path) as context:
        after = load_ratings(context, PolicyWorker(context.runtime, version_of(NANO))).ratings
    with _opened(desk, tmp_path, "anew") as context:
        anew = load_ratings(context, PolicyWorker(context.runtime, version_of(NANO))).ratings
    assert {item.trajectory.id: item.is_desirable for item in before} == {first: True, second: False}
    assert after == before
    assert {item.trajectory.id: item.is_desirable for item in anew} == {first: False, second: False, third: True}


def _store_unwritable(folder: Path, trajectory: str) -> str:
    """The attempt again, as one of a tool whose name the agent's grammar does not have."""
    with Pool.open(folder / "shared.db") as pool:
        (found,) = pool.experiences_of([trajectory], tenant="default")
        turn = found.trajectory.turns[0]
        turns = (replace(turn, action=Action("no name", "answer", {})),)
        foreign = replace(found.trajectory, id=f"foreign-{trajectory}", agent_version="ann@1", turns=turns)
        pool.append(foreign)
    return foreign.id


class Notes(NoProgress):
    """Keeps what is noted."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)


def test_what_the_agent_cannot_write_is_left_out_and_counted(desk: ModuleType, tmp_path: Path) -> None:
    _served(desk, tmp_path, "solver", 2)
    _served(desk, tmp_path, "adder", 2)
    first, second = _attempts(tmp_path, "solver")
    foreign = _store_unwritable(tmp_path, second)
    _say(tmp_path, "a", first, 1.0)
    _say(tmp_path, "b", foreign, -1.0)
    with Pool.open(tmp_path / "shared.db") as pool:
        pool.append(Feedback("c", "trajectory", foreign, "correction", 1.0, refers_to=second))
    notes = Notes()
    settings = desk.config(("solver",), environment=SHORT, pool={"path": str(tmp_path / "shared.db")}, dpo=VERSIONS)
    with open_run(settings, tmp_path / "now", "toy", notes) as context:
        worker = PolicyWorker(context.runtime, version_of(NANO))
        assert [rating.trajectory.id for rating in load_ratings(context, worker).ratings] == [first]
        assert len(load_pairs(context, worker).pairs) == 1
    assert [line for line in notes.lines if "cannot write" in line] == [
        "omitted ratings: 1 with actions that the agent cannot write",
        "omitted pairs: 1 with scores that do not differ enough, 1 with actions that the agent cannot write",
    ]


def test_a_pool_without_pairs_is_refused_with_what_was_looked_for(desk: ModuleType, tmp_path: Path) -> None:
    _served(desk, tmp_path, "solver", 4)
    with (
        _opened(desk, tmp_path, **VERSIONS) as context,
        pytest.raises(
            TrainingError,
            match=r"no pair.*'adder@base' and 'solver@base'.*4 trajectories without one.*same tasks",
        ),
    ):
        load_pairs(context, PolicyWorker(context.runtime, version_of(NANO)))


def test_a_pool_without_thumbs_is_refused_with_how_to_ingest_them(desk: ModuleType, tmp_path: Path) -> None:
    _served(desk, tmp_path, "solver", 4)
    with (
        _opened(desk, tmp_path) as context,
        pytest.raises(TrainingError, match=r"no ratings.*upturn ingest .*--format feedback"),
    ):
        load_ratings(context, PolicyWorker(context.runtime, version_of(NANO)))


def test_what_people_said_of_families_that_are_not_practised_is_not_trained_on(
    desk: ModuleType, tmp_path: Path
) -> None:
    """The solver's attempts at a sum and a product are liked, and the adder's at the product is corrected."""
    for agent in ("solver", "adder"):
        _served(desk, tmp_path, agent, 2)
    liked, wrong = _attempts(tmp_path, "solver"), _attempts(tmp_path, "adder")
    with Pool.open(tmp_path / "shared.db") as pool:
        families = {
            experience.trajectory.id: experience.task.family for experience in pool.experiences(tenant="default")
        }
        better = {families[name]: name for name in liked}
        pool.append(
            *(Feedback(f"up-{name}", "trajectory", name, "thumbs", 1.0) for name in liked),
            *(
                Feedback(f"c-{name}", "trajectory", name, "correction", 1.0, refers_to=better[families[name]])
                for name in wrong
                if families[name] == "products"
            ),
        )
    for family, pairs in (("products", 1), ("sums", 0)):
        plain = desk.config(("solver",), environment=SHORT, pool={"path": str(tmp_path / "shared.db")})
        settings = replace(plain, tasks=replace(plain.tasks, families=(family,)))
        with desk.opened(tmp_path / family, settings) as context:
            worker = PolicyWorker(context.runtime, version_of(NANO))
            assert [rating.trajectory.id for rating in load_ratings(context, worker).ratings] == [better[family]]
            if pairs:
                assert len(load_pairs(context, worker).pairs) == pairs
            else:
                with pytest.raises(TrainingError, match="1 on families or environments that are not train"):
                    load_pairs(context, worker)


def _evidence(desk: ModuleType, folder: Path) -> tuple[set[str], set[str]]:
    """Two attempts each of two versions, at a sum that both solve and a product; and thumbs on the solver's.

    Returns the ids of the one pair there is, and of what has thumbs.
    """
    for agent in ("solver", "adder"):
        _served(desk, folder, agent, 2)
    liked = _attempts(folder, "solver")
    for number, name in enumerate(liked):
        _say(folder, f"said-{number}", name, 1.0 if number else -1.0)
    with Pool.open(folder / "shared.db", read_only=True) as pool:
        products = {
            experience.trajectory.id
            for experience in pool.experiences(tenant="default")
            if experience.task.family == "products"
        }
    return products, set(liked)


@pytest.mark.slow
def test_versions_say_which_snapshot_of_pairs_or_thumbs_they_learned_from(desk: ModuleType, tmp_path: Path) -> None:
    pair, liked = _evidence(desk, tmp_path)
    before = HeldoutResult("before", "nano@base", 1.0, ())
    parent = version_of(NANO)
    with _opened(desk, tmp_path, epochs=1, **VERSIONS) as context:
        versions = [lesson.train(context, parent, before, name) for name, lesson in (("dpo", dpo), ("kto", kto))]
        stored = {snapshot.id: snapshot for snapshot in context.pool.snapshots()}
    assert [set(stored[str(item.snapshot)].trajectory_ids) for item in versions] == [pair, liked]


@pytest.mark.slow
def test_a_mixture_says_that_it_learned_from_one_snapshot_of_all_its_parts(
    desk: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("upturn.loop.evaluation.model_selection.SELECTION_TASKS", 2)
    pair, liked = _evidence(desk, tmp_path)
    marks = tuple(Mark(family, family, 1, family, False, False, {}, 1, 1, {}) for family in ("sums", "products"))
    before, parent = HeldoutResult("before", "nano@base", 1.0, marks), version_of(NANO)
    rounds: dict[str, Any] = {
        "iterations": 1,
        "tasks_per_iteration": 2,
        "group_size": 2,
        "minibatches": 1,
        "sft": 0.0,
    }
    rounds["evaluate_every"] = 1
    found = {}
    for name, weights in (("dpo", {"dpo": 1.0}), ("both", {"dpo": 1.0, "kto": 0.5})):
        plain = desk.config(
            ("solver",), environment=SHORT, pool={"path": str(tmp_path / "shared.db")}, dpo=VERSIONS
        )
        settings = plain.with_sections(MixtureSettings(**{**rounds, **weights}))
        with desk.opened(tmp_path / name, settings) as context:
            version = mixture.train(context, parent, before, "mixture")
            found[name] = set(find_snapshot(context.pool, str(version.snapshot)).trajectory_ids)
    assert found == {"dpo": pair, "both": pair | liked}


def test_a_mixture_is_planned_with_what_the_pool_gives_to_it(
    desk: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One pair and its thumbs, so two rows of each in each of the three rounds beside those of practice."""
    monkeypatch.setattr("upturn.loop.evaluation.model_selection.SELECTION_TASKS", 2)
    _evidence(desk, tmp_path)
    fresh = Plan("mixture", "rollouts", 3, "iteration", 100, 1_000, 1, 5.0, "")
    monkeypatch.setattr(mixture, "plan_on_rollouts", lambda *_, **__: fresh)
    rounds: dict[str, Any] = {
        "iterations": 3,
        "tasks_per_iteration": 2,
        "group_size": 2,
        "minibatches": 1,
        "sft": 0.0,
    }
    rounds["evaluate_every"] = 1
    plain = desk.config(("solver",), environment=SHORT, pool={"path": str(tmp_path / "shared.db")}, dpo=VERSIONS)
    weights = {"dpo": 1.0, "kto": 0.5}
    settings = plain.with_sections(MixtureSettings(**{**rounds, **weights}))
    with desk.opened(tmp_path / "plan", settings) as context:
        found = mixture.plan(context, version_of(NANO))
    assert found.rows == 100 + 3 * 2 + 3 * 2
    assert found.tokens > 1_000 and found.memory_bytes > 1 and found.seconds > 5.0
    assert found.learns_from.startswith("rollouts, 1 pairs from the pool, 2 rated trajectories from")


@pytest.mark.parametrize("algorithm", ["dpo", "kto"])
def test_a_run_without_a_configured_pool_is_refused(desk: ModuleType, algorithm: str) -> None:
    plain = desk.config(("solver",))
    config = replace(plain, agents=(NANO,), loop=LoopConfig())
    with pytest.raises(ConfigError, match=rf"`upturn train {algorithm}` trains on .* pool\.path is empty"):
        check(config, algorithm)


def test_every_cause_is_told_in_words_and_what_is_rendered_is_not_left_out(tmp_path: Path) -> None:
    counts = {"undecided": 0, "dangling": 2, "tokenless": 5}
    assert describe_omissions(counts, {"equal": 3}) == (
        "2 on held-out tasks or missing trajectories, which cannot be trained on, 3 with scores that do not differ "
        "enough"
    )
    assert describe_omissions({"equal": 0}) == ""
    with Pool.open(tmp_path / "pool.db") as pool:
        every = set(deployment_pairs(pool, tenant="x", old="a", new="b").left_out)
        every |= {*trajectory_ratings(pool, tenant="x").left_out, *correction_pairs(pool, tenant="x").left_out}
    assert describe_omissions(dict.fromkeys(every, 1)).count("1 ") == len(every) - 1
