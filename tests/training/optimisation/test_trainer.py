"""The optimiser step, compared with slow, independent arithmetic."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertLMHeadModel, PreTrainedModel

from upturn.config import OptimiserSettings
from upturn.errors import TrainingError
from upturn.records import TokenRow, Trajectory, WrittenSpan
from upturn.training import TrainingRow, policy_rows, supervised_rows
from upturn.training.distributed.weights import copy_tensors, weight_tensors
from upturn.training.losses import ClippedPolicy, CrossEntropy
from upturn.training.optimisation.trainer import Trainer, torch_threads
from upturn.training.stream import Stream

Model = Callable[..., PreTrainedModel]
Make = Callable[..., Trajectory]
NO_UPDATE = OptimiserSettings(learning_rate=1e-30, max_grad_norm=1e30)
"""A step that changes no weight, so that the gradient can be compared."""


def _rows(make_trajectory: Make, count: int = 5) -> list[TrainingRow]:
    """Rollouts of 6 to 14 tokens in two turns, with log-probs off the policy and advantages of both signs."""
    rng = np.random.default_rng(7)
    rows: list[TrainingRow] = []
    for index in range(count):
        length = int(rng.integers(6, 15))
        tokens = rng.integers(0, 20, length).tolist()
        spans = ((0, 2, 4), (1, length - 2, length - int(rng.integers(0, 2))))
        written = sum(stop - start for _, start, stop in spans)
        logprobs = (-3.0 + 0.6 * rng.standard_normal(written)).tolist()
        trajectory = make_trajectory(tokens, spans, name=f"t{index}", logprobs=logprobs)
        rows += policy_rows(trajectory, rng.standard_normal(2).tolist())
    return rows


def _gradient(model: nn.Module) -> Tensor:
    return torch.cat([parameter.grad.reshape(-1) for parameter in model.parameters() if parameter.grad is not None])


def _slow_loss(model: PreTrainedModel, rows: Sequence[TrainingRow], denominator: float) -> Tensor:
    """Token by token: the whole model on the whole row, a softmax per token, min and clip as in the paper."""
    total = torch.zeros(())
    for row in rows:
        assert row.old_logprobs is not None
        logits = model(torch.from_numpy(row.token_ids)[None]).logits[0]
        for index, position in enumerate(row.positions.tolist()):
            probability = logits[position - 1].softmax(-1)[int(row.token_ids[position])]
            ratio = probability / math.exp(float(row.old_logprobs[index]))
            advantage = float(row.weights[index])
            value = float(ratio.detach())
            clipped = min(max(value, 0.8), 1.28)
            takes_ratio = value * advantage <= clipped * advantage
            total = total - (ratio * advantage if takes_ratio else clipped * advantage)
    return total / denominator


def test_gradient_equals_a_slow_loop_over_tokens(tiny_model: Model, make_trajectory: Make) -> None:
    model, rows = tiny_model(layers=2), _rows(make_trajectory)
    loss = _slow_loss(model, rows, 31.0)
    loss.backward()
    expected = _gradient(model).clone()
    settings = replace(NO_UPDATE, micro_batch_tokens=30)
    metrics = Trainer(model, settings).step([Stream(rows, ClippedPolicy(0.2, 0.28), 31.0)])
    actual = _gradient(model)
    error = float((actual - expected).norm() / expected.norm())
    assert error < 1e-5
    assert metrics.loss == pytest.approx(float(loss.detach()), rel=1e-5)
    assert metrics.grad_norm == pytest.approx(float(expected.norm()), rel=1e-5)
    assert metrics.action_tokens == sum(len(row.positions) for row in rows)
    assert metrics.logical_tokens == sum(len(row.token_ids) for row in rows)
    assert metrics.sums["clip_fraction"] > 0


@pytest.mark.parametrize("budget", [1, 20, 10_000])
def test_micro_batches_do_not_change_the_gradient(tiny_model: Model, make_trajectory: Make, budget: int) -> None:
    rows = _rows(make_trajectory)
    gradients = []
    for tokens in (budget, 40):
        model = tiny_model()
        Trainer(model, replace(NO_UPDATE, micro_batch_tokens=tokens)).step([Stream(rows, CrossEntropy(), 3.0)])
        gradients.append(_gradient(model))
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-4, atol=1e-7)


def test_splitting_a_rollout_into_rows_of_equal_context_changes_no_gradient(
    tiny_model: Model, make_trajectory: Make
) -> None:
    whole = make_trajectory((1, 5, 6, 2, 9, 7, 2), ((0, 2, 4), (1, 5, 7)), logprobs=(-3.1, -3.2, -3.3, -3.4))
    split = replace(
        whole,
        rows=(
            TokenRow((1, 5, 6, 2, 9), (WrittenSpan(0, 2, 4),), (-3.1, -3.2)),
            TokenRow((1, 5, 6, 2, 9, 7, 2), (WrittenSpan(1, 5, 7),), (-3.3, -3.4), "history_changed"),
        ),
    )
    gradients = []
    for trajectory in (whole, split):
        model = tiny_model()
        stream = Stream(policy_rows(trajectory, (1.0, -0.5)), ClippedPolicy(0.2, 0.28), 4.0)
        Trainer(model, NO_UPDATE).step([stream])
        gradients.append(_gradient(model))
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-4, atol=1e-7)


def test_loss_ignores_the_logits_of_all_other_positions(tiny_model: Model, make_trajectory: Make) -> None:
    """Hidden states at positions that predict no written token get a gradient of exactly zero."""
    model = tiny_model()
    row = policy_rows(make_trajectory((1, 5, 6, 2, 9, 7, 2), ((0, 2, 4), (1, 5, 6))), (1.0, -0.5))
    outputs: list[Tensor] = []

    def record(_: nn.Module, __: object, output: Tensor) -> None:
        output.retain_grad()
        outputs.append(output)

    trainer = Trainer(model, NO_UPDATE)
    (batch,) = trainer.forward.batches(row, 100)
    handle = model.get_decoder().norm.register_forward_hook(record)
    with trainer.forward.prepare(batch):
        trainer.forward.logprobs(batch).sum().backward()
    handle.remove()
    gradient = outputs[0].grad
    assert gradient is not None
    has_gradient = gradient[0].abs().sum(-1) > 0
    assert has_gradient.tolist() == [False, True, True, False, True]


def test_tokens_after_the_last_written_one_have_no_effect(tiny_model: Model, make_trajectory: Make) -> None:
    losses = []
    for tail in ((9, 9), (4, 13)):
        rows = policy_rows(make_trajectory((1, 5, 6, 2, *tail), ((0, 2, 4),)), (1.0,))
        losses.append(Trainer(tiny_model(), NO_UPDATE).step([Stream(rows, ClippedPolicy(0.2, 0.28), 2.0)]).loss)
    assert losses[0] == losses[1]


def test_trainer_reproduces_the_logprobs_of_the_model(tiny_model: Model, make_trajectory: Make) -> None:
    model = tiny_model(layers=2)
    rows = _rows(make_trajectory)
    sampled = []
    with torch.no_grad():
        for row in rows:
            logits = model(torch.from_numpy(row.token_ids)[None]).logits[0].log_softmax(-1)
            values = [float(logits[p - 1, int(row.token_ids[p])]) for p in row.positions.tolist()]
            sampled.append(replace(row, old_logprobs=np.array(values, dtype=np.float32)))
    metrics = Trainer(model, NO_UPDATE).step([Stream(sampled, ClippedPolicy(0.2, 0.28), 1.0)])
    assert metrics.maxima["logprob_gap"] < 1e-5
    assert metrics.sums["clip_fraction"] == 0


def test_gradient_is_clipped_to_the_maximum_norm(tiny_model: Model, make_trajectory: Make) -> None:
    model = tiny_model()
    settings = OptimiserSettings(learning_rate=1e-30, max_grad_norm=0.01)
    metrics = Trainer(model, settings).step([Stream(supervised_rows([make_trajectory()]), CrossEntropy(), 1.0)])
    assert metrics.grad_norm > 0.01
    assert float(_gradient(model).norm()) == pytest.approx(0.01, rel=1e-3)


def test_first_step_moves_each_weight_by_the_learning_rate(tiny_model: Model, make_trajectory: Make) -> None:
    """Adam's first step is lr·sign(g) where |g| is far above ε."""
    model = tiny_model()
    before = copy_tensors(weight_tensors(model))
    trainer = Trainer(model, OptimiserSettings(learning_rate=1e-3, warmup_steps=1))
    metrics = trainer.step([Stream(supervised_rows([make_trajectory()]), CrossEntropy(), 1.0)])
    assert metrics.learning_rate == 5e-4
    largest = max(float((tensor - before[name]).abs().max()) for name, tensor in weight_tensors(model).items())
    assert largest == pytest.approx(5e-4, rel=1e-3)


