"""The card of a run that trained by itself: every word of it, and that it claims no more than was measured."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from upturn import __version__
from upturn.loop.evaluation.evaluate import compare, evaluate_heldout
from upturn.loop.run.context import Context
from upturn.loop.trainers.candidate import Learned
from upturn.loop.trainers.model_card import FILE, card, write_card
from upturn.loop.trainers.train_command import TrainingResult
from upturn.records import AgentVersion, Result

BETTER = AgentVersion(
    "adder", "sft-01234567", "callable", model="toy_desk:solver", weights_hash="0123456789abcdef",
    parent="adder@base", snapshot="abcdef", run="run", tenants=("default",),
)  # fmt: skip


@pytest.fixture
def context(desk: ModuleType, tmp_path: Path) -> Iterator[Context]:
    with desk.opened(tmp_path / "run", desk.config(("adder",))) as found:
        yield found


def _taught(context: Context, candidate: AgentVersion, *lines: str, ending: str = "All done.") -> TrainingResult:
    incumbent = context.router.registry.served("adder").incumbent
    before = evaluate_heldout(context, "heldout-before", incumbent)
    learned = Learned(candidate, (Result("extra", 1.0),), lines)
    if candidate.id == incumbent.id:
        return TrainingResult("sft", incumbent, before, before, None, ending, learned)
    after = evaluate_heldout(context, "heldout-after", candidate)
    return TrainingResult(
        "sft", incumbent, before, after, compare(context, "validation", before, after), ending, learned
    )


def _plain(text: str) -> str:
    """With plain spaces."""
    return text.replace("\N{NO-BREAK SPACE}", " ")


def _known(text: str, context: Context) -> str:
    """Without what differs from run to run."""
    text = _plain(text)
    text = text.replace(context.config.config_hash, "HASH").replace(str(context.run_dir), "RUN")
    return "\n".join("| time |" if line.startswith("| time |") else line for line in text.splitlines())


def test_every_word_of_a_better_versions_card(context: Context) -> None:
    """Sums and products take turns; the incumbent solves sums, the candidate all."""
    found = card(context, _taught(context, BETTER, "", "A line of the lesson's own."))
    assert (
        _known(found, context)
        == f"""\
# adder@sft-01234567

On 32 held-out tasks, success went from 50.0 % (95 % interval 34.3–65.6 %, n = 32) to 100 % (95 % interval \
100–100 %, n = 32). Compared task by task: +50.0 points (95 % interval +34.3 to +65.6, n = 32). Intervals are \
95 %, by bootstrap over tasks; one seed of training, so they say nothing of other seeds.

Validation: pass: gain +50.0 points [+34.3, +65.6], n=32.

All done.

A line of the lesson's own.

| | |
|---|---|
| way of learning | `upturn train sft` |
| made from | `adder@base` |
| learned from | snapshot `abcdef` of `RUN/pool.db` |
| weights | `0123456789abcdef` in `toy_desk:solver` |
| environment | desk: sums, products |
| judged by | desk/1 |
| serves | default |
| seed, configuration | 0, `HASH` (config.json) |
| time |
| made by | Upturn {__version__} |

| family | held-out tasks | before | after |
|---|---|---|---|
| sums | 16 | 100 % | 100 % |
| products | 16 | 0 % | 100 % |"""
    )


def test_no_change_is_called_no_significant_change(context: Context) -> None:
    same = replace(BETTER, version="grpo-1", model="toy_desk:adder", snapshot=None)
    found = _plain(card(context, _taught(context, same)))
    assert "success went from 50.0 %" in found
    assert "Compared task by task: no significant change (0.0 points" in found
    assert "Validation: hold: no significant improvement" in found
    assert "learned from" not in found


def test_a_run_that_kept_nothing_says_so_and_why(context: Context) -> None:
    incumbent = context.router.registry.served("adder").incumbent
    found = card(context, _taught(context, incumbent, ending="Safety was above its limit. Nothing was kept."))
    assert found.startswith(
        "# adder@base\n\nNo new version was made. Safety was above its limit. Nothing was kept.\n"
    )
    assert "| weights | `as they were given` in `toy_desk:adder` |" in found
    assert "held-out tasks" not in found


def test_time_is_counted_once_where_steps_have_steps_within(context: Context) -> None:
    """As trials of a lesson do: what they took is in what the lesson took."""

    def within() -> str:
        context.journal.json_step("inner", lambda: "done")
        return "done"

    context.journal.json_step("train", within)
    taught = _taught(context, BETTER)
    steps = {step.name: step.seconds or 0.0 for step in context.journal.progress().steps}
    assert set(steps) == {"train", "inner", "heldout-before", "heldout-after", "validation"}
    (line,) = [each for each in card(context, taught).splitlines() if each.startswith("| time |")]
    shown = float(_plain(line).split("|")[2].split()[0])
    assert shown == pytest.approx(sum(steps.values()) - steps["inner"], abs=0.051)
    assert line.endswith("s, held-out evaluations included |")


def test_the_card_lies_in_the_runs_folder(context: Context) -> None:
    taught = _taught(context, BETTER)
    path = write_card(context, taught)
    assert path == str(context.run_dir / FILE)
    assert Path(path).read_text(encoding="utf-8") == card(context, taught)
