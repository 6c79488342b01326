"""Reward models within runs: trained on a pool, then a component of rewards, never the judge of success."""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.errands import ENVIRONMENT, MODEL, ErrandsVerifier
from upturn.environments import verify
from upturn.errors import ConfigError, JournalError, TrainingError
from upturn.loop.evaluation.evaluate import HeldoutResult, Mark
from upturn.loop.progress import NoProgress
from upturn.loop.rollouts.policy_worker import PolicyWorker, RolloutSpec, TaskSampler
from upturn.loop.run.context import Context, open_run, version_of
from upturn.loop.run.reward_models import ModelJudgedVerifier
from upturn.loop.trainers.algorithms import process_reward, reward_model
from upturn.loop.trainers.model_card import card
from upturn.loop.trainers.registry import parse_full_config
from upturn.loop.trainers.rl_training import configured_reward
from upturn.loop.trainers.train_command import check, run_training
from upturn.models.shipped import load_local, model_folder
from upturn.pool import PoolSink
from upturn.pool.reader import Experience
from upturn.records import Snapshot, TokenRow
from upturn.training.distributed.weights import weight_tensors
from upturn.training.optimisation import value_model
from upturn.training.reward_models import (
    JudgedTurns,
    RankedPair,
    RewardModelDescription,
    calibration,
    load_reward_model,
    ranking,
    save_reward_model,
    separation,
)
from upturn.training.runs import CURVE_FILE, read_curve

BASE: dict[str, Any] = {
    "run": {"threads": 1},
    "agents": [{"name": "nano", "kind": "local_model", "model": MODEL}],
    "environment": {"name": ENVIRONMENT, "max_turns": 8, "max_tokens": 384, "max_action_tokens": 40},
    "tasks": {"heldout_count": 30, "families": ["mail_to_event", "mail_to_sheet", "call_off"]},
}
GRPO = {"iterations": 2, "tasks_per_iteration": 6, "group_size": 4, "evaluate_every": False, "keep": "final"}


@contextmanager
def _opened(folder: Path, **sections: Mapping[str, Any]) -> Iterator[Context]:
    with open_run(parse_full_config({**BASE, **sections}), folder, "toy", NoProgress()) as context:
        yield context


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four trajectories each of 24 tasks, of which some succeed."""
    folder = tmp_path_factory.mktemp("sampled")
    with _opened(folder / "run", pool={"path": str(folder / "pool.db")}) as context:
        worker = PolicyWorker(context.runtime, version_of(context.config.agents[0]))
        tasks = TaskSampler(context.kit, dict.fromkeys(context.trained_families, 1.0), 24, seed=0).tasks(0)
        worker.sample_groups(tasks, 0, RolloutSpec(context.run_id, 0, 4), PoolSink(context.pool))
    return folder / "pool.db"


@pytest.fixture
def pool(sampled: Path, tmp_path: Path) -> Path:
    """A copy of its own of the pool of ``sampled``, for each test."""
    return Path(shutil.copyfile(sampled, tmp_path / "sampled.db"))


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a reward model with a random head."""
    model = value_model(load_local(MODEL).model)
    with torch.no_grad():
        model.get_output_embeddings().weight.normal_(0, 0.3, generator=torch.Generator().manual_seed(0))
    description = RewardModelDescription("outcome", 0.0, None, "nano@base", tenants=("default",))
    folder = tmp_path_factory.mktemp("judges") / "judge"
    save_reward_model(model, folder, description, companions=model_folder(MODEL))
    return folder


def _experiences(context: Context) -> list[Experience]:
    return list(context.pool.experiences(tenant="default"))


def test_a_reward_model_is_trained_on_the_pools_pairs_and_the_agent_stays(pool: Path, tmp_path: Path) -> None:
    settings = {"epochs": 2, "batch_pairs": 4, "optimiser": {"learning_rate": 1e-3}}
    with _opened(tmp_path / "rm", pool={"path": str(pool)}, reward_model=settings) as context:
        result = run_training(context, "reward-model")
        text = card(context, result)
    folder = tmp_path / "rm" / "reward-models" / "reward-model"
    assert result.trained.made == str(folder)
    assert result.candidate == result.incumbent
    assert {"accuracy", "loss"} <= {item.name for item in result.trained.results}
    assert f"model:{folder}" in text
    assert "The agent is unchanged." in text
    assert (folder / "card.md").read_text().startswith("# Reward model")
    description = load_reward_model(folder).description
    assert (description.kind, description.base, description.tenants) == ("outcome", "nano@base", ("default",))
    assert description.snapshot


