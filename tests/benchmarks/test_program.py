"""``python -m benchmarks program``: its pure parts, and a quick run of its tokens."""

import json

import pytest
import torch
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.program.attempts import OUTCOMES, Left, behaviours, unexpected
from benchmarks.program.observed_engine import Calls
from benchmarks.program.parity import overlap
from benchmarks.program.tokens import different_calls
from upturn.models import Generation, GenerationRequest
from upturn.records import Observation, TokenRow, Trajectory, WrittenSpan

LEFT = Left(0, 6, 1, 0, 0, 100.0)


def trajectory(*rows: TokenRow, outcome: str = "finished") -> Trajectory:
    return Trajectory("t", "task", "agent@1", (), Observation(""), outcome, "sampled", rows)  # type: ignore[arg-type]


def call(prompt: tuple[int, ...], written: tuple[int, ...], *logprobs: float) -> Calls:
    request = GenerationRequest(prompt, 5, (), 1.0, "s", (0, 0), 0)
    return [(request, Generation(written, logprobs, "length", "v"))]


def test_a_call_is_in_the_rows_only_with_its_prompt_its_tokens_and_its_logprobs() -> None:
    spans = (WrittenSpan(0, 2, 3), WrittenSpan(1, 4, 6))
    made = trajectory(TokenRow((1, 2, 3, 4, 5, 6), spans, (-1.0, -2.0, -3.0)))
    first, second = call((1, 2), (3,), -1.0), call((1, 2, 3, 4), (5, 6), -2.0, -3.0)
    assert different_calls([made], [*first, *second]) == (0, 0)
    assert different_calls([made], [*first]) == (0, 1)
    assert different_calls([made], [*first, *first, *second]) == (1, 0)
    for other in (call((1, 9), (3,), -1.0), call((1, 2), (9,), -1.0), call((1, 2), (3,), -1.5)):
        assert different_calls([made], [*other, *second]) == (1, 1)


def test_attempts_go_through_all_troubles_in_turn() -> None:
    assert behaviours(len(OUTCOMES) + 1) == [*OUTCOMES, "answers"]


def test_an_attempt_with_another_outcome_is_named_with_its_error() -> None:
    made = [("answers", trajectory()), ("hangs", trajectory()), ("hangs", trajectory(outcome="time_limit"))]
    assert unexpected(made) == {"hangs: finished": 1}


def test_what_is_left_is_counted_without_what_was_there_before() -> None:
    assert LEFT.more_than(LEFT) == {}
    assert LEFT._replace(processes=2, descriptors=5, resident_mb=900.0).more_than(LEFT) == {"processes": 2}


@pytest.mark.parametrize(("low", "high", "is_equal"), [(0.1, 0.2, False), (0.1, 0.3, True), (0.35, 0.4, True)])
def test_figures_are_equal_where_their_intervals_meet(low: float, high: float, is_equal: bool) -> None:
    assert overlap({"low": low, "high": high}, {"low": 0.3, "high": 0.5}) is is_equal


def test_recorded_tokens_are_those_of_the_engine() -> None:
    threads = torch.get_num_threads()
    result = CliRunner().invoke(app, ["program", "--only", "tokens", "--quick", "--threads", "1", "--json"])
    assert result.exit_code == 0, result.output
    assert torch.get_num_threads() == threads
    rows = {row["name"]: row["value"] for row in json.loads(result.stdout)["results"]}
    assert [name for name, value in rows.items() if name.endswith("other_calls") and value] == []
    assert max(value for name, value in rows.items() if name.endswith("logprob_gap")) <= 1e-4
    assert len(rows) == 8