def test_a_non_finite_loss_leaves_the_weights_unchanged(tiny_model: Model, make_trajectory: Make) -> None:
    model = tiny_model()
    before = copy_tensors(weight_tensors(model))
    rows = policy_rows(make_trajectory(logprobs=(-1e30,)), (-1.0,))
    with pytest.raises(TrainingError, match="step 1 has loss inf"):
        Trainer(model, OptimiserSettings()).step([Stream(rows, ClippedPolicy(0.2, 0.28), 1.0)])
    assert all(torch.equal(before[name], tensor) for name, tensor in weight_tensors(model).items())


def test_foreign_tokens_and_overlong_rows_are_refused(tiny_model: Model, make_trajectory: Make) -> None:
    trainer = Trainer(tiny_model(), NO_UPDATE)
    with pytest.raises(TrainingError, match="token ids run from 1 to 20, the model has 0 to 19"):
        trainer.step([Stream(supervised_rows([make_trajectory((1, 5, 2, 20))]), CrossEntropy(), 1.0)])
    long = make_trajectory((1,) * 40, ((0, 39, 40),))
    with pytest.raises(TrainingError, match="needs 39 tokens of context, the model has 32"):
        trainer.step([Stream(supervised_rows([long]), CrossEntropy(), 1.0)])


def test_empty_minibatches_and_denominators_are_refused(tiny_model: Model, make_trajectory: Make) -> None:
    trainer = Trainer(tiny_model(), NO_UPDATE)
    with pytest.raises(TrainingError, match="without rows"):
        trainer.step([Stream([], CrossEntropy(), 1.0)])
    with pytest.raises(TrainingError, match=r"denominator must be positive, got 0\.0"):
        trainer.step([Stream(supervised_rows([make_trajectory()]), CrossEntropy(), 0.0)])


