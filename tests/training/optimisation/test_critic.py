"""The critic: a copy of the policy with a scalar head, which learns the true values of a known process."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import PreTrainedModel

from upturn.config import OptimiserSettings, Packing
from upturn.errors import TrainingError
from upturn.records import Trajectory
from upturn.training import TrainingRow, policy_rows
from upturn.training.distributed.process_group import World
from upturn.training.distributed.weights import copy_tensors, weight_tensors
from upturn.training.losses.value import SquaredError
from upturn.training.optimisation.critic import Critic, value_model
from upturn.training.stream import Stream

Model = Callable[..., PreTrainedModel]
Make = Callable[..., Trajectory]
FAST = OptimiserSettings(learning_rate=3e-3)


def _rows(make_trajectory: Make, targets: Sequence[float] = (1.0, -0.5)) -> list[TrainingRow]:
    """Three rollouts of two turns with a common prefix; each value is fitted to the target of its turn."""
    rows: list[TrainingRow] = []
    for index in range(3):
        tokens = (1, *range(3, 15), 4 + index, 7, 2, 9 + index)
        rows += policy_rows(make_trajectory(tokens, ((0, 12, 14), (1, 15, 17)), name=f"t{index}"), targets)
    return [replace(row, old_logprobs=np.zeros_like(row.weights)) for row in rows]


def _stream(rows: Sequence[TrainingRow]) -> Stream:
    return Stream(rows, SquaredError(), float(sum(len(row.positions) for row in rows)))


def test_an_untrained_critic_gives_0_and_shares_nothing_with_the_policy(
    tiny_model: Model, make_trajectory: Make
) -> None:
    policy, rows = tiny_model(), _rows(make_trajectory)
    before = copy_tensors(weight_tensors(policy))
    critic = Critic(value_model(policy), FAST)
    assert [values.tolist() for values in critic.values(rows)] == [[0.0] * 4] * 3
    critic.train([[_stream(rows)]] * 30)
    assert all(torch.equal(before[name], tensor) for name, tensor in weight_tensors(policy).items())
    for values in critic.values(rows):
        assert values.tolist() == pytest.approx([1.0, 1.0, -0.5, -0.5], abs=0.2)


def test_making_a_critic_draws_no_random_numbers(tiny_model: Model) -> None:
    policy = tiny_model()
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    value_model(policy)
    assert torch.equal(torch.rand(1), expected)


def _trained_critic(model: PreTrainedModel, rows: Sequence[TrainingRow], **changes: object) -> Critic:
    critic = Critic(value_model(model), replace(FAST, **changes))  # type: ignore[arg-type]
    critic.train([[_stream(rows)]] * 8)
    return critic


@pytest.mark.parametrize("packing", ["tree", "padded"])
def test_a_value_is_the_heads_output_at_the_predicting_position(
    tiny_model: Model, make_trajectory: Make, packing: Packing
) -> None:
    """Compared with the whole network on each row alone."""
    rows = _rows(make_trajectory)
    critic = _trained_critic(tiny_model(layers=2), rows, packing=packing)
    network = value_model(tiny_model(layers=2))
    weights = {name[8:]: value for name, value in critic.state().items() if name.startswith("weights.")}
    for name, tensor in weight_tensors(network).items():
        tensor.copy_(torch.as_tensor(weights[name]))
    for row, values in zip(rows, critic.values(rows), strict=True):
        with torch.no_grad():
            expected = network(torch.from_numpy(row.token_ids)[None]).logits[0, :, 0]
        assert values.tolist() == pytest.approx(expected[row.positions - 1].tolist(), abs=1e-5)
        assert len(set(values.tolist())) == 4


def test_later_tokens_do_not_change_a_value(tiny_model: Model, make_trajectory: Make) -> None:
    rows = _rows(make_trajectory)
    critic = _trained_critic(tiny_model(), rows)
    last = rows[0].token_ids.copy()
    last[rows[0].positions[-1]] = 0
    changed = replace(rows[0], token_ids=last)
    assert critic.values([changed])[0].tolist() == critic.values(rows[:1])[0].tolist()


def test_bfloat16_reads_values_in_float32(tiny_model: Model, make_trajectory: Make) -> None:
    """bfloat16 has 8 bits: values near 1 would be multiples of 1/128."""
    rows = _rows(make_trajectory)
    critic = _trained_critic(tiny_model(), rows, precision="bfloat16")
    (values,) = critic.values(rows[:1])
    assert any(float(value) != float(torch.tensor(value).bfloat16()) for value in values)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # peft calls what transformers has renamed
def test_a_critic_of_an_adapted_policy_trains_adapters_and_head(tiny_model: Model, make_trajectory: Make) -> None:
    policy = get_peft_model(tiny_model(), LoraConfig(r=2, target_modules=["q_proj", "v_proj"]))
    rows = _rows(make_trajectory)
    critic = Critic(value_model(policy), FAST)  # type: ignore[arg-type]
    before = {name: torch.as_tensor(value).clone() for name, value in critic.state().items()}
    critic.train([[_stream(rows)]] * 3)
    changed = {
        name
        for name, value in critic.state().items()
        if name in before and not torch.equal(before[name], torch.as_tensor(value))
    }
    changed_weights = {name for name in changed if name.startswith("weights.")}
    assert changed_weights
    assert all("lora" in name or "lm_head" in name for name in changed_weights)
    assert any("lm_head" in name for name in changed_weights)


def test_a_critic_resumes_bitwise_from_its_state(tiny_model: Model, make_trajectory: Make) -> None:
    rows = _rows(make_trajectory)
    first = _trained_critic(tiny_model(), rows)
    state = {
        name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in first.state().items()
    }
    second = Critic(value_model(tiny_model()), FAST)
    second.load_state(state)
    for critic in (first, second):
        critic.train([[_stream(rows)]] * 3)
    for uninterrupted, resumed in zip(first.values(rows), second.values(rows), strict=True):
        assert uninterrupted.tolist() == resumed.tolist()


def test_a_critic_of_another_model_and_a_state_without_one_are_refused(
    tiny_model: Model, make_trajectory: Make
) -> None:
    other = Critic(value_model(tiny_model(layers=2)), FAST)
    with pytest.raises(TrainingError, match="the weights belong to another architecture"):
        Critic(value_model(tiny_model()), FAST).load_state(other.state())
    with pytest.raises(TrainingError, match="the weights belong to another architecture"):
        other.load_state({})


def test_a_policy_is_refused_as_critic(tiny_model: Model) -> None:
    with pytest.raises(TrainingError, match="the output layer of this Qwen2ForCausalLM has 20; make one from"):
        Critic(tiny_model(), FAST)


def test_a_sharded_policy_is_not_copied(tiny_model: Model) -> None:
    policy = tiny_model()
    setattr(policy, "upturn_world", World(0, 2, 0, "cpu"))  # noqa: B010  # as ``shard`` marks it
    with pytest.raises(TrainingError, match="make the critic with value_model first, then shard both"):
        value_model(policy)


def test_non_finite_values_are_refused_by_name(tiny_model: Model, make_trajectory: Make) -> None:
    policy = tiny_model()
    with torch.no_grad():
        policy.get_decoder().norm.weight.fill_(float("nan"))
    with pytest.raises(TrainingError, match=r"the critic's value .*nan.* in trajectory 't0'"):
        Critic(value_model(policy), replace(FAST, packing="padded")).values(_rows(make_trajectory))


CHAIN = 3
"""States of a chain: from each, with probability 3/4, to the next, else to the end with reward 0; the last step has
reward 1. Exact values: (3/4)^(3 − state)."""


def test_a_critic_learns_the_true_values_of_a_known_process(tiny_model: Model, make_trajectory: Make) -> None:
    """Fitted to the rewards of 400 chains. An estimate from those that reach a state has a standard error of at
    most √(.25/225) = .033 there; .12 is more than three of them."""
    rng = np.random.default_rng(0)
    rows: list[TrainingRow] = []
    for index in range(400):
        reached = int(np.argmax([*(rng.random(CHAIN) > 0.75), True]))
        reward = float(reached == CHAIN)
        turns = min(reached + 1, CHAIN)
        tokens = [token for turn in range(turns) for token in (10 + turn, 3)]
        spans = [(turn, 2 * turn + 1, 2 * turn + 2) for turn in range(turns)]
        rows += policy_rows(make_trajectory(tokens, spans, name=str(index)), [reward] * turns)
    critic = Critic(value_model(tiny_model()), FAST)
    critic.train([[_stream(rows)]] * 60)
    longest = max(rows, key=lambda row: len(row.positions))
    (values,) = critic.values([longest])
    assert values.tolist() == pytest.approx([0.75**3, 0.75**2, 0.75], abs=0.12)