def test_training_on_a_reward_model_adds_its_score_and_leaves_the_verdict(judge: Path, tmp_path: Path) -> None:
    name = f"model:{judge}"
    weights = {"success": 0.75, name: 0.25}
    with _opened(tmp_path / "run", rewards={"weights": weights}, grpo=GRPO) as context:
        result = run_training(context, "grpo")
        experiences = _experiences(context)
        reward = configured_reward(context)
    curve = read_curve(tmp_path / "run" / "training" / "grpo" / CURVE_FILE)
    assert result.validation is not None
    evaluations = [item.evaluation for item in experiences if item.evaluation is not None]
    assert len(evaluations) == len(experiences) == 2 * 24 + 2 * 30
    stored = json.loads((judge / "upturn.json").read_text())
    assert {item.evaluator for item in evaluations} == {evaluations[0].evaluator}
    assert evaluations[0].evaluator.startswith("errands/1+judge@")
    assert stored["reward_model"]["kind"] == "outcome"
    for (task, trajectory, _), evaluation in zip(experiences, evaluations, strict=True):
        alone = verify(ErrandsVerifier(), task, trajectory)
        assert (evaluation.verdict, evaluation.gates, evaluation.score) == (alone.verdict, alone.gates, alone.score)
        score = evaluation.rewards[name]
        assert score is not None
        assert 0 < score < 1
        success = evaluation.rewards["success"]
        assert success is not None
        assert reward(evaluation) == pytest.approx(0.75 * success + 0.25 * score)
    trained = [item for item in evaluations if item.trajectory_id in _trained(experiences)]
    assert len(trained) == 48
    first, second = trained[:24], trained[24:]
    for part, point in zip((first, second), (item for item in curve if "mean_return" in item.metrics), strict=True):
        scores = [float(item.rewards[name] or 0) for item in part]
        assert point.metrics["proxy_reward_judge"] == pytest.approx(sum(scores) / 24)
        assert point.metrics["proxy_success_judge"] == pytest.approx(sum(item.is_success for item in part) / 24)
        expected = separation(zip(scores, (item.is_success for item in part), strict=True))
        assert point.metrics.get("proxy_separation_judge") == (
            None if expected is None else pytest.approx(expected)
        )
        assert point.metrics["mean_return"] == pytest.approx(sum(reward(item) or 0 for item in part) / 24)


def _trained(experiences: list[Experience]) -> set[str]:
    return {item.trajectory.id for item in experiences if item.task.split == "train"}


def test_scores_do_not_depend_on_what_else_is_judged(judge: Path, pool: Path, tmp_path: Path) -> None:
    weights = {f"model:{judge}": 1.0}
    with _opened(tmp_path, pool={"path": str(pool)}, rewards={"weights": weights}) as context:
        finished = [(item.task, item.trajectory) for item in _experiences(context)[:6]]
        verifier = context.kit.verifier
        assert isinstance(verifier, ModelJudgedVerifier)
        together = verifier.verify_all(finished)
        alone = [verifier.verify(*pair) for pair in finished]
    for one, other in zip(together, alone, strict=True):
        assert one.rewards == pytest.approx(other.rewards, abs=1e-6)
        assert replace(one, rewards={}) == replace(other, rewards={})
    scores = load_reward_model(judge).scores([trajectory for _, trajectory in finished])
    assert [item.rewards[f"model:{judge}"] for item in together] == pytest.approx(scores, abs=1e-6)


def test_other_tokens_are_rendered_and_what_cannot_be_written_is_missing(
    judge: Path, pool: Path, tmp_path: Path
) -> None:
    name = f"model:{judge}"
    with _opened(tmp_path, pool={"path": str(pool)}, rewards={"weights": {"success": 1.0, name: 1.0}}) as context:
        experiences = _experiences(context)
        task, recorded, _ = next(item for item in experiences if all(turn.action for turn in item.trajectory.turns))
        # without rows, and with those of a tokenizer whose ids decode to something else
        plain = replace(recorded, rows=(), origin="rendered")
        foreign = replace(recorded, rows=tuple(_shifted(row) for row in recorded.rows))
        unread = replace(plain, turns=(*plain.turns[:-1], replace(plain.turns[-1], action=None)))
        idle = replace(plain, turns=())
        finished = [(task, item) for item in (recorded, plain, foreign, unread, idle)]
        evaluations = context.kit.verifier.verify_all(finished)  # type: ignore[attr-defined]
        reward = configured_reward(context)
        strict = replace(context.config, rewards=replace(context.config.rewards, missing="unscored"))
        strict_reward = configured_reward(replace(context, config=strict))
    scores = [item.rewards[name] for item in evaluations]
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)
    assert scores[1] == pytest.approx(scores[2], abs=1e-6)
    assert scores[3:] == [None, None]
    assert all(item.verdict != "missing" for item in evaluations)
    assert [reward(item) for item in evaluations[3:]] == [item.rewards["success"] for item in evaluations[3:]]
    assert [strict_reward(item) is None for item in evaluations] == [False, False, False, True, True]


