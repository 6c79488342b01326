"""What a serve line says about attempts that broke or could not be judged."""

import io
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from upturn.cli.live import LiveView
from upturn.config import Config
from upturn.loop.cycle import serve
from upturn.loop.failure_summary import Troubles
from upturn.loop.run.context import open_run
from upturn.records import Evaluation, GateResult, Observation, Outcome, Trajectory

ATTEMPT = Trajectory("a", "t", "solver@base", (), Observation(""), "finished", "rendered")
JUDGED = Evaluation("e", "t", "a", "judge", "failure", (GateResult("right", False, "it was wrong"),), {}, {}, 0.0)


def broken(outcome: Outcome, error: str) -> Trajectory:
    return replace(ATTEMPT, outcome=outcome, error=error)


def missing(*gates: GateResult) -> Evaluation:
    return replace(JUDGED, verdict="missing", gates=gates, score=None)


def last_line(config: Config, run_dir: Path) -> str:
    """What is said when 100 tasks, a wave and a bit, have been served after some of another stage."""
    stream = io.StringIO()
    with (
        LiveView("loop", stream=stream, clock=lambda: 0.0) as view,
        open_run(config, run_dir, "toy", view) as context,
    ):
        serve(context, "before", 7)
        serve(context, "serve", 100)
    return stream.getvalue().splitlines()[-1].partition("after 0.0 s; ")[2]


def test_attempts_without_trouble_say_nothing() -> None:
    troubles = Troubles()
    assert troubles.words() == ""
    for outcome in ("finished", "step_limit", "token_limit", "time_limit"):
        troubles.add(replace(ATTEMPT, outcome=outcome), JUDGED)
    assert troubles.words() == ""


def test_a_trouble_is_counted_with_its_commonest_cause() -> None:
    troubles = Troubles()
    for error in ("RuntimeError: one", "RuntimeError: two", "RuntimeError: two"):
        troubles.add(broken("environment_error", error), JUDGED)
    troubles.add(broken("model_error", "ValueError: three"), missing(GateResult("judged", False, "KeyError: 'x'")))
    assert troubles.words() == (
        "3 of 4 attempts ended in environment_error, 2 of them: RuntimeError: two; "
        "1 of 4 attempts ended in model_error: ValueError: three; "
        "1 of 4 attempts could not be judged: KeyError: 'x'"
    )
    troubles.clear()
    troubles.add(ATTEMPT, missing(GateResult("read", True, "all of it")))
    assert troubles.words() == "1 of 1 attempts could not be judged: no cause is recorded"


def test_a_long_cause_is_shortened_to_a_line() -> None:
    troubles = Troubles()
    troubles.add(broken("model_error", "ValueError: first\nsecond" + 300 * "x"), JUDGED)
    cause = troubles.words().removeprefix("1 of 1 attempts ended in model_error: ")
    assert cause == "ValueError: first second" + 176 * "x" + "…"


@pytest.mark.parametrize(
    ("kit", "agent", "said"),
    [
        ("kit", "solver", "success 1"),
        (
            "broken_kit",
            "solver",
            "success 0; trouble 100 of 100 attempts ended in environment_error: RuntimeError: the desk is on fire",
        ),
        (
            "kit",
            "crasher",
            "success 0; trouble 100 of 100 attempts ended in model_error: RuntimeError: out of paper",
        ),
        (
            "unjudged_kit",
            "solver",
            "success 0; trouble 100 of 100 attempts could not be judged: "
            "ArithmeticError: the judge has lost its glasses",
        ),
    ],
)
def test_serving_says_why_nothing_succeeds(
    desk: ModuleType, tmp_path: Path, kit: str, agent: str, said: str
) -> None:
    config = desk.config((agent,), environment={"name": f"toy_desk:{kit}"})
    assert last_line(config, tmp_path / "run") == said


def test_troubles_found_before_an_interruption_are_told_again(desk: ModuleType, tmp_path: Path) -> None:
    config = desk.config(("crasher",))
    with desk.opened(tmp_path / "run", config) as context:
        context.service.serve(context.next_tasks(7))
    stream = io.StringIO()
    with (
        LiveView("loop", stream=stream) as view,
        open_run(config, tmp_path / "run", "toy", view) as context,
    ):
        serve(context, "serve", 7)
    assert "7 of 7 attempts ended in model_error: RuntimeError: out of paper" in stream.getvalue()
