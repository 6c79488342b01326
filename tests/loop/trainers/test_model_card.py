"""The card of a training run: its text, and that it claims no more than was measured."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from upturn import __version__
from upturn.loop.evaluation.evaluate import compare, evaluate_heldout
from upturn.loop.run.context import Context
from upturn.loop.trainers.candidate import TrainedVersion
from upturn.loop.trainers.model_card import FILE, card, write_card
from upturn.loop.trainers.train_command import TrainingResult
from upturn.records import AgentVersion, Result

BETTER = AgentVersion(
    "adder", "sft-01234567", "callable", model="toy_desk:solver", weights_hash="0123456789abcdef",
    parent="adder@base", snapshot="abcdef", run="run", tenants=("default",),
)  # fmt: skip


@pytest.fixture
def context(desk: ModuleType, tmp_path: Path) -> Iterator[Context]:
    with desk.opened(tmp_path / "run", desk.config(("adder",))) as context:
        yield context


def _result(context: Context, candidate: AgentVersion, *lines: str, ending: str = "All done.") -> TrainingResult:
    incumbent = context.router.registry.served("adder").incumbent
    before = evaluate_heldout(context, "heldout-before", incumbent)
    trained = TrainedVersion(candidate, (Result("extra", 1.0),), lines)
    if candidate.id == incumbent.id:
        return TrainingResult("sft", incumbent, before, before, None, ending, trained)
    after = evaluate_heldout(context, "heldout-after", candidate)
    return TrainingResult(
        "sft", incumbent, before, after, compare(context, "validation", before, after), ending, trained
    )


def _plain(text: str) -> str:
    """With plain spaces."""
    return text.replace("\N{NO-BREAK SPACE}", " ")


def _stable(text: str, context: Context) -> str:
    """Without values that differ from run to run."""
    text = _plain(text)
    text = text.replace(context.config.config_hash, "HASH").replace(str(context.run_dir), "RUN")
    return "\n".join("| time |" if line.startswith("| time |") else line for line in text.splitlines())


def test_the_card_of_a_better_version(context: Context) -> None:
    """Sums and products take turns; the incumbent solves sums, the candidate all."""
    text = card(context, _result(context, BETTER, "", "A line of the algorithm."))
    assert (
        _stable(text, context)
        == f"""\
# adder@sft-01234567

On 32 held-out tasks, success went from 50.0 % (95 % interval 34.3–65.6 %, n = 32) to 100 % (95 % interval \
89.1–100 %, n = 32). Compared task by task: +50.0 points (95 % interval +34.3 to +65.6, n = 32). Intervals are \
95 %, by bootstrap over tasks (exact where all are alike); training had one seed, and other seeds may differ.

Validation: pass: gain +50.0 points [+34.3, +65.6], n=32.

All done.

A line of the algorithm.

| | |
|---|---|
| algorithm | `upturn train sft` |
| parent | `adder@base` |
| training data | snapshot `abcdef` of `RUN/pool.db` |
| weights | `0123456789abcdef` in `toy_desk:solver` |
| environment | desk: sums, products |
| verifier | desk/1 |
| tenants | default |
| seed, configuration | 0, `HASH` (config.json) |
| time |
| Upturn | {__version__} |

| family | held-out tasks | before | after |
|---|---|---|---|
| sums | 16 | 100 % | 100 % |
| products | 16 | 0 % | 100 % |"""
    )


def test_no_change_is_called_no_significant_change(context: Context) -> None:
    same = replace(BETTER, version="grpo-1", model="toy_desk:adder", snapshot=None)
    text = _plain(card(context, _result(context, same)))
    assert "success went from 50.0 %" in text
    assert "Compared task by task: no significant change (0.0 points" in text
    assert "Validation: hold: no significant improvement" in text
    assert "training data" not in text


def test_a_run_without_a_new_version_says_why(context: Context) -> None:
    incumbent = context.router.registry.served("adder").incumbent
    text = card(context, _result(context, incumbent, ending="Safety was above its limit. Nothing was kept."))
    assert text.startswith(
        "# adder@base\n\nThere is no new version. Safety was above its limit. Nothing was kept.\n"
    )
    assert "| weights | `as configured` in `toy_desk:adder` |" in text
    assert "held-out tasks" not in text


def test_the_time_of_nested_steps_is_counted_once(context: Context) -> None:
    """The time of a trial is part of its run's."""

    def outer() -> str:
        context.journal.json_step("inner", lambda: "done")
        return "done"

    context.journal.json_step("train", outer)
    result = _result(context, BETTER)
    steps = {step.name: step.seconds or 0.0 for step in context.journal.progress().steps}
    del steps["begin"]  # not of the training
    assert set(steps) == {"train", "inner", "heldout-before", "heldout-after", "validation"}
    (line,) = [line for line in card(context, result).splitlines() if line.startswith("| time |")]
    shown = float(_plain(line).split("|")[2].split()[0])
    assert shown == pytest.approx(sum(steps.values()) - steps["inner"], abs=0.051)
    assert line.endswith("s, held-out evaluations included |")


def test_the_card_is_in_the_runs_folder(context: Context) -> None:
    result = _result(context, BETTER)
    path = write_card(context, result)
    assert path == str(context.run_dir / FILE)
    assert Path(path).read_text(encoding="utf-8") == card(context, result)
