"""The policy gradient as streams: denominators, scales, splitting, passes, references, mismatch, refilling."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from upturn.errors import TrainingError
from upturn.records import Task, TokenRow, Trajectory, WrittenSpan
from upturn.training import ScoredGroup, ScoredTrajectory
from upturn.training.advantages import AdvantageSettings, GroupRelative
from upturn.training.algorithms.grpo import GrpoSettings
from upturn.training.algorithms.policy_gradient import PolicyGradient
from upturn.training.loss import TokenBatch
from upturn.training.optimisation.batch import written_tokens
from upturn.training.policy_settings import (
    DynamicSamplingSettings,
    KlSettings,
    MismatchSettings,
    ObjectiveSettings,
)
from upturn.training.row import FloatArray, TrainingRow
from upturn.training.stream import Stream, Unit

Make = Callable[..., Trajectory]
PLAIN = GrpoSettings(iterations=3, minibatches=1, evaluate_every=None, keep="final")
GSPO = ObjectiveSettings("gspo", aggregation="sequence_mean")


def settings_of(**changes: object) -> GrpoSettings:
    return replace(PLAIN, **changes)  # type: ignore[arg-type]


def _rollout(make: Make, lengths: Sequence[int], *, name: str, task: str = "task") -> Trajectory:
    """One turn for each length, each after two tokens of observation; log-probs −.1, −.2, …"""
    tokens, spans = [1], []
    for turn, length in enumerate(lengths):
        tokens += [2, 2]
        spans.append((turn, len(tokens), len(tokens) + length))
        tokens += range(3, 3 + length)
    return make(
        tokens, spans, name=name, task=task, logprobs=[-0.1 * (position + 1) for position in range(sum(lengths))]
    )


def _split(trajectory: Trajectory) -> Trajectory:
    """The same rollout with one row per turn."""
    (row,) = trajectory.rows
    rows, done = [], 0
    for index, span in enumerate(row.spans):
        length = span.stop - span.start
        rows.append(
            TokenRow(
                row.token_ids[: span.stop],
                (WrittenSpan(span.turn, span.start, span.stop),),
                row.logprobs[done : done + length],
                "history_changed" if index else None,
            )
        )
        done += length
    return replace(trajectory, rows=tuple(rows))


def _group(members: Sequence[tuple[Trajectory, Sequence[float] | None]], *, task: str = "task") -> ScoredGroup:
    return ScoredGroup(
        Task(task, "", "", ""),
        tuple(ScoredTrajectory(member, None if rewards is None else tuple(rewards)) for member, rewards in members),
    )


def _simple(make: Make, rewards: Sequence[float | None], *, task: str, length: int = 1) -> ScoredGroup:
    return _group(
        [
            (_rollout(make, [length], name=f"{task}/{index}", task=task), None if reward is None else [reward])
            for index, reward in enumerate(rewards)
        ],
        task=task,
    )


def _unit(groups: Sequence[ScoredGroup], settings: GrpoSettings, **further: object) -> Unit:
    return PolicyGradient(lambda _: groups, settings, 0, **further).unit(0)  # type: ignore[arg-type]


def _first(unit: Unit) -> Stream:
    """Of a unit's first pass, in which all rows are in one step."""
    ((stream,), *_) = unit.minibatches
    return stream


def _drifted(row: TrainingRow) -> FloatArray:
    """The log-probs of an updated model: a fixed number for each token, whatever its row."""
    prefix = [int(row.token_ids[: at + 1].sum()) for at in row.positions]
    return np.asarray([-0.05 * ((total * 7) % 31 + 1) for total in prefix], dtype=np.float32)


def _by_token(stream: Stream) -> tuple[float, dict[str, list[tuple[float, float]]]]:
    """The stream's loss with a drifted model; for each rollout its tokens' (old log-prob, gradient), in order."""
    tokens = written_tokens(stream.rows)
    logprobs = torch.from_numpy(np.concatenate([_drifted(row) for row in stream.rows])).requires_grad_()
    columns = {
        name: torch.from_numpy(getattr(tokens, name))
        for name in ("old_logprobs", "weights", "corrections", "reference_logprobs", "sequences")
    }
    batch = TokenBatch(logprobs, mask=torch.ones(len(logprobs), dtype=torch.bool), **columns)
    loss = (stream.objective.losses(batch) * torch.from_numpy(tokens.scales)).sum() / stream.denominator
    loss.backward()
    assert logprobs.grad is not None
    by_rollout: dict[str, list[tuple[float, float]]] = {}
    names = [row.trajectory_id for row in stream.rows for _ in row.positions]
    for name, old, gradient in zip(names, tokens.old_logprobs, logprobs.grad, strict=True):
        by_rollout.setdefault(name, []).append((float(old), float(gradient)))
    return float(loss.detach()), by_rollout


