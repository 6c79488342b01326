"""Named attacks on the office's verifier, for ``upturn env validate office``.

Here: oracle solutions with one thing wrong on the way or at the end. None may succeed, except where a leniency is
stated with its price. Not here: attacks on any kit (``upturn.environments.validation``). Start with ``panel``.
"""

from upturn.environments.office.attacks.panel import LENIENCIES, PANEL, attacks_on
from upturn.environments.office.attacks.target import Script, Target

__all__ = ["LENIENCIES", "PANEL", "Script", "Target", "attacks_on"]
