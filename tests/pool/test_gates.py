"""The gates that compare a data point with something beside it: tokenizers, clocks, reward components."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import pytest
from sqlalchemy import Connection, update

from upturn.cli.pool.validation import token_readers
from upturn.models import load_renderer
from upturn.pool import Pool, schema
from upturn.pool.quality import GateReport, validate_quality
from upturn.pool.quality.agreement import disagreement
from upturn.pool.quality.clock import clock_problems, source_time_problem
from upturn.records import AgentVersion, Evaluation, Observation, Task, TokenRow, Trajectory, Turn, WrittenSpan

MakePoint = Callable[..., tuple[Task, Trajectory, Evaluation]]


def gate(pool: Pool, name: str, **options: object) -> GateReport:
    report = validate_quality(pool, tenant="default", **options)  # type: ignore[arg-type]
    (found,) = [item for item in report.gates if item.gate.name == name]
    return found


def read(token_ids: Sequence[int]) -> str:
    return "".join(map(chr, token_ids))


def spoken(turns: Sequence[tuple[str, int]], written: str, spans: Sequence[tuple[int, int, int]]) -> Trajectory:
    """A trajectory of turns (text, call), with a row whose tokens are the characters of ``written``."""
    row = TokenRow(tuple(map(ord, written)), tuple(WrittenSpan(*span) for span in spans), ())
    said = tuple(Turn(Observation(""), text, None, call=call) for text, call in turns)
    return Trajectory("t", "task", "a@1", said, Observation(""), "finished", "rendered", (row,))


def test_tokens_that_read_as_the_text_agree() -> None:
    agreeing = spoken([("one", 0), ("two", 0)], "? one! two", [(0, 2, 5), (1, 7, 10)])
    assert disagreement(agreeing, read) == ""
    differing = spoken([("one", 0), ("too", 0)], "? one! two", [(0, 2, 5), (1, 7, 10)])
    assert disagreement(differing, read) == "row 0, turn 1: the tokens are 'two', the text is 'too'"


def test_the_calls_of_a_message_are_read_together() -> None:
    parts = spoken([("<a/>", 0), ("<b/>", 1)], "<a/>\n<b/>", [(0, 0, 5), (1, 5, 9)])
    assert disagreement(parts, read) == ""
    assert disagreement(parts, lambda ids: read(ids).replace("b", "c")).startswith("row 0, turn 0: the tokens are")


def test_rows_are_checked_where_the_tokenizer_is_there(pool: Pool, make_point: MakePoint) -> None:
    renderer = load_renderer("nano")
    task, trajectory, evaluation = make_point("a")
    written = renderer.write(trajectory.turns[0].action) if trajectory.turns[0].action else ()
    text = renderer.read(written).text
    row = TokenRow(written, (WrittenSpan(0, 0, len(written)),), ())
    turns = (replace(trajectory.turns[0], text=text),)
    good = replace(trajectory, agent_version="nano@1", turns=turns, origin="rendered", rows=(row,))
    wrong = replace(good, id="wrong", turns=(replace(turns[0], text="something else"),))
    elsewhere = replace(good, id="elsewhere", agent_version="gone@1")
    unknown = replace(good, id="unknown", agent_version="other@1")
    versions = [AgentVersion("nano", "1", "local_model", model="nano")]
    versions.append(AgentVersion("gone", "1", "local_model", model="/nowhere/model"))
    pool.append(task, good, wrong, elsewhere, unknown, evaluation, *versions)
    found = gate(pool, "agreement", reader_of=token_readers(pool))
    assert (found.points, found.failed) == (2, 1)
    assert [failure.record_id for failure in found.examples] == ["wrong"]
    assert found.unchecked == {"no tokenizer of '/nowhere/model'": 1, "the agent version is not stored": 1}
    assert gate(pool, "agreement").unchecked == {"no tokenizer was given": 4}


def test_a_missing_component_is_named(pool: Pool, make_point: MakePoint) -> None:
    task, trajectory, evaluation = make_point("a")
    pool.append(task, trajectory, replace(evaluation, rewards={"tests": 1.0, "judge": None}))
    found = gate(pool, "judged")
    assert (found.points, found.failed) == (1, 1)
    assert found.examples[0].problem == "no value for judge"


def test_clocks_that_run_backwards_or_ahead_are_named(pool: Pool, make_point: MakePoint) -> None:
    times = {"a": 1000.0, "b": 1100.0, "c": 1030.0, "d": 1050.0, "e": 9000.0, "f": 1200.0}
    for name, time in times.items():
        point = make_point(name)
        pool.append(*point)
        pool.write(partial(_set_time, name=point[1].id, time=time))
    found = {problem.trajectory_id: problem.problem for problem in clock_problems(pool, tenant="default", now=2000)}
    ids = {name: make_point(name)[1].id for name in times}
    assert found == {
        ids["c"]: "recorded 70 s before an earlier one",
        ids["e"]: "recorded 7,000 s in the future",
    }


def _set_time(connection: Connection, *, name: str, time: float) -> None:
    table = schema.trajectories
    connection.execute(update(table).where(table.c.id == name), {"recorded_at": time})


@pytest.mark.parametrize(
    ("recorded", "problem"),
    [
        ("1970-01-01T00:16:40+00:00", ""),
        ("1970-01-01T03:00:00+00:00", "its source recorded it 8,800 s in the future"),
        ("1969-01-01T00:00:00+00:00", "its source recorded it before 1970"),
        ("yesterday", ""),
    ],
)
def test_times_of_the_source_are_compared_with_now(make_point: MakePoint, recorded: str, problem: str) -> None:
    trajectory = replace(make_point("a")[1], final_state={"extra": {"time": recorded}})
    assert source_time_problem(trajectory, 2000.0) == problem
