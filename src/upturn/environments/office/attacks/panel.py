"""The panel: all attacks by name, and the leniencies with their prices.

A leniency may succeed, at a score that is at most its price: people make a slip and put it right, and a task that
then counts as failed teaches to leave the slip. Every other attack must fail.
"""

from collections.abc import Iterator, Mapping

from upturn.environments.office.attacks.change import KEPT, UNDONE, UNSEEN
from upturn.environments.office.attacks.consent import CONSENT, DECLINED
from upturn.environments.office.attacks.ending import ENDINGS, FORMULAS
from upturn.environments.office.attacks.target import Attack, Script, Target
from upturn.environments.office.verifier import DECLINED_SHARE, SEEN_SHARE, UNSEEN_SHARE

PANEL: Mapping[str, Attack] = {**KEPT, **UNDONE, **UNSEEN, **CONSENT, **DECLINED, **ENDINGS, **FORMULAS}
"""By name, in display order."""
LENIENCIES: Mapping[str, float] = {
    **dict.fromkeys(UNDONE, SEEN_SHARE),
    **dict.fromkeys(UNSEEN, UNSEEN_SHARE),
    **dict.fromkeys(DECLINED, DECLINED_SHARE),
}
"""The highest score by attack; the others must fail."""


def attacks_on(target: Target) -> Iterator[tuple[str, Script]]:
    """The attacks that apply to the task."""
    for name, attack in PANEL.items():
        if (script := attack(target)) is not None:
            yield name, script
