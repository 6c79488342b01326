"""The pre-training of ``nano-errands`` in two phases: single operations, look-ups and level 1 until copying is
reliable, then a little of levels 2 and 3. Composing operations is left to the training loop.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from benchmarks.errands import ENVIRONMENT, LEARNED
from benchmarks.errands.pretraining.demonstrations import demonstration
from upturn.training.pretraining import Phase, Recipe, demonstration_texts, new_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

VOCABULARY = 1024
PATTERN = r" ?[a-z]+(?:\.[a-z]+)?=?| ?[A-Z]+|[0-9]{1,2}|\n| ?[^\sA-Za-z0-9]|\s"
"""Byte pairs are merged within these pieces: words with their space, an operation with its dot, two digits. So ids,
hours and amounts are one token each, and are copied in one step."""
SKILLS = Phase(
    name="skills",
    first_step=0,
    steps=1800,
    mixture={"mail_file": 2.0, "event_add": 2.0, "cell_ask": 2.0, "drill": 8.0, "pick": 4.0},
    learning_rate=2e-3,
    warmup_steps=100,
    decay_steps=400,
)
GLIMPSES = Phase(
    name="glimpses",
    first_step=SKILLS.steps,
    steps=76,
    mixture={
        "mail_file": 2.5,
        "event_add": 1.5,
        "cell_ask": 2.0,
        "drill": 5.0,
        "pick": 3.0,
        "glimpse:mail_reply": 0.015,
        "glimpse:event_shift": 0.17,
        "glimpse:sheet_total": 0.06,
        "glimpse:mail_to_event": 0.7,
        "glimpse:mail_to_sheet": 1.2,
        "glimpse:call_off": 0.08,
    },
    learning_rate=1e-3,
    warmup_steps=20,
    decay_steps=38,
)


def _texts(count: int = 1500) -> Iterator[str]:
    """Texts for the tokenizer: ``count`` demonstrations of every kind, with numbers that no step uses."""
    for kind in (*LEARNED, "drill", "drill", "pick"):
        for number in range(count):
            yield from demonstration_texts(demonstration(kind, 10_000_000 + number))


def _tokenizer() -> "Tokenizer":
    return new_tokenizer(_texts(), PATTERN, VOCABULARY)


ERRANDS = Recipe(
    model="nano-errands",
    environment=ENVIRONMENT,
    families=LEARNED,
    data="Generated demonstrations only: oracle walks through errands (training templates, task numbers that no "
    "run uses), drills of one operation and look-ups of one thing. No held-out template, no text from elsewhere.",
    schedule=(SKILLS, GLIMPSES),
    demonstration=demonstration,
    new_tokenizer=_tokenizer,
    vocabulary=VOCABULARY,
    positions=1024,
    max_turns=10,
    max_tokens=240,
    max_action_tokens=40,
)
