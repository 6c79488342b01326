"""Alternatives of a decision."""

from upturn.records import Alternative, Forecast, eligible_alternatives


def test_eligible_alternatives_equal_those_of_the_constructor() -> None:
    forecast = Forecast(0.1, 2.0, 0.3)
    made = eligible_alternatives(("a@1", "b@1"), (0.25, 0.75), (None, 0.5), (forecast, None))
    expected = (
        Alternative("a@1", 0.25, None, forecast=forecast),
        Alternative("b@1", 0.75, 0.5),
    )
    assert made == expected
    assert [hash(option) for option in made] == [hash(option) for option in expected]
    assert eligible_alternatives((), (), (), ()) == ()
