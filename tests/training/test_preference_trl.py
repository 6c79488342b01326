"""TRL itself, where it is installed: its SFT, DPO and KTO give our loss and our gradient on the same batch."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedModel

from upturn.training.pair_settings import PairObjectiveSettings

Model = Callable[..., PreTrainedModel]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("trl") is None, reason="TRL is not installed: pip install -e '.[bench]'"),
    pytest.mark.filterwarnings("ignore"),  # TRL's and its dependencies' own
]
TOLERANCE = 1e-5


def test_sft_loss_matches_trl(tiny_model: Model, tmp_path: Path) -> None:
    from benchmarks.implementations.trl_losses import sft_gap

    assert max(sft_gap(tiny_model(1, layers=2), tmp_path)) <= TOLERANCE


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
def test_dpo_loss_matches_trl(
    tiny_model: Model, tmp_path: Path, ours: PairObjectiveSettings, theirs: dict[str, Any]
) -> None:
    from benchmarks.implementations.trl_losses import Models, dpo_gap

    models = Models(tiny_model(1, layers=2), tiny_model(2, layers=2))
    assert max(dpo_gap(models, ours, theirs, tmp_path)) <= TOLERANCE


def test_kto_loss_matches_trl(tiny_model: Model, tmp_path: Path) -> None:
    from benchmarks.implementations.trl_losses import Models, kto_gap

    assert max(kto_gap(Models(tiny_model(1, layers=2), tiny_model(2, layers=2)), tmp_path)) <= TOLERANCE
