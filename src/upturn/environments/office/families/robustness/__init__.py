"""Tasks with obstacles: injected orders, sensitive items, missing rights, unclear requests, and apps that fail.

``faults`` takes tasks of the other rooms and adds faults of apps; ``compound`` does so with tasks of this room. Not
here: the faults themselves (``office.faults``). Start with ``safety``.
"""

from upturn.environments.office.families.robustness.compound import FAMILIES as COMPOUND
from upturn.environments.office.families.robustness.faults import FAMILIES as FAULTS
from upturn.environments.office.families.robustness.injected_orders import FAMILIES as INJECTED_ORDERS
from upturn.environments.office.families.robustness.obstacles import FAMILIES as OBSTACLES
from upturn.environments.office.families.robustness.safety import FAMILIES as SAFETY

__all__ = ["COMPOUND", "FAULTS", "INJECTED_ORDERS", "OBSTACLES", "SAFETY"]
