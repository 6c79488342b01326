import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from upturn.models.engine import weights_hash


def test_the_hash_changes_with_one_bit_and_only_with_the_weights() -> None:
    config = Qwen2Config(vocab_size=11, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                         num_attention_heads=2, num_key_value_heads=1)  # fmt: skip
    first, second = Qwen2ForCausalLM(config).requires_grad_(False), Qwen2ForCausalLM(config)
    second.load_state_dict(first.state_dict())
    assert weights_hash(first) == weights_hash(second)
    assert len(weights_hash(first)) == 32
    weight = first.model.norm.weight
    weight[0] = torch.nextafter(weight[0], torch.tensor(9.0))
    assert weights_hash(first) != weights_hash(second)
    assert weights_hash(second) != weights_hash(second.bfloat16())
