"""Judges: whether the meters find chosen biases, what the protocol gains, and whether corrected averages hold."""

from random import Random
from statistics import fmean

from benchmarks.judging.scripted_judge import VENDORS, ScriptedJudge, labelled_pairs
from upturn.interval import paired_bootstrap, wilson_interval
from upturn.records import Result
from upturn.rewards.judging import (
    compare_pairs,
    fit_ensemble,
    measure_biases,
    prediction_powered_mean,
    rogan_gladen,
)

BIASES = {
    "position": {"place": 0.8},
    "length": {"length": 0.8},
    "self_preference": {"own": 0.8},
}
"""A bias of about half a standard deviation of a pair's difference in quality, which is √2 · 1.5."""
SKILL = 0.6
"""Of the judges of the protocol: one call is right in about two of three pairs, as strong judges are on
JudgeBench."""
GAIN_BAR = 0.15


def measure_meters(repetitions: int, pairs: int, seed: int) -> list[Result]:
    """How often a chosen bias is found, and how often one is found that is not there."""
    found, false, chances = 0, 0, 0
    for number in range(repetitions):
        labelled, works = labelled_pairs(pairs, seed + number)
        for name, bias in {**BIASES, "": {}}.items():
            judge = ScriptedJudge(VENDORS[number % 3], works, seed=number, **bias)
            report = measure_biases(compare_pairs(judge, labelled), vendor=judge.vendor)
            found += name in report.found()
            false += len(set(report.found()) - {name})
            chances += len(BIASES) - (name in BIASES)
    count = repetitions * len(BIASES)
    alarms = wilson_interval(false, chances)
    return [
        Result("chosen biases found", found / count, "share", n=count, bar=">= 0.95", holds=found / count >= 0.95),
        Result(
            "other biases found",
            alarms.mean,
            "share",
            alarms.low,
            alarms.high,
            chances,
            "lower limit <= 0.05",
            alarms.low <= 0.05,
        ),
    ]


def measure_protocol(pairs: int, seed: int) -> list[Result]:
    """Accuracy of a fitted ensemble in both orders against one call of one judge, on pairs it is not fitted to.

    Three judges, one with each bias. The naive accuracy is the mean over the three.
    """
    labelled, works = labelled_pairs(pairs, seed)
    judges = {
        vendor: ScriptedJudge(vendor, works, skill=SKILL, seed=seed, silence=0.02, **bias)
        for vendor, bias in zip(VENDORS, BIASES.values(), strict=True)
    }
    calibration, test = labelled[: pairs // 4], labelled[pairs // 4 :]
    vendors = {name: judge.vendor for name, judge in judges.items()}
    ensemble = fit_ensemble({name: compare_pairs(judge, calibration) for name, judge in judges.items()}, vendors)
    compared = {name: compare_pairs(judge, test) for name, judge in judges.items()}
    naive = [
        fmean(items[index].forward == pair.label for items in compared.values()) for index, pair in enumerate(test)
    ]
    orders = [
        fmean(items[index].decision == pair.label for items in compared.values()) for index, pair in enumerate(test)
    ]
    protocol = [
        float(ensemble.decide({name: items[index] for name, items in compared.items()}) == pair.label)
        for index, pair in enumerate(test)
    ]
    best = max(fmean(item.forward == item.pair.label for item in items) for items in compared.values())
    gain = paired_bootstrap(protocol, naive, seed=0, bounds=(-1.0, 1.0))
    relative = fmean(protocol) / fmean(naive) - 1
    return [
        Result("accuracy of one call", fmean(naive), "share", n=len(test)),
        Result("accuracy of one call, best judge", best, "share", n=len(test)),
        Result("accuracy of one judge in both orders", fmean(orders), "share", n=len(test)),
        Result("accuracy of the protocol", fmean(protocol), "share", n=len(test)),
        gain.result("gain of the protocol over one call"),
        Result(
            "relative gain over one call",
            relative,
            "share",
            n=len(test),
            bar=f">= {GAIN_BAR:g}",
            holds=relative >= GAIN_BAR,
        ),
    ]


def measure_calibration(repetitions: int, works: int, seed: int) -> list[Result]:
    """How often the intervals of corrected averages hold the true rate; 80 % of the labels are hidden."""
    chance = Random(seed)
    held = {"prediction-powered": 0, "rogan-gladen": 0, "judge alone": 0}
    for _ in range(repetitions):
        rate = chance.uniform(0.2, 0.8)
        labels = [chance.random() < rate for _ in range(works)]
        judged = [chance.random() < (0.9 if label else 0.25) for label in labels]
        hidden = works * 4 // 5
        known = list(zip(labels[hidden:], judged[hidden:], strict=True))
        powered = prediction_powered_mean(judged[:hidden], judged[hidden:], labels[hidden:])
        good, bad = [said for label, said in known if label], [said for label, said in known if not label]
        corrected = rogan_gladen(
            sum(judged[:hidden]),
            hidden,
            sensitivity=(sum(good), len(good)),
            specificity=(len(bad) - sum(bad), len(bad)),
        )
        alone = wilson_interval(sum(judged), works)
        for name, interval in zip(held, (powered, corrected, alone), strict=True):
            held[name] += interval.low <= rate <= interval.high
    results = []
    for name, count in held.items():
        interval = wilson_interval(count, repetitions)
        is_corrected = name != "judge alone"
        results.append(
            interval.result(
                f"95 % intervals that hold the true rate, {name}",
                bar="upper limit >= 0.95" if is_corrected else None,
                holds=interval.high >= 0.95 if is_corrected else None,
            )
        )
    return results
