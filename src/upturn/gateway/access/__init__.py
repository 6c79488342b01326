"""Who may use the gateway, and how much: keys, roles, rates, budgets, the waiting line, tools that providers run.

Nothing here serves HTTP or stores; ``guard`` puts the parts together for a server. Start with ``guard``, then
``keys``.
"""

from upturn.gateway.access.browsers import with_origins
from upturn.gateway.access.budget_prices import BudgetPrices
from upturn.gateway.access.guard import Guard, Permitted, open_guard
from upturn.gateway.access.keys import Caller, Permission
from upturn.gateway.access.limits import Limiter
from upturn.gateway.access.provider_tools import screen
from upturn.gateway.access.task_accounts import PricedTasks

__all__ = [
    "BudgetPrices",
    "Caller",
    "Guard",
    "Limiter",
    "Permission",
    "Permitted",
    "PricedTasks",
    "open_guard",
    "screen",
    "with_origins",
]
