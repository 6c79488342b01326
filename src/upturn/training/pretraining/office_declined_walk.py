"""A drill for declined proposals: propose what the user asked for, or finally give up."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from upturn.environments.office import OfficeKit, compose
from upturn.environments.office.generation import refusal, with_agreement
from upturn.environments.office.state import PATIENCE
from upturn.records import Action, Task
from upturn.training.pretraining.demonstration import Walk, walked

FAMILIES = (
    *("mail_reply", "mail_forward", "mail_send_number", "chat_message", "reply_outside"),
    *("mail_attachment", "book_to_mail", "chat_answer"),
    *("budget_mailed_to_whoever_asks", "channel_question_answered"),
)
"""Families in which the user must agree to a text or a number."""
GIVEN_UP = 0.2
"""Share of the walks in which every proposal is wrong, until the user's patience ends."""
_SAID = ("body", "text", "subject")
"""Parameters with that text."""


def declined_walk(number: int, task_of: Callable[[str, int], Task], words: Sequence[str]) -> Walk:
    """The oracle's walk with one or two wrong proposals, which are not trained on.

    When the user's patience ends, the walk ends with a refusal: declined actions are not executed.
    """
    rng = Random(f"declined/{number}")
    task = task_of(rng.choice(FAMILIES), number)
    oracle = compose(task).draft.oracle
    place = next(place for place, action in enumerate(oracle) if action.operation == "preview")
    wanted, is_given_up = oracle[place + 2], rng.random() < GIVEN_UP
    done = [(action, False) for action in oracle[:place]]
    for _ in range(PATIENCE if is_given_up else 1):
        preview, confirm, _ = with_agreement(_mistaken(rng, wanted, words))
        done += [(preview, True), (confirm, False)]
    done += [(action, False) for action in ([refusal("you did not agree")] if is_given_up else oracle[place:])]
    return walked(OfficeKit().environment(task), task, done)


def _mistaken(rng: Random, action: Action, words: Sequence[str]) -> Action:
    """The action with one word or number of its text removed, replaced or inserted."""
    name = next(each for each in _SAID if each in action.parameters)
    text = str(action.parameters[name])
    said = text
    while said == text:
        parts = text.split(" ")
        place = rng.randrange(len(parts))
        other = str(rng.randint(2, 999)) if parts[place].isdigit() else rng.choice(words)
        parts[place : place + 1] = rng.choice(([], [other], [parts[place], other]) if parts[1:] else ([other],))
        said = " ".join(parts)
    return replace(action, parameters={**action.parameters, name: said})
