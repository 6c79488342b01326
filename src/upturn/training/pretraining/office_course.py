"""How ``nano`` is made. Copying first, since everything else rests on it, then with some of level 1; then all of
that, and the higher levels in three of their ten phrasings. What is then missing the loop is to add.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from upturn.environments.office.tasks import FAMILIES
from upturn.training.pretraining.course import Course
from upturn.training.pretraining.office_walks import UNDRILLED, walk
from upturn.training.pretraining.phase import Phase
from upturn.training.pretraining.tokenizer import GLUE, new_tokenizer, said

if TYPE_CHECKING:
    from tokenizers import Tokenizer

VOCABULARY = 4096
_ENDINGS = "xlsx|docx|pptx|png|txt|md|example"
PATTERN = (
    rf"\\[=;n\\]{GLUE}?| ?[a-z]+(?:_[a-z]+)*={GLUE}?| ?[a-z]+\.(?!{_ENDINGS})[a-z]+(?:_[a-z]+)*|\.[a-z]+"
    rf"| ?[A-Z]?[a-z]+| ?[A-Z]+| ?20[0-9]{{2}}-{GLUE} [0-9]{{2}}-{GLUE}| ?[0-9]{{2}}:{GLUE}| ?[0-9]{{1,3}}"
    rf"|\n{GLUE}?| ?[^\sA-Za-z0-9{GLUE}\\]{GLUE}?|\s"
)
"""Pieces that byte pairs are merged within: words, people and operations by their full names, a parameter with its
equals sign, a month with its year, an hour with its colon, three digits. So whoever is named is one token, a date
and an id are two: copying them is as many steps, and nobody gets another's surname."""
LEVEL_1 = (
    *("mail_number", "mail_flag", "mail_move", "event_move", "event_invite", "chat_number", "cell_set"),
    "orders_in_a_mail",
)
LEVEL_2 = (
    *("mail_reply", "mail_forward", "event_move_after", "chat_message", "reply_outside", "sensitive_sorted"),
    *("cell_set_relocated", "event_move_denied"),
)
LEVEL_3 = (
    *("mail_to_book", "book_to_mail", "chat_answer", "mail_move_partly", "event_invite_partly"),
    "mail_forward_denied",
)
LEVEL_4 = (
    *("price_from_attachment_to_slide", "late_one_reminded", "decisions_to_slide"),
    "budget_mailed_to_whoever_asks",
)
LEARNED = (*LEVEL_1, *LEVEL_2, *LEVEL_3, *LEVEL_4)
"""Families that it is shown: some with faults, some with traps."""

COPYING = Phase(
    name="copying",
    first_step=0,
    steps=700,
    mixture={"echo": 4.0, "order": 4.0, "pick": 3.0},
    learning_rate=3e-3,
    warmup_steps=100,
    decay_steps=1,
)
COPYING_WELL = Phase(
    name="copying-well",
    first_step=COPYING.steps,
    steps=500,
    mixture={**COPYING.mixture, **dict.fromkeys(LEVEL_1, 0.3)},
    learning_rate=2e-3,
    warmup_steps=20,
    decay_steps=1,
)
SKILLS = Phase(
    name="skills",
    first_step=COPYING.steps + COPYING_WELL.steps,
    steps=900,
    mixture={
        **dict.fromkeys(LEVEL_1, 1.2),
        **{f"3:{family}": 0.8 for family in LEVEL_2},
        **{f"3:{family}": 0.9 for family in LEVEL_3},
        **{f"3:{family}": 1.2 for family in LEVEL_4},
        **{"echo": 1.5, "order": 3.0, "pick": 3.0},
    },
    learning_rate=2e-3,
    warmup_steps=60,
    decay_steps=400,
)


def _texts(count: int = 60) -> Iterator[str]:
    """What the tokenizer is made from: walks of every family and drill, from numbers that no step uses."""
    families = [name for name in FAMILIES if name not in UNDRILLED]
    for kind in (*families, *["echo"] * 3, *["order"] * 6, *["pick"] * 3):
        for number in range(count):
            yield from said(walk(kind, 10_000_000 + number), are_errors_told=True)


def _tokenizer() -> "Tokenizer":
    return new_tokenizer(_texts(), PATTERN, VOCABULARY, is_glued=True)


OFFICE = Course(
    model="nano",
    environment="office",
    families=LEARNED,
    data="Generated demonstrations only: oracle walks through the office's tasks (training templates, a third of "
    "them with words left out or replaced; task numbers that no run uses) and drills of copying, of single "
    "operations and of choosing from lists. No held-out template, no text from elsewhere.",
    schedule=(COPYING, COPYING_WELL, SKILLS),
    walk=walk,
    new_tokenizer=_tokenizer,
    vocabulary=VOCABULARY,
    positions=2048,
    max_turns=12,
    max_tokens=512,
    max_action_tokens=48,
)