def _shifted(row: TokenRow) -> TokenRow:
    return replace(row, token_ids=tuple((token + 7) % 300 for token in row.token_ids))


def test_folders_that_cannot_judge_are_refused_before_any_work(judge: Path, tmp_path: Path) -> None:
    def problems(weights: Mapping[str, float], **sections: Mapping[str, Any]) -> str:
        with pytest.raises(ConfigError) as error, _opened(tmp_path, rewards={"weights": weights}, **sections):
            pass
        return str(error.value)

    assert "is not the folder of a reward model" in problems({f"model:{tmp_path}": 1.0})
    found = problems({f"model:{judge}": 1.0}, pool={"tenant": "acme"})
    assert "was trained on data of default and scores no trajectories of pool.tenant = 'acme'" in found
    twin = tmp_path / "copies" / "judge"
    twin.mkdir(parents=True)
    (twin / "upturn.json").write_bytes((judge / "upturn.json").read_bytes())
    assert "two reward models in folders called 'judge'" in problems({f"model:{judge}": 1.0, f"model:{twin}": 1.0})


def test_a_run_does_not_go_on_with_another_model_in_the_same_folder(judge: Path, tmp_path: Path) -> None:
    folder = tmp_path / "judge"
    shutil.copytree(judge, folder)
    rewards = {"weights": {f"model:{folder}": 1.0}}
    for _ in range(2):
        with _opened(tmp_path / "run", rewards=rewards):
            pass
    marker = json.loads((folder / "upturn.json").read_text())
    marker["reward_model"]["offset"] = 1.5
    (folder / "upturn.json").write_text(json.dumps(marker))
    with (
        pytest.raises(JournalError, match=r"the run started with the rewards of 'errands/1\+judge@"),
        _opened(tmp_path / "run", rewards=rewards),
    ):
        pass


def test_a_process_model_learns_from_continuations_that_are_sampled_once(
    pool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"targets": "continuations", "continuations": 2, "optimiser": {"learning_rate": 1e-3}}
    sections: dict[str, Mapping[str, Any]] = {"pool": {"path": str(pool)}, "process_reward": settings}
    monkeypatch.setattr(process_reward, "FAMILY_CAP", 6)
    found = []
    for _ in range(2):
        with _opened(tmp_path, **sections) as context:
            worker = PolicyWorker(context.runtime, version_of(context.config.agents[0]))
            snapshot = context.journal.record_step(
                "snapshot", Snapshot, lambda: process_reward.take_verified_snapshot(context)
            )
            verified = process_reward.load_verified(context, worker, snapshot)
            found.append(process_reward.label(context, worker, verified, "process-reward"))
        monkeypatch.setattr(process_reward, "sample_continuations", None)
    first, again = found
    assert first == again
    assert len(first) == 18
    for item in first:
        assert item.targets[-1] == float(item.is_success)
        assert all(target in (0.0, 0.5, 1.0) for target in item.targets)
    assert any(target not in (item.targets[-1],) for item in first for target in item.targets)


def test_a_process_model_is_trained_and_its_smallest_turn_is_the_score(pool: Path, tmp_path: Path) -> None:
    settings = {"batch_trajectories": 16, "optimiser": {"learning_rate": 1e-3}}
    with _opened(tmp_path / "run", pool={"path": str(pool)}, process_reward=settings) as context:
        incumbent = context.router.registry.served("nano").incumbent
        trained = process_reward.train(context, incumbent, HeldoutResult("", "", 1.0, ()), "process-reward")
        trajectories = [item.trajectory for item in _experiences(context)[:4]]
    assert {"brier", "base_brier", "calibration_error"} <= {item.name for item in trained.results}
    model = load_reward_model(Path(trained.made))
    assert model.description.aggregation == "min"
    scores = model.scores(trajectories)
    model.description = replace(model.description, aggregation="mean")
    means = model.scores(trajectories)
    assert all(
        low is not None and mean is not None and 0 < low < mean < 1 for low, mean in zip(scores, means, strict=True)
    )


