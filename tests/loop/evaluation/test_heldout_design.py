"""The warning before held-out evaluations that too few tasks would fail an unchanged version."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType

from upturn.deployment import HeldoutDesign, validation_shares
from upturn.loop.cycle import serve
from upturn.loop.evaluation.evaluate import evaluate_heldout
from upturn.loop.evaluation.heldout_design import family_rates, warn_of_few_tasks
from upturn.loop.progress import NoProgress


class Notes(NoProgress):
    """Keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_few_tasks_of_a_strong_family_are_warned_of_before_the_evaluation(desk: ModuleType, tmp_path: Path) -> None:
    """The adder solves sums and no product: 48 tasks served, 24 of each."""
    with desk.opened(tmp_path / "run", desk.config(("adder",), tasks={"heldout_count": 40})) as context:
        adder, notes = context.router.registry.served("adder").incumbent, Notes()
        run = replace(context, progress=notes)
        warn_of_few_tasks(run, "heldout", adder)
        assert notes.notes == []  # no evidence yet
        serve(context, "serve", 48)
        assert family_rates(context, adder) == (25 / 26, 1 / 26)
        failed = validation_shares(
            HeldoutDesign((25 / 26, 1 / 26)), 40, context.config.validation, runs=60, seed=0
        ).failed.mean
        assert failed > 0.1
        warn_of_few_tasks(run, "heldout", adder)
        assert len(notes.notes) == 1
        assert notes.notes[0].startswith(
            "validation on 40 held-out tasks of 2 families fails an unchanged version in about "
            f"{100 * failed:.0f} % of cases; "
        )
        assert " would do (tasks.heldout_count; at most 10 %)" in notes.notes[0]
        needed = int(notes.notes[0].split("; ")[1].split()[0])
        design = HeldoutDesign((25 / 26, 1 / 26))
        assert validation_shares(design, needed, context.config.validation, runs=60, seed=0).failed.mean <= 0.1
        evaluate_heldout(context, "heldout", adder)
        warn_of_few_tasks(run, "heldout", adder)
        assert len(notes.notes) == 1


def test_enough_tasks_are_not_warned_of(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path / "run", desk.config(("refuser",), tasks={"heldout_count": 40})) as context:
        notes = Notes()
        run = replace(context, progress=notes)
        serve(context, "serve", 48)
        warn_of_few_tasks(run, "heldout", context.router.registry.served("refuser").incumbent)
    assert notes.notes == []  # it solves nothing, so no family is strong
