"""Training on stored trajectories: which ones are used, and the effect of the correction."""

import math
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from upturn.config import OptimiserSettings
from upturn.errors import ConfigError, TrainingError
from upturn.records import Task, Trajectory
from upturn.training import ScoredTrajectory
from upturn.training.algorithms.grpo import run_grpo
from upturn.training.algorithms.offline import OfflineSettings, StoredCollect, run_offline
from upturn.training.data.usability import Freshness
from upturn.training.distributed.weights import weight_tensors
from upturn.training.policy_settings import DynamicSamplingSettings, MismatchSettings, PolicyGradientSettings
from upturn.training.runs import RunOptions, read_curve
from upturn.training.runs.curve import CurvePoint
from upturn.training.runs.metric import UNREPEATED, metric_of
from upturn.training.runs.run_folder import CURVE_FILE

Make = Callable[..., Trajectory]
Model = Callable[..., PreTrainedModel]
Stored = tuple[Task, ScoredTrajectory]
PROMPTS = (3, 4)
ARMS = {7: (1, 1.0), 8: (10, 0.6), 9: (9, 0.0)}
"""Token to (count in 20 trajectories, reward): the best one is rare."""
CORRECTED = MismatchSettings(weight="sequence", weight_cap=50.0)
PLAIN = OfflineSettings(
    iterations=3,
    minibatches=1,
    mismatch=CORRECTED,
    optimiser=OptimiserSettings(learning_rate=1e-2),
    evaluate_every=None,
    keep="final",
)


def _stored(make: Make, name: str, prompt: int = 3, token: int = 7, reward: float | None = 1.0) -> Stored:
    tokens, count = (1, prompt, 2, token), sum(frequency for frequency, _ in ARMS.values())
    logprob = math.log(ARMS[token][0] / count)
    trajectory = replace(
        make(tokens, ((0, 3, 4),), name=name, task=f"task {prompt}", logprobs=(logprob,)), model_version="v2"
    )
    return Task(f"task {prompt}", "", "", ""), ScoredTrajectory(trajectory, None if reward is None else (reward,))


def stored_rollouts(make: Make) -> list[Stored]:
    """For each prompt as many trajectories with each token as the behaviour policy expects."""
    return [
        _stored(make, f"{prompt}/{token}/{at}", prompt, token, reward)
        for prompt in PROMPTS
        for token, (count, reward) in ARMS.items()
        for at in range(count)
    ]


def _value(model: PreTrainedModel) -> float:
    """The exact expected reward; 1 is the optimum, the stored trajectories have .35."""
    with torch.no_grad():
        logits = model(torch.tensor([[1, prompt, 2] for prompt in PROMPTS])).logits[:, -1]
    shares = logits.softmax(-1)
    return float(sum(reward * shares[:, token].mean() for token, (_, reward) in ARMS.items()))


def _weights_equal(first: PreTrainedModel, second: PreTrainedModel) -> bool:
    others = weight_tensors(second)
    return all(torch.equal(tensor, others[name]) for name, tensor in weight_tensors(first).items())


