"""The model of a measurement: a Qwen2 of any size, with random weights drawn from a seed."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedModel

HEAD_WIDTH = 64
"""Width of one attention head, as in Qwen2 and Qwen3 of every size below 2 B."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Shape and seed of a model: grouped-query attention, an MLP, a head tied to the embedding."""

    width: int = 256
    layers: int = 6
    vocabulary: int = 4_096
    positions: int = 4_096
    seed: int = 0
    key_value_heads: int | None = None
    """None = half as many as attention heads."""
    feed_forward: int | None = None
    """Width inside the MLP; None = four times the model's width."""

    @property
    def heads(self) -> int:
        """Attention heads, at least two."""
        return max(2, self.width // HEAD_WIDTH)

    @property
    def shared_heads(self) -> int:
        """Key-value heads."""
        return self.heads // 2 if self.key_value_heads is None else self.key_value_heads

    @property
    def inner_width(self) -> int:
        """Width inside the MLP."""
        return 4 * self.width if self.feed_forward is None else self.feed_forward


def build_model(spec: ModelSpec, device: str = "cpu") -> "PreTrainedModel":
    """The model in float32; equal specs and devices give equal weights in every process of one torch version."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        vocab_size=spec.vocabulary,
        hidden_size=spec.width,
        intermediate_size=spec.inner_width,
        num_hidden_layers=spec.layers,
        num_attention_heads=spec.heads,
        num_key_value_heads=spec.shared_heads,
        max_position_embeddings=spec.positions,
        tie_word_embeddings=True,
        attention_dropout=0.0,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    torch.manual_seed(spec.seed)
    with torch.device(device):  # half a billion random numbers take a CPU ten seconds
        return Qwen2ForCausalLM(config)
