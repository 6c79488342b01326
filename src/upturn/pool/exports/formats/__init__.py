"""The formats that trainers read, by name.

A new format is a module here and an entry in ``FORMATS``; ``table`` writes files of rows. Start with ``format``.
"""

from collections.abc import Mapping

from upturn.pool.exports.formats.format import ColumnKind, Columns, TrainingFormat
from upturn.pool.exports.formats.preference import DPO, KTO
from upturn.pool.exports.formats.prompts import GRPO, VERL
from upturn.pool.exports.formats.supervised import PROMPT_COMPLETION, SFT
from upturn.pool.exports.formats.table import WRITERS
from upturn.pool.exports.formats.transitions import TRANSITIONS

FORMATS: Mapping[str, TrainingFormat] = {
    "sft": SFT,
    "prompt-completion": PROMPT_COMPLETION,
    "dpo": DPO,
    "kto": KTO,
    "grpo": GRPO,
    "verl": VERL,
    "transitions": TRANSITIONS,
}
"""By the name that ``upturn pool export --as`` takes."""

__all__ = ["FORMATS", "WRITERS", "ColumnKind", "Columns", "TrainingFormat"]
