import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from upturn.models.engine import weights, weights_hash


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


def test_large_tensors_are_hashed_in_pieces_and_each_piece_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    config = Qwen2Config(vocab_size=301, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                         num_attention_heads=2, num_key_value_heads=1)  # fmt: skip
    model = Qwen2ForCausalLM(config).requires_grad_(False)
    whole = weights_hash(model)
    monkeypatch.setattr(weights, "_PIECE", 1024)
    monkeypatch.setattr(weights, "_PENDING", 3)
    first = weights_hash(model)
    assert first != whole  # only tensors of up to 4 MB keep the hash of their bits
    hashes = {first}
    for row in (0, 40, 150, 300):  # of ten pieces of the embedding
        model.model.embed_tokens.weight[row, 3] += 1.0
        hashes.add(weights_hash(model))
    assert len(hashes) == 5
    assert weights_hash(model) in hashes
