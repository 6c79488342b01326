"""Losses and gradients of TRL's SFT, DPO and KTO trainers and of the library's on the same batch. Needs TRL.

Both get the same few completions of the same prompts with the same random weights, and make no step. Gaps are
relative: of the loss to TRL's loss, of the gradient as the 2-norm of the difference to that of TRL's gradient.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
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
from benchmarks.workloads import ModelSpec, build_model
from upturn.config import OptimiserSettings
from upturn.records import Observation, PreferencePair, TokenRow, Trajectory, Turn, WrittenSpan
from upturn.training import FloatArray, Minibatch, TrainingRow, supervised_rows, turn_rows
from upturn.training.algorithms.dpo import PairBatches
from upturn.training.algorithms.kto import KtoSettings, RatedBatches
from upturn.training.algorithms.sft import supervised_steps
from upturn.training.data import add_reference, pair_rows
from upturn.training.optimisation import Trainer
from upturn.training.pair_settings import PairObjectiveSettings

END = 0
"""End-of-text token, which ends every completion in TRL."""
VOCABULARY = 20
PROMPTS = ((1, 5, 2, 9, 9, 3, 4, 8, 12, 13, 14, 15, 16, 17, 18, 2, 3), (1, 6, 2), (1, 7, 8, 2))
GOOD = ((7, 9, END), (4, 4, 6, 11, END), (9, END))
BAD = ((5, END), (4, 4, 3, END), (13, 12, 11, 10, END))
_NO_STEP = OptimiserSettings(learning_rate=1e-12, max_grad_norm=1e9)


class Gap(NamedTuple):
    """Relative distance from TRL."""

    loss: float
    gradient: float


class Models(NamedTuple):
    """The trained model and the reference model."""

    model: PreTrainedModel
    reference: PreTrainedModel


def serve_gaps(channel: Channel, settings: Settings) -> None:
    """Sends the gaps of each loss; steps do nothing. Settings: ``threads``."""
    threads = settings["threads"]
    assert isinstance(threads, int)
    torch.set_num_threads(threads)
    specs = (ModelSpec(width=32, layers=2, vocabulary=VOCABULARY, seed=seed) for seed in (2, 1))
    models = Models(*map(build_model, specs))
    with tempfile.TemporaryDirectory() as folder:
        gaps = {
            "sft": sft_gap(models.model, Path(folder)),
            "dpo": dpo_gap(models, PairObjectiveSettings(), {"loss_type": ["sigmoid"]}, Path(folder)),
            "kto": kto_gap(models, Path(folder)),
        }
    serve_steps(channel, {name: gap._asdict() for name, gap in gaps.items()}, dict)


def sft_gap(model: PreTrainedModel, folder: Path) -> Gap:
    """Gap of the cross-entropy of the good completions."""
    trainer = SFTTrainer(
        model=model,
        args=SFTConfig(**_config(folder, per_device_train_batch_size=len(GOOD))),
        train_dataset=_dataset(prompt=PROMPTS, completion=GOOD),
        processing_class=_tokenizer(),
    )
    loss, gradient = _trl_loss(trainer, model)
    rows = supervised_rows([_trajectory(index, written, "good") for index, written in enumerate(GOOD)])
    (minibatch,) = supervised_steps(rows, len(rows), 0).unit(0).minibatches
    return _gap(model, minibatch, loss, gradient)


def dpo_gap(models: Models, objective: PairObjectiveSettings, trl_options: dict[str, Any], folder: Path) -> Gap:
    """Gap on pairs of a good and a bad completion; ``trl_options``: TRL's names for the same settings."""
    trainer = DPOTrainer(
        model=models.model,
        ref_model=models.reference,
        args=DPOConfig(**_config(folder, per_device_train_batch_size=len(GOOD), **trl_options)),
        train_dataset=_dataset(prompt=PROMPTS, chosen=GOOD, rejected=BAD),
        processing_class=_tokenizer(),
    )
    loss, gradient = _trl_loss(trainer, models.model)
    pairs = [
        PreferencePair(str(index), _trajectory(index, good, "good"), _trajectory(index, bad, "bad"), "group")
        for index, (good, bad) in enumerate(zip(GOOD, BAD, strict=True))
    ]
    rows = add_reference(pair_rows(pairs, objective, "initial"), Trainer(models.reference, _NO_STEP).score)
    minibatch = PairBatches(rows, len(GOOD), objective).minibatch(range(len(GOOD)))
    return _gap(models.model, minibatch, loss, gradient)


