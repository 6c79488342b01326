"""The summary of failed trajectories in the progress of serving."""

import io
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from upturn.cli.live import LiveView
from upturn.config import Config
from upturn.loop.cycle import serve
from upturn.loop.failure_summary import FailureSummary
from upturn.loop.run.context import open_run
from upturn.records import Evaluation, GateResult, Observation, Outcome, Trajectory

TRAJECTORY = Trajectory("a", "t", "solver@base", (), Observation(""), "finished", "rendered")
EVALUATION = Evaluation(
    "e", "t", "a", "judge", "failure", (GateResult("right", False, "it was wrong"),), {}, {}, 0.0
)


def broken(outcome: Outcome, error: str) -> Trajectory:
    return replace(TRAJECTORY, outcome=outcome, error=error)


def missing(*gates: GateResult) -> Evaluation:
    return replace(EVALUATION, verdict="missing", gates=gates, score=None)


def last_line(config: Config, run_dir: Path) -> str:
    """The progress line after serving 100 tasks, more than a wave, that follow a stage with other tasks."""
    stream = io.StringIO()
    with (
        LiveView("loop", stream=stream, clock=lambda: 0.0) as view,
        open_run(config, run_dir, "toy", view) as context,
    ):
        serve(context, "before", 7)
        serve(context, "serve", 100)
    return stream.getvalue().splitlines()[-1].partition("after 0.0 s; ")[2]


def test_summary_without_failures_is_empty() -> None:
    failures = FailureSummary()
    assert failures.text() == ""
    for outcome in ("finished", "step_limit", "token_limit", "time_limit"):
        failures.add(replace(TRAJECTORY, outcome=outcome), EVALUATION)
    assert failures.text() == ""


def test_failures_are_counted_with_their_most_common_cause() -> None:
    failures = FailureSummary()
    for error in ("RuntimeError: one", "RuntimeError: two", "RuntimeError: two"):
        failures.add(broken("environment_error", error), EVALUATION)
    failures.add(broken("model_error", "ValueError: three"), missing(GateResult("judged", False, "KeyError: 'x'")))
    assert failures.text() == (
        "3 of 4 trajectories ended in environment_error, 2 of them: RuntimeError: two; "
        "1 of 4 trajectories ended in model_error: ValueError: three; "
        "1 of 4 trajectories could not be evaluated: KeyError: 'x'"
    )
    failures.clear()
    failures.add(TRAJECTORY, missing(GateResult("read", True, "all of it")))
    assert failures.text() == "1 of 1 trajectories could not be evaluated: no cause was recorded"


def test_a_long_cause_is_shortened_to_one_line() -> None:
    failures = FailureSummary()
    failures.add(broken("model_error", "ValueError: first\nsecond" + 300 * "x"), EVALUATION)
    cause = failures.text().removeprefix("1 of 1 trajectories ended in model_error: ")
    assert cause == "ValueError: first second" + 176 * "x" + "…"


@pytest.mark.parametrize(
    ("kit", "agent", "line"),
    [
        ("kit", "solver", "success 1"),
        (
            "broken_kit",
            "solver",
            "success 0; failures 100 of 100 trajectories ended in environment_error: RuntimeError: no desk",
        ),
        (
            "kit",
            "crasher",
            "success 0; failures 100 of 100 trajectories ended in model_error: RuntimeError: agent failed",
        ),
        (
            "unjudged_kit",
            "solver",
            "success 0; failures 100 of 100 trajectories could not be evaluated: ArithmeticError: verifier failed",
        ),
    ],
)
def test_serving_shows_why_nothing_succeeds(
    desk: ModuleType, tmp_path: Path, kit: str, agent: str, line: str
) -> None:
    config = desk.config((agent,), environment={"name": f"toy_desk:{kit}"})
    assert last_line(config, tmp_path / "run") == line


def test_failures_before_an_interruption_are_shown_again(desk: ModuleType, tmp_path: Path) -> None:
    config = desk.config(("crasher",))
    with desk.opened(tmp_path / "run", config) as context:
        context.service.serve(context.next_tasks(7))
    stream = io.StringIO()
    with (
        LiveView("loop", stream=stream) as view,
        open_run(config, tmp_path / "run", "toy", view) as context,
    ):
        serve(context, "serve", 7)
    assert "7 of 7 trajectories ended in model_error: RuntimeError: agent failed" in stream.getvalue()