def test_progress_that_the_environment_reports_is_a_target_and_without_any_it_is_refused(
    pool: Path, tmp_path: Path
) -> None:
    with _opened(tmp_path, pool={"path": str(pool)}, process_reward={"targets": "potential"}) as context:
        verified = [
            process_reward.Verified(item.task, item.trajectory, item.evaluation.is_success)
            for item in _experiences(context)
            if item.evaluation is not None
        ]
        worker = PolicyWorker(context.runtime, version_of(context.config.agents[0]))
        labelled = process_reward.label(context, worker, verified, "x")
        for item in labelled:
            assert item.targets[:-1] == tuple(turn.potential for turn in item.trajectory.turns[1:])
        bare = [
            item._replace(
                trajectory=replace(
                    item.trajectory, turns=tuple(replace(turn, potential=None) for turn in item.trajectory.turns)
                )
            )
            for item in verified
        ]
        with pytest.raises(TrainingError, match="reports no potential in any of the 96 trajectories"):
            process_reward.label(context, worker, bare, "x")


@pytest.mark.parametrize("algorithm", ["reward-model", "process-reward"])
def test_both_need_a_pool(algorithm: str) -> None:
    with pytest.raises(ConfigError, match=r"trains on stored data, and pool\.path is empty"):
        check(parse_full_config(BASE), algorithm)


def test_evaluations_report_the_mean_score_of_each_model_over_the_tasks_that_have_one() -> None:
    rewards: list[dict[str, float | None]] = [
        {"success": 1.0, "model:runs/x/judge": 0.2},
        {"success": 0.0, "model:runs/x/judge": None},
        {"success": 0.0, "model:runs/x/judge": 0.6},
    ]
    marks = tuple(
        Mark(str(index), "toy", 1, str(index), False, False, components, 1, 1, {})
        for index, components in enumerate(rewards)
    )
    assert HeldoutResult("", "", 1.0, marks).proxies() == {"judge": pytest.approx(0.4)}


def test_a_model_that_is_not_better_than_chance_says_so() -> None:
    coin = ranking([RankedPair(str(index), float(index % 2), 0.5, 3, 3) for index in range(20)])
    sure = ranking([RankedPair(str(index), 1.0, 0.0, 3, 3) for index in range(20)])
    assert "not shown to be better than chance" in " ".join(reward_model.ranking_sentences(coin, 20))
    assert "chance" not in " ".join(reward_model.ranking_sentences(sure, 20))
    turns = [(0.5, float(index % 2)) for index in range(10)]
    constant = calibration([JudgedTurns(str(index), [p], [y], p, y > 0) for index, (p, y) in enumerate(turns)])
    assert "do not train on it" in " ".join(process_reward.calibration_sentences(constant, 10))
    right = calibration([JudgedTurns(str(index), [y], [y], y, y > 0) for index, (_, y) in enumerate(turns)])
    assert "do not train on it" not in " ".join(process_reward.calibration_sentences(right, 10))


def test_an_adapter_is_trained_and_a_killed_run_goes_on(pool: Path, tmp_path: Path) -> None:
    """The process dies after training, before the step is recorded: the folder that it wrote is kept."""
    pytest.importorskip("peft")
    sections: dict[str, Mapping[str, Any]] = {
        "pool": {"path": str(pool)},
        "lora": {"rank": 2},
        "reward_model": {"batch_pairs": 4, "optimiser": {"learning_rate": 1e-2}},
    }
    with _opened(tmp_path / "run", **sections) as context:
        incumbent = context.router.registry.served("nano").incumbent
        first = reward_model.train(context, incumbent, HeldoutResult("", "", 1.0, ()), "reward-model")
    marker = (Path(first.made) / "upturn.json").read_bytes()
    with _opened(tmp_path / "run", **sections) as context:
        again = reward_model.train(context, incumbent, HeldoutResult("", "", 1.0, ()), "reward-model")
    assert again == first
    assert (Path(first.made) / "upturn.json").read_bytes() == marker
    weights = weight_tensors(load_reward_model(Path(first.made)).model)
    base = weight_tensors(load_local(MODEL).model)
    changed = [name for name in base if name in weights and not torch.equal(base[name], weights[name])]
    assert changed
    assert all("proj" in name for name in changed)  # merged: the layers with an adapter, nothing else