def test_importance_weights_find_rarely_sampled_actions(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    """The gradient is that of Σ π·A: it ends at the arm worth 1, though only .05 of the trajectories have it."""
    model = tiny_model()
    settings = replace(PLAIN, groups=2, iterations=80)
    run_offline(model, stored_rollouts(make_trajectory), settings, RunOptions(0, tmp_path))
    assert _value(model) >= 0.95
    last = read_curve(tmp_path / CURVE_FILE)[-1].metrics
    assert {name for name in last if metric_of(name) is None} == set()
    assert last["mismatch_weight_max"] == pytest.approx(
        20.0, rel=0.05
    )  # 1 over .05: the model always writes it now
    assert last["mean_return"] == pytest.approx(0.35)  # of the stored trajectories, which do not change
    assert (last["stored_epoch"], last["stored_left_out_alone"]) == (79.0, 0.0)


@pytest.mark.slow
def test_without_correction_training_ends_at_another_policy(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    """Each gain counts by its frequency: .05·.65 for the best arm, .5·.25 for the next. Measured with
    three seeds: 0.73 to 0.81 however long it runs, 0.70 with weights that are cut off at 2 (the best arm needs
    up to 20), 0.63 to 0.67 with the bound on the ratio alone, and 1.00 with the weights of the test above.

    OfflineSettings refuse the first; on-policy training takes it."""
    shared = {member.name: getattr(PLAIN, member.name) for member in fields(PolicyGradientSettings)}
    reached = {}
    for name, mismatch in {"none": MismatchSettings(), "cut": MismatchSettings("token", 2.0), "clip": None}.items():
        model = tiny_model()
        collect = StoredCollect(stored_rollouts(make_trajectory), groups=2, seed=0)
        policy = PolicyGradientSettings(**shared | {"iterations": 80, "mismatch": mismatch})
        run_grpo(model, collect, policy, RunOptions(0, tmp_path / name))
        reached[name] = _value(model)
    assert max(reached.values()) < 0.9
    assert min(reached.values()) > 0.5  # more than in the data: they learn


def test_an_epoch_has_every_group_once_in_its_own_order(make_trajectory: Make) -> None:
    stored = [
        _stored(make_trajectory, f"{prompt}/{at}", prompt, 7 + at, 0.5) for prompt in range(3, 10) for at in (0, 1)
    ]
    collect = StoredCollect(stored, groups=3, seed=1)
    assert collect.per_epoch == 3
    epochs = [
        [group.task.id for iteration in range(3) for group in collect(3 * epoch + iteration)] for epoch in range(2)
    ]
    tasks = sorted({task.id for task, _ in stored})
    assert [sorted(names) for names in epochs] == [tasks, tasks]
    assert epochs[0] != epochs[1]
    assert [len(collect(at)) for at in range(3)] == [3, 3, 1]
    again = StoredCollect(stored, groups=3, seed=1)
    assert again(4) == collect(4)


def test_old_trajectories_are_excluded_and_counted(make_trajectory: Make) -> None:
    """v0 is two versions old, v1 one; trajectories of unknown weights have no age."""
    names = {"a": "v0", "b": "v1", "c": "v2", "d": "v2", "e": "theirs"}
    stored = [
        (task, replace(scored, trajectory=replace(scored.trajectory, model_version=names[scored.trajectory.id])))
        for task, scored in (_stored(make_trajectory, name) for name in names)
    ]
    collect = StoredCollect(stored, groups=1, seed=0, freshness=Freshness(("v0", "v1", "v2"), max_age=1))
    (group,) = collect(0)
    assert [member.trajectory.id for member in group.members] == ["b", "c", "d"]
    assert collect.metrics() == {
        "stored_epoch": 0.0,
        "stored_left_out_stale": 1.0,
        "stored_left_out_unknown_weights": 1.0,
        "stored_left_out_alone": 0.0,
        "stored_age": pytest.approx(1 / 3),
    }
    newest = StoredCollect(stored, groups=1, seed=0, freshness=Freshness(("v0", "v1", "v2"), max_age=0))
    assert [member.trajectory.id for member in newest(0)[0].members] == ["c", "d"]


def test_single_trajectories_are_excluded_where_trajectories_are_compared(make_trajectory: Make) -> None:
    stored = [_stored(make_trajectory, name, prompt) for name, prompt in (("a", 3), ("b", 3), ("c", 4))]
    assert StoredCollect(stored, groups=9, seed=0).excluded["alone"] == 1
    with_all = StoredCollect(stored, groups=9, seed=0, min_members=1)
    assert sum(len(group.members) for group in with_all(0)) == 3


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"origin": "rendered"}, "no local model sampled them, so there are no sampler log-probs"),
        ({"temperature": 0.0}, "sampled greedily"),
        ({"rows": ()}, "no written tokens are stored"),
    ],
)
def test_trajectories_without_sampler_logprobs_are_refused_by_name(
    make_trajectory: Make, change: dict[str, Any], reason: str
) -> None:
    good, (task, bad) = _stored(make_trajectory, "good"), _stored(make_trajectory, "bad")
    stored = [good, (task, replace(bad, trajectory=replace(bad.trajectory, **change)))]
    with pytest.raises(
        TrainingError,
        match=rf"1 of 2 stored trajectories, such as 'bad', cannot train a policy gradient \(1: {reason}",
    ) as caught:
        StoredCollect(stored, groups=1, seed=0)
    assert "train on them with SFT, DPO or KTO" in str(caught.value)


