"""Pre-training of the model ``nano-errands``: tokenizer, schedule and demonstrations. Start with ``recipe``."""

from benchmarks.errands.pretraining.recipe import ERRANDS

__all__ = ["ERRANDS"]
