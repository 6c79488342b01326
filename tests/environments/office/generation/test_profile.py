"""Base profiles: realistic size, determinism, diversity and consistency."""

import itertools
from random import Random
from statistics import median

from upturn.environments.office.generation.profile import START, profile
from upturn.environments.office.generation.scene import Scene


def test_a_profile_is_as_large_as_a_persons_office() -> None:
    for number in (0, 1, 63):
        office = profile(number)
        assert len(office.mails) >= 500
        assert len(office.files) >= 20
        assert len(office.events) == 60
        assert (len(office.people), len(office.channels), len(office.chats)) == (40, 4, 8)


def test_a_profile_is_generated_once_and_deterministic() -> None:
    first = profile(3)
    assert profile(3) is first
    profile.cache_clear()
    again = profile(3)
    assert again is not first
    assert (dict(again.mails), dict(again.files), again.owner) == (
        dict(first.mails),
        dict(first.files),
        first.owner,
    )


def test_profiles_differ_in_everything() -> None:
    one, two = profile(1), profile(2)
    assert one.owner != two.owner
    assert not {mail.body for mail in one.mails.values() if len(mail.body) > 60} & {
        mail.body for mail in two.mails.values() if len(mail.body) > 60
    }


def test_ids_threads_and_times_of_a_profile_are_consistent() -> None:
    office = profile(5)
    for table in (
        office.people,
        office.mails,
        office.events,
        office.files,
        office.pages,
        office.chats,
        office.channels,
    ):
        assert all(item.id == id_ for id_, item in table.items())
    assert all(not mail.thread or mail.thread in office.mails for mail in office.mails.values())
    assert all(mail.at < START for mail in office.mails.values())
    assert all(event.start < event.end for event in office.events.values())
    assert len({file.path for file in office.files.values()}) == len(office.files)
    assert all(file.owner in office.people for file in office.files.values())


def test_ids_do_not_reveal_what_belongs_to_a_task() -> None:
    for prefix, name in (("m", "mails"), ("e", "events"), ("f", "files"), ("c", "channels")):
        below = []
        for seed in range(8):
            scene = Scene(Random(seed))
            middle = median(int(id_[1:]) for id_ in getattr(scene.workspace, name)) if prefix == "m" else 549.5
            below += [int(scene.id(prefix)[1:]) < middle for _ in range(25)]
        assert 0.35 < sum(below) / len(below) < 0.65, "200 coins are there with a chance of 1 in 40,000 not"


def test_threads_and_ids_are_unordered() -> None:
    numbers = [int(id_[1:]) for id_ in profile(7).mails]
    rising = sum(one < other for one, other in itertools.pairwise(numbers))
    assert 0.4 < rising / (len(numbers) - 1) < 0.6
    assert min(numbers) >= 100
    assert max(numbers) < 1_000