ALL: Mapping[str, GrpoSettings] = {
    "token mean": PLAIN,
    "sequence mean": settings_of(objective=ObjectiveSettings(aggregation="sequence_mean")),
    "constant": settings_of(objective=ObjectiveSettings(aggregation="constant", constant_tokens=64)),
    "dual clip": settings_of(objective=ObjectiveSettings(dual_clip=3.0)),
    "gspo": settings_of(objective=GSPO),
    "cispo": settings_of(objective=ObjectiveSettings("cispo")),
    "without stale": settings_of(objective=ObjectiveSettings(stale_limit=0.1)),
    "KL": settings_of(objective=ObjectiveSettings(kl=KlSettings(0.1), aggregation="sequence_mean")),
    "mismatch": settings_of(
        passes=2,  # in one alone every ratio is 1, and gspo is refused
        objective=GSPO,
        mismatch=MismatchSettings("sequence", 2.0, "geometric", 0.1, 10.0),
    ),
    "whitened": settings_of(advantage=AdvantageSettings(baseline="none", scale="whiten")),
    "batch deviation": settings_of(advantage=AdvantageSettings(scale="batch_std", gamma=0.5)),
}


def _further(settings: GrpoSettings) -> dict[str, object]:
    def reference(rows: Sequence[TrainingRow]) -> list[FloatArray]:
        return [_drifted(row) * 1.5 for row in rows]

    def scorer(rows: Sequence[TrainingRow]) -> list[FloatArray]:
        return [_drifted(row) * 0.9 for row in rows]

    return {
        **({"reference": reference} if settings.objective.kl else {}),
        **({"scorer": scorer} if settings.mismatch else {}),
    }


@pytest.mark.parametrize("settings", ALL.values(), ids=ALL.keys())
def test_splitting_rollouts_into_rows_changes_nothing(make_trajectory: Make, settings: GrpoSettings) -> None:
    """Rows are what a change of history makes of a rollout.

    SkyRL PR 1507 trained most of them with advantage 0; rLLM 352 masked the whole response where a prefix broke.
    """
    rollouts = [
        (_rollout(make_trajectory, [2, 1, 3], name="a"), [0.0, 0.2, 1.0]),
        (_rollout(make_trajectory, [4], name="b"), [0.0]),
        (_rollout(make_trajectory, [1, 1], name="c"), [0.1, 0.3]),
        (_rollout(make_trajectory, [2], name="d"), None),
    ]
    whole = _unit([_group(rollouts)], settings, **_further(settings))
    split = _unit(
        [_group([(_split(rollout), rewards) for rollout, rewards in rollouts])], settings, **_further(settings)
    )
    one, other = _first(whole), _first(split)
    assert len(other.rows) > len(one.rows)
    assert other.denominator == one.denominator
    expected, actual = _by_token(one), _by_token(other)
    assert actual[0] == pytest.approx(expected[0], rel=1e-5, abs=1e-7)
    assert set(actual[1]) == set(expected[1])
    for name, tokens in expected[1].items():
        assert [old for old, _ in actual[1][name]] == [old for old, _ in tokens]
        assert [gradient for _, gradient in actual[1][name]] == pytest.approx(
            [gradient for _, gradient in tokens], rel=1e-4, abs=1e-7
        )
    assert any(gradient for tokens in actual[1].values() for _, gradient in tokens)
    shared = set(whole.metrics) - {"forks", "trained_rows"}
    assert {name: split.metrics[name] for name in shared} == pytest.approx(
        {name: whole.metrics[name] for name in shared}, nan_ok=True
    )


def test_denominators_count_whole_iterations_by_tokens_rollouts_or_a_constant(make_trajectory: Make) -> None:
    """3 + 3 tokens with a signal, 2 without, one trajectory that wrote nothing (slime 365: a wrong denominator)."""
    silent = make_trajectory((1, 2), ((0, 1, 2),), name="c/2", task="c")
    silent = replace(silent, rows=(TokenRow((1, 2), (), ()),))
    groups = [
        _simple(make_trajectory, [1.0, 0.0], task="a", length=3),
        _group(
            [
                (_rollout(make_trajectory, [1], name="c/0", task="c"), [1.0]),
                (_rollout(make_trajectory, [1], name="c/1", task="c"), None),
                (silent, [1.0]),
            ],
            task="c",
        ),
    ]
    results = {}
    for aggregation, constant in (("token_mean", None), ("sequence_mean", None), ("constant", 10)):
        objective = ObjectiveSettings(aggregation=aggregation, constant_tokens=constant)  # type: ignore[arg-type]
        unit = _unit(groups, settings_of(objective=objective, minibatches=2))
        ((stream,),) = unit.minibatches
        scales = [None if row.scales is None else row.scales.tolist() for row in stream.rows]
        results[aggregation] = (stream.denominator, scales[0])
    assert results["token_mean"] == (8 / 2, None)
    assert results["sequence_mean"] == (4 / 2, pytest.approx([1 / 3] * 3))
    assert results["constant"] == (4 * 10 / 2, None)


