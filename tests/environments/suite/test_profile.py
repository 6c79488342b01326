"""Base profiles: as large as real ones, repeatable, different from each other, and consistent."""

from upturn.environments.suite.profile import BEGUN, profile


def test_a_profile_is_as_large_as_a_persons_office() -> None:
    for number in (0, 1, 63):
        made = profile(number)
        assert len(made.mails) >= 500
        assert len(made.files) >= 20
        assert len(made.events) == 60
        assert (len(made.people), len(made.channels), len(made.chats)) == (40, 4, 8)


def test_a_profile_is_made_once_and_the_same_each_time() -> None:
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
    assert not {each.body for each in one.mails.values() if len(each.body) > 60} & {
        each.body for each in two.mails.values() if len(each.body) > 60
    }


def test_ids_are_keys_threads_are_there_and_nothing_is_from_the_future() -> None:
    made = profile(5)
    for table in (made.people, made.mails, made.events, made.files, made.pages, made.chats, made.channels):
        assert all(item.id == id_ for id_, item in table.items())
    assert all(not each.thread or each.thread in made.mails for each in made.mails.values())
    assert all(each.at < BEGUN for each in made.mails.values())
    assert all(each.start < each.end for each in made.events.values())
    assert len({each.path for each in made.files.values()}) == len(made.files)
    assert all(each.owner in made.people for each in made.files.values())
