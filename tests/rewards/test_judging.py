"""Judges with chosen biases: the meters find them, the protocol is better, corrected averages are right."""

import math

import pytest

from benchmarks.judging.judges import measure_calibration, measure_meters, measure_protocol
from benchmarks.judging.scripted_judge import ScriptedJudge, labelled_pairs
from upturn.dialects import ModelAnswer, ModelRequest, Text
from upturn.errors import ConfigError, ModelError
from upturn.rewards.judging import (
    Compared,
    LimitedJudge,
    ModelPairJudge,
    Pair,
    PairJudgement,
    Verdict,
    centred_by_judge,
    check_diversity,
    compare_pairs,
    error_agreement,
    fit_ensemble,
    group_scores,
    label_accuracy,
    measure_biases,
    prediction_powered_mean,
    replay,
    rogan_gladen,
)

PAIR = Pair("p", "sum", "short", "much longer", "first", ("north", "south"))


@pytest.mark.parametrize(
    ("forward", "backward", "decision", "is_consistent"),
    [
        ("first", "first", "first", True),
        ("second", "second", "second", True),
        ("first", "second", "tie", False),  # the place decides, not the work
        ("first", "tie", "first", False),
        ("first", None, "first", None),
        (None, None, "tie", None),
        ("tie", "tie", "tie", True),
    ],
)
def test_the_sign_of_both_orders_decides(
    forward: Verdict, backward: Verdict, decision: str, is_consistent: bool | None
) -> None:
    compared = Compared(PAIR, forward, backward)
    assert (compared.decision, compared.is_consistent) == (decision, is_consistent)


def test_verdicts_of_the_second_order_are_of_the_pairs_works() -> None:
    (by_place,) = compare_pairs(lambda _, __, ___: "first", [PAIR])
    (by_length,) = compare_pairs(lambda _, a, b: "first" if len(a) > len(b) else "second", [PAIR])
    assert (by_place.forward, by_place.backward) == ("first", "second")
    assert (by_length.forward, by_length.backward) == ("second", "second")


def test_ties_and_missing_decisions_are_wrong_and_unlabelled_pairs_do_not_count() -> None:
    pairs = [PAIR, PAIR, PAIR, Pair("q", "sum", "a", "b")]
    assert label_accuracy(["first", "tie", None, "first"], pairs) == pytest.approx(1 / 3)
    assert label_accuracy(["first"], pairs[3:]) is None


def test_biases_by_hand() -> None:
    """A judge of the vendor south that takes the first place, once the longer work, and once is silent."""
    compared = [
        Compared(PAIR, "first", "second"),
        Compared(PAIR, "second", "second"),
        Compared(PAIR, "first", None),
    ]
    report = measure_biases(compared, vendor="south")
    assert report.position is not None and report.position.mean == pytest.approx((0.5 + 0.0) / 2)
    assert report.inconsistent is not None and report.inconsistent.mean == 0.5
    assert report.length is not None and report.length.mean == pytest.approx((0.5 + 1.0 + 0.0) / 3)
    assert report.self_preference is not None and report.self_preference.mean == report.length.mean
    assert report.null.mean == pytest.approx(1 / 6)
    assert measure_biases(compared).self_preference is None  # the judge's vendor is unknown
    with pytest.raises(ValueError, match="at least one comparison"):
        measure_biases([])


def test_the_meters_find_chosen_biases_and_no_others() -> None:
    """All of 12 chosen biases. Each of 32 other meters alarms with probability 0.05: more than 6 have p < 0.001."""
    found, others = measure_meters(4, 120, seed=0)
    assert found.value == 1.0
    assert isinstance(others.value, float) and others.value * 32 <= 6


def test_a_silent_judge_is_measured_and_decides_nothing() -> None:
    pairs, works = labelled_pairs(60, seed=1)
    compared = compare_pairs(ScriptedJudge("north", works, silence=1.0), pairs)
    report = measure_biases(compared, vendor="north")
    assert (report.null.mean, report.position, report.length) == (1.0, None, None)
    assert {item.decision for item in compared} == {"tie"}


def test_the_protocol_beats_one_call() -> None:
    results = {result.name: result for result in measure_protocol(400, seed=0)}
    gain = results["gain of the protocol over one call"]
    assert gain.low is not None and gain.low > 0.05
    assert results["relative gain over one call"].holds