def test_neither_the_order_of_groups_nor_of_their_members_matters(make_trajectory: Make) -> None:
    for settings in ALL.values():
        groups = [
            _simple(make_trajectory, [1.0, 0.0, None, 0.3], task="a", length=2),
            _simple(make_trajectory, [0.5, 0.1], task="b", length=3),
        ]
        reversed_groups = [replace(group, members=tuple(reversed(group.members))) for group in reversed(groups)]
        one, other = (_first(_unit(order, settings, **_further(settings))) for order in (groups, reversed_groups))
        expected, actual = _by_token(one), _by_token(other)
        assert actual[0] == pytest.approx(expected[0], rel=1e-5, abs=1e-7)
        for name, tokens in expected[1].items():
            assert [gradient for _, gradient in actual[1][name]] == pytest.approx(
                [gradient for _, gradient in tokens], rel=1e-4, abs=1e-7
            )


def test_turns_without_rewards_stay_with_their_rollout(make_trajectory: Make) -> None:
    """γ = .5: first turns have the returns .25 and .75 + .25 = 1, mean .625; second turns both .5, advantage 0.

    Their rows have no gradient, but count in the ratio of their sequences. The reported return is undiscounted.
    """
    rollouts = [
        (_split(_rollout(make_trajectory, [1, 1], name="a")), [0.0, 0.5]),
        (_split(_rollout(make_trajectory, [1, 1], name="b")), [0.75, 0.5]),
    ]
    unit = _unit([_group(rollouts)], settings_of(objective=GSPO, advantage=AdvantageSettings("turn", gamma=0.5)))
    rows = [row for row in unit.minibatches[0][0].rows if row.trajectory_id == "b"]
    assert [row.weights.tolist() for row in rows] == [[0.375], [0.0]]
    assert unit.metrics["mean_return"] == (0.5 + 1.25) / 2


def test_one_token_rollouts_have_a_gradient_with_all_objectives(make_trajectory: Make) -> None:
    for settings in ALL.values():
        unit = _unit([_simple(make_trajectory, [1.0, 0.0], task="a")], settings, **_further(settings))
        _, gradients = _by_token(unit.minibatches[0][0])
        assert all(math.isfinite(gradient) for tokens in gradients.values() for _, gradient in tokens)
        assert set(gradients) == {"a/0", "a/1"}


def test_passes_use_every_rollout_again_in_another_order(make_trajectory: Make) -> None:
    groups = [_simple(make_trajectory, [1.0, 0.0], task=str(index)) for index in range(6)]
    unit = _unit(groups, settings_of(minibatches=3, passes=2))
    parts = [{row.trajectory_id[0] for row in minibatch[0].rows} for minibatch in unit.minibatches]
    assert [len(part) for part in parts] == [2] * 6
    for half in (parts[:3], parts[3:]):
        assert set().union(*half) == set("012345")
    assert parts[:3] != parts[3:]
    once = _unit(groups, settings_of(minibatches=3)).minibatches
    assert [{row.trajectory_id[0] for row in minibatch[0].rows} for minibatch in once] == parts[:3]


def test_with_a_kl_term_no_row_is_dropped(make_trajectory: Make) -> None:
    """Without it, groups without a signal have no gradient at all; with it they hold the model where it was."""
    groups = [
        _simple(make_trajectory, [1.0, 0.0], task="a"),
        _simple(make_trajectory, [1.0, 1.0], task="b"),
        _simple(make_trajectory, [None, 1.0], task="c"),
    ]
    settings = settings_of(objective=ObjectiveSettings(kl=KlSettings(0.1, "k2")))
    unit = _unit(groups, settings, **_further(settings))
    assert unit.metrics["trained_rows"] == 6
    _, gradients = _by_token(unit.minibatches[0][0])
    assert all(gradient != 0 for tokens in gradients.values() for _, gradient in tokens)
    assert _unit(groups, PLAIN).metrics["trained_rows"] == 2


