"""A drill of what to do when the user does not agree: propose what they asked for, or in the end leave it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from upturn.environments.office import OfficeKit, compose
from upturn.environments.office.generation import agreed, refusal
from upturn.environments.office.state import PATIENCE
from upturn.records import Action, Task
from upturn.training.pretraining.demonstration import Walk, walked

FAMILIES = (
    *("mail_reply", "mail_forward", "mail_send_number", "chat_message", "reply_outside"),
    *("mail_attachment", "book_to_mail", "chat_answer"),
    *("budget_mailed_to_whoever_asks", "channel_question_answered"),
)
"""In which the user has to agree to words or a number."""
GIVEN_UP = 0.2
"""Share of the walks in which every proposal is mistaken, until the user has enough."""
_SAID = ("body", "text", "subject")
"""Parameters that hold them."""


def declined_walk(number: int, task_of: Callable[[str, int], Task], words: Sequence[str]) -> Walk:
    """The oracle's walk, but for a proposal or two that the user did not ask for; none of these is to be learned.

    Once the user agrees to nothing more, the walk ends with a refusal: what they declined is not done.
    """
    rng = Random(f"declined/{number}")
    task = task_of(rng.choice(FAMILIES), number)
    oracle = compose(task).draft.oracle
    place = next(place for place, action in enumerate(oracle) if action.operation == "preview")
    wanted, is_given_up = oracle[place + 2], rng.random() < GIVEN_UP
    done = [(action, False) for action in oracle[:place]]
    for _ in range(PATIENCE if is_given_up else 1):
        preview, confirm, _ = agreed(_mistaken(rng, wanted, words))
        done += [(preview, True), (confirm, False)]
    done += [(action, False) for action in ([refusal("you did not agree")] if is_given_up else oracle[place:])]
    return walked(OfficeKit().environment(task), task, done)


def _mistaken(rng: Random, action: Action, words: Sequence[str]) -> Action:
    """The same with a word or number of what is said left out, replaced or put in."""
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
