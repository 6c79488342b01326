import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.errands import MODEL
from upturn.agents import CallableAgent, EndpointAgent, ToolAgent, build, load_function, temperature
from upturn.agents.agent import Agent, AttemptAgent
from upturn.config import Limits
from upturn.errors import ConfigError
from upturn.models import CompactRenderer, ParsedOutput
from upturn.records import Action, AgentVersion, Observation

VERSION = AgentVersion(agent="a", version="1", kind="callable", model="operator:setitem")


class NoRenderer:
    stop_ids: tuple[int, ...] = (0,)

    def open(self, observation: Observation, prompt: str) -> tuple[int, ...]:
        return ()

    def extend(self, observation: Observation) -> tuple[int, ...]:
        return ()

    def write(self, action: Action) -> tuple[int, ...]:
        return ()

    def read(self, token_ids: Sequence[int]) -> ParsedOutput:
        return ParsedOutput("", None)


def build_agent(version: AgentVersion, renderer: NoRenderer | None = None) -> Agent | AttemptAgent:
    return build(version, limits=Limits(), renderer=renderer)


def test_build_makes_the_agent_of_each_kind() -> None:
    local = replace(VERSION, kind="local_model", model=MODEL, prompt="Be kind.")
    endpoint = replace(VERSION, kind="endpoint", model="http://127.0.0.1:1/v1", model_name="m")
    assert isinstance(build_agent(VERSION), CallableAgent)
    assert isinstance(build_agent(replace(VERSION, kind="rule_based")), CallableAgent)
    assert isinstance(build_agent(local, NoRenderer()), ToolAgent)
    assert isinstance(build_agent(endpoint), EndpointAgent)


def test_all_problems_of_a_version_are_reported_together() -> None:
    version = AgentVersion(
        agent="a", version="1", kind="local_model", parameters={"temperature": -1.0, "heat": 2.0, "max_tokens": 0.0}
    )
    with pytest.raises(ConfigError) as caught:
        build_agent(version)
    assert caught.value.problems == (
        "agent 'a@1': parameter 'heat' has no effect on kind 'local_model'; known: temperature, sampling, "
        "max_tokens, context_tokens, context_window_turns, context_observation_tokens, context_summary_tokens, "
        "context_low_mark, template_options, weights, examples",
        "agent 'a@1': temperature must be 0 (greedy) or more, got -1.0",
        "agent 'a@1': max_tokens must be 1 or more, got 0.0",
        "agent 'a@1': a local model needs the renderer of its tokenizer",
    )


def test_settings_without_effect_are_errors() -> None:
    with pytest.raises(ConfigError, match="'temperature' has no effect on kind 'callable'; known: examples"):
        build_agent(replace(VERSION, parameters={"temperature": 1.0}))
    with pytest.raises(ConfigError, match="a prompt has no effect on kind 'callable'"):
        build_agent(replace(VERSION, prompt="Be kind."))
    with pytest.raises(ConfigError, match="kind 'endpoint' needs model_name"):
        build_agent(replace(VERSION, kind="endpoint", model="http://127.0.0.1:1/v1"))


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("operator.add", "is named 'package.module:function', got 'operator.add'"),
        ("no_such_module:act", "cannot import 'no_such_module'"),
        ("operator:no_such", "'operator' has no 'no_such'"),
        ("upturn.errors:__doc__", "is not a function"),
        ("upturn.agents:CallableAgent", r"cannot be called as function\(instruction, turns, observation\)"),
        ("operator:neg", r"cannot be called as function\(instruction, turns, observation\)"),
        ("agent_with_a_typo:act", r"SyntaxError: .*agent_with_a_typo\.py, line 1"),
        ("agent_that_breaks:act", r"ZeroDivisionError: division by zero \(.*agent_that_breaks\.py, line 2\)"),
        ("agent_that_leaves:act", r"SystemExit: 3 \(.*agent_that_leaves\.py, line 2\)"),
    ],
)
def test_invalid_import_paths_are_refused_with_the_reason(
    path: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agent_with_a_typo.py").write_text("def act(:\n")
    (tmp_path / "agent_that_breaks.py").write_text("\n1 / 0\n")
    (tmp_path / "agent_that_leaves.py").write_text("import sys\nsys.exit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    with pytest.raises(ConfigError, match=problem):
        load_function(path)


def test_functions_inside_classes_are_loaded_too() -> None:
    function: object = load_function("upturn.models:CompactRenderer.open")
    assert function is CompactRenderer.open


def test_the_default_temperature_is_one() -> None:
    assert temperature(VERSION) == 1.0
    assert temperature(replace(VERSION, parameters={"temperature": 0.0})) == 0.0
