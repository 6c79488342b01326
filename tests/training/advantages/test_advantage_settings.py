"""Settings name an estimator, and refuse what it would not read."""

import math
from collections.abc import Callable

import pytest

from upturn.errors import ConfigError, TrainingError
from upturn.training import ScoredGroup, ScoredTrajectory
from upturn.training.advantage import Need
from upturn.training.advantages import (
    AdvantageSettings,
    Combined,
    Estimator,
    FirstDivergence,
    GroupRelative,
    MonteCarloDelta,
    Shaped,
    StateAnchored,
    TreeSiblings,
    TurnRelative,
    advantage_of,
)

MakeGroup = Callable[..., ScoredGroup]
MakeMember = Callable[..., ScoredTrajectory]


@pytest.mark.parametrize(
    ("estimator", "kind", "needs"),
    [
        ("trajectory", GroupRelative, set()),
        ("turn", TurnRelative, set()),
        ("state", StateAnchored, {"state_hashes"}),
        ("tree", TreeSiblings, {"token_rows"}),
        ("monte_carlo", MonteCarloDelta, {"state_values"}),
        ("divergence", FirstDivergence, {"state_values"}),
    ],
)
def test_each_name_creates_an_estimator_with_its_needs(estimator: Estimator, kind: type, needs: set[Need]) -> None:
    alone = advantage_of(AdvantageSettings(estimator=estimator))
    assert isinstance(alone, kind)
    assert alone.needs == needs


def test_options_reach_their_estimator() -> None:
    relative = advantage_of(AdvantageSettings(gamma=0.5, baseline="leave_one_out", scale="std"))
    assert isinstance(relative, GroupRelative)
    assert (relative.gamma, relative.baseline, relative.scale) == (0.5, "leave_one_out", "std")
    turn = advantage_of(AdvantageSettings("turn", gamma=0.5, scale="std"))
    assert isinstance(turn, TurnRelative)
    assert (turn.gamma, turn.is_scaled) == (0.5, True)
    state = advantage_of(AdvantageSettings("state", gamma=0.5, turn_weight=2.0, scale="std", anchor="observation"))
    assert isinstance(state, StateAnchored)
    assert (state.gamma, state.turn_weight, state.is_scaled, state.anchor) == (0.5, 2.0, True, "observation")
    assert state.needs == frozenset()
    tree = advantage_of(AdvantageSettings("tree", baseline="leave_one_out"))
    assert isinstance(tree, TreeSiblings)
    assert tree.baseline == "leave_one_out"
    change = advantage_of(AdvantageSettings("monte_carlo", gamma=0.5))
    assert isinstance(change, MonteCarloDelta)
    assert change.gamma == 0.5
    blame = advantage_of(AdvantageSettings("divergence", gamma=0.5, error_probability=0.1, value_range=2.0))
    assert isinstance(blame, FirstDivergence)
    assert (blame.gamma, blame.error_probability, blame.value_range) == (0.5, 0.1, 2.0)
    shaped = advantage_of(AdvantageSettings("turn", gamma=0.5, is_shaped=True))
    assert isinstance(shaped, Shaped)
    assert isinstance(shaped.inner, TurnRelative)
    assert shaped.gamma == 0.5


def test_a_turn_weight_adds_turn_credit_to_the_outcome_s(make_group: MakeGroup, make_member: MakeMember) -> None:
    group = make_group(
        [
            make_member([0.0, 1.0], values=[(0.5, 4), (0.75, 4), (0.0, None)]),
            make_member([0.0, 0.0], values=[(0.5, 4), (0.25, 4), (0.0, None)]),
        ]
    )
    combined = advantage_of(AdvantageSettings("monte_carlo", turn_weight=2.0))
    assert isinstance(combined, Combined)
    assert combined.needs == {"state_values"}
    advantages = combined(group)
    # ±.5 of the outcome, and twice (.25, .25) and (−.25, −.25)
    assert advantages.turns == ((1.0, 1.0), (-1.0, -1.0))
    assert advantages.returns == (1.0, 0.0)


def test_the_outcome_part_has_the_settings_scale_and_baseline(make_group: MakeGroup) -> None:
    group = make_group([[0.0], [10.0]])
    # Both parts divide ±5 by the sample standard deviation, 10/√2.
    scaled = advantage_of(AdvantageSettings("turn", scale="std", turn_weight=1.0))(group)
    assert [turns[0] for turns in scaled.turns] == pytest.approx([-math.sqrt(2), math.sqrt(2)], rel=1e-6)
    others = advantage_of(AdvantageSettings("monte_carlo", scale="batch_std", turn_weight=1.0))
    assert isinstance(others, Combined)
    assert others.outcome(group).turns == ((-5.0,), (5.0,))  # ``rescaled`` divides both parts later
    tree = advantage_of(AdvantageSettings("tree", baseline="leave_one_out", turn_weight=1.0))
    assert isinstance(tree, Combined)
    assert tree.outcome(group).turns == ((-10.0,), (10.0,))  # each against the other one


