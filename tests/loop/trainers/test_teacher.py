"""The teacher of a run: compared with the model in training, here or on a server, priced, and trained on."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import BPE

from benchmarks.errands import ENVIRONMENT, MODEL
from tests.models.engine_server import serving
from tests.models.scoring_server import ScoringEngine, scoring_engine
from upturn.config import OptimiserSettings
from upturn.errors import ConfigError, ModelError
from upturn.loop.run.context import Context
from upturn.loop.trainers.algorithms import distillation, grpo
from upturn.loop.trainers.registry import parse_full_config
from upturn.loop.trainers.teacher import (
    NO_COST,
    check_teacher,
    count_parameters,
    open_teacher,
    teacher_cost,
    token_difference,
)
from upturn.loop.trainers.train_command import run_training
from upturn.models import load_local, model_folder
from upturn.records import AgentVersion
from upturn.training import FloatArray, TeacherSettings, TrainingRow
from upturn.training.optimisation import DistributionTeacher
from upturn.training.runs import read_curve

NANO = AgentVersion("nano", "base", "local_model", model=MODEL)
RUN: dict[str, Any] = {
    "agents": [{"name": "nano", "kind": "local_model", "model": MODEL, "temperature": 1.0}],
    "run": {"threads": 1},
    "environment": {"name": ENVIRONMENT, "max_turns": 4, "max_tokens": 160, "max_action_tokens": 32},
    "tasks": {"heldout_count": 30, "families": ["mail_file"]},
}
ROUND: dict[str, Any] = {
    "iterations": 2,
    "tasks_per_iteration": 2,
    "group_size": 2,
    "evaluate_every": None,
    "keep": "final",
}


@cache
def _model() -> Any:
    return load_local(MODEL).model


def _logprobs(ids: Sequence[int]) -> list[float]:
    """Of every token but the first, in plain torch."""
    tokens = torch.tensor([list(ids)])
    with torch.no_grad():
        logprobs = _model()(tokens).logits[0, :-1].log_softmax(-1)
    values: list[float] = logprobs.gather(1, tokens[0, 1:, None])[:, 0].tolist()
    return values


@pytest.fixture
def server() -> Iterator[ScoringEngine]:
    """Nano as a teacher, with its own texts of tokens."""
    tokenizer = Tokenizer.from_file(str(model_folder(MODEL) / "tokenizer.json"))
    engine = scoring_engine(_logprobs, lambda token: tokenizer.decode([token], skip_special_tokens=False))
    with serving(engine):
        yield engine


def _remote(server: ScoringEngine, **changes: Any) -> TeacherSettings:
    return TeacherSettings("teacher", url=server.url, tokenizer=MODEL, **changes)


def _scores(context: Context, settings: TeacherSettings, rows: Sequence[TrainingRow]) -> Sequence[FloatArray]:
    teacher = open_teacher(context, NANO, settings, OptimiserSettings())
    assert not isinstance(teacher, DistributionTeacher)
    return teacher(rows)


def _rows() -> list[TrainingRow]:
    """Written tokens with a gap, at the start, and before an unwritten end."""
    rng = np.random.default_rng(0)
    return [
        TrainingRow(
            str(index),
            rng.integers(10, 200, 12),
            np.array(positions, dtype=np.int64),
            np.zeros(len(positions), dtype=np.float32),
            np.full(len(positions), -1.0, dtype=np.float32),
        )
        for index, positions in enumerate(([4, 5, 9], [1], [3, 4, 5, 6]))
    ]


@pytest.mark.parametrize("dialect", ["vllm", "sglang", "openai"])
def test_a_server_and_a_local_model_give_the_same_scores(
    desk: ModuleType, tmp_path: Path, server: ScoringEngine, dialect: Any
) -> None:
    rows = _rows()
    with desk.opened(tmp_path, parse_full_config(RUN)) as context:
        local = _scores(context, TeacherSettings(MODEL), rows)
        settings = _remote(server, dialect=dialect)
        check_teacher(context, settings)
        remote = _scores(context, settings, rows)
    for row, here, there in zip(rows, local, remote, strict=True):
        expected = np.array(_logprobs(row.token_ids.tolist()))[row.positions - 1]
        assert np.abs(there - expected).max() < 1e-5
        assert np.abs(here - expected).max() < 1e-4
    assert max(len(body.get("prompt") or body["input_ids"]) for _, _, body in server.requests) <= 10


def test_rows_that_the_server_refuses_are_missing(desk: ModuleType, tmp_path: Path, server: ScoringEngine) -> None:
    server.refusals.append((400, "too long", {}))
    with desk.opened(tmp_path, parse_full_config(RUN)) as context:
        scores = _scores(context, _remote(server, concurrency=1), _rows())
    assert [bool(np.isnan(score).all()) for score in scores] == [True, False, False]
    assert [len(score) for score in scores] == [3, 1, 4]
    assert not np.isnan(scores[2]).any()


def test_a_server_that_scores_nothing_is_refused_before_training(
    desk: ModuleType, tmp_path: Path, server: ScoringEngine
) -> None:
    with (
        desk.opened(tmp_path, parse_full_config(RUN)) as context,
        pytest.raises(ModelError, match="The model `other` does not exist"),
    ):
        check_teacher(context, replace(_remote(server), model="other"))


def _bpe(merges: Sequence[tuple[str, str]], words: Sequence[str] = ("ab", "bc", "abc")) -> Tokenizer:
    vocabulary = {token: number for number, token in enumerate(("<|end|>", "a", "b", "c", *words))}
    return Tokenizer(BPE(vocabulary, list(merges), unk_token="<|end|>"))


def test_tokenizers_are_compared_by_their_tokens() -> None:
    own = Tokenizer.from_file(str(model_folder(MODEL) / "tokenizer.json"))
    assert token_difference(own, Tokenizer.from_str(own.to_str())) is None
    first, second = ("a", "b"), ("b", "c")
    one = _bpe([first, second])
    assert (
        token_difference(one, _bpe([first, second], ("bc", "ab", "abc"))) == "token 4 is 'ab' here and 'bc' there"
    )
    larger = _bpe([first, second], ("ab", "bc", "abc", "ca"))
    assert token_difference(one, larger) == "it has 8 tokens, 7 are known here"


def test_equal_tokens_with_other_merges_are_another_tokenizer() -> None:
    words = ("hi", "iv", "ve")
    vocabulary = {token: number for number, token in enumerate(("?", "h", "i", "v", "e", *words))}

    def tokenizer(merges: list[tuple[str, str]]) -> Tokenizer:
        return Tokenizer(BPE(vocabulary, merges, unk_token="?"))

    one, other = tokenizer([("h", "i"), ("v", "e")]), tokenizer([("i", "v"), ("v", "e"), ("h", "i")])
    difference = token_difference(one, other)
    assert difference is not None and difference.startswith("'Move mail 27 to the archive.' is [")


def test_a_teacher_with_other_tokens_is_refused_by_name(desk: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    shutil.copytree(model_folder(MODEL), folder)
    file = folder / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.add_tokens(["<extra>"])
    tokenizer.save(str(file))
    config = parse_full_config({**RUN, "distillation": {"teacher": {"model": str(folder)}}})
    with desk.opened(tmp_path / "run", config) as context, pytest.raises(ConfigError) as caught:
        distillation.ready(context)
    (problem,) = caught.value.problems
    assert problem.startswith(f"teacher {str(folder)!r} has another tokenizer than {MODEL!r}")
    config = parse_full_config({**RUN, "grpo": {"teacher": {"model": str(tmp_path)}}})
    with (
        desk.opened(tmp_path / "run2", config) as context,
        pytest.raises(ConfigError, match=r"tokenizer\.json' does not exist, so a teacher's tokens cannot be"),
    ):
        grpo.ready(context)


def test_a_plan_counts_a_local_teacher(desk: ModuleType, tmp_path: Path) -> None:
    assert count_parameters(MODEL) == sum(parameter.numel() for parameter in _model().parameters())
    plans = []
    for name, teacher in (("plain", None), ("taught", {"model": MODEL, "weights": "bfloat16"})):
        config = parse_full_config({**RUN, "grpo": {**ROUND, "teacher": teacher}})
        with desk.opened(tmp_path / name, config) as context:
            plans.append(grpo.plan(context, NANO))
    plain, taught = plans
    settings = TeacherSettings(MODEL)
    costs = [
        teacher_cost(NANO, replace(settings, estimator=kind), passes=3).scorings for kind in ("sampled", "full")
    ]
    assert costs == [1.0, 3.0]
    assert teacher_cost(NANO, TeacherSettings("t", url="http://x", tokenizer=MODEL), 3) == NO_COST
    assert taught.memory_bytes - plain.memory_bytes == pytest.approx(2 * count_parameters(MODEL), rel=0.2)


def test_whole_distributions_of_a_local_teacher_reach_the_trainer(desk: ModuleType, tmp_path: Path) -> None:
    teacher = {"model": MODEL, "estimator": "full"}
    config = parse_full_config({**RUN, "grpo": {**ROUND, "iterations": 1, "teacher": teacher}})
    with pytest.raises(ConfigError, match=r"teacher\.estimator = 'full' needs a single process"):
        grpo.check_ranks(config)
    with desk.opened(tmp_path / "run", config) as context:
        run_training(context, "grpo")
    (curve,) = (tmp_path / "run").rglob("curve.jsonl")
    (point,) = read_curve(curve)
    assert point.metrics["teacher_kl"] == pytest.approx(0.0, abs=1e-5)  # the teacher is the model itself
    assert point.metrics["trained_rows"] == point.metrics["trajectories"] == 4.0


def test_a_local_teacher_has_one_trainable_vector(desk: ModuleType, tmp_path: Path) -> None:
    """So that no gradients of its size are ever computed."""
    with desk.opened(tmp_path, parse_full_config(RUN)) as context:
        teacher = open_teacher(context, NANO, TeacherSettings(MODEL, estimator="full"), OptimiserSettings())
    assert isinstance(teacher, DistributionTeacher)
    (trained,) = [parameter for parameter in teacher.model.parameters() if parameter.requires_grad]
    assert trained.dim() == 1


def test_a_whole_run_learns_from_a_teacher_on_a_server(
    desk: ModuleType, tmp_path: Path, server: ScoringEngine
) -> None:
    """The probe before the run, then one request for each of four trajectories in two iterations."""
    teacher = {"model": "teacher", "url": server.url, "tokenizer": MODEL, "dialect": "sglang"}
    config = parse_full_config({**RUN, "distillation": {**ROUND, "teacher": teacher}})
    with desk.opened(tmp_path / "run", config) as context:
        result = run_training(context, "distillation")
    assert result.candidate.parent == "nano@base"
    (curve,) = (tmp_path / "run").rglob("curve.jsonl")
    points = [point.metrics for point in read_curve(curve)]
    assert [point["teacher_missing"] for point in points] == [0.0, 0.0]
    assert points[0]["teacher_kl"] == pytest.approx(0.0, abs=1e-4)  # the teacher is the model itself
    paths = [path for path, _, _ in server.requests]
    assert paths == ["/generate"] * (1 + 4 + 4)
