"""Losses beside TRL's on the same batch: its SFT, DPO and KTO trainers compute theirs, our trainer ours. Needs TRL.

Both see the same few completions of the same prompts with the same random weights, and nobody takes a step. A gap
is relative: of the loss to TRL's loss, of the gradient as the 2-norm of the difference to that of TRL's gradient.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer, KTOConfig, KTOTrainer, SFTConfig, SFTTrainer

from benchmarks.worker_process import Channel, Settings, serve_steps
from benchmarks.workloads import Subject, build_model
from upturn.config import OptimiserSettings
from upturn.records import Observation, PreferencePair, RatedTrajectory, TokenRow, Trajectory, Turn, WrittenSpan
from upturn.training import FloatArray, Minibatch, TrainingRow, supervised_rows, turn_rows
from upturn.training.algorithms.dpo import PairBatches
from upturn.training.algorithms.kto import KtoSettings, RatedBatches
from upturn.training.algorithms.sft import SupervisedSteps
from upturn.training.data import pair_rows, refer
from upturn.training.optimisation import Trainer
from upturn.training.pair_settings import PairObjectiveSettings

END = 0
"""TRL ends every completion with the token that ends a text."""
VOCABULARY = 20
PROMPTS = ((1, 5, 2, 9, 9, 3, 4, 8, 12, 13, 14, 15, 16, 17, 18, 2, 3), (1, 6, 2), (1, 7, 8, 2))
GOOD = ((7, 9, END), (4, 4, 6, 11, END), (9, END))
BAD = ((5, END), (4, 4, 3, END), (13, 12, 11, 10, END))
_STILL = OptimiserSettings(learning_rate=1e-12, max_grad_norm=1e9)


class Gap(NamedTuple):
    """How far we are from TRL."""

    loss: float
    gradient: float


class Pair(NamedTuple):
    """The model that is trained and the one that preferences are measured from."""

    model: PreTrainedModel
    reference: PreTrainedModel


def losses_side(channel: Channel, settings: Settings) -> None:
    """Answers the gaps of each loss; there are no steps. Settings: ``threads``."""
    threads = settings["threads"]
    assert isinstance(threads, int)
    torch.set_num_threads(threads)
    pair = Pair(*(build_model(Subject(width=32, layers=2, vocabulary=VOCABULARY, seed=seed)) for seed in (2, 1)))
    with tempfile.TemporaryDirectory() as folder:
        gaps = {
            "sft": sft_gap(pair.model, Path(folder)),
            "dpo": dpo_gap(pair, PairObjectiveSettings(), {"loss_type": ["sigmoid"]}, Path(folder)),
            "kto": kto_gap(pair, Path(folder)),
        }
    serve_steps(channel, {name: gap._asdict() for name, gap in gaps.items()}, dict)


def sft_gap(model: PreTrainedModel, folder: Path) -> Gap:
    """Cross-entropy of the good completions."""
    columns = {"prompt": PROMPTS, "completion": GOOD}
    trainer = SFTTrainer(
        model=model,
        args=SFTConfig(**_config(folder, per_device_train_batch_size=len(GOOD))),
        train_dataset=Dataset.from_dict({name: [_words(each) for each in rows] for name, rows in columns.items()}),
        processing_class=_tokenizer(),
    )
    loss, gradient = _theirs(trainer, model)
    rows = supervised_rows([_attempt(place, written, "good") for place, written in enumerate(GOOD)])
    (minibatch,) = SupervisedSteps(rows, len(rows), 0).unit(0).minibatches
    return _gap(model, minibatch, loss, gradient)


def dpo_gap(pair: Pair, ours: PairObjectiveSettings, theirs: dict[str, Any], folder: Path) -> Gap:
    """Pairs of a good and a bad completion; ``theirs``: TRL's names for the same settings."""
    columns = {"prompt": PROMPTS, "chosen": GOOD, "rejected": BAD}
    trainer = DPOTrainer(
        model=pair.model,
        ref_model=pair.reference,
        args=DPOConfig(**_config(folder, per_device_train_batch_size=len(GOOD), **theirs)),
        train_dataset=Dataset.from_dict({name: [_words(each) for each in rows] for name, rows in columns.items()}),
        processing_class=_tokenizer(),
    )
    loss, gradient = _theirs(trainer, pair.model)
    pairs = [
        PreferencePair(str(place), _attempt(place, good, "good"), _attempt(place, bad, "bad"), "group")
        for place, (good, bad) in enumerate(zip(GOOD, BAD, strict=True))
    ]
    found = refer(pair_rows(pairs, ours, "initial"), Trainer(pair.reference, _STILL).score)
    return _gap(pair.model, PairBatches(found, len(GOOD), ours).minibatch(range(len(GOOD))), loss, gradient)


