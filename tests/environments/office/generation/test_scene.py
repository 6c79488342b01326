"""Base offices of the splits: none is in both, and long mails are in one split only."""

import pytest

from upturn.environments.office.generation.profile import profile
from upturn.environments.office.generation.scene import OFFICES
from upturn.environments.office.state import Mail, Workspace
from upturn.environments.office.tasks import FAMILIES, compose, make_task
from upturn.records import Split

SPLITS: tuple[Split, ...] = ("train", "heldout")


def staff_of(office: Workspace) -> tuple[str, ...]:
    """Returns the owner and all people, which identify a base office and which no task changes."""
    return (office.owner, *office.people)


def mails_of(split: Split) -> list[Mail]:
    return [mail for number in OFFICES[split] for mail in profile(number).mails.values()]


def test_no_base_office_serves_both_splits() -> None:
    staffs = {split: [staff_of(profile(number)) for number in OFFICES[split]] for split in SPLITS}
    assert {split: len(set(staff)) for split, staff in staffs.items()} == {"train": 64, "heldout": 64}
    assert not set(staffs["train"]) & set(staffs["heldout"])


@pytest.mark.parametrize("split", SPLITS)
def test_tasks_of_a_split_are_in_its_base_offices_and_use_all_of_them(split: Split) -> None:
    offices = {staff_of(profile(number)) for number in OFFICES[split]}
    tasks = [make_task(family, number, split=split) for family in FAMILIES for number in range(5)]
    assert {staff_of(compose(task).workspace) for task in tasks} == offices


def test_mails_that_both_splits_hold_word_for_word_are_short() -> None:
    """The grammar repeats short texts such as "yes, that works." The shares are exact, since offices are fixed."""
    training = {mail.body for mail in mails_of("train")}
    both = {
        words: [mail.body in training for mail in mails_of("heldout") if len(mail.body.split()) > words]
        for words in (0, 5, 10, 15, 20)
    }
    shares = {words: round(100 * sum(shared) / len(shared), 1) for words, shared in both.items()}
    assert shares == {0: 40.5, 5: 19.6, 10: 3.5, 15: 0.6, 20: 0.0}


def test_hardly_a_mail_is_in_both_splits_with_its_sender_and_subject() -> None:
    training = {(mail.sender, mail.subject, mail.body) for mail in mails_of("train")}
    heldout = [(mail.sender, mail.subject, mail.body) for mail in mails_of("heldout")]
    assert (sum(mail in training for mail in heldout), len(heldout)) == (90, 34_673)
