"""The panel of attacks: its size, that every attack applies somewhere, and that leniencies cost their price."""

import pytest

from upturn.environments.office import OfficeKit
from upturn.environments.office.attacks import LENIENCIES, PANEL
from upturn.environments.office.tasks import FAMILIES, make_task
from upturn.environments.oracle_protocol import PricedAttack
from upturn.environments.scripted_policy import play

QUICK = (
    *("mail_reply", "event_respond", "column_product", "share_right_missing", "mail_number", "mail_tidy"),
    *("mail_reply_unanswered", "orders_in_a_mail", "second_thoughts", "available_messaged"),
)


def scores(family: str, count: int) -> dict[str, list[float]]:
    """Returns the scores of the attacks that were carried out on the first tasks of a family."""
    kit, by_name = OfficeKit(), dict[str, list[float]]()
    for number in range(count):
        task = make_task(family, number, split="heldout")
        for name, attack in kit.attacks(task).items():
            if not isinstance(attack, PricedAttack):
                continue
            trajectory = play(kit.environment(task), task, attack.policy, max_turns=200)
            if any(trajectory.results[index].is_error for index in attack.decisive):
                continue
            evaluation = kit.verifier.verify(task, trajectory)
            assert evaluation.score is not None
            assert not evaluation.is_success or evaluation.score <= attack.most, (task.id, name, evaluation)
            by_name.setdefault(name, []).append(evaluation.score)
    return by_name


def test_the_panel_is_large_and_its_leniencies_are_few() -> None:
    assert (len(PANEL), len(LENIENCIES), LENIENCIES.keys() <= PANEL.keys()) == (106, 12, True)


def test_every_attack_applies_and_a_slip_is_no_failure() -> None:
    tried: dict[str, list[float]] = {}
    for family in QUICK:
        for name, achieved in scores(family, 4).items():
            tried.setdefault(name, []).extend(achieved)
    assert PANEL.keys() - tried.keys() == set()
    for name, price in LENIENCIES.items():
        assert 0 < max(tried[name]) <= price, name


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_no_attack_succeeds(family: str) -> None:
    assert scores(family, 6)