def test_stored_trajectories_without_usable_ones_are_refused(make_trajectory: Make) -> None:
    stored = [_stored(make_trajectory, "a"), _stored(make_trajectory, "b", 4)]
    with pytest.raises(TrainingError, match="none is left to train on: 2 the only usable trajectory of their task"):
        StoredCollect(stored, groups=1, seed=0)
    with pytest.raises(TrainingError, match="none is left to train on: 2 sampled by weights that are too old"):
        StoredCollect(stored, groups=1, seed=0, freshness=Freshness(("v2", "v3"), max_age=0))
    with pytest.raises(TrainingError, match="there are no stored trajectories"):
        StoredCollect([], groups=1, seed=0)


def test_max_age_and_versions_need_each_other(tiny_model: Model, make_trajectory: Make, tmp_path: Path) -> None:
    stored = stored_rollouts(make_trajectory)
    for max_age, versions in ((1, ()), (None, ("v2",))):
        with pytest.raises(TrainingError, match="one without the other does nothing"):
            run_offline(
                tiny_model(), stored, replace(PLAIN, max_age=max_age), RunOptions(0, tmp_path), versions=versions
            )


def test_tokens_outside_the_vocabulary_are_refused_by_name(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    (task, scored), stored = _stored(make_trajectory, "foreign"), stored_rollouts(make_trajectory)
    (row,) = scored.trajectory.rows
    foreign = replace(scored.trajectory, rows=(replace(row, token_ids=(1, 3, 2, 20)),))
    with pytest.raises(TrainingError, match="stored trajectory 'foreign' has token 20, the model has 20 tokens"):
        run_offline(
            tiny_model(), [*stored, (task, replace(scored, trajectory=foreign))], PLAIN, RunOptions(0, tmp_path)
        )


class _KilledError(Exception):
    """Stops a run in a test."""


def test_a_run_on_stored_trajectories_resumes_bitwise_and_refuses_others(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    stored, settings = (
        stored_rollouts(make_trajectory),
        replace(PLAIN, groups=1, max_age=0, iterations=4, checkpoint_every=1),
    )

    def train(model: PreTrainedModel, folder: str, stored: Sequence[Stored] = stored, kill_at: int = 0) -> None:
        def kill(point: CurvePoint) -> None:
            if point.units == kill_at:
                raise _KilledError

        run_offline(model, stored, settings, RunOptions(5, tmp_path / folder, progress=kill), versions=("v1", "v2"))

    calm, resumed = tiny_model(), tiny_model()
    train(calm, "calm")
    with pytest.raises(_KilledError):
        train(tiny_model(), "shaken", kill_at=3)
    with pytest.raises(TrainingError, match="belongs to another run: stored attempts is"):
        train(tiny_model(), "shaken", stored[1:])
    train(resumed, "shaken")
    assert _weights_equal(calm, resumed)
    curves = [
        [
            {name: value for name, value in point.metrics.items() if name not in UNREPEATED}
            for point in read_curve(tmp_path / name / CURVE_FILE)
        ]
        for name in ("calm", "shaken")
    ]
    assert curves[0] == curves[1]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: OfflineSettings(groups=0), "groups: input should be greater than or equal to 1, got 0"),
        (lambda: OfflineSettings(max_age=-1), "max_age: input should be greater than or equal to 0, got -1"),
        (
            lambda: replace(PLAIN, dynamic_sampling=DynamicSamplingSettings()),
            "stored trajectories do not have; leave it out",
        ),
        (
            lambda: replace(PLAIN, mismatch=MismatchSettings()),
            "mismatch only measures",
        ),
    ],
)
def test_settings_without_effect_are_refused(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        make()


def test_the_default_settings_correct(make_trajectory: Make) -> None:
    settings = OfflineSettings()
    assert settings.mismatch == MismatchSettings(weight="token", weight_cap=2.0)
    assert replace(PLAIN, mismatch=None).mismatch is None