def test_dropping_rows_without_a_signal_is_exact_without_a_kl_term(make_trajectory: Make) -> None:
    """The same loss and gradient as with all rows computed."""
    signal = _simple(make_trajectory, [1.0, 0.0], task="a", length=2)
    silent = _simple(make_trajectory, [1.0, 1.0], task="b", length=3)
    for settings in (ALL["token mean"], ALL["gspo"], ALL["cispo"], ALL["constant"]):
        ((stream,),) = _unit([signal, silent], settings).minibatches
        everything = [
            *stream.rows,
            *(
                replace(row, weights=row.weights * 0)
                for row in _unit([_simple(make_trajectory, [1.0, 0.0], task="b", length=3)], settings)
                .minibatches[0][0]
                .rows
            ),
        ]
        skipped, whole = _by_token(stream), _by_token(replace(stream, rows=everything))
        assert whole[0] == pytest.approx(skipped[0], rel=1e-6)
        assert {name: whole[1][name] for name in skipped[1]} == skipped[1]
        assert all(gradient == 0 for name in ("b/0", "b/1") for _, gradient in whole[1][name])


def test_adaptive_coefficient_moves_from_iteration_to_iteration_and_can_be_resumed(make_trajectory: Make) -> None:
    """Sampler and reference differ by .2 at each token: KL = e^.2 − 1.2 = .0214; above the target .01, so β
    rises."""
    group = _simple(make_trajectory, [1.0, 0.0], task="a", length=2)
    kl = KlSettings(0.2, target=0.01, horizon=100)

    def reference(rows: Sequence[TrainingRow]) -> list[FloatArray]:
        return [row.old_logprobs + np.float32(0.2) for row in rows if row.old_logprobs is not None]

    def algorithm() -> PolicyGradient:
        return PolicyGradient(
            lambda _: [group], settings_of(objective=ObjectiveSettings(kl=kl)), 0, reference=reference
        )

    first = algorithm()
    coefficients = [first.unit(index).metrics["kl_coefficient"] for index in range(3)]
    factor = 1 + 0.2 * 2 / 100
    assert coefficients == pytest.approx([0.2, 0.2 * factor, 0.2 * factor**2])
    assert first.state() == pytest.approx({"kl_coefficient": 0.2 * factor**3})
    second = algorithm()
    second.load_state(first.state())
    assert second.unit(3).metrics == first.unit(3).metrics


def test_the_state_is_empty_without_adaptive_parts(make_trajectory: Make) -> None:
    algorithm = PolicyGradient(lambda _: [_simple(make_trajectory, [1.0, 0.0], task="a")], PLAIN, 0)
    algorithm.unit(0)
    assert not algorithm.state()
    algorithm.load_state(algorithm.state())


def test_recomputed_logprobs_become_the_old_ones_and_corrections_follow(make_trajectory: Make) -> None:
    """The trainer finds every token e^.5 times as likely as the sampler did: min(w, 1.2) = 1.2."""

    def scorer(rows: Sequence[TrainingRow]) -> list[FloatArray]:
        return [row.old_logprobs + np.float32(0.5) for row in rows if row.old_logprobs is not None]

    group = _simple(make_trajectory, [1.0, 0.0], task="a", length=2)
    unit = _unit([group], settings_of(mismatch=MismatchSettings("token", 1.2)), scorer=scorer)
    for row in unit.minibatches[0][0].rows:
        assert row.old_logprobs is not None and row.corrections is not None
        assert row.old_logprobs.tolist() == pytest.approx([0.4, 0.3])
        assert row.corrections.tolist() == pytest.approx([1.2, 1.2])
    assert unit.metrics["mismatch_weight_mean"] == pytest.approx(math.exp(0.5))
    assert unit.metrics["mismatch_ess"] == pytest.approx(1.0)
    silent = _unit(
        [_simple(make_trajectory, [1.0, 1.0], task="a")], settings_of(mismatch=MismatchSettings()), scorer=scorer
    )
    assert not silent.minibatches


def _refills(make: Make, script: Mapping[int, Sequence[ScoredGroup]]) -> tuple[list[tuple[int, int]], object]:
    requests: list[tuple[int, int]] = []

    def refill(iteration: int, round_index: int) -> Sequence[ScoredGroup]:
        requests.append((iteration, round_index))
        return script[round_index]

    return requests, refill


