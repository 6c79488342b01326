"""A cycle whose RL training makes the version worse: the version after SFT is released, and the card says so."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from upturn.config import CanarySettings, Config, LoopConfig, ReadinessConfig, ValidationSettings
from upturn.loop.cycle import run_cycle
from upturn.loop.run.context import Context
from upturn.loop.run.journal import read_progress
from upturn.loop.trainers.model_card import write_stage_card
from upturn.records import AgentVersion, Snapshot

SENTENCE = (
    "On 40 validation tasks, 100.0 % after SFT and 50.0 % after GRPO: the version after SFT was chosen (training "
    "templates in unseen worlds)."
)


@pytest.fixture
def trainers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """Training that makes these functions of the desk the versions after SFT and after GRPO."""
    functions = {"sft": "toy_desk:solver", "grpo": "toy_desk:adder"}

    def made(stage: str, parent: AgentVersion) -> AgentVersion:
        return replace(parent, version=stage, model=functions[stage], parent=parent.id)

    def after_sft(_context: Context, parent: AgentVersion, *_: object) -> AgentVersion:
        return made("sft", parent)

    def after_grpo(_context: Context, parent: AgentVersion, *_: object) -> AgentVersion:
        return made("grpo", parent)

    # A function in place of the local model that a configuration must have to be trained.
    monkeypatch.setattr(Config, "improved_agent", property(lambda config: config.agents[0]))
    monkeypatch.setattr("upturn.loop.cycle.train_sft", after_sft)
    monkeypatch.setattr("upturn.loop.cycle.train_grpo", after_grpo)
    monkeypatch.setattr("upturn.loop.cycle.limits_summary", lambda *_: "")
    monkeypatch.setattr("upturn.loop.cycle.check_sampler", lambda *_: None)
    monkeypatch.setattr(
        "upturn.loop.cycle.take_training_snapshot",
        lambda *_, **__: Snapshot("s" * 16, ("t",), "{}", ("default",)),
    )
    return functions


def cycle_config(desk: ModuleType) -> Config:
    plain: Config = desk.config(("adder", "refuser"), tasks={"count": 48, "heldout_count": 40})
    return replace(
        plain,
        loop=LoopConfig(improve="adder"),
        readiness=ReadinessConfig(points=1, categories=1),
        canary=CanarySettings(stages=(0.5, 1.0)),
        validation=ValidationSettings(resamples=500),
    )


def test_the_better_stage_is_validated_and_released(
    desk: ModuleType, tmp_path: Path, trainers: dict[str, str]
) -> None:
    config = cycle_config(desk)
    for _ in range(2):  # the second time from the journal
        with desk.opened(tmp_path / "run", config) as context:
            outcome = run_cycle(context, 1)
        made = outcome.trained
        assert made is not None
        assert made.choice is not None
        assert (made.choice.chosen, made.candidate.id, made.after.rate()) == ("SFT", "adder@sft", 1.0)
        assert made.after_grpo is not None
        assert made.after_grpo.rate() == 0.5
        assert outcome.validation is not None
        assert outcome.validation.gain == 0.5
        assert outcome.release is not None
        assert (outcome.release.candidate, outcome.release.state) == ("adder@sft", "promoted")
        assert outcome.summary.endswith(f"; {SENTENCE}")
        figures = {result.name: result.value for result in outcome.results()}
        assert (figures["cycle_1_stage_sft"], figures["cycle_1_stage_grpo"]) == (1.0, 0.5)
        assert (figures["cycle_1_stage"], figures["cycle_1_success_after"]) == ("SFT", 1.0)
    names = [step.name.removeprefix("cycle-1/") for step in read_progress(tmp_path / "run").steps]
    trained = names[names.index("heldout-before") : names.index("validation") + 1]
    assert trained == [
        *("heldout-before", "snapshot", "sft", "heldout-sft", "grpo", "heldout-after"),
        *("stage-sft", "stage-grpo", "validation"),
    ]


def test_the_last_stage_is_released_where_it_is_better(
    desk: ModuleType, tmp_path: Path, trainers: dict[str, str]
) -> None:
    trainers.update(sft="toy_desk:adder", grpo="toy_desk:solver")
    with desk.opened(tmp_path / "run", cycle_config(desk)) as context:
        made = run_cycle(context, 1).trained
    assert made is not None
    assert made.candidate.id == "adder@grpo"
    assert made.after is made.after_grpo


def test_the_card_has_the_choice_and_every_stage(
    desk: ModuleType, tmp_path: Path, trainers: dict[str, str]
) -> None:
    folder = tmp_path / "version"
    folder.mkdir()
    with desk.opened(tmp_path / "run", cycle_config(desk)) as context:
        made = run_cycle(context, 1).trained
        assert made is not None
        assert made.after_sft is not None
        assert made.after_grpo is not None
        candidate = replace(made.candidate, model=str(folder), weights_hash="abc", snapshot="s")
        stages = {"before": made.before, "SFT": made.after_sft, "GRPO": made.after_grpo}
        path = write_stage_card(context, (made.incumbent, candidate), stages, made.choice)
        assert write_stage_card(context, (made.incumbent, made.candidate), stages, None) is None  # a function
    assert path == folder / "card.md"
    text = path.read_text().replace("\N{NO-BREAK SPACE}", " ")
    assert text.startswith(
        f"# adder@sft\n\n{SENTENCE}\n\n| stage | success on 40 held-out tasks |\n|---|---|\n| before | 50.0 % "
    )
    assert "| SFT | 100 % (95 % interval 91.2–100 %, n = 40) |\n| GRPO | 50.0 %" in text
    assert "| algorithm | SFT |" in text
    assert f"| weights | `abc` in `{folder}` |" in text