def kto_gap(models: Models, folder: Path) -> Gap:
    """Gap with TRL's mismatched completions: those of the previous row in the order of its data."""
    completions, prompts = [*GOOD, *BAD], [*range(len(GOOD)), *range(len(BAD))]
    settings = KtoSettings(beta=0.5, desirable_weight=1.5, undesirable_weight=0.8)
    dataset = _dataset(prompt=[PROMPTS[index] for index in prompts], completion=completions)
    labels = [index < len(GOOD) for index in range(len(completions))]
    weights = {"desirable_weight": settings.desirable_weight, "undesirable_weight": settings.undesirable_weight}
    trainer = KTOTrainer(
        model=models.model,
        ref_model=models.reference,
        args=KTOConfig(
            **_config(folder, per_device_train_batch_size=len(completions), beta=settings.beta, **weights)
        ),
        train_dataset=dataset.add_column("label", labels),
        processing_class=_tokenizer(),
    )
    loss, gradient = _trl_loss(trainer, models.model)
    rated = [
        turn_rows(_trajectory(prompt, completion, str(index)), weight=1.0 if label else -1.0)
        for index, (prompt, completion, label) in enumerate(zip(prompts, completions, labels, strict=True))
    ]
    mismatched: list[TrainingRow] = []
    for prompt, completion in zip(prompts, [completions[-1], *completions[:-1]], strict=True):
        (row,) = turn_rows(_trajectory(prompt, completion, "mixed"), weight=1.0)
        mismatched.append(replace(row, trajectory_id=f"mixed {len(mismatched)}"))
    # The order of KTO's calls: the reference scores rated and mismatched rows, then the model mismatched ones.
    scorers = iter([Trainer(models.reference, _NO_STEP)] * 2 + [Trainer(models.model, _NO_STEP)])

    def scorer(rows: Sequence[TrainingRow]) -> Sequence[FloatArray]:
        return next(scorers).score(rows)

    unit = RatedBatches(rated, mismatched, settings, scorer=scorer).unit(list(range(len(completions))))
    assert unit.metrics["reference_point"] > 0, "otherwise the mismatched completions would not matter"
    (minibatch,) = unit.minibatches
    return _gap(models.model, minibatch, loss, gradient)


def _dataset(**columns: Sequence[Sequence[int]]) -> Dataset:
    """Columns of texts with one word per token."""
    return Dataset.from_dict(
        {name: ["".join(f" t{token}" for token in row) for row in rows] for name, rows in columns.items()}
    )


def _tokenizer() -> PreTrainedTokenizerFast:
    """One word per token."""
    tokenizer = Tokenizer(WordLevel({f"t{token}": token for token in range(VOCABULARY)}, unk_token="t19"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="t0", eos_token="t0", unk_token="t19")


def _trajectory(prompt: int, completion: Sequence[int], name: str) -> Trajectory:
    start, tokens = len(PROMPTS[prompt]), (*PROMPTS[prompt], *completion)
    row = TokenRow(tokens, (WrittenSpan(0, start, len(tokens)),), (-1.0,) * len(completion))
    return Trajectory(
        id=f"{name}{prompt}",
        task_id=str(prompt),
        agent_version="subject@1",
        turns=(Turn(Observation(""), "", None),),
        final_observation=Observation(""),
        outcome="finished",
        origin="sampled",
        rows=(row,),
        temperature=1.0,
    )


def _config(folder: Path, **options: Any) -> dict[str, Any]:
    return {
        "output_dir": str(folder),
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "report_to": "none",
        "disable_tqdm": True,
        "max_length": None,
        **options,
    }


def _trl_loss(trainer: Any, model: PreTrainedModel) -> tuple[float, list[Tensor]]:
    """TRL's loss and gradient of its only batch."""
    model.train()
    (batch,) = trainer.get_train_dataloader()
    loss = trainer.compute_loss(model, batch)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return float(loss.detach()), list(torch.autograd.grad(loss, parameters))


def _gap(model: PreTrainedModel, minibatch: Minibatch, loss: float, gradient: Sequence[Tensor]) -> Gap:
    step = Trainer(model, _NO_STEP).step(minibatch)
    ours = [parameter.grad for parameter in model.parameters() if parameter.requires_grad]
    distance = sum(
        float((our - trl).square().sum()) for our, trl in zip(ours, gradient, strict=True) if our is not None
    )
    norm = sum(float(trl.square().sum()) for trl in gradient)
    return Gap(abs(step.loss - loss) / abs(loss), (distance / norm) ** 0.5)
