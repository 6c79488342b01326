"""TRL itself, where it is installed: its DPO and KTO give our loss and our gradient on the same batch."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from upturn.records import PreferencePair, RatedTrajectory, Trajectory
from upturn.training import OptimiserSettings
from upturn.training.dpo import PairBatches
from upturn.training.kto import RatedBatches
from upturn.training.pair_row import pair_rows, refer
from upturn.training.preference_settings import KtoSettings, PairObjectiveSettings
from upturn.training.row import FloatArray, TrainingRow, turn_rows
from upturn.training.stream import Minibatch
from upturn.training.trainer import Trainer

Model = Callable[..., PreTrainedModel]
Make = Callable[..., Trajectory]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("trl") is None, reason="TRL is not installed: pip install -e '.[bench]'"),
    pytest.mark.filterwarnings("ignore"),  # TRL's and its dependencies' own
]
STILL = OptimiserSettings(learning_rate=1e-12, max_grad_norm=1e9)
END = 0
"""TRL ends every completion with the token that ends a text."""
PROMPTS = ((1, 5, 2, 9, 9, 3, 4, 8, 12, 13, 14, 15, 16, 17, 18, 2, 3), (1, 6, 2), (1, 7, 8, 2))
GOOD = ((7, 9, END), (4, 4, 6, 11, END), (9, END))
BAD = ((5, END), (4, 4, 3, END), (13, 12, 11, 10, END))
TOLERANCE = 1e-5


def _words(tokens: Sequence[int]) -> str:
    return "".join(f" t{token}" for token in tokens)


def _tokenizer() -> PreTrainedTokenizerFast:
    """One word a token."""
    tokenizer = Tokenizer(WordLevel({f"t{token}": token for token in range(20)}, unk_token="t19"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="t0", eos_token="t0", unk_token="t19")


def _attempt(make: Make, place: int, written: Sequence[int], name: str) -> Trajectory:
    start = len(PROMPTS[place])
    tokens = (*PROMPTS[place], *written)
    return make(tokens, ((0, start, len(tokens)),), name=f"{name}{place}", task=str(place))


def _settings(folder: Path, **changes: object) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "output_dir": str(folder), "use_cpu": True, "bf16": False, "gradient_checkpointing": False,
        "report_to": "none", "disable_tqdm": True, "max_length": None,
    }  # fmt: skip
    return plain | changes


def _theirs(trainer: Any, model: PreTrainedModel) -> tuple[float, list[Tensor]]:
    """Loss and gradient of the one batch there is."""
    model.train()
    (batch,) = trainer.get_train_dataloader()
    loss = trainer.compute_loss(model, batch)
    parameters = [each for each in model.parameters() if each.requires_grad]
    return float(loss.detach()), list(torch.autograd.grad(loss, parameters))


def _check(model: PreTrainedModel, minibatch: Minibatch, loss: float, gradient: Sequence[Tensor]) -> None:
    step = Trainer(model, STILL).step(minibatch)
    assert abs(step.loss - loss) <= TOLERANCE * abs(loss)
    own = [each.grad for each in model.parameters() if each.requires_grad]
    distance = sum(
        float((ours - each).square().sum()) for ours, each in zip(own, gradient, strict=True) if ours is not None
    )
    assert distance**0.5 <= TOLERANCE * sum(float(each.square().sum()) for each in gradient) ** 0.5


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (PairObjectiveSettings(), {"loss_type": ["sigmoid"]}),
        (PairObjectiveSettings(beta=2.0), {"loss_type": ["sigmoid"], "beta": 2.0}),
        (PairObjectiveSettings(kind="ipo", is_length_normalised=True), {"loss_type": ["ipo"]}),
        (PairObjectiveSettings(is_length_normalised=True), {"loss_type": ["sigmoid_norm"]}),
        (
            PairObjectiveSettings(sft_coefficient=0.7),
            {"loss_type": ["sigmoid", "sft"], "loss_weights": [1.0, 0.7]},
        ),
    ],
    ids=["dpo", "sharp", "ipo", "length-normalised", "with a supervised term"],
)
def test_dpo_is_trls(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path, ours: PairObjectiveSettings, theirs: dict[str, Any]
) -> None:
    from datasets import Dataset
    from trl import DPOConfig, DPOTrainer

    model, reference = tiny_model(1, layers=2), tiny_model(2, layers=2)
    columns = {"prompt": PROMPTS, "chosen": GOOD, "rejected": BAD}
    data = Dataset.from_dict({name: [_words(each) for each in column] for name, column in columns.items()})
    trainer = DPOTrainer(
        model=model,
        ref_model=reference,
        args=DPOConfig(**_settings(tmp_path, per_device_train_batch_size=3, **theirs)),
        train_dataset=data,
        processing_class=_tokenizer(),
    )
    loss, gradient = _theirs(trainer, model)
    pairs = [
        PreferencePair(
            str(place),
            _attempt(make_trajectory, place, good, "good"),
            _attempt(make_trajectory, place, bad, "bad"),
            "group",
        )
        for place, (good, bad) in enumerate(zip(GOOD, BAD, strict=True))
    ]
    found = refer(pair_rows(pairs, ours, "initial"), Trainer(reference, STILL).score)
    _check(model, PairBatches(found, 3, ours).minibatch([0, 1, 2]), loss, gradient)


def test_kto_is_trls(tiny_model: Model, make_trajectory: Make, tmp_path: Path) -> None:
    """With the mismatched continuations that TRL takes: those of the attempt before, in the order of its data."""
    from datasets import Dataset
    from trl import KTOConfig, KTOTrainer

    model, reference = tiny_model(1, layers=2), tiny_model(2, layers=2)
    rated = [
        RatedTrajectory(_attempt(make_trajectory, place, written, name), name == "good")
        for name, sides in (("good", GOOD), ("bad", BAD))
        for place, written in enumerate(sides)
    ]
    written = [*GOOD, *BAD]
    places = [*range(3), *range(3)]
    data = Dataset.from_dict(
        {
            "prompt": [_words(PROMPTS[place]) for place in places],
            "completion": [_words(each) for each in written],
            "label": [each.is_desirable for each in rated],
        }
    )
    trainer = KTOTrainer(
        model=model,
        ref_model=reference,
        args=KTOConfig(
            **_settings(
                tmp_path, per_device_train_batch_size=6, beta=0.5, desirable_weight=1.5, undesirable_weight=0.8
            )
        ),
        train_dataset=data,
        processing_class=_tokenizer(),
    )
    loss, gradient = _theirs(trainer, model)
    attempts = [turn_rows(each.trajectory, weight=1.0 if each.is_desirable else -1.0) for each in rated]
    unrelated: list[TrainingRow] = []
    for place, (before, _) in zip(places, pairwise([written[-1], *written]), strict=True):
        (row,) = turn_rows(_attempt(make_trajectory, place, before, "mixed"), weight=1.0)
        unrelated.append(replace(row, trajectory_id=f"mixed {len(unrelated)}"))
    settings = KtoSettings(beta=0.5, desirable_weight=1.5, undesirable_weight=0.8)
    own, other = Trainer(model, STILL), Trainer(reference, STILL)
    scorers = iter([other.score, other.score, own.score])

    def scorer(rows: Sequence[TrainingRow]) -> Sequence[FloatArray]:
        return next(scorers)(rows)

    steps = RatedBatches(attempts, unrelated, settings, scorer=scorer)
    unit = steps.unit(list(range(6)))
    assert unit.metrics["reference_point"] > 0
    (minibatch,) = unit.minibatches
    _check(model, minibatch, loss, gradient)