def test_groups_without_a_signal_are_replaced_until_there_are_enough(make_trajectory: Make) -> None:
    """First round 1 of 2 informative, second 0 of 1, third 2 of 2: enough; the surplus is used."""
    make = make_trajectory
    first = [_simple(make, [1.0, 0.0], task="a"), _simple(make, [1.0, 1.0], task="b", length=5)]
    script = {
        1: [_simple(make, [0.0, 0.0], task="c", length=2)],
        2: [_simple(make, [0.0, 1.0], task="d", length=3), _simple(make, [1.0, 0.0], task="e")],
        3: [_simple(make, [1.0, 0.0], task="f")],
    }
    requests, refill = _refills(make, script)
    settings = settings_of(dynamic_sampling=DynamicSamplingSettings(max_rounds=4))
    unit = _unit(first, settings, refill=refill)
    assert requests == [(0, 1), (0, 2)]
    ((stream,),) = unit.minibatches
    assert {row.trajectory_id[0] for row in stream.rows} == {"a", "d", "e"}
    assert stream.denominator == 2 + 6 + 2, "the groups that were replaced are no part of the batch"
    assert unit.metrics["written_tokens"] == 2 + 10 + 4 + 6 + 2, "but what they cost is counted"
    assert unit.metrics["groups"] == 5
    assert unit.metrics["filtered_groups"] == 2
    assert unit.metrics["sampling_rounds"] == 3
    assert unit.metrics["trajectories"] == 10


def test_refilling_ends_after_the_last_round(make_trajectory: Make) -> None:
    make = make_trajectory
    script = {index: [_simple(make, [1.0, 1.0], task=f"r{index}")] for index in range(1, 5)}
    requests, refill = _refills(make, script)
    settings = settings_of(dynamic_sampling=DynamicSamplingSettings(groups=1, max_rounds=3))
    unit = _unit([_simple(make, [0.0, 0.0], task="a")], settings, refill=refill)
    assert requests == [(0, 1), (0, 2)]
    assert not unit.minibatches
    assert unit.metrics["sampling_rounds"] == 3


def test_enough_signal_needs_no_refill(make_trajectory: Make) -> None:
    requests, refill = _refills(make_trajectory, {})
    settings = settings_of(dynamic_sampling=DynamicSamplingSettings(groups=1))
    _unit([_simple(make_trajectory, [1.0, 0.0], task="a")], settings, refill=refill)
    assert requests == []


def test_two_rollouts_with_one_id_are_refused(make_trajectory: Make) -> None:
    """Their rows would count as one rollout."""
    group = _simple(make_trajectory, [1.0, 0.0], task="a")
    with pytest.raises(TrainingError, match="two trajectories of one iteration have the id 'a/0'"):
        _unit([group, group], PLAIN)


def test_missing_and_unused_inputs_are_refused(make_trajectory: Make) -> None:
    groups = [_simple(make_trajectory, [1.0, 0.0], task="a")]
    for name, setting, settings in (
        ("scorer", "mismatch", settings_of(mismatch=MismatchSettings())),
        ("reference", "objective.kl", settings_of(objective=ObjectiveSettings(kl=KlSettings(0.1)))),
        ("refill", "dynamic_sampling", settings_of(dynamic_sampling=DynamicSamplingSettings())),
    ):
        with pytest.raises(TrainingError, match=f"^{setting} without {name} does nothing"):
            _unit(groups, settings)
        with pytest.raises(TrainingError, match=f"^{name} without {setting} does nothing"):
            _unit(groups, PLAIN, **{name: list})
    with pytest.raises(TrainingError, match=r"leaves settings\.advantage without effect"):
        _unit(groups, settings_of(advantage=AdvantageSettings(gamma=0.5)), advantage=GroupRelative())


def test_masked_truncated_rollouts_stay_in_the_baseline_but_in_no_denominator(make_trajectory: Make) -> None:
    """Rewards 1, 0 and 0 of two tokens each; a limit ended the third one."""
    group = _simple(make_trajectory, [1.0, 0.0, 0.0], task="task", length=2)
    (*others, last) = group.members
    group = replace(
        group, members=(*others, replace(last, trajectory=replace(last.trajectory, outcome="token_limit")))
    )
    settings = settings_of(objective=ObjectiveSettings(mask_truncated=True))
    unit = PolicyGradient(lambda _: [group], settings, 0).unit(0)
    ((stream,),) = unit.minibatches
    assert [row.trajectory_id for row in stream.rows] == ["task/0", "task/1"]
    assert [float(row.weights[0]) for row in stream.rows] == pytest.approx([2 / 3, -1 / 3])
    assert stream.denominator == 4
    assert unit.metrics["masked_truncated"] == 1.0
    everything = PolicyGradient(lambda _: [group], settings_of(), 0).unit(0)
    assert everything.minibatches[0][0].denominator == 6 and "masked_truncated" not in everything.metrics