@pytest.mark.parametrize("estimator", ["turn", "tree", "monte_carlo", "divergence"])
def test_the_outcome_part_is_that_of_the_trajectory_estimator(make_group: MakeGroup, estimator: Estimator) -> None:
    gamma = 1.0 if estimator == "tree" else 0.5
    group = make_group([[0.25, 1.0], [0.0, 0.5], [0.5], None])
    combined = advantage_of(AdvantageSettings(estimator, gamma=gamma, turn_weight=1.0))
    assert isinstance(combined, Combined)
    assert combined.outcome(group) == advantage_of(AdvantageSettings(gamma=gamma))(group)


def test_shaping_affects_the_turn_part_only(make_group: MakeGroup, make_member: MakeMember) -> None:
    combined = advantage_of(AdvantageSettings("turn", is_shaped=True, turn_weight=2.0))
    assert isinstance(combined, Combined)
    assert combined.needs == {"potentials"}
    group = make_group(
        [
            make_member([0.0, 1.0], potentials=[0.0, 0.5, 0.0]),
            make_member([0.0, 0.0], potentials=[0.0, 0.0, 0.0]),
        ]
    )
    # Outcome: returns 1 and 0. Turn: shaped returns-to-go (1, .5) and (0, 0) minus the means (.5, .25), twice.
    assert combined(group).turns == ((1.5, 1.0), (-1.5, -1.0))
    assert combined(group).returns == (1.0, 0.0)


def test_the_turn_weight_of_state_reaches_the_estimator() -> None:
    assert isinstance(advantage_of(AdvantageSettings("state")), StateAnchored)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": 1.5}, r"gamma: input should be less than or equal to 1, got 1\.5"),
        ({"estimator": "turn", "turn_weight": -1.0}, "turn_weight: input should be greater than 0, got -1.0"),
        ({"turn_weight": 1.0}, "turn_weight=1.0 would do nothing with estimator='trajectory'"),
        ({"estimator": "tree", "gamma": 0.9}, "gamma=0.9 would do nothing with estimator='tree'"),
        ({"estimator": "turn", "baseline": "leave_one_out"}, "baseline='leave_one_out' would do nothing with"),
        ({"estimator": "tree", "scale": "std"}, "scale='std' would do nothing with estimator='tree'; it takes"),
        ({"estimator": "turn", "scale": "mean"}, "scale='mean' would do nothing with estimator='turn'"),
        ({"is_shaped": True}, "is_shaped=True would do nothing with estimator='trajectory': potentials cancel out"),
        ({"estimator": "state", "is_shaped": True}, "is_shaped=True would do nothing with estimator='state'"),
        ({"estimator": "monte_carlo", "is_shaped": True}, "is_shaped=True would do nothing"),
        ({"anchor": "observation"}, "anchor='observation' would do nothing with estimator='trajectory'"),
        ({"error_probability": 0.1}, "error_probability=0.1 would do nothing.*it belongs to 'divergence'"),
        ({"value_range": 2.0}, "value_range=2.0 would do nothing.*it belongs to 'divergence'"),
        ({"estimator": "divergence", "error_probability": 1.0}, r"error_probability: input should be less than 1"),
        ({"estimator": "divergence", "value_range": 0.0}, "value_range: input should be greater than 0, got 0.0"),
        ({"baseline": "none"}, "baseline='none' with scale='none' leaves every turn the raw return"),
        ({"baseline": "leave_one_out", "scale": "mean"}, "scale='mean' divides by the baseline"),
    ],
)
def test_unusable_settings_are_refused_by_name(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        AdvantageSettings(**options)  # type: ignore[arg-type]


def test_all_problems_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        AdvantageSettings("tree", gamma=0.5, is_shaped=True, anchor="observation")
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize("estimator", ["trajectory", "turn", "state", "tree", "monte_carlo", "divergence"])
def test_rewards_that_do_not_fit_the_turns_are_refused_by_every_estimator(
    make_group: MakeGroup, make_member: MakeMember, estimator: Estimator
) -> None:
    group = make_group([make_member([1.0], turns=2), [0.0]])
    with pytest.raises(TrainingError, match="trajectory 't' has 2 turns but 1 turn rewards"):
        advantage_of(AdvantageSettings(estimator=estimator))(group)
