"""The tree pass on every device, against plain torch on the CPU."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from upturn.config import OptimiserSettings
from upturn.training.losses import ClippedPolicy
from upturn.training.optimisation import Trainer, forward
from upturn.training.optimisation.forward import Forward
from upturn.training.row import TrainingRow
from upturn.training.stream import Stream

VOCABULARY = 61


def _model() -> PreTrainedModel:
    torch.manual_seed(2)
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=VOCABULARY,
            hidden_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            intermediate_size=96,
            max_position_embeddings=512,
            tie_word_embeddings=True,
            use_cache=False,
        )
    )


def _rows() -> list[TrainingRow]:
    """Two groups of three: a prompt of 150 tokens, which spans two blocks of a mask, then 20 to 60 others."""
    generator = np.random.default_rng(3)
    rows = []
    for group in range(2):
        prompt = generator.integers(0, VOCABULARY, 150)
        for member, length in enumerate((20, 40, 60)):
            tokens = np.concatenate([prompt, generator.integers(0, VOCABULARY, length)])
            positions = np.arange(150 + member, 150 + length)
            weights = generator.standard_normal(len(positions)).astype(np.float32)
            rows.append(TrainingRow(f"{group}/{member}", tokens, positions, weights, None))
    return rows


def _plain_logprobs(model: PreTrainedModel, row: TrainingRow) -> torch.Tensor:
    logits = model(input_ids=torch.from_numpy(row.token_ids)[None]).logits[0]
    targets = torch.from_numpy(row.token_ids[row.positions])
    logprobs: torch.Tensor = logits[row.positions - 1].log_softmax(-1).gather(1, targets[:, None])[:, 0]
    return logprobs


@pytest.mark.filterwarnings("default")  # compiling warns about torch's own code
@pytest.mark.parametrize("tokens", [0, 1 << 20], ids=["masked", "by node"])
def test_logprobs_and_gradients_equal_plain_torch(
    device: str, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``tokens``: from which a GPU uses one masked call, so that both of its backends are tested."""
    monkeypatch.setattr(forward, "_FLEX_FROM", tokens)
    plain, rows = _model(), _rows()
    expected = [_plain_logprobs(plain, row) for row in rows]
    weighted = [torch.from_numpy(row.weights) * part for row, part in zip(rows, expected, strict=True)]
    torch.cat(weighted).sum().backward()
    model = _model().to(device)  # type: ignore[arg-type]  # transformers' decorator hides the signature
    packed = Forward(model, packing="tree", precision="float32")
    (batch,) = packed.batches(rows, max_tokens=4096)
    assert batch.tree is not None and packed.fallbacks == 0
    assert packed.attention_of(batch) == ("streamed" if device == "cpu" else "by_node" if tokens else "flex")
    with packed.prepare(batch):
        logprobs = packed.logprobs(batch)
        (logprobs * torch.from_numpy(batch.written.weights).to(device)).sum().backward()
    by_row = dict(zip((row.trajectory_id for row in rows), expected, strict=True))
    reference = torch.cat([by_row[row.trajectory_id] for row in batch.rows]).detach()
    torch.testing.assert_close(logprobs.detach().cpu(), reference, rtol=0, atol=1e-4)
    for parameter, other in zip(model.parameters(), plain.parameters(), strict=True):
        assert parameter.grad is not None and other.grad is not None
        torch.testing.assert_close(parameter.grad.cpu(), other.grad, rtol=1e-4, atol=1e-4)


def test_a_step_moves_the_weights_as_on_the_cpu(device: str) -> None:
    rows = [
        TrainingRow(row.trajectory_id, row.token_ids, row.positions, row.weights, old)
        for row, old in zip(_rows(), Trainer(_model(), OptimiserSettings()).score(_rows()), strict=True)
    ]
    model = _model()
    on_cpu, on_device = deepcopy(model), model.to(device)  # type: ignore[arg-type]
    steps = [
        Trainer(trained, OptimiserSettings(learning_rate=1e-3)).step(
            [Stream(rows, ClippedPolicy(0.2, 0.28), float(sum(len(row.positions) for row in rows)))]
        )
        for trained in (on_cpu, on_device)
    ]
    assert steps[1].loss == pytest.approx(steps[0].loss, abs=1e-6)
    assert steps[1].grad_norm == pytest.approx(steps[0].grad_norm, rel=1e-4)
    for parameter, other in zip(on_device.parameters(), on_cpu.parameters(), strict=True):
        # Adam's first step is the sign of the gradient, so a gradient that is 0 but for rounding may flip it
        agrees = (parameter.detach().cpu() - other.detach()).abs() < 1e-5
        assert float(agrees.float().mean()) > 0.99


def test_a_tree_in_bfloat16_is_that_of_plain_torch_up_to_rounding(device: str) -> None:
    plain, rows = _model(), _rows()
    expected = [_plain_logprobs(plain, row) for row in rows]
    weighted = [torch.from_numpy(row.weights) * part for row, part in zip(rows, expected, strict=True)]
    torch.cat(weighted).sum().backward()
    model = _model().to(device)  # type: ignore[arg-type]  # transformers' decorator hides the signature
    packed = Forward(model, packing="tree", precision="bfloat16")
    (batch,) = packed.batches(rows, max_tokens=4096)
    assert packed.attention_of(batch) == ("streamed" if device == "cpu" else "flash")
    with packed.prepare(batch):
        logprobs = packed.logprobs(batch)
        (logprobs * torch.from_numpy(batch.written.weights).to(device)).sum().backward()
    by_row = dict(zip((row.trajectory_id for row in rows), expected, strict=True))
    reference = torch.cat([by_row[row.trajectory_id] for row in batch.rows]).detach()
    torch.testing.assert_close(logprobs.detach().cpu(), reference, rtol=0, atol=0.02)
    pairs = [(ours.grad, theirs.grad) for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True)]
    squares = [((ours.cpu() - theirs).square().sum(), theirs.square().sum()) for ours, theirs in pairs]  # type: ignore[union-attr]
    difference, whole = (float(torch.stack(parts).sum().sqrt()) for parts in zip(*squares, strict=True))
    assert difference < 0.02 * whole
