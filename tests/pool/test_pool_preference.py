"""Preference pairs and ratings: of one tenant, trainable, with all excluded items counted."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from upturn.errors import StoreError
from upturn.pool import Pool, Selection
from upturn.pool.preference import correction_pairs, deployment_pairs, trajectory_ratings
from upturn.records import Evaluation, Feedback, Task, TokenRow, Trajectory, WrittenSpan

MakePoint = Callable[..., tuple[Task, Trajectory, Evaluation]]
OLD, NEW = "nano@1", "nano@2"


@pytest.fixture
def store(pool: Pool, make_point: MakePoint) -> Callable[..., Trajectory]:
    """Stores a trajectory with tokens that no other has; ``evaluated=False`` omits its evaluation."""
    count = 0

    def stored(
        name: str,
        task: str,
        agent: str,
        score: float | None,
        *,
        evaluated: bool = True,
        rows: bool = True,
        **changes: str,
    ) -> Trajectory:
        nonlocal count
        count += 1
        tenant, split = changes.get("tenant", "default"), changes.get("split", "train")
        verdict = "missing" if score is None else "success" if score == 1 else "failure"
        stored_task, trajectory, evaluation = make_point(
            name, task=task, agent=agent, score=score, verdict=verdict, tenant=tenant
        )
        stored_task = replace(stored_task, split=split)  # type: ignore[arg-type]
        row = TokenRow((5, 6, count, 8, 9), (WrittenSpan(0, 1, 3), WrittenSpan(1, 4, 5)), (-0.5, -0.25, -1.5))
        trajectory = replace(trajectory, rows=(row,) if rows else ())
        evaluations = [evaluation] if evaluated else []
        pool.append(stored_task, trajectory, *evaluations)
        return trajectory

    return stored


Store = Callable[..., Trajectory]


def sides(pool: Pool, **arguments: object) -> list[tuple[str, str, float | None]]:
    preferences = deployment_pairs(pool, tenant="default", old=OLD, new=NEW, **arguments)  # type: ignore[arg-type]
    return [(pair.chosen.id, pair.rejected.id, pair.margin) for pair in preferences.pairs]


def test_side_with_the_higher_score_is_chosen_from_either_version(pool: Pool, store: Store) -> None:
    store("a-old", "a", OLD, 0.25)
    store("b-old", "b", OLD, 1.0)
    store("a-new", "a", NEW, 1.0)
    store("b-new", "b", NEW, 0.5)
    assert sides(pool) == [
        ("trajectory-a-new", "trajectory-a-old", 0.75),
        ("trajectory-b-old", "trajectory-b-new", 0.5),
    ]
    assert sides(pool, min_margin=0.5) == [("trajectory-a-new", "trajectory-a-old", 0.75)]
    preferences = deployment_pairs(pool, tenant="default", old=NEW, new=OLD)
    assert {(pair.chosen.id, pair.source) for pair in preferences.pairs} == {
        ("trajectory-a-new", "deployment"),
        ("trajectory-b-old", "deployment"),
    }


def test_trajectories_are_compared_in_order_of_arrival(pool: Pool, store: Store) -> None:
    for number, score in enumerate((0.0, 1.0, 1.0)):
        store(f"old{number}", "a", OLD, score)
    for number, score in enumerate((1.0, 0.0)):
        store(f"new{number}", "a", NEW, score)
    assert sides(pool) == [("trajectory-new0", "trajectory-old0", 1.0), ("trajectory-old1", "trajectory-new1", 1.0)]
    assert deployment_pairs(pool, tenant="default", old=OLD, new=NEW).left_out["one_sided"] == 1


def test_failure_is_never_preferred_to_a_success(pool: Pool, make_point: MakePoint, store: Store) -> None:
    store("a-old", "a", OLD, 1.0)  # a success
    stored_task, trajectory, evaluation = make_point("a-new", task="a", agent=NEW, score=1.5, verdict="failure")
    row = TokenRow((5, 6, 99), (WrittenSpan(0, 1, 3),), (-0.5, -0.25))
    pool.append(stored_task, replace(trajectory, rows=(row,)), evaluation)
    preferences = deployment_pairs(pool, tenant="default", old=OLD, new=NEW)
    assert (preferences.pairs, preferences.left_out["failed"]) == ((), 1)


def test_incomparable_trajectories_are_excluded_and_counted(pool: Pool, store: Store) -> None:
    """A missing evaluation is not 0, equal scores are no preference, imported text has no tokens."""
    for task, (old, new) in {
        "equal": (1.0, 1.0),
        "missing": (None, 1.0),
        "bare": (0.0, 1.0),
        "late": (0.0, 1.0),
    }.items():
        store(f"{task}-old", task, OLD, old, rows=task != "bare")
        store(f"{task}-new", task, NEW, new, evaluated=task != "late")
    store("alone", "alone", OLD, 1.0)
    store("other", "other", "nano@3", 1.0)
    preferences = deployment_pairs(pool, tenant="default", old=OLD, new=NEW)
    assert preferences.pairs == ()
    assert preferences.left_out == {
        "one_sided": 1,
        "unjudged": 2,
        "equal": 1,
        "failed": 0,
        "tokenless": 1,
        "unusable": 0,
    }
    (bare,) = preferences.tokenless  # trainable after its text is rendered
    assert (bare.chosen.id, bare.rejected.id) == ("trajectory-bare-new", "trajectory-bare-old")


def test_heldout_tasks_and_other_tenants_are_never_used(pool: Pool, store: Store) -> None:
    for kind, changes in {"held": {"split": "heldout"}, "foreign": {"tenant": "bob"}}.items():
        bad = store(f"{kind}-old", kind, OLD, 0.0, **changes)
        good = store(f"{kind}-new", kind, NEW, 1.0, **changes)
        pool.append(
            Feedback(f"up-{kind}", "trajectory", good.id, "thumbs", 1.0),
            Feedback(f"better-{kind}", "trajectory", bad.id, "correction", 1.0, refers_to=good.id),
        )
    assert sides(pool) == []
    assert trajectory_ratings(pool, tenant="default") == (
        (),
        {"undecided": 0, "dangling": 2, "unselected": 0, "tokenless": 0},
        (),
    )
    expected = ((), {"dangling": 2, "unselected": 0, "tokenless": 0, "unusable": 0}, ())
    assert correction_pairs(pool, tenant="default") == expected
    assert len(deployment_pairs(pool, tenant="bob", old=OLD, new=NEW).pairs) == 1
    assert trajectory_ratings(pool, tenant="bob").rated == ()  # the feedback belongs to another tenant
    with pytest.raises(StoreError, match="held-out tasks are never trained on"):
        deployment_pairs(pool, tenant="default", old=OLD, new=NEW, selection=Selection(splits=("heldout",)))
    with pytest.raises(StoreError, match="held-out tasks are never trained on"):
        trajectory_ratings(pool, tenant="default", selection=Selection(splits=("heldout",)))


def test_selection_limits_the_comparison(pool: Pool, store: Store) -> None:
    store("a-old", "a", OLD, 0.0)
    store("a-new", "a", NEW, 1.0)
    assert sides(pool, selection=Selection(families=("other",))) == []
    assert len(sides(pool, selection=Selection(families=("mail",)))) == 1


@pytest.mark.parametrize(
    ("selection", "is_selected"),
    [
        (Selection(families=("mail",)), True),
        (Selection(families=("other",)), False),
        (Selection(environments=("elsewhere",)), False),
    ],
)
def test_feedback_on_unselected_trajectories_is_counted_separately(
    pool: Pool, store: Store, selection: Selection, *, is_selected: bool
) -> None:
    worse, better = store("wrong", "a", OLD, None), store("right", "a", "ann@1", None)
    pool.append(
        Feedback("c", "trajectory", worse.id, "correction", 1.0, refers_to=better.id),
        Feedback("up", "trajectory", better.id, "thumbs", 1.0),
        Feedback("torn", "trajectory", worse.id, "thumbs", 1.0),
        Feedback("torn again", "trajectory", worse.id, "thumbs", -1.0),
    )
    pairs = correction_pairs(pool, tenant="default", selection=selection)
    rated = trajectory_ratings(pool, tenant="default", selection=selection)
    assert (len(pairs.pairs), pairs.left_out["unselected"]) == (int(is_selected), int(not is_selected))
    assert (len(rated.rated), rated.left_out["unselected"]) == (int(is_selected), 0 if is_selected else 2)
    assert rated.left_out["undecided"] == int(is_selected)
    assert (pairs.left_out["dangling"], rated.left_out["dangling"]) == (0, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"new": OLD}, "old and new version are both 'nano@1'"),
        ({"min_margin": -0.1}, r"min_margin must be 0 or more, got -0\.1"),
        ({"min_margin": float("nan")}, "min_margin must be 0 or more, got nan"),
        ({"selection": Selection(agent_versions=("x@1",))}, "the selection names the versions 'x@1'"),
    ],
)
def test_meaningless_comparisons_are_rejected(pool: Pool, changes: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {"old": OLD, "new": NEW, **changes}
    with pytest.raises(StoreError, match=message):
        deployment_pairs(pool, tenant="default", **arguments)  # type: ignore[arg-type]


def test_correction_is_preferred_to_the_corrected_trajectory(pool: Pool, store: Store) -> None:
    worse, better = store("wrong", "a", OLD, None), store("right", "a", "ann@1", None)
    elsewhere = store("elsewhere", "b", "ann@1", None)
    pool.append(
        Feedback("c", "trajectory", worse.id, "correction", 1.0, refers_to=better.id),
        Feedback("again", "trajectory", worse.id, "correction", 1.0, refers_to=better.id),
        Feedback("to what", "trajectory", worse.id, "correction", 1.0),
        Feedback("nothing", "trajectory", worse.id, "correction", 1.0, refers_to="unknown"),
        Feedback("of an episode", "episode", "e", "correction", 1.0, refers_to=better.id),
        Feedback("other task", "trajectory", worse.id, "correction", 1.0, refers_to=elsewhere.id),
        Feedback("thumb", "trajectory", worse.id, "thumbs", -1.0, refers_to=better.id),
    )
    preferences = correction_pairs(pool, tenant="default")
    (pair,) = preferences.pairs
    assert (pair.chosen, pair.rejected, pair.margin, pair.source) == (better, worse, None, "correction")
    assert preferences.left_out == {"dangling": 3, "unselected": 0, "tokenless": 0, "unusable": 1}


def test_pairs_without_tokens_are_returned_separately(pool: Pool, store: Store) -> None:
    worse, better = store("wrong", "a", OLD, None), store("right", "a", "ann@1", None, rows=False)
    pool.append(Feedback("c", "trajectory", worse.id, "correction", 1.0, refers_to=better.id))
    preferences = correction_pairs(pool, tenant="default")
    assert (preferences.pairs, preferences.left_out["tokenless"]) == ((), 1)
    (pair,) = preferences.tokenless
    assert (pair.chosen, pair.rejected) == (better, worse)


def test_ratings_are_summed_and_ties_are_excluded(pool: Pool, store: Store) -> None:
    names = ("liked", "disliked", "torn", "unmarked", "bare")
    stored = {name: store(name, name, OLD, 1.0, rows=name != "bare") for name in names}
    values = [
        ("liked", 1.0), ("liked", -1.0), ("liked", 1.0), ("disliked", -0.5),
        ("torn", 1.0), ("torn", -1.0), ("bare", 1.0),
    ]  # fmt: skip
    pool.append(
        *(
            Feedback(str(number), "trajectory", stored[name].id, "thumbs", value)
            for number, (name, value) in enumerate(values)
        ),
        Feedback("elsewhere", "trajectory", "unknown", "thumbs", 1.0),
        Feedback("decision", "decision", "d", "thumbs", 1.0),
        Feedback("metric", "trajectory", stored["unmarked"].id, "minutes", 3.0),
    )
    ratings = trajectory_ratings(pool, tenant="default")
    assert [(rating.trajectory.id, rating.is_desirable) for rating in ratings.rated] == [
        ("trajectory-liked", True),
        ("trajectory-disliked", False),
    ]
    assert ratings.left_out == {"undecided": 1, "dangling": 2, "unselected": 0, "tokenless": 1}
    assert [rating.trajectory.id for rating in ratings.tokenless] == ["trajectory-bare"]
