"""Preference pairs and thumb ratings: one tenant's, trainable, with all left-out items counted."""

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
    """Stores an attempt that wrote tokens of its own; ``judged=False`` leaves its evaluation out."""
    count = 0

    def stored(
        name: str,
        task: str,
        agent: str,
        score: float | None,
        *,
        judged: bool = True,
        rows: bool = True,
        **changes: str,
    ) -> Trajectory:
        nonlocal count
        count += 1
        tenant, split = changes.get("tenant", "default"), changes.get("split", "train")
        verdict = "missing" if score is None else "success" if score == 1 else "failure"
        made, trajectory, evaluation = make_point(
            name, task=task, agent=agent, score=score, verdict=verdict, tenant=tenant
        )
        made = replace(made, split=split)  # type: ignore[arg-type]
        row = TokenRow((5, 6, count, 8, 9), (WrittenSpan(0, 1, 3), WrittenSpan(1, 4, 5)), (-0.5, -0.25, -1.5))
        trajectory = replace(trajectory, rows=(row,) if rows else ())
        evaluations = [evaluation] if judged else []
        pool.append(made, trajectory, *evaluations)
        return trajectory

    return stored


Store = Callable[..., Trajectory]


def _ends(pool: Pool, **arguments: object) -> list[tuple[str, str, float | None]]:
    found = deployment_pairs(pool, tenant="default", old=OLD, new=NEW, **arguments)  # type: ignore[arg-type]
    return [(pair.chosen.id, pair.rejected.id, pair.margin) for pair in found.pairs]


def test_the_better_scored_side_is_chosen_from_either_version(pool: Pool, store: Store) -> None:
    store("a-old", "a", OLD, 0.25)
    store("b-old", "b", OLD, 1.0)
    store("a-new", "a", NEW, 1.0)
    store("b-new", "b", NEW, 0.5)
    assert _ends(pool) == [
        ("trajectory-a-new", "trajectory-a-old", 0.75),
        ("trajectory-b-old", "trajectory-b-new", 0.5),
    ]
    assert _ends(pool, min_margin=0.5) == [("trajectory-a-new", "trajectory-a-old", 0.75)]
    found = deployment_pairs(pool, tenant="default", old=NEW, new=OLD)
    assert {(pair.chosen.id, pair.source) for pair in found.pairs} == {
        ("trajectory-a-new", "deployment"),
        ("trajectory-b-old", "deployment"),
    }


def test_trajectories_are_compared_in_order_of_arrival(pool: Pool, store: Store) -> None:
    for number, score in enumerate((0.0, 1.0, 1.0)):
        store(f"old{number}", "a", OLD, score)
    for number, score in enumerate((1.0, 0.0)):
        store(f"new{number}", "a", NEW, score)
    assert _ends(pool) == [("trajectory-new0", "trajectory-old0", 1.0), ("trajectory-old1", "trajectory-new1", 1.0)]
    assert deployment_pairs(pool, tenant="default", old=OLD, new=NEW).left_out["one_sided"] == 1


def test_a_failure_is_never_preferred_to_a_success(pool: Pool, make_point: MakePoint, store: Store) -> None:
    store("a-old", "a", OLD, 1.0)  # a success
    made, trajectory, evaluation = make_point("a-new", task="a", agent=NEW, score=1.5, verdict="failure")
    row = TokenRow((5, 6, 99), (WrittenSpan(0, 1, 3),), (-0.5, -0.25))
    pool.append(made, replace(trajectory, rows=(row,)), evaluation)
    found = deployment_pairs(pool, tenant="default", old=OLD, new=NEW)
    assert (found.pairs, found.left_out["failed"]) == ((), 1)


def test_incomparable_trajectories_are_left_out_and_counted(pool: Pool, store: Store) -> None:
    """A missing judgement is no 0, equal scores are no preference, imported text has no tokens."""
    for task, (old, new) in {
        "equal": (1.0, 1.0),
        "missing": (None, 1.0),
        "bare": (0.0, 1.0),
        "late": (0.0, 1.0),
    }.items():
        store(f"{task}-old", task, OLD, old, rows=task != "bare")
        store(f"{task}-new", task, NEW, new, judged=task != "late")
    store("alone", "alone", OLD, 1.0)
    store("other", "other", "nano@3", 1.0)
    found = deployment_pairs(pool, tenant="default", old=OLD, new=NEW)
    assert found.pairs == ()
    assert found.left_out == {"one_sided": 1, "unjudged": 2, "equal": 1, "failed": 0, "tokenless": 1, "unusable": 0}
    (bare,) = found.tokenless  # fit to be learned from once somebody has rendered it
    assert (bare.chosen.id, bare.rejected.id) == ("trajectory-bare-new", "trajectory-bare-old")


def test_held_out_tasks_and_other_tenants_are_never_used(pool: Pool, store: Store) -> None:
    for kind, changes in {"held": {"split": "heldout"}, "foreign": {"tenant": "bob"}}.items():
        bad = store(f"{kind}-old", kind, OLD, 0.0, **changes)
        good = store(f"{kind}-new", kind, NEW, 1.0, **changes)
        pool.append(
            Feedback(f"up-{kind}", "trajectory", good.id, "thumbs", 1.0),
            Feedback(f"better-{kind}", "trajectory", bad.id, "correction", 1.0, refers_to=good.id),
        )
    assert _ends(pool) == []
    assert trajectory_ratings(pool, tenant="default") == (
        (),
        {"undecided": 0, "dangling": 2, "unselected": 0, "tokenless": 0},
        (),
    )
    expected = ((), {"dangling": 2, "unselected": 0, "tokenless": 0, "unusable": 0}, ())
    assert correction_pairs(pool, tenant="default") == expected
    assert len(deployment_pairs(pool, tenant="bob", old=OLD, new=NEW).pairs) == 1
    assert trajectory_ratings(pool, tenant="bob").rated == ()  # other people's feedback is not bob's
    with pytest.raises(StoreError, match="held-out tasks are never trained on"):
        deployment_pairs(pool, tenant="default", old=OLD, new=NEW, selection=Selection(splits=("heldout",)))
    with pytest.raises(StoreError, match="held-out tasks are never trained on"):
        trajectory_ratings(pool, tenant="default", selection=Selection(splits=("heldout",)))


