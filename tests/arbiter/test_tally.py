"""Counting, discounting, borrowing and restoring of outcomes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upturn.arbiter.posterior import Posterior
from upturn.arbiter.tally import Count, Tally, capabilities
from upturn.errors import RecordError

outcome = st.tuples(
    st.sampled_from(["mail", "kalender ü", ""]),
    st.sampled_from(["a@1", "a@2", "b@1"]),
    st.none() | st.floats(min_value=0, max_value=1),
)


def test_posterior_without_outcomes_is_the_uniform_prior() -> None:
    assert Tally().posterior("mail", "a@1") == Posterior(1, 1)
    assert Tally().count("mail", "a@1") == Count()


def test_each_outcome_decays_every_version_of_its_family_only() -> None:
    tally = Tally(discount=0.5, borrow=0)
    tally.add("mail", "a@1", 1.0)
    tally.add("sheet", "a@1", 1.0)
    tally.add("mail", "b@1", 0.25)
    tally.add("mail", "b@1", 0.0)
    assert tally.posterior("mail", "a@1") == Posterior(1.25, 1)  # 1 → .5 → .25
    assert tally.posterior("mail", "b@1") == Posterior(1.125, 1 + 0.375 + 1)
    assert tally.posterior("sheet", "a@1") == Posterior(2, 1)
    assert tally.count("mail", "b@1") == Count(0.125, 1.375, 2, 0.25, 0)


def test_missing_outcomes_are_counted_and_not_learned() -> None:
    tally = Tally(discount=0.5)
    tally.add("mail", "a@1", 1.0)
    before = tally.posterior("mail", "a@1")
    tally.add("mail", "a@1", None)
    tally.add("mail", "b@1", None)
    assert tally.posterior("mail", "a@1") == before
    assert tally.posterior("mail", "b@1") == Posterior(1, 1)
    assert tally.count("mail", "a@1").missing == tally.count("mail", "b@1").missing == 1
    assert tally.count("mail", "b@1").outcomes == 0


def test_family_borrows_at_most_the_configured_number_of_outcomes() -> None:
    tally = Tally(discount=1, borrow=2)
    for reward in (1.0, 1.0, 1.0, 0.0):
        tally.add("mail", "a@1", reward)
    assert tally.posterior("sheet", "a@1") == Posterior(1 + 2 * 0.75, 1 + 2 * 0.25)
    tally.add("sheet", "a@1", 0.0)
    assert tally.posterior("sheet", "a@1") == Posterior(2.5, 2.5)
    # Less than two outcomes of other families are borrowed completely; a family does not borrow from itself.
    assert tally.posterior("mail", "a@1") == Posterior(1 + 3, 1 + 1 + 1)
    assert tally.posterior("sheet", "b@1") == Posterior(1, 1)


@settings(max_examples=50, deadline=None)  # a slow machine must not fail it
@given(st.lists(outcome, max_size=30))
def test_state_round_trips_exactly(outcomes: list[tuple[str, str, float | None]]) -> None:
    tally = Tally()
    for family, version, reward in outcomes:
        tally.add(family, version, reward)
    other = Tally()
    other.restore(tally.state())
    assert other.state() == tally.state()
    for family, version, _ in outcomes:
        assert other.count(family, version) == tally.count(family, version)


def test_state_does_not_depend_on_the_order_of_families() -> None:
    one, two = Tally(), Tally()
    one.add("mail", "a@1", 1.0)
    one.add("sheet", "b@1", 0.0)
    two.add("sheet", "b@1", 0.0)
    two.add("mail", "a@1", 1.0)
    assert one.state() == two.state()


def test_invalid_states_are_rejected() -> None:
    with pytest.raises(RecordError, match="families"):
        Tally().restore("{}")
    with pytest.raises(RecordError, match="negative"):
        Tally().restore('{"families":{"mail":{"a@1":{"successes":-1.0}}}}')


@pytest.mark.parametrize("reward", [-0.1, 1.1, float("nan")])
def test_rewards_out_of_range_are_rejected(reward: float) -> None:
    tally = Tally()
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        tally.add("mail", "a@1", reward)
    assert tally.families() == ()


@pytest.mark.parametrize("settings", [{"discount": 0.0}, {"discount": 1.01}, {"borrow": -1.0}])
def test_invalid_settings_are_rejected(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        Tally(**settings)


def test_capabilities_list_each_version_and_family_with_outcomes() -> None:
    tally = Tally(discount=1, borrow=0)
    for reward in (1.0, 1.0, 0.0, None):
        tally.add("mail", "b@1", reward)
    tally.add("sheet", "a@1", 0.5)
    sheet, mail = capabilities(tally)
    assert (sheet.version, sheet.family, sheet.outcomes) == ("a@1", "sheet", 1)
    assert (sheet.successes, sheet.mean) == (0.5, 0.5)
    assert (mail.version, mail.family, mail.outcomes, mail.successes, mail.missing) == ("b@1", "mail", 3, 2.0, 1)
    assert mail.mean == 0.6  # Beta(3, 2)
    assert (mail.low, mail.high) == pytest.approx((0.19412, 0.93241), abs=1e-5)  # quantiles of Beta(3, 2)


@pytest.mark.parametrize("discount", [0.9, 1.0])
def test_remembered_posteriors_are_those_of_a_restored_tally(discount: float) -> None:
    tally = Tally(discount=discount)
    for number in range(40):
        tally.add(f"f{number % 3}", f"v{number % 2}", float(number % 5 == 0))
        restored = Tally(discount=discount)
        restored.restore(tally.state())
        for family in ("f0", "f1", "f2", "new"):
            for version in ("v0", "v1"):
                assert tally.posterior(family, version) == restored.posterior(family, version)


@pytest.mark.parametrize("discount", [0.9, 1.0])
def test_means_of_many_versions_are_those_of_their_posteriors(discount: float) -> None:
    tally = Tally(discount=discount)
    versions = ("a@1", "b@1", "c@1")
    for number in range(40):
        tally.add(f"f{number % 3}", versions[number % 2], (number % 5) / 4)
        for family in ("f0", "f1", "new"):
            expected = [tally.posterior(family, version).mean for version in versions]
            assert tally.means(family, versions) == expected
    copy = Tally(discount=discount)
    assert copy.means("f0", versions) == [0.5, 0.5, 0.5]
    copy.restore(tally.state())
    assert copy.means("f0", versions) == tally.means("f0", versions)
