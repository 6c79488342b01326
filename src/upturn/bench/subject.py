"""The model that is updated in a measurement: a Qwen2 of the asked size with random weights from a seed."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedModel

HEAD_WIDTH = 64
"""Of one attention head, as in Qwen2 and Qwen3 of every size below 2 B."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Its shape: grouped-query attention with half as many key-value heads, an MLP of four widths, tied head."""

    width: int = 256
    layers: int = 6
    vocabulary: int = 4_096
    positions: int = 4_096
    seed: int = 0

    @property
    def heads(self) -> int:
        """Attention heads, at least two."""
        return max(2, self.width // HEAD_WIDTH)


def build_model(subject: Subject) -> "PreTrainedModel":
    """The model in float32; equal subjects have equal weights in every process of one torch version."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        vocab_size=subject.vocabulary,
        hidden_size=subject.width,
        intermediate_size=4 * subject.width,
        num_hidden_layers=subject.layers,
        num_attention_heads=subject.heads,
        num_key_value_heads=subject.heads // 2,
        max_position_embeddings=subject.positions,
        tie_word_embeddings=True,
        attention_dropout=0.0,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    torch.manual_seed(subject.seed)
    model: PreTrainedModel = Qwen2ForCausalLM(config)
    return model