def test_a_selection_limits_the_comparison(pool: Pool, store: Store) -> None:
    store("a-old", "a", OLD, 0.0)
    store("a-new", "a", NEW, 1.0)
    assert _ends(pool, selection=Selection(families=("other",))) == []
    assert len(_ends(pool, selection=Selection(families=("mail",)))) == 1


@pytest.mark.parametrize(
    ("selection", "taken"),
    [
        (Selection(families=("mail",)), True),
        (Selection(families=("other",)), False),
        (Selection(environments=("elsewhere",)), False),
    ],
)
def test_feedback_on_unselected_trajectories_is_counted_separately(
    pool: Pool, store: Store, selection: Selection, *, taken: bool
) -> None:
    wrong, right = store("wrong", "a", OLD, None), store("right", "a", "ann@1", None)
    pool.append(
        Feedback("c", "trajectory", wrong.id, "correction", 1.0, refers_to=right.id),
        Feedback("up", "trajectory", right.id, "thumbs", 1.0),
        Feedback("torn", "trajectory", wrong.id, "thumbs", 1.0),
        Feedback("torn again", "trajectory", wrong.id, "thumbs", -1.0),
    )
    pairs = correction_pairs(pool, tenant="default", selection=selection)
    rated = trajectory_ratings(pool, tenant="default", selection=selection)
    assert (len(pairs.pairs), pairs.left_out["unselected"]) == (int(taken), int(not taken))
    assert (len(rated.rated), rated.left_out["unselected"]) == (int(taken), 0 if taken else 2)
    assert rated.left_out["undecided"] == int(taken)
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
def test_meaningless_comparisons_are_refused(pool: Pool, changes: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {"old": OLD, "new": NEW, **changes}
    with pytest.raises(StoreError, match=message):
        deployment_pairs(pool, tenant="default", **arguments)  # type: ignore[arg-type]


def test_a_correction_is_preferred_to_what_it_corrects(pool: Pool, store: Store) -> None:
    wrong, right = store("wrong", "a", OLD, None), store("right", "a", "ann@1", None)
    elsewhere = store("elsewhere", "b", "ann@1", None)
    pool.append(
        Feedback("c", "trajectory", wrong.id, "correction", 1.0, refers_to=right.id),
        Feedback("again", "trajectory", wrong.id, "correction", 1.0, refers_to=right.id),
        Feedback("to what", "trajectory", wrong.id, "correction", 1.0),
        Feedback("nothing", "trajectory", wrong.id, "correction", 1.0, refers_to="unknown"),
        Feedback("of an episode", "episode", "e", "correction", 1.0, refers_to=right.id),
        Feedback("other task", "trajectory", wrong.id, "correction", 1.0, refers_to=elsewhere.id),
        Feedback("thumb", "trajectory", wrong.id, "thumbs", -1.0, refers_to=right.id),
    )
    found = correction_pairs(pool, tenant="default")
    (pair,) = found.pairs
    assert (pair.chosen, pair.rejected, pair.margin, pair.source) == (right, wrong, None, "correction")
    assert found.left_out == {"dangling": 3, "unselected": 0, "tokenless": 0, "unusable": 1}


def test_pairs_without_tokens_are_returned_separately(pool: Pool, store: Store) -> None:
    wrong, right = store("wrong", "a", OLD, None), store("right", "a", "ann@1", None, rows=False)
    pool.append(Feedback("c", "trajectory", wrong.id, "correction", 1.0, refers_to=right.id))
    found = correction_pairs(pool, tenant="default")
    assert (found.pairs, found.left_out["tokenless"]) == ((), 1)
    (waiting,) = found.tokenless
    assert (waiting.chosen, waiting.rejected) == (right, wrong)


def test_thumbs_are_summed_and_ties_are_left_out(pool: Pool, store: Store) -> None:
    names = ("liked", "disliked", "torn", "unmarked", "bare")
    stored = {name: store(name, name, OLD, 1.0, rows=name != "bare") for name in names}
    said = [
        ("liked", 1.0), ("liked", -1.0), ("liked", 1.0), ("disliked", -0.5),
        ("torn", 1.0), ("torn", -1.0), ("bare", 1.0),
    ]  # fmt: skip
    pool.append(
        *(
            Feedback(str(at), "trajectory", stored[name].id, "thumbs", value)
            for at, (name, value) in enumerate(said)
        ),
        Feedback("elsewhere", "trajectory", "unknown", "thumbs", 1.0),
        Feedback("decision", "decision", "d", "thumbs", 1.0),
        Feedback("metric", "trajectory", stored["unmarked"].id, "minutes", 3.0),
    )
    found = trajectory_ratings(pool, tenant="default")
    assert [(each.trajectory.id, each.is_desirable) for each in found.rated] == [
        ("trajectory-liked", True),
        ("trajectory-disliked", False),
    ]
    assert found.left_out == {"undecided": 1, "dangling": 2, "unselected": 0, "tokenless": 1}
    assert [each.trajectory.id for each in found.tokenless] == ["trajectory-bare"]
