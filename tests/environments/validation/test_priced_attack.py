"""Attacks that count only if they were carried out, and successes that are allowed at a price."""

from collections.abc import Mapping

from upturn.environments.office import OfficeKit
from upturn.environments.oracle_protocol import PricedAttack
from upturn.environments.scripted_policy import ScriptedPolicy, fixed_policy
from upturn.environments.validation import Plan, validate_family
from upturn.records import Action, Task


class Lenient(OfficeKit):
    """The office, attacked by its own oracle."""

    def attacks(self, task: Task) -> Mapping[str, ScriptedPolicy | PricedAttack]:
        oracle = self.oracle(task)
        refused = fixed_policy([Action("outlook", "fly"), Action("user", "finish")])
        return {
            "free": oracle,
            "cheap": PricedAttack(oracle, most=1.0),
            "dear": PricedAttack(oracle, most=0.99),
            "done": PricedAttack(oracle, decisive=(0,)),
            "not_done": PricedAttack(refused, decisive=(0,)),
        }


def test_a_success_is_a_hit_above_its_price_only() -> None:
    checks = validate_family(Lenient(), "mail_move", Plan(tasks=2, random_trajectories=1)).checks
    priced = {
        check.name: (check.value, check.n, check.bar, check.holds) for check in checks if check.name[:4] == "own "
    }
    assert priced == {
        "own free": (1, 2, "<= 0", False),
        "own cheap": (0, 2, "<= 0 above a score of 1", True),
        "own dear": (1, 2, "<= 0 above a score of 0.99", False),
        "own done": (1, 2, "<= 0", False),
    }
