"""World-model training learns a world with a known answer, discounts common outputs, and resumes exactly."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedModel

from upturn.config import OptimiserSettings
from upturn.errors import ConfigError, TrainingError
from upturn.models import SPECIAL_TOKENS, CompactRenderer, Generation, GenerationRequest
from upturn.models.engine import LocalEngine
from upturn.models.observation import RenderedObservations
from upturn.records import Action, Observation, TokenRow, Trajectory, Turn, WrittenSpan
from upturn.training.advantages import AdvantageSettings
from upturn.training.algorithms.sft import SftSettings, held_out_loss, run_sft
from upturn.training.algorithms.world_model.prediction import (
    PredictionScore,
    Predictor,
    evaluate_lift,
    merge_scores,
    score_by_tool,
    select_unknown,
)
from upturn.training.algorithms.world_model.run import PredictionCollect, run_world_model
from upturn.training.algorithms.world_model.settings import EasySettings, WorldModelSettings
from upturn.training.data.transition import Transition, extract_transitions, most_common_outputs, observation_rows
from upturn.training.distributed.weights import copy_tensors, restore_weights, weight_tensors
from upturn.training.optimisation.trainer import Trainer
from upturn.training.policy_settings import DynamicSamplingSettings, KlSettings, ObjectiveSettings
from upturn.training.row import supervised_rows
from upturn.training.runs import RunOptions, read_curve
from upturn.training.runs.curve import CurvePoint
from upturn.training.runs.run_folder import CURVE_FILE, read_description

COLOURS = ("jet", "red", "sky", "tan")
"""The colours that the lamp shows after its buttons: the whole world."""
SETTINGS = WorldModelSettings(
    iterations=70,
    minibatches=1,
    objective=ObjectiveSettings(kl=KlSettings(0.001)),
    advantage=AdvantageSettings(scale="std"),
    optimiser=OptimiserSettings(learning_rate=3e-3),
    evaluate_every=35,
    keep="final",
    checkpoint_every=100,
    transitions_per_iteration=4,
    group_size=16,
    warm_up=None,
)
Model = Callable[..., PreTrainedModel]


def _presses() -> tuple[Transition, ...]:
    return tuple(transition for transition in _world() if transition.tool == "l.press")


@cache
def _renderer() -> CompactRenderer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL_TOKENS])
    return CompactRenderer(tokenizer)


@cache
def _observations() -> RenderedObservations:
    return RenderedObservations(_renderer())


def _trajectory(button: int, shown: str) -> Trajectory:
    """A press, what the lamp shows, and the end: ``done``, always."""
    task, actions = Observation("x"), (Action("l", "abcd"[button] * 4), Action("user", "finish"))
    answers = (Observation(shown), Observation("done"))
    tokens, spans = list(_renderer().open(task)), []
    for number, (action, answer) in enumerate(zip(actions, answers, strict=True)):
        written = _renderer().write(action)
        spans.append(WrittenSpan(number, len(tokens), len(tokens) + len(written)))
        tokens += written
        if number == 0:
            tokens += _renderer().extend(answer)
    turns = (Turn(task, "", replace(actions[0], operation="press")), Turn(answers[0], "", actions[1]))
    row = TokenRow(tuple(tokens), tuple(spans), (-1.0,) * sum(span.stop - span.start for span in spans))
    return Trajectory(f"{button}/{shown}", f"{button}", "a@1", turns, answers[1], "finished", "sampled", (row,))


@cache
def _world() -> tuple[Transition, ...]:
    """Eight transitions: each button once, and the end after each."""
    return extract_transitions(
        [_trajectory(number, shown) for number, shown in enumerate(COLOURS)], _observations()
    ).transitions


_UNCERTAIN: dict[str, torch.Tensor] = {}
MakeModel = Callable[[], PreTrainedModel]


@pytest.fixture
def uncertain(tiny_model: Model, tmp_path_factory: pytest.TempPathFactory) -> MakeModel:
    """A model trained on a lamp that shows another colour three times in five, with low accuracy."""

    def make() -> PreTrainedModel:
        model = tiny_model(vocabulary=260)
        restore_weights(model, _UNCERTAIN)
        return model

    if not _UNCERTAIN:
        model = tiny_model(vocabulary=260)
        pairs = [(button, shown) for button in range(4) for shown in COLOURS]
        every = extract_transitions([_trajectory(*pair) for pair in pairs], _observations()).transitions + _world()
        settings = SftSettings(
            epochs=40, decay="none", batch_rows=20, optimiser=OptimiserSettings(learning_rate=1e-2)
        )
        run_sft(model, observation_rows(every), settings, RunOptions(0, tmp_path_factory.mktemp("uncertain")))
        _UNCERTAIN.update(copy_tensors(weight_tensors(model)))
    return make


def _predictor(model: PreTrainedModel) -> Predictor:
    return Predictor(LocalEngine(model, slots=64, max_length=64), _observations())


def _rate(model: PreTrainedModel) -> float:
    """The exact probability of a right prediction at temperature 1, over the buttons."""
    rows = observation_rows(_presses())
    return float(np.mean([np.exp(row.sum()) for row in Trainer(model, OptimiserSettings()).score(rows)]))


class _ConstantSampler:
    """A sampler that always writes the same observation."""

    def __init__(self, text: str) -> None:
        self._ids = _observations().write(Observation(text))
        self.refreshed = 0

    def refresh(self) -> None:
        self.refreshed += 1

    def release(self, session: str) -> None:
        pass

    async def generate(self, request: GenerationRequest) -> Generation:
        return Generation(self._ids, (0.0,) * len(self._ids), "stop", "weights")


class _FullContextSampler(_ConstantSampler):
    """A sampler whose context has no room."""

    async def generate(self, request: GenerationRequest) -> Generation:
        return Generation((), (), "length", "weights")


def _collect(
    sampler: _ConstantSampler, transitions: Sequence[Transition], settings: WorldModelSettings, *, seed: int
) -> PredictionCollect:
    usual = most_common_outputs(transitions)
    return PredictionCollect(
        Predictor(sampler, _observations()), transitions, settings, seed=seed, common=usual, facts={"of": "a test"}
    )


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))])
def test_a_world_is_learned_to_95_percent(uncertain: MakeModel, tmp_path: Path, seed: int) -> None:
    model = uncertain()
    predictor, usual = _predictor(model), most_common_outputs(_world())
    before = _rate(model)
    outcome = run_world_model(
        model,
        predictor,
        _world(),
        SETTINGS,
        RunOptions(seed, tmp_path, evaluate=lambda _: evaluate_lift(predictor, _presses(), usual, 0.9)),
    )
    assert before < 0.3
    assert _rate(model) >= 0.95
    assert (outcome.final_score, outcome.units) == (0.75, 70)
    first, *_, last = curve = read_curve(tmp_path / CURVE_FILE)
    assert [first.metrics[name] for name in ("held_out_usual", "score_tasks")] == [0.25, 4.0]
    assert [last.metrics[name] for name in ("held_out_right", "held_out_similarity")] == [1.0, 1.0]
    assert {point.metrics["groups"] for point in curve[1:]} == {4.0}, "the end, always 'done', is not trained on"


def test_predicting_the_most_common_output_has_no_lift() -> None:
    world, usual = _world(), most_common_outputs(_world())
    assert usual == {"l.press": "jet", "user.finish": "done"}
    says_jet = Predictor(_ConstantSampler("jet"), _observations())
    scores = score_by_tool(says_jet, world, usual, threshold=0.9)
    assert scores == {
        "l.press": PredictionScore(0.25, 0.25, 0.25, 4),
        "user.finish": PredictionScore(0.0, 1.0, 0.0, 4),
    }
    assert scores["l.press"].lift == 0.0
    assert merge_scores(scores.values()) == PredictionScore(0.125, 0.625, 0.125, 8)
    assert merge_scores(scores.values()).lift == -0.5
    unseen = score_by_tool(says_jet, world[:1], {}, threshold=0.9)
    assert unseen == {"l.press": PredictionScore(1.0, 0.0, 1.0, 1)}


def test_predictions_are_one_turn_trajectories_with_the_written_tokens() -> None:
    (press, *_) = world = _world()
    sampler = _ConstantSampler("jet")
    ((first, second), *_) = Predictor(sampler, _observations()).predict(world, 2, key="k", seed=1)
    written = _observations().write(Observation("jet"))
    assert first.trajectory.rows == (
        TokenRow(
            press.prompt_ids + written,
            (WrittenSpan(0, len(press.prompt_ids), len(press.prompt_ids) + 4),),
            (0.0,) * 4,
        ),
    )
    assert first.trajectory.id != second.trajectory.id
    assert (first.trajectory.task_id, first.trajectory.temperature) == (press.id, 1.0)
    assert first.trajectory.turns[0].text == "jet"
    assert first.similarity == second.similarity == 1.0
    assert sampler.refreshed == 1


@pytest.mark.parametrize(("threshold", "expected"), [(0.5, 1.0), (0.75, 1.0), (0.76, 0.0)])
def test_the_reward_is_one_from_the_similarity_threshold(threshold: float, expected: float) -> None:
    """Three of four words are right: 2·3/(4 + 4)."""
    (transition,) = extract_transitions([_trajectory(0, "a b c d")], _observations()).transitions[:1]
    settings = replace(SETTINGS, threshold=threshold, group_size=2)
    collect = _collect(_ConstantSampler("a b c x"), [transition], settings, seed=0)
    (group,) = collect(0)
    assert [member.turn_rewards for member in group.members] == [(expected,)] * 2
    assert group.task.family == "l.press"
    assert collect.metrics() == {
        "prediction_usual": 1.0,
        "prediction_lift": expected - 1.0,
        "prediction_similarity": 0.75,
    }


def test_the_transitions_of_an_iteration_depend_on_seed_and_iteration() -> None:
    def tasks(collect: PredictionCollect, iteration: int) -> list[str]:
        return [group.task.id for group in collect(iteration)]

    def collect_with(seed: int) -> PredictionCollect:
        settings = replace(SETTINGS, transitions_per_iteration=3, group_size=2)
        return _collect(_ConstantSampler("jet"), _world(), settings, seed=seed)

    straight = [tasks(collect_with(5), iteration) for iteration in range(6)]
    assert [len(names) for names in straight] == [3, 3, 2, 3, 3, 2]
    for epoch in (straight[:3], straight[3:]):
        assert sorted(name for names in epoch for name in names) == sorted(item.id for item in _world())
    assert straight[:3] != straight[3:]
    again = collect_with(5)
    assert [tasks(again, iteration) for iteration in (4, 0, 2)] == [straight[place] for place in (4, 0, 2)]
    assert [tasks(collect_with(6), iteration) for iteration in range(6)] != straight
    rounds = [again(0), again.refill(0, 1), again.refill(0, 2)]
    texts = {item.id: item.text for item in _world()}
    came = [texts[group.task.id] for groups in rounds for group in groups]
    assert again.metrics()["prediction_usual"] == pytest.approx(sum(text in {"jet", "done"} for text in came) / 9)
    assert again.metrics()["prediction_similarity"] == pytest.approx(came.count("jet") / 9)
    names = [member.trajectory.id for groups in rounds for group in groups for member in group.members]
    assert len(names) == len(set(names)) == 18
    assert tasks(collect_with(5), 0) == [group.task.id for group in rounds[0]]
    assert [group.task.id for group in collect_with(5).refill(0, 2)] == [group.task.id for group in rounds[2]]


def test_transitions_that_the_model_predicts_are_dropped() -> None:
    predictor, world = Predictor(_ConstantSampler("red"), _observations()), _world()
    remaining = select_unknown(predictor, world, 0.9, EasySettings(rate=1.0, group_size=3))
    assert [item.text for item in remaining] == ["jet", "done", "done", "sky", "done", "tan", "done"]
    with pytest.raises(TrainingError, match="predicts all 1 transitions right in at least 50% of 3 predictions"):
        select_unknown(predictor, [item for item in world if item.text == "red"], 0.9, EasySettings(0.5, 3))


class _InterruptedError(Exception):
    """Stops a run in a test."""


EVERYTHING = WorldModelSettings(
    transitions_per_iteration=3,
    group_size=4,
    common_ratio=None,
    warm_up=SftSettings(epochs=2, decay="none", batch_rows=3),
    minibatches=2,
    iterations=5,
    objective=ObjectiveSettings(kl=KlSettings(0.05, target=0.01, horizon=500)),
    advantage=AdvantageSettings(),
    dynamic_sampling=DynamicSamplingSettings(max_rounds=2),
    evaluate_every=2,
    checkpoint_every=2,
    keep="final",
)
"""A warm-up, further rounds, and a coefficient that is remembered."""


@pytest.mark.parametrize("stop_at", [0, 1, 3, 4])
def test_a_resumed_run_has_bitwise_the_weights_of_an_uninterrupted_one(
    uncertain: MakeModel, tmp_path: Path, stop_at: int
) -> None:
    trained, held_out = _world()[2:], _world()[:2]
    undisturbed, interrupted, resumed = uncertain(), uncertain(), uncertain()

    def run(model: PreTrainedModel, name: str, stop: int | None = None) -> object:
        def stop_run(point: CurvePoint) -> None:
            if point.units == stop:
                raise _InterruptedError

        return run_world_model(
            model,
            _predictor(model),
            trained,
            EVERYTHING,
            RunOptions(3, tmp_path / name, evaluate=held_out, progress=stop_run),
        )

    expected = run(undisturbed, "a")
    with pytest.raises(_InterruptedError):
        run(interrupted, "b", stop_at)
    assert run(resumed, "b") == expected
    ours = weight_tensors(resumed)
    assert all(torch.equal(tensor, ours[name]) for name, tensor in weight_tensors(undisturbed).items())
    before = weight_tensors(uncertain())
    assert any(not torch.equal(tensor, ours[name]) for name, tensor in before.items())


def test_a_run_with_other_transitions_or_another_threshold_is_refused(uncertain: MakeModel, tmp_path: Path) -> None:
    settings = replace(EVERYTHING, warm_up=None, evaluate_every=None)

    def run(transitions: Sequence[Transition], chosen: WorldModelSettings) -> None:
        model = uncertain()
        run_world_model(model, _predictor(model), transitions, chosen, RunOptions(0, tmp_path))

    run(_world(), settings)
    with pytest.raises(TrainingError, match="transitions is"):
        run(_world()[1:], settings)
    with pytest.raises(TrainingError, match="world model is"):
        run(_world(), replace(settings, threshold=0.8))
    assert "WordSimilarity(exact_words=4)" in read_description(tmp_path).identity["similarity"]


def test_a_warm_up_makes_the_model_write_observations(tiny_model: Model, tmp_path: Path) -> None:
    """Without correct predictions there is no signal; after a warm-up the same training has one."""
    short = replace(SETTINGS, iterations=1, evaluate_every=None)
    warm_up = SftSettings(epochs=80, decay="none", batch_rows=4, optimiser=OptimiserSettings(learning_rate=1e-2))
    for name, settings, expected in (
        ("cold", short, False),
        ("warm", replace(short, warm_up=warm_up, easy=None), True),
    ):
        model = tiny_model(vocabulary=260)
        run_world_model(model, _predictor(model), _presses(), settings, RunOptions(0, tmp_path / name))
        (point,) = read_curve(tmp_path / name / CURVE_FILE)
        assert (point.metrics["mean_return"] > 0.5) == expected  # type: ignore[operator]
        assert (_rate(model) > 0.5) == expected


def test_rehearsal_in_the_warm_up_preserves_acting(uncertain: MakeModel, tmp_path: Path) -> None:
    """Four observations, and the four demonstrations that the model must still write."""
    short = replace(
        SETTINGS,
        warm_up=SftSettings(epochs=50, decay="none", batch_rows=4, optimiser=OptimiserSettings(learning_rate=5e-3)),
        easy=None,
        iterations=1,
        evaluate_every=None,
    )
    acting = supervised_rows(_trajectory(number, shown) for number, shown in enumerate(COLOURS))
    losses = {}
    for name, rehearsal in (("without", ()), ("with", acting)):
        model = uncertain()
        run_sft(model, acting, SftSettings(decay="none", epochs=30), RunOptions(0, tmp_path / name / "acting"))
        losses["before", name] = held_out_loss(Trainer(model, OptimiserSettings()), acting)
        run_world_model(
            model, _predictor(model), _presses(), short, RunOptions(0, tmp_path / name), rehearsal=rehearsal
        )
        losses["after", name] = held_out_loss(Trainer(model, OptimiserSettings()), acting)
        assert _rate(model) > 0.7
    assert losses["after", "without"] > 2 * losses["before", "without"]
    assert losses["after", "with"] <= losses["before", "with"]


def test_unusable_calls_are_refused_with_the_cure(uncertain: MakeModel, tmp_path: Path) -> None:
    model = uncertain()
    predictor = Predictor(_ConstantSampler("jet"), _observations())

    def run(
        transitions: Sequence[Transition], who: Predictor = predictor, evaluate: Any = None, **further: Any
    ) -> None:
        run_world_model(model, who, transitions, SETTINGS, RunOptions(0, tmp_path, evaluate=evaluate), **further)

    ends = [item for item in _world() if item.tool == "user.finish"]
    with pytest.raises(TrainingError, match="there are no transitions to train on"):
        run([], evaluate=lambda _: 0.0)
    with pytest.raises(
        TrainingError, match=r"each tool of the 4 transitions has one output only: there is nothing to predict"
    ):
        run(ends, evaluate=lambda _: 0.0)
    with pytest.raises(TrainingError, match="4 of 4 held-out transitions, such as '0/jet/0'"):
        run(_world(), evaluate=_presses())
    with pytest.raises(TrainingError, match="evaluate_every=35 with no evaluate function"):
        run(_world())
    with pytest.raises(
        TrainingError, match=r"not one of 32 predictions could be written, the first for: token_limit\."
    ):
        run(_world(), Predictor(_FullContextSampler(""), _observations()), evaluate=lambda _: 0.0)
    with pytest.raises(TrainingError, match=r"none of the 2 held-out transitions is of a trained tool \('l\.press"):
        run([*_presses(), *ends[:2]], evaluate=ends[2:])
    rehearsal = observation_rows(ends)
    with pytest.raises(TrainingError, match="4 rows to rehearse would do nothing with warm_up=None"):
        run(_world(), evaluate=lambda _: 0.0, rehearsal=rehearsal)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"threshold": 0.4}, "threshold: input should be greater than or equal to 0.5, got 0.4"),
        ({"threshold": 1.1}, "threshold: input should be less than or equal to 1, got 1.1"),
        ({"group_size": 1}, "group_size: input should be greater than or equal to 2, got 1"),
        (
            {"transitions_per_iteration": 0},
            "transitions_per_iteration: input should be greater than or equal to 1, got 0",
        ),
        ({"common_ratio": -1.0}, "common_ratio: input should be greater than or equal to 0, got -1.0"),
        ({"advantage": AdvantageSettings("turn")}, "a prediction is a single one"),
        ({"advantage": AdvantageSettings("turn", is_shaped=True)}, "predictions have no potentials"),
    ],
)
def test_invalid_world_model_settings_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        WorldModelSettings(**changes)  # type: ignore[arg-type]


def test_easy_settings_are_checked_together() -> None:
    with pytest.raises(
        ConfigError,
        match=r"(?s)rate: input should be greater than 0, got 0.*group_size: input should be greater than or equal",
    ):
        EasySettings(rate=0, group_size=0)