def kto_gap(pair: Pair, folder: Path) -> Gap:
    """With the mismatched continuations that TRL takes: those of the attempt before, in the order of its data."""
    written, places = [*GOOD, *BAD], [*range(len(GOOD)), *range(len(BAD))]
    settings = KtoSettings(beta=0.5, desirable_weight=1.5, undesirable_weight=0.8)
    columns = {
        "prompt": [_words(PROMPTS[place]) for place in places],
        "completion": [_words(each) for each in written],
        "label": [place < len(GOOD) for place in range(len(written))],
    }
    weights = {"desirable_weight": settings.desirable_weight, "undesirable_weight": settings.undesirable_weight}
    trainer = KTOTrainer(
        model=pair.model,
        ref_model=pair.reference,
        args=KTOConfig(**_config(folder, per_device_train_batch_size=len(written), beta=settings.beta, **weights)),
        train_dataset=Dataset.from_dict(columns),
        processing_class=_tokenizer(),
    )
    loss, gradient = _theirs(trainer, pair.model)
    rated = [
        RatedTrajectory(_attempt(place, each, str(number)), number < len(GOOD))
        for number, (place, each) in enumerate(zip(places, written, strict=True))
    ]
    attempts = [turn_rows(each.trajectory, weight=1.0 if each.is_desirable else -1.0) for each in rated]
    unrelated: list[TrainingRow] = []
    for place, (before, _) in zip(places, pairwise([written[-1], *written]), strict=True):
        (row,) = turn_rows(_attempt(place, before, "mixed"), weight=1.0)
        unrelated.append(replace(row, trajectory_id=f"mixed {len(unrelated)}"))
    # The order in which KTO asks: the reference for attempts and for mixed ones, then the model for mixed ones.
    scorers = iter([Trainer(pair.reference, _STILL)] * 2 + [Trainer(pair.model, _STILL)])

    def scorer(rows: Sequence[TrainingRow]) -> Sequence[FloatArray]:
        return next(scorers).score(rows)

    unit = RatedBatches(attempts, unrelated, settings, scorer=scorer).unit(list(range(len(written))))
    assert unit.metrics["reference_point"] > 0, "else the mismatched continuations would not matter"
    (minibatch,) = unit.minibatches
    return _gap(pair.model, minibatch, loss, gradient)


def _words(tokens: Sequence[int]) -> str:
    return "".join(f" t{token}" for token in tokens)


def _tokenizer() -> PreTrainedTokenizerFast:
    """One word a token."""
    tokenizer = Tokenizer(WordLevel({f"t{token}": token for token in range(VOCABULARY)}, unk_token="t19"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="t0", eos_token="t0", unk_token="t19")


def _attempt(place: int, written: Sequence[int], name: str) -> Trajectory:
    start, tokens = len(PROMPTS[place]), (*PROMPTS[place], *written)
    row = TokenRow(tokens, (WrittenSpan(0, start, len(tokens)),), (-1.0,) * len(written))
    return Trajectory(
        id=f"{name}{place}",
        task_id=str(place),
        agent_version="subject@1",
        turns=(Turn(Observation(""), "", None),),
        final_observation=Observation(""),
        outcome="finished",
        origin="sampled",
        rows=(row,),
        temperature=1.0,
    )


def _config(folder: Path, **changes: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "output_dir": str(folder),
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "report_to": "none",
        "disable_tqdm": True,
        "max_length": None,
    }
    return plain | changes


def _theirs(trainer: Any, model: PreTrainedModel) -> tuple[float, list[Tensor]]:
    """TRL's loss and gradient of the one batch there is."""
    model.train()
    (batch,) = trainer.get_train_dataloader()
    loss = trainer.compute_loss(model, batch)
    parameters = [each for each in model.parameters() if each.requires_grad]
    return float(loss.detach()), list(torch.autograd.grad(loss, parameters))


def _gap(model: PreTrainedModel, minibatch: Minibatch, loss: float, gradient: Sequence[Tensor]) -> Gap:
    step = Trainer(model, _STILL).step(minibatch)
    own = [each.grad for each in model.parameters() if each.requires_grad]
    distance = sum(
        float((ours - each).square().sum()) for ours, each in zip(own, gradient, strict=True) if ours is not None
    )
    whole = sum(float(each.square().sum()) for each in gradient)
    return Gap(abs(step.loss - loss) / abs(loss), (distance / whole) ** 0.5)
