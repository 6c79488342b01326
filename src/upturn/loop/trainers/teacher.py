"""The teacher of on-policy distillation: checked, loaded, and priced for a plan.

Not here: what its scores count for (``training.algorithms``), and requests to a server (``models.teacher``).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from upturn.config import OptimiserSettings
from upturn.errors import ConfigError
from upturn.loop.run import Context
from upturn.loop.trainers.distributed_training import Rank0, rank0_function
from upturn.loop.trainers.training_plan import Overhead, Plan
from upturn.models import RemoteTeacher, Scoring, ScoringSettings, find_folder, load_local, model_folder
from upturn.records import AgentVersion
from upturn.training import FloatArray, Scorer, TeacherSettings, TrainingRow

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedModel

    from upturn.training.optimisation import DistributionTeacher

_PROBES = (
    "Move mail 27 to the archive.",
    "naïve façade — 東京 🙂\n\tx = {'a': [1, 2.5]}  # done",
    "      \n\n<|end|>",
)
"""Texts that must be encoded alike: with different merges one text can have different tokens of one vocabulary."""
_FLOAT_BYTES = {"float32": 4, "bfloat16": 2}


def open_teacher(
    context: Context, parent: AgentVersion, settings: TeacherSettings, optimiser: OptimiserSettings
) -> "Scorer | DistributionTeacher":
    """The teacher of a run that trains ``parent``; ``optimiser``: how rows are batched and computed here.

    Raises ConfigError for a teacher with other tokens than the parent's model, ModelError where it cannot be
    loaded.
    """
    check_tokens(parent, settings)
    if settings.url:
        remote = _remote(context, parent, settings)
        return lambda rows: score_remotely(remote, rows)
    from upturn.training.optimisation import DistributionTeacher, Trainer

    model = load_local(settings.model, precision=settings.weights, device=context.runtime.device).model
    _freeze(model)
    return (
        DistributionTeacher(model, optimiser) if settings.estimator == "full" else Trainer(model, optimiser).score
    )


def teacher_argument(
    context: Context, parent: AgentVersion, settings: TeacherSettings, optimiser: OptimiserSettings
) -> "Rank0 | DistributionTeacher":
    """``open_teacher`` as an argument of a run: scores are computed on rank 0, whole distributions in the only
    process.
    """
    from upturn.training.optimisation import DistributionTeacher

    teacher = open_teacher(context, parent, settings, optimiser)
    return teacher if isinstance(teacher, DistributionTeacher) else rank0_function("teacher", teacher)


def _freeze(model: "PreTrainedModel") -> None:
    """Leaves one vector trainable, the last one: a pass with shared prefixes is compared with a plain one on a
    gradient too, and gradients of a whole large teacher would need as much memory as it does."""
    vectors = [parameter for parameter in model.parameters() if parameter.dim() == 1]
    for parameter in model.parameters():
        parameter.requires_grad_(parameter is vectors[-1])


def check_teacher(context: Context, settings: TeacherSettings) -> None:
    """Raises ConfigError for a teacher with other tokens than the model that will be trained, ModelError for a
    server that does not score tokens.
    """
    agent = context.config.improved_agent
    assert agent is not None  # something is trained
    parent = context.router.registry.served(agent.name).incumbent
    check_tokens(parent, settings)
    if settings.url:
        probe = _tokenizer(model_folder(parent.model)).encode(_PROBES[0], add_special_tokens=False).ids
        asyncio.run(_remote(context, parent, settings).score([Scoring(tuple(probe), 1)]))


def score_remotely(teacher: RemoteTeacher, rows: Sequence[TrainingRow]) -> list[FloatArray]:
    """The teacher's log-probs of the written tokens; NaN for those of requests that failed, and where it has none.

    Raises ModelError where every request failed.
    """
    requests = [
        Scoring(tuple(row.token_ids[: row.computed_length + 1].tolist()), int(row.positions[0])) for row in rows
    ]
    scores = list[FloatArray]()
    for row, answer in zip(rows, asyncio.run(teacher.score(requests)), strict=True):
        values = np.full(len(row.positions), np.nan, dtype=np.float32)
        if not answer.problem:
            values = np.asarray(answer.logprobs, dtype=np.float32)[row.positions - row.positions[0]]
        scores.append(values)
    return scores


def _remote(context: Context, parent: AgentVersion, settings: TeacherSettings) -> RemoteTeacher:
    tokenizer = _tokenizer(model_folder(parent.model))
    server = ScoringSettings(
        settings.url,
        settings.model,
        settings.dialect,
        settings.concurrency,
        settings.timeout_seconds,
    )
    return RemoteTeacher(
        server,
        text_of=lambda token: tokenizer.decode([token], skip_special_tokens=False),
        api_key=context.api_keys.of(settings),
    )


def check_tokens(parent: AgentVersion, settings: TeacherSettings) -> None:
    """Raises ConfigError unless the teacher's tokenizer has the same tokens, with the same ids, as the parent's.

    Names prove nothing: models of one family differ, and equal vocabularies with different merges split a text
    differently.
    """
    name = settings.tokenizer or settings.model
    student, other = _tokenizer(model_folder(parent.model)), _tokenizer(model_folder(name))
    problem = token_difference(student, other)
    if problem is not None:
        raise ConfigError(
            [
                f"teacher {name!r} has another tokenizer than {parent.model!r}, so it would score other text "
                f"than was written: {problem}; take a teacher of the same family, or train on its successes (sft)"
            ]
        )


def token_difference(student: "Tokenizer", other: "Tokenizer") -> str | None:
    """The first difference between two tokenizers, as words; None = they have the same tokens."""
    mine, theirs = student.get_vocab(), other.get_vocab()
    for token, number in sorted(mine.items(), key=lambda item: item[1]):
        if theirs.get(token) != number:
            return f"token {number} is {token!r} here and {other.id_to_token(number)!r} there"
    if len(mine) != len(theirs):
        return f"it has {len(theirs)} tokens, {len(mine)} are known here"
    for text in _PROBES:
        here, there = (tokenizer.encode(text, add_special_tokens=False).ids for tokenizer in (student, other))
        if here != there:
            return f"{text!r} is {here} here and {there} there"
    return None


def _tokenizer(folder: Path) -> "Tokenizer":
    from tokenizers import Tokenizer

    file = folder / "tokenizer.json"
    if not file.is_file():
        raise ConfigError([f"{str(file)!r} does not exist, so a teacher's tokens cannot be compared with it"])
    tokenizer: Tokenizer = Tokenizer.from_file(str(file))
    return tokenizer


class TeacherCost(NamedTuple):
    """The cost of a teacher in a plan."""

    bytes: int
    """Its weights in this process."""
    scorings: float
    """Its passes over a row, in passes forward of the trained model."""


NO_COST = TeacherCost(0, 0.0)
"""Of no teacher, and of one on a server, whose cost is not known here."""


def teacher_cost(parent: AgentVersion, settings: TeacherSettings | None, passes: int) -> TeacherCost:
    """The cost of this teacher for the training of ``parent``, on each trajectory ``passes`` times.

    Whole distributions are computed in each pass, scores once.
    """
    if settings is None or settings.url:
        return NO_COST
    student, other = count_parameters(parent.model), count_parameters(settings.model)
    return TeacherCost(
        other * _FLOAT_BYTES[settings.weights], other / student * (passes if settings.estimator == "full" else 1)
    )


def check_one_process(settings: TeacherSettings | None) -> None:
    """Raises ConfigError for a teacher that several processes cannot share."""
    if settings is not None and settings.estimator == "full":
        raise ConfigError(
            ["teacher.estimator = 'full' needs a single process: take 'sampled', or start one process"]
        )


def with_teacher(overhead: Overhead, cost: TeacherCost) -> Overhead:
    """The overhead of a run with this teacher."""
    return replace(overhead, scorings=overhead.scorings + cost.scorings)


def add_memory(plan: Plan, cost: TeacherCost) -> Plan:
    """The plan with the teacher's weights in memory."""
    return replace(plan, memory_bytes=plan.memory_bytes + cost.bytes)


def count_parameters(model: str) -> int:
    """The number of weights in a model's files, from their headers; for an adapter, its base's."""
    from safetensors import safe_open

    folder = model_folder(model)
    files = sorted((folder if folder.is_dir() else find_folder(model)).glob("*.safetensors"))
    total = 0
    for file in files:
        with safe_open(file, framework="np") as tensors:
            total += sum(_product(tensors.get_slice(name).get_shape()) for name in tensors.keys())  # noqa: SIM118
    return max(total, 1)


def _product(shape: Sequence[int]) -> int:
    result = 1
    for size in shape:
        result *= size
    return result