def test_corrected_averages_hold_the_true_rate() -> None:
    """With coverage 0.95, fewer than 180 of 200 intervals hold it with probability 0.002."""
    powered, corrected, alone = measure_calibration(200, 400, seed=0)
    assert powered.value >= 0.9 and corrected.value >= 0.9  # type: ignore[operator]
    assert isinstance(alone.value, float) and alone.value < 0.5


def test_prediction_powered_mean_by_hand() -> None:
    """Judge .5 on the unlabelled and 0.25 too low on the labelled ones."""
    interval = prediction_powered_mean([0.0, 1.0, 0.0, 1.0], [0.0, 0.5], [0.0, 1.0])
    half = 1.9599639845 * math.sqrt((1 / 3) / 4 + 0.125 / 2)
    assert interval.mean == pytest.approx(0.75)
    assert (interval.low, interval.high) == pytest.approx((0.75 - half, 0.75 + half))
    with pytest.raises(ValueError, match="got 1 unlabelled, 2 judged and 2 labels"):
        prediction_powered_mean([0.0], [0.0, 0.5], [0.0, 1.0])


def test_rogan_gladen_by_hand() -> None:
    """(.5 + .8 − 1) / (.9 + .8 − 1) = 3/7; a perfect judge leaves the rate as it is."""
    interval = rogan_gladen(50, 100, sensitivity=(90, 100), specificity=(80, 100))
    assert interval.mean == pytest.approx(3 / 7)
    assert interval.low < 3 / 7 < interval.high
    assert rogan_gladen(50, 100, sensitivity=(10, 10), specificity=(10, 10)).mean == 0.5
    assert rogan_gladen(5, 100, sensitivity=(90, 100), specificity=(80, 100)).mean == 0.0  # below 0 is cut
    with pytest.raises(ValueError, match="no better than chance: sensitivity"):
        rogan_gladen(5, 10, sensitivity=(5, 10), specificity=(5, 10))
    with pytest.raises(ValueError, match="counts of 0 or more out of 1 or more"):
        rogan_gladen(11, 10, sensitivity=(5, 10), specificity=(5, 10))


def verdicts(*decisions: Verdict) -> list[Compared]:
    """By number of the pair; every label is ``first``."""
    return [
        Compared(Pair(f"p{number}", "t", "a", "b", "first"), decision, decision)
        for number, decision in enumerate(decisions)
    ]


def test_an_ensemble_takes_off_what_labels_do_not_share() -> None:
    """One judge follows the label, the other the longer work: only the first gets a weight that counts."""
    pairs = [
        Pair(f"p{number}", "t", "long" if number % 4 < 2 else "a", "b", "first" if number % 2 else "second")
        for number in range(40)
    ]
    right = [Compared(pair, pair.label, pair.label) for pair in pairs]
    longer: list[Verdict] = ["first" if len(pair.first) > 1 else "tie" for pair in pairs]
    lengthy = [Compared(pair, verdict, verdict) for pair, verdict in zip(pairs, longer, strict=True)]
    ensemble = fit_ensemble({"right": right, "lengthy": lengthy}, {"right": "north", "lengthy": ""})
    assert ensemble.weights["right"] > 2
    assert abs(ensemble.weights["lengthy"] + ensemble.length) < 0.1
    assert ensemble.own == {"north": 0.0}  # nobody of that vendor wrote a work
    on = Pair("q", "t", "long", "b")
    votes = {"right": Compared(on, "second", "second"), "lengthy": Compared(on, "first", "first")}
    assert ensemble.decide(votes) == "second"
    exchanged = Pair("q", "t", "b", "long")
    votes = {"right": Compared(exchanged, "first", "first"), "lengthy": Compared(exchanged, "second", "second")}
    assert ensemble.decide(votes) == "first"
    silent = {name: Compared(on, None, None) for name in votes}
    assert ensemble.decide(silent) == "tie"  # the length alone decides nothing
    unlabelled = [Compared(Pair("p", "t", "a", "b"), "first", "first")]
    with pytest.raises(ValueError, match="needs labelled pairs, got none"):
        fit_ensemble({"x": unlabelled}, {"x": ""})
    with pytest.raises(ValueError, match="the same pairs, in the same order"):
        fit_ensemble({"x": right, "y": right[1:]}, {})