def test_models_with_dropout_are_refused(tiny_model: Model) -> None:
    model = tiny_model()
    model.config.attention_dropout = 0.1
    with pytest.raises(TrainingError, match=r"attention_dropout = 0\.1"):
        Trainer(model, NO_UPDATE)


def test_frozen_models_are_refused(tiny_model: Model) -> None:
    with pytest.raises(TrainingError, match="no trainable parameter"):
        Trainer(tiny_model().requires_grad_(False), NO_UPDATE)


def test_models_that_scale_their_logits_are_trained_on_the_scaled_ones(
    tiny_model: Model, make_trajectory: Make
) -> None:
    model = tiny_model()
    forward = model.forward

    def scaled(*args: object, **kwargs: object) -> object:
        output = forward(*args, **kwargs)
        output.logits = 3 * output.logits
        return output

    rows = supervised_rows([make_trajectory()])
    model.forward = scaled
    (scores,) = Trainer(model, NO_UPDATE).score(rows)
    ids = torch.from_numpy(rows[0].token_ids)
    logprobs = (3 * forward(input_ids=ids[None]).logits[0]).log_softmax(-1).detach()
    expected = [float(logprobs[at - 1, ids[at]]) for at in rows[0].positions.tolist()]
    assert scores.tolist() == pytest.approx(expected, abs=1e-5)


def test_models_whose_head_cannot_be_run_alone_use_all_logits(tiny_model: Model, make_trajectory: Make) -> None:
    """The model adds to its logits what its backbone has seen, so hidden states alone do not give them."""
    model, rows = tiny_model(), supervised_rows([make_trajectory()])
    forward = model.forward

    def shifted(input_ids: Tensor, **kwargs: object) -> object:
        output = forward(input_ids=input_ids, **kwargs)
        shift = nn.functional.one_hot(input_ids, output.logits.shape[-1])
        output.logits = output.logits + shift
        return output

    model.forward = shifted
    trainer = Trainer(model, NO_UPDATE)
    with pytest.warns(UserWarning, match="backbone and head cannot be run separately"):
        (scores,) = trainer.score(rows)
    ids = torch.from_numpy(rows[0].token_ids)
    logprobs = shifted(ids[None]).logits[0].log_softmax(-1).detach()  # type: ignore[attr-defined]
    expected = [float(logprobs[at - 1, ids[at]]) for at in rows[0].positions.tolist()]
    assert scores.tolist() == pytest.approx(expected, abs=1e-5)
    metrics = trainer.step([Stream(rows, CrossEntropy(), 1.0)])
    assert metrics.fallbacks == 1


def test_models_that_read_later_tokens_are_refused(make_trajectory: Make) -> None:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=20,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = BertLMHeadModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(10.0 if parameter.dim() > 1 else 1.0)
    rows = supervised_rows([make_trajectory()])
    with pytest.raises(TrainingError, match="BertLMHeadModel is not a causal language model: its log-probs change"):
        Trainer(model, NO_UPDATE).score(rows)
    config.is_decoder = True
    (scores,) = Trainer(BertLMHeadModel(config), replace(NO_UPDATE, packing="padded")).score(rows)
    assert np.isfinite(scores).all()


def test_threads_are_set_inside_and_restored() -> None:
    before = torch.get_num_threads()
    with torch_threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before
    with torch_threads(None):
        assert torch.get_num_threads() == before
