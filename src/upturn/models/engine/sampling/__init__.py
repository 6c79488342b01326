"""Sampling of tokens from logits: options such as top-p, stop strings, grammars. Needs torch.

Not here: which rows are sampled and when (``engine.batch``). Start with ``sampler``, then ``options``.
"""

from upturn.models.engine.sampling.grammar import Grammars
from upturn.models.engine.sampling.options import SlotOptions
from upturn.models.engine.sampling.reshape import on_device
from upturn.models.engine.sampling.sampler import Sampled, sample, stream_of, uniforms
from upturn.models.engine.sampling.stop_strings import Decode, StopStrings

__all__ = [
    "Decode",
    "Grammars",
    "Sampled",
    "SlotOptions",
    "StopStrings",
    "on_device",
    "sample",
    "stream_of",
    "uniforms",
]
