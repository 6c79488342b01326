"""Stored tasks that are sampled again."""

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.loop.trainers.traffic.traffic_pool import NANO, episode, rating, store
from upturn.cli.pool.commands import pool_app
from upturn.environments import draw_tasks, resolve_kit
from upturn.errors import StoreError
from upturn.loop.progress import NoProgress
from upturn.loop.run import open_run, version_of
from upturn.loop.run.task_source import read_tasks
from upturn.loop.trainers import parse_full_config
from upturn.loop.trainers.algorithms import grpo
from upturn.loop.trainers.traffic import find_tasks, split_tasks
from upturn.pool import Pool
from upturn.records import Task


@pytest.fixture(autouse=True)
def desk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy desk is importable."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))


def run_json(*arguments: object) -> Any:
    """The object that the command prints; its error where it has one."""
    done = CliRunner().invoke(pool_app, [*map(str, arguments), "--json"])
    return done.exception if isinstance(done.exception, StoreError) else json.loads(done.stdout)


def drawn(count: int) -> list[Task]:
    kit = resolve_kit("toy_desk:kit")
    return list(islice(draw_tasks(kit, seed=3, split="train", families=list(kit.families)), count))


def test_stored_tasks_of_the_environment_are_found_once_and_only_for_their_tenant(tmp_path: Path) -> None:
    first, second, third = drawn(3)
    path = store(
        tmp_path / "pool.db",
        first,
        replace(first, id="again"),
        replace(second, tenant="other", id="o"),
        replace(third, environment="elsewhere"),
        *episode("a", "open", "user.open"),
    )
    kit = resolve_kit("toy_desk:kit")
    with Pool.open(path, read_only=True) as pool:
        found = find_tasks(pool, kit, tenant="default")
        assert [task.id for task in found.tasks] == [first.id]
        assert found.left_out == {"repeated": 1, "unfit": 0}
        assert "holds 1 different task of the environment 'desk' of the tenant 'default'" in found.refusal
        unfit = find_tasks(pool, kit, tenant="default", has_episodes=True)
        assert unfit.left_out == {"repeated": 1, "unfit": 1}  # the desk has sums and products only
        assert "and 1 that it cannot begin" in unfit.refusal


def test_first_messages_of_episodes_are_tasks_of_an_environment_that_takes_them(tmp_path: Path) -> None:
    talks = {"a": "open", "b": "open ", "c": "close"}
    path = store(
        tmp_path / "pool.db", *(record for name, text in talks.items() for record in episode(name, text, "user.go"))
    )
    with Pool.open(path, read_only=True) as pool:
        kit = resolve_kit("toy_desk:broken_kit")  # its world begins with any task
        found = find_tasks(pool, kit, tenant="default", has_episodes=True)
        assert find_tasks(pool, kit, tenant="default").tasks == ()
    assert [(task.instruction, task.environment, task.episode) for task in found.tasks] == [
        ("open", "desk", None),
        ("close", "desk", None),
    ]
    assert found.left_out == {"repeated": 1, "unfit": 0}


def test_splits_are_by_task_and_do_not_change_while_tasks_are_added() -> None:
    tasks = [replace(drawn(1)[0], id=str(number)) for number in range(400)]
    tasks[7] = replace(tasks[7], split="heldout")
    few = {task.id: task.split for task in split_tasks(tasks[:200])}
    many = {task.id: task.split for task in split_tasks(tasks)}
    assert all(many[name] == split for name, split in few.items())
    assert many["7"] == "heldout"
    held_out = sum(split == "heldout" for split in many.values())
    assert 60 <= held_out <= 140  # a binomial share of 1/4 of 400 is outside of it with probability 1e-5
    for pair in (tasks[:2], tasks[7:9], [tasks[7], replace(tasks[8], split="heldout")]):
        assert {task.split for task in split_tasks(pair)} >= {"heldout"}
    assert [task.split for task in split_tasks(tasks[:2])].count("train") == 1
    with pytest.raises(StoreError, match="need a task each, got 1"):
        split_tasks(tasks[:1])


def test_grpo_trains_on_the_tasks_of_a_pool(tmp_path: Path) -> None:
    path, out = store(tmp_path / "pool.db", *drawn(12)), tmp_path / "tasks.jsonl"
    written = run_json("tasks", "--pool", path, "--environment", "toy_desk:kit", "--out", out)
    counted = {result["name"]: result["value"] for result in written["results"]}
    assert counted["training"] + counted["held_out"] == 12
    tasks = read_tasks(out, "desk", "default")
    assert {task.id for task in tasks} == {task.id for task in drawn(12)}
    settings = parse_full_config(
        {
            "run": {"threads": 1},
            "agents": [NANO],
            "environment": {"name": "toy_desk:kit", "max_turns": 1, "max_tokens": 128},
            "tasks": {"file": str(out), "heldout_count": 30},
            "grpo": {
                "iterations": 1,
                "tasks_per_iteration": 2,
                "group_size": 2,
                "evaluate_every": False,
                "keep": "final",
                "cost_limits": {},
            },
        }
    )
    with open_run(settings, tmp_path / "run", "train-x", NoProgress()) as context:
        agent = context.config.improved_agent
        assert agent is not None
        trained = grpo.train_grpo(context, version_of(agent), dict.fromkeys(context.trained_families, 1.0), "grpo")
        sampled = {row.task_id for row in context.pool.selected(tenant="default")}
    assert trained.parent == "nano@base"
    assert sampled <= {task.id for task in tasks if task.split == "train"}
    assert len(sampled) == 2


def test_too_few_tasks_are_refused_as_readiness_says(tmp_path: Path) -> None:
    path = store(tmp_path / "pool.db", *episode("a", "open", "user.open"), rating("a", 1.0))
    way = run_json("ready", "--pool", path)["traffic"]["grpo"]
    refused = run_json("tasks", "--pool", path, "--out", tmp_path / "tasks.jsonl")
    assert isinstance(refused, StoreError)
    assert str(refused) == way["refusal"]
    assert (way["number"], (tmp_path / "tasks.jsonl").exists()) == (0, False)