def test_judges_with_one_vendor_or_the_same_errors_are_no_ensemble() -> None:
    one = verdicts("first", "second", "first", "second")
    other = verdicts("second", "first", "first", "second")
    assert error_agreement(one, one) == 1.0
    assert error_agreement(one, other) == 0.0
    assert error_agreement(verdicts("first"), verdicts("first")) is None
    check_diversity({"a": one, "b": other}, {"a": "north", "b": "south"})
    with pytest.raises(ConfigError, match="have one vendor, 'north'"):
        check_diversity({"a": one, "b": other}, {"a": "north", "b": "north"})
    with pytest.raises(ConfigError, match=r"'a' and 'b' make the same errors \(κ 1.00, at most 0.6\)"):
        check_diversity({"a": one, "b": one}, {"a": "north", "b": "south"})
    with pytest.raises(ValueError, match="the same pairs"):
        error_agreement(one, one[1:])


def test_scores_of_judges_that_take_turns_are_centred() -> None:
    scores = [("mild", 0.9), ("strict", 0.2), ("mild", 0.7), ("strict", None), ("strict", 0.4)]
    assert centred_by_judge(scores) == [
        pytest.approx(0.1),
        pytest.approx(-0.1),
        pytest.approx(-0.1),
        None,
        pytest.approx(0.1),
    ]


def by_number(_: str, first: str, second: str) -> Verdict:
    if "?" in (first, second):
        return None
    return "tie" if abs(int(first) - int(second)) == 1 else "first" if int(first) > int(second) else "second"


def test_scores_of_a_group_are_shares_of_won_comparisons() -> None:
    """2 ties with 1 and wins against 0; works without a verdict have no score; equal works are not asked about."""
    assert group_scores(by_number, "t", ["0", "2", "4"]) == (0.0, 0.5, 1.0)
    assert group_scores(by_number, "t", ["0", "1", "3"]) == (0.25, 0.25, 1.0)
    assert group_scores(by_number, "t", ["0", "?", "2"]) == (0.0, None, 1.0)
    assert group_scores(lambda *_: None, "t", ["a", "a"]) == (0.5, 0.5)
    assert group_scores(lambda *_: "first", "t", ["a", "b"]) == (0.5, 0.5)  # the place decides nothing
    assert group_scores(by_number, "t", ["0"]) == (None,)


def test_a_limited_judge_gives_no_verdict_beyond_its_questions() -> None:
    judge = LimitedJudge(by_number, 3)
    assert group_scores(judge, "t", ["0", "2", "4"]) == (0.125, 1.0, 0.75)  # 0 against 4 in one order only
    assert (judge.questions_left, judge.refused) == (0, 3)


class Answers:
    """A model with prepared answers."""

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[ModelRequest] = []

    async def answer(self, request: ModelRequest) -> ModelAnswer:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return ModelAnswer("i", "m", (Text(answer),), "stop")


@pytest.mark.parametrize(
    ("answers", "verdict", "asked"),
    [
        (['{"reason": "r", "winner": "A"}'], "first", 1),
        (['Hm. {"reason": "r", "winner": "B"}'], "second", 1),
        (['{"winner": "tie"}'], "tie", 1),
        (["I cannot say", '{"winner": "A"}'], "first", 2),
        ([ModelError("busy"), '{"winner": "B"}'], "second", 2),
        (['{"winner": "C"}', '{"winner": ["A"]}'], None, 2),
    ],
)
def test_a_model_names_the_winner_or_is_asked_again(
    answers: list[str | Exception], verdict: Verdict, asked: int
) -> None:
    model = Answers(*answers)
    judgements = list[object]()
    judge = ModelPairJudge(model, "Is it {polite}?", recorder=judgements.append)
    assert judge("sum", "one", "two") == verdict
    assert len(model.requests) == asked
    assert len(judgements) == 1


def test_recorded_verdicts_are_replayed() -> None:
    recorded = list[PairJudgement]()
    judge = ModelPairJudge(Answers('{"winner": "A"}', '{"winner": "A"}'), "?", recorder=recorded.append)
    compared = compare_pairs(judge, [PAIR])
    assert compare_pairs(replay(recorded), [PAIR]) == compared
    assert replay(recorded)("sum", "other", "work") is None
    assert [item.reason for item in recorded] == ['{"winner": "A"}'] * 2
