"""A grammar for background text of an office, which no task depends on."""

import re
from collections.abc import Mapping, Sequence
from random import Random

RULES: Mapping[str, Sequence[str]] = {
    "mail": ("{hello}\n{point}\n{bye}", "{hello}\n{point} {point}\n{bye}", "{point}\n{bye}", "{point} {ask}"),
    "answer": ("{thanks}\n{point}", "{thanks} {ask}", "{yes}", "{yes} {point}\n{bye}", "{no}"),
    "chat": ("{point}", "{ask}", "{yes}", "{no}", "{thanks}", "{link}"),
    "note": ("{point} {point}", "{point} {plan}", "{plan} {plan} {point}"),
    "hello": ("hi {you},", "hello {you},", "dear {you},", "good morning,", "hi all,", "{you},"),
    "bye": ("best, {me}", "thanks, {me}", "{me}", "cheers, {me}", "regards, {me}", "see you, {me}"),
    "point": (
        "the {thing} for {project} is {state}.",
        "{who} {did} the {thing} {when}.",
        "we {did} the {thing}, and {who} will look at it {when}.",
        "{project} is {state}, mostly because of the {thing}.",
        "the {thing} is {state}; {who} knows more.",
        "there is a new version of the {thing} in the {place}.",
        "nobody has {did} the {thing} yet.",
        "the {place} has the latest {thing}.",
    ),
    "plan": (
        "{when} {who} will have {did} the {thing}.",
        "the next step is the {thing}, which {who} takes on.",
        "the {thing} comes first, the rest {when}.",
        "{project} goes on {when}.",
    ),
    "ask": (
        "could you look at the {thing}?",
        "who has {did} the {thing}?",
        "is the {thing} {state}?",
        "do we need {who} for the {thing}?",
        "when is the {thing} due?",
    ),
    "link": ("it is in the {place}.", "see the {place} for the {thing}.", "{who} put it into the {place}."),
    "thanks": ("thanks for that.", "thank you, {you}.", "got it.", "good to know.", "many thanks."),
    "yes": ("yes, that works.", "fine with me.", "agreed.", "sounds good.", "i will do that {when}."),
    "no": ("not before {when}.", "i am afraid not.", "let us wait for {who}.", "i would rather not."),
    "thing": (
        *("budget", "draft", "contract", "slide deck", "agenda", "invoice", "survey", "schedule", "poster"),
        *("offer", "price list", "report", "room plan", "guest list", "travel plan", "brochure", "sample", "order"),
    ),
    "state": (
        *("on track", "late", "nearly done", "ready", "on hold", "under review", "waiting for an answer"),
        *("better than last time", "still open", "in good shape"),
    ),
    "did": ("finished", "checked", "sent out", "changed", "reviewed", "printed", "ordered", "signed", "updated"),
    "when": (
        *("next week", "by friday", "on monday", "tomorrow", "after the holidays", "this month", "before lunch"),
        *("at the end of the week", "soon"),
    ),
    "place": ("shared folder", "site", "channel", "archive", "finance folder", "project folder"),
}
"""By symbol; ``{you}``, ``{me}``, ``{who}`` and ``{project}`` are arguments of ``composed``."""
_SYMBOL = re.compile(r"\{(\w+)\}")


def composed(rng: Random, symbol: str, symbols: Mapping[str, Sequence[str]]) -> str:
    """A text for the symbol; symbols in ``symbols`` are drawn from there instead of ``RULES``."""

    def expanded(match: re.Match[str]) -> str:
        name = match[1]
        return rng.choice(symbols[name]) if name in symbols else composed(rng, name, symbols)

    return _SYMBOL.sub(expanded, rng.choice(RULES[symbol]))
