"""Feedback from files is stored once; unusable lines are quarantined with the reason."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from upturn.errors import IngestError
from upturn.pool import Pool
from upturn.pool.feedback import ingest_feedback
from upturn.pool.preference import correction_pairs, trajectory_ratings
from upturn.records import Evaluation, Task, TokenRow, Trajectory, WrittenSpan

MakePoint = Callable[..., tuple[Task, Trajectory, Evaluation]]


@pytest.fixture
def stored(pool: Pool, make_point: MakePoint) -> Pool:
    """Two trajectories of one task and one of another, with different tokens."""
    for token, (name, task) in enumerate((("wrong", "a"), ("right", "a"), ("other", "b"))):
        stored_task, trajectory, _ = make_point(name, task=task)
        row = TokenRow((5, 6, token, 8), (WrittenSpan(0, 1, 3),), (-0.5, -0.25))
        pool.append(stored_task, replace(trajectory, rows=(row,)))
    return pool


def write_file(folder: Path, *lines: Any) -> Path:
    path = folder / "feedback.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


UP = {"trajectory": "trajectory-right", "thumbs": 1}
DOWN = {"trajectory": "trajectory-other", "thumbs": -1.0, "comment": "wrong folder"}
BETTER = {"trajectory": "trajectory-wrong", "correction": "trajectory-right"}
LATER = {"decision": "d", "metric": "minutes", "value": 12.5}


def test_feedback_is_stored_and_read_for_training(stored: Pool, tmp_path: Path) -> None:
    report = ingest_feedback(stored, write_file(tmp_path, UP, "", DOWN, BETTER, LATER))
    assert report[1:] == (4, 4, 0, ())
    feedback = {
        (value.subject_kind, value.metric, value.value, value.comment)
        for value in stored.feedback(tenant="default")
    }
    assert feedback == {
        ("trajectory", "thumbs", 1.0, ""),
        ("trajectory", "thumbs", -1.0, "wrong folder"),
        ("trajectory", "correction", 1.0, ""),
        ("decision", "minutes", 12.5, ""),
    }
    ratings = trajectory_ratings(stored, tenant="default").rated
    rated = {rating.trajectory.id: rating.is_desirable for rating in ratings}
    assert rated == {"trajectory-right": True, "trajectory-other": False}
    (pair,) = correction_pairs(stored, tenant="default").pairs
    assert (pair.chosen.id, pair.rejected.id) == ("trajectory-right", "trajectory-wrong")


def test_feedback_is_stored_once_unless_the_source_ids_differ(stored: Pool, tmp_path: Path) -> None:
    other_person = {**UP, "id": "second person"}
    path = write_file(tmp_path, UP, UP, other_person)
    assert ingest_feedback(stored, path)[1:4] == (3, 2, 1)
    assert ingest_feedback(stored, path)[1:4] == (3, 0, 3)
    changed = write_file(tmp_path, {**other_person, "thumbs": -1}, DOWN)
    report = ingest_feedback(stored, changed)
    assert (report.added, report.known, [bad.line for bad in report.quarantined]) == (1, 0, [1])
    assert "is stored with other content" in report.quarantined[0].reason


def test_key_order_does_not_change_a_line(stored: Pool, tmp_path: Path) -> None:
    reordered = dict(reversed(DOWN.items()))
    assert ingest_feedback(stored, write_file(tmp_path, DOWN, reordered))[1:4] == (2, 1, 1)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "a line must be an object"),
        ({**UP, "colour": "red"}, "unknown key 'colour'; known: comment, correction"),
        ({"thumbs": 1}, "exactly one of trajectory, decision, episode, got none"),
        ({**UP, "decision": "d"}, "exactly one of trajectory, decision, episode, got trajectory, decision"),
        ({"trajectory": "trajectory-right"}, "exactly one of thumbs, correction, metric, got none"),
        ({**UP, "correction": "trajectory-wrong"}, "exactly one of .*, got thumbs, correction"),
        ({**UP, "trajectory": "unknown"}, "the tenant has no trajectory 'unknown'"),
        ({**UP, "trajectory": 3}, "trajectory must be text, got 3"),
        ({**UP, "thumbs": 0}, r"thumbs must be a number above 0 \(good\) or below 0 \(bad\), got 0"),
        ({**UP, "thumbs": True}, "thumbs must be a number .*, got True"),
        ({**UP, "thumbs": "up"}, "thumbs must be a number .*, got 'up'"),
        ('{"trajectory": "trajectory-right", "thumbs": 1e999}', "thumbs must be a number|not JSON"),
        (
            {**BETTER, "correction": "trajectory-other"},
            "the tenant has no trajectory 'trajectory-other' of task 'a'",
        ),
        ({**BETTER, "correction": "unknown"}, "the tenant has no trajectory 'unknown' of task 'a'"),
        ({"decision": "d", "thumbs": 1}, "thumbs is feedback on a trajectory, but this line names a decision"),
        ({"decision": "d", "metric": "minutes"}, "metric and value belong together"),
        ({**UP, "value": 1.0}, "metric and value belong together"),
        ({"trajectory": "trajectory-right", "metric": "thumbs", "value": 1}, "'thumbs' has a key of its own"),
        ({**LATER, "value": None}, "value must be a finite number, got None"),
        ({**LATER, "comment": 3}, "comment must be text, got 3"),
        ({**UP, "id": ""}, "id must be text, got ''"),
    ],
)
def test_unusable_line_is_quarantined_and_the_rest_is_stored(
    stored: Pool, tmp_path: Path, line: Any, reason: str
) -> None:
    report = ingest_feedback(stored, write_file(tmp_path, line, DOWN))
    assert (report.lines, report.added) == (2, 1)
    (bad,) = report.quarantined
    assert bad.line == 1
    assert re.search(reason, bad.reason)


def test_feedback_on_another_tenants_trajectory_is_rejected(stored: Pool, tmp_path: Path) -> None:
    report = ingest_feedback(stored, write_file(tmp_path, UP), tenant="bob")
    assert (report.added, len(report.quarantined)) == (0, 1)


def test_files_without_feedback_are_rejected(stored: Pool, tmp_path: Path) -> None:
    with pytest.raises(IngestError, match="cannot be read: No such file"):
        ingest_feedback(stored, tmp_path / "nowhere.jsonl")
    with pytest.raises(IngestError, match="has no feedback"):
        ingest_feedback(stored, write_file(tmp_path, "", ""))
