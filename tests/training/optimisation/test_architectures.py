"""Log-probs and gradients of many architectures in float32, compared with plain torch on the full model."""

import warnings

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from tests.architectures import ARCHITECTURES, BASE, MLA, MOE, VOCABULARY, WINDOW, build, documented
from upturn.config import OptimiserSettings
from upturn.errors import TrainingError
from upturn.training import TrainingRow
from upturn.training.losses import CrossEntropy
from upturn.training.optimisation.trainer import Trainer
from upturn.training.stream import Stream

NO_UPDATE = OptimiserSettings(learning_rate=1e-30, max_grad_norm=1e30)
BOUND = 1e-4


def _rows() -> list[TrainingRow]:
    """Rows with a common prefix, longer than the windows; one shorter than them."""
    rng = np.random.default_rng(3)
    prompt = rng.integers(3, VOCABULARY, 20)
    rows = []
    for index, length in enumerate((7, 12, 9)):
        tokens = np.concatenate([prompt, rng.integers(3, VOCABULARY, length)])
        rows.append(_row(str(index), tokens, np.arange(18 + index, len(tokens))))
    return [*rows, _row("short", rng.integers(3, VOCABULARY, WINDOW - 2), np.array([2, 5]))]


def _row(name: str, tokens: "np.typing.NDArray[np.int64]", positions: "np.typing.NDArray[np.int64]") -> TrainingRow:
    weights = np.linspace(0.5, 2.0, len(positions), dtype=np.float32)
    return TrainingRow(name, tokens.astype(np.int64), positions, weights, None)


def _plain(model: PreTrainedModel, rows: list[TrainingRow]) -> tuple[list[Tensor], Tensor]:
    """Log-probs of each row, and the gradient of Σ weight · log p."""
    model.zero_grad()
    logprobs = []
    total = torch.zeros(())
    for row in rows:
        ids = torch.from_numpy(row.token_ids)
        logits = model(input_ids=ids[None], use_cache=False).logits[0].log_softmax(-1)
        at = torch.from_numpy(row.positions)
        chosen = logits[at - 1, ids[at]]
        logprobs.append(chosen.detach())
        total = total + (chosen * torch.from_numpy(row.weights)).sum()
    (-total).backward()
    gradient = _gradient(model)
    model.zero_grad()
    return logprobs, gradient


def _gradient(model: PreTrainedModel) -> Tensor:
    return torch.cat(
        [
            (torch.zeros_like(parameter) if parameter.grad is None else parameter.grad).reshape(-1)
            for parameter in model.parameters()
        ]
    )


def _score(model: PreTrainedModel, rows: list[TrainingRow]) -> Trainer:
    """A trainer that has scored the rows, padded or not."""
    trainer = Trainer(model, NO_UPDATE)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*each row separately.*")
        trainer.score(rows)
    return trainer


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_logprobs_and_gradients_equal_plain_torch(name: str) -> None:
    model, rows = build(name).train(), _rows()
    expected, expected_gradient = _plain(model, rows)
    trainer = Trainer(model, NO_UPDATE)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*each row separately.*")
        scores = trainer.score(rows)
        trainer.step([Stream(rows, CrossEntropy(), 1.0)])
    gaps = [
        float((torch.from_numpy(score) - plain).abs().max()) for score, plain in zip(scores, expected, strict=True)
    ]
    assert max(gaps) <= BOUND, f"log-probs are off by {max(gaps)}"
    gap = float((_gradient(model) - expected_gradient).norm() / expected_gradient.norm())
    assert gap <= BOUND, f"the gradient is off by {gap}"
    assert float(expected_gradient.norm()) > 0.01


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_common_prefixes_are_shared_where_the_page_says_so(name: str) -> None:
    model = build(name)
    within = [_row(str(seed), ids, np.array([3, 5])) for seed, ids in enumerate(_short_rows())]
    is_shared = [_score(model, rows).forward.fallbacks == 0 for rows in (within, _rows())]
    expected = {"tree": [True, True], "tree up to the window": [True, False], "padded": [False, False]}
    assert is_shared == expected[documented()[name].packing]


def _short_rows() -> "np.typing.NDArray[np.int64]":
    return np.random.default_rng(0).integers(3, VOCABULARY, (2, WINDOW - 1))


def test_rows_longer_than_a_learned_selection_of_tokens_are_refused() -> None:
    sizes = {"index_topk": 16, "index_n_heads": 2, "index_head_dim": 8, "first_k_dense_replace": 1}
    experts = {"n_routed_experts": 4, "n_group": 1, "topk_group": 1, "n_shared_experts": 1}
    torch.manual_seed(1)
    config = AutoConfig.for_model("deepseek_v32", **(BASE | MLA | MOE | sizes | experts))
    model = AutoModelForCausalLM.from_config(config).float()
    with pytest.raises(TrainingError, match="a row has 31 tokens, and each attends to a learned selection of 16"):
        _score(model, _rows())
    assert _score(model, _rows()[-1:]).forward.model is model
