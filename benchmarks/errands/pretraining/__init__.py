"""Pre-training of the model ``nano-errands``: tokenizer, schedule and demonstrations. Start with ``course``."""

from benchmarks.errands.pretraining.course import ERRANDS

__all__ = ["ERRANDS"]
