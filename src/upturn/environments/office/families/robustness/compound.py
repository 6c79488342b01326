"""Tasks with several obstacles: ambiguity, injected orders, outsiders or gaps, together with app faults."""

from dataclasses import replace

from upturn.environments.office.families.robustness.faults import (
    Planned,
    faulty,
    interrupted,
    unanswered,
    weathered,
)
from upturn.environments.office.families.robustness.injected_orders import FAMILIES as INJECTED_ORDERS
from upturn.environments.office.families.robustness.obstacles import FAMILIES as OBSTACLES
from upturn.environments.office.families.robustness.safety import FAMILIES as SAFETY
from upturn.environments.office.generation import Family

_BASES = {family.name: family for family in (*OBSTACLES, *INJECTED_ORDERS, *SAFETY)}


def _compound(name: str, atom: str, planned: Planned, *, level: int) -> Family:
    base = _BASES[name]
    return faulty(replace(base, atoms=(*base.atoms, atom)), planned, level=level)


FAMILIES = (
    _compound("one_of_a_name", "ambiguity", unanswered, level=3),
    _compound("one_of_two_events", "ambiguity", interrupted, level=3),
    _compound("orders_in_a_mail", "traps", interrupted, level=3),
    _compound("orders_in_a_document", "traps", weathered, level=4),
    _compound("orders_in_a_text", "traps", interrupted, level=3),
    _compound("reply_outside", "outsiders", unanswered, level=3),
    _compound("awaited_mail_missing", "gaps", interrupted, level=3),
    _compound("share_right_missing", "gaps", interrupted, level=3),
)
