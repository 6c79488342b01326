"""How the model ``nano-errands`` is made: tokenizer, schedule and demonstrations. Start with ``course``."""

from benchmarks.errands.pretraining.course import ERRANDS

__all__ = ["ERRANDS"]
