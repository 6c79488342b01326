"""Opening a run: names must exist, and a run resumes only with its own configuration."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from benchmarks.errands import MODEL
from upturn.arbiter import HierarchicalThompson, RuleBasedRouting, Uniform
from upturn.config import AgentConfig, ContextConfig, LoopConfig, UpstreamConfig
from upturn.errors import ConfigError, JournalError, StoreBusyError
from upturn.loop.cycle import serve
from upturn.loop.progress import NoProgress
from upturn.loop.run.context import limits_of, open_run, policy_of, store_agent_version, version_of
from upturn.loop.run.preflight import check_names
from upturn.loop.trainers.registry import parse_full_config
from upturn.pool import Pool
from upturn.records import AgentVersion, Run, fields_json, from_fields

MESSAGES = UpstreamConfig(dialect="messages")


def test_all_missing_names_are_reported_together(desk: ModuleType, tmp_path: Path) -> None:
    config = desk.config(("solver", "nobody"), tasks={"families": ["sums", "poems"]})
    with pytest.raises(ConfigError) as caught, desk.opened(tmp_path / "run", config):
        pass
    families, function = caught.value.problems
    assert families == "tasks.families names 'poems', which desk does not have; it has: sums, products"
    assert function.startswith("agents[1].import_path: 'toy_desk' has no 'nobody'")
    assert not (tmp_path / "run").exists()  # before any work


def test_a_version_has_the_options_of_its_local_model() -> None:
    agent = AgentConfig(name="chat", kind="local_model", model="m", temperature=0.5)
    options: dict[str, bool | int | float | str] = {"enable_thinking": False}
    version = version_of(replace(agent, template_options=options, weights="bfloat16"))
    assert version_of(agent).parameters == {"temperature": 0.5}
    assert version.parameters == {"temperature": 0.5, "template_options": options, "weights": "bfloat16"}
    assert from_fields(AgentVersion, fields_json(version)) == version


def test_levels_without_a_family_are_refused(desk: ModuleType, tmp_path: Path) -> None:
    config = desk.config(tasks={"levels": [4]})
    with pytest.raises(ConfigError, match="leaves no family of desk; its levels: 1"), desk.opened(tmp_path, config):
        pass


def test_a_missing_reward_component_is_refused(desk: ModuleType) -> None:
    training = LoopConfig(train=("grpo",))
    config = replace(desk.config(rewards={"weights": {"success": 1.0, "beauty": 2.0}}), loop=training)
    with pytest.raises(ConfigError, match="names 'beauty', which desk/1 does not give; it gives: success, eff"):
        check_names(config, desk.kit())
    check_names(replace(desk.config(), loop=training), desk.kit())  # the default weights


def test_an_unknown_environment_is_reported_with_the_other_problems(desk: ModuleType, tmp_path: Path) -> None:
    config = desk.config(("nobody",), environment={"name": "kitchen"})
    with pytest.raises(ConfigError) as caught, desk.opened(tmp_path / "run", config):
        pass
    environment, function = caught.value.problems
    assert environment.startswith("environment.name: unknown environment 'kitchen'; known: office")
    assert function.startswith("agents[0].import_path: 'toy_desk' has no 'nobody'")
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(torch.cuda.device_count() > 9, reason="the device is there")
@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"run": {"device": "cuda:9"}}, "run.device = 'cuda:9' is not available; this machine has: "),
        ({"run": {"device": "cpu"}, "optimiser": {"offload": True}}, "optimiser.offload = true has no effect"),
    ],
)
def test_a_run_on_an_impossible_device_leaves_no_folder(
    tmp_path: Path, settings: dict[str, Any], problem: str
) -> None:
    nano = {"name": "nano", "kind": "local_model", "model": "nano"}
    config = parse_full_config({"agents": [nano], **settings})
    with pytest.raises(ConfigError) as caught, open_run(config, tmp_path / "run", "toy", NoProgress()):
        pass
    assert caught.value.problems[0].startswith(problem)
    assert not (tmp_path / "run").exists()


def test_a_run_resumes_only_with_its_own_configuration_and_command(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path):
        pass
    with pytest.raises(JournalError, match="config_hash is"), desk.opened(tmp_path, desk.config(run={"seed": 1})):
        pass
    with (
        pytest.raises(JournalError, match="command is 'toy' there and 'other' now"),
        open_run(desk.config(), tmp_path, "other", NoProgress()),
    ):
        pass


def test_a_pool_in_use_by_another_run_is_refused(desk: ModuleType, tmp_path: Path) -> None:
    config = desk.config(pool={"path": str(tmp_path / "shared.db")})
    with (
        desk.opened(tmp_path / "one", config),
        pytest.raises(StoreBusyError),
        desk.opened(tmp_path / "two", config),
    ):
        pass


def test_a_run_saves_its_configuration_and_state(desk: ModuleType, tmp_path: Path) -> None:
    config = desk.config()
    with desk.opened(tmp_path / "run", config) as context:
        (running,) = context.pool.states(Run)
        context.finish()
        (done,) = context.pool.states(Run)
    saved = json.loads((tmp_path / "run" / "config.json").read_text())
    assert parse_full_config(saved) == config
    assert (running.id, running.state, running.config_hash) == ("run", "running", config.config_hash)
    assert done.state == "done"
    with desk.opened(tmp_path / "run", config) as context:
        assert [run.state for run in context.pool.states(Run)] == ["done"]  # opening it again does not change it


def test_served_and_trained_families(desk: ModuleType, tmp_path: Path) -> None:
    plain = desk.config(tasks={"families": ["products", "sums"]})
    config = replace(plain, tasks=replace(plain.tasks, train_families=("sums",)))
    with desk.opened(tmp_path, config) as context:
        assert context.families == ["products", "sums"]
        assert context.trained_families == ["sums"]


def test_the_service_stream_continues_at_its_position(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path) as context:
        expected = [task.id for task in context.next_tasks(12)]
        context.position.tasks_served = 0
        assert [task.id for task in context.next_tasks(5) + context.next_tasks(7)] == expected
        assert len(set(expected)) == 12


def test_all_records_have_the_runs_tenant(desk: ModuleType, tmp_path: Path) -> None:
    shared = {"path": str(tmp_path / "shared.db")}
    for tenant in ("acme", "umbrella"):  # the same seed: the same tasks, but separate records
        with desk.opened(tmp_path / tenant, desk.config(pool={**shared, "tenant": tenant})) as context:
            serve(context, "serve", 10)
    with Pool.open(tmp_path / "shared.db", read_only=True) as pool:
        for tenant, other in (("acme", "umbrella"), ("umbrella", "acme")):
            assert len(list(pool.experiences(tenant=tenant))) == 10
            assert all(other not in decision.task_id for decision in pool.decisions(tenant=tenant))
        assert list(pool.tasks(tenant="default")) == []


def test_a_version_is_renamed_where_a_shared_pool_holds_another_of_its_name(
    desk: ModuleType, tmp_path: Path
) -> None:
    shared = {"path": str(tmp_path / "shared.db")}
    with desk.opened(tmp_path / "one", desk.config(("solver",), pool=shared)):
        pass
    with Pool.open(tmp_path / "shared.db") as pool:
        first = AgentVersion("solver", "base", "callable", model="toy_desk:solver")
        other = AgentVersion("solver", "base", "callable", model="toy_desk:adder")
        assert store_agent_version(pool, first) == first
        renamed = store_agent_version(pool, other)
        assert renamed.id.startswith("solver@base-")
        assert store_agent_version(pool, other) == renamed  # as in a resumed run
        assert [version.id for version in pool.agent_versions()] == ["solver@base", renamed.id]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {"kind": "local_model", "model": MODEL, "temperature": 0.5, "prompt": "be kind"},
            AgentVersion(
                "a", "base", "local_model", model=MODEL, prompt="be kind", parameters={"temperature": 0.5}
            ),
        ),
        (
            {"kind": "endpoint", "url": "http://localhost:1/v1", "model": "big"},
            AgentVersion(
                "a",
                "base",
                "endpoint",
                model="http://localhost:1/v1",
                model_name="big",
                parameters={"temperature": 1.0},
            ),
        ),
        (
            {"kind": "local_model", "model": MODEL, "context": ContextConfig(tokens=400)},
            AgentVersion(
                "a",
                "base",
                "local_model",
                model=MODEL,
                parameters={
                    "temperature": 1.0,
                    "context_tokens": 400.0,
                    "context_window_turns": 8.0,
                    "context_observation_tokens": 100.0,
                    "context_summary_tokens": 48.0,
                    "context_low_mark": 0.6,
                },
            ),
        ),
        (
            {"kind": "endpoint", "url": "http://x/v1", "model": "big", "tools": "text", "upstream": MESSAGES},
            AgentVersion(
                "a",
                "base",
                "endpoint",
                model="http://x/v1",
                model_name="big",
                parameters={"temperature": 1.0, "dialect": "messages", "tools": "text"},
            ),
        ),
        (
            {"kind": "program", "url": "http://x/v1", "model": "big", "command": ("act", "-v"), "retries": 0},
            AgentVersion(
                "a",
                "base",
                "program",
                model="http://x/v1",
                model_name="big",
                parameters={"retries": 0, "command": ["act", "-v"]},
            ),
        ),
        (
            {"kind": "program", "url": "http://x/v1", "model": "big", "import_path": "a:b", "upstream": MESSAGES},
            AgentVersion(
                "a",
                "base",
                "program",
                model="http://x/v1",
                model_name="big",
                parameters={"import_path": "a:b", "dialect": "messages"},
            ),
        ),
        (
            {"kind": "callable", "import_path": "shop:act", "environments": ("shop",)},
            AgentVersion("a", "base", "callable", model="shop:act", capabilities=("shop",)),
        ),
    ],
)
def test_the_version_of_a_configured_agent(settings: dict[str, Any], expected: AgentVersion) -> None:
    assert version_of(AgentConfig(name="a", **settings)) == expected


def test_policy_and_limits_follow_the_configuration(desk: ModuleType) -> None:
    assert isinstance(policy_of(desk.config()), HierarchicalThompson)
    assert isinstance(policy_of(desk.config(routing={"policy": "uniform"})), Uniform)
    rule_based = desk.config(routing={"policy": "rule_based", "default_agent": "solver"})
    assert isinstance(policy_of(rule_based), RuleBasedRouting)
    limits = limits_of(desk.config(environment={"max_turns": 3, "max_tokens": 90, "max_action_tokens": 9}))
    assert (limits.max_turns, limits.max_tokens, limits.max_action_tokens, limits.max_seconds) == (3, 90, 9, None)


def test_torch_settings_are_restored_after_a_run(desk: ModuleType, tmp_path: Path) -> None:
    threads, smallest = torch.get_num_threads(), sys.float_info.min
    config = parse_full_config(
        {
            "agents": [{"name": "nano", "kind": "local_model", "model": MODEL}],
            "environment": {"name": "toy_desk:kit"},
            "run": {"threads": threads + 1},
        }
    )
    with desk.opened(tmp_path / "run", config):
        assert torch.get_num_threads() == threads + 1
        assert smallest / 2 == 0.0
    assert torch.get_num_threads() == threads
    assert smallest / 2 > 0.0
