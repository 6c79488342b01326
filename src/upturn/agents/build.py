"""Builds an agent from a frozen agent version."""

import importlib
import inspect
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal, assert_never

from upturn.agents.agent import Agent
from upturn.agents.context import CONTEXT_PARAMETERS, PromptBuilder, budget_of, prompt_builder
from upturn.agents.endpoint import EndpointAgent, OfferedTools, ToolUse
from upturn.agents.tool import AgentFunction, CallableAgent, ToolAgent
from upturn.config import Limits, SamplingSettings, parse_settings
from upturn.dialects import DIALECTS
from upturn.errors import ConfigError, error_text
from upturn.models import ChatEndpoint, Renderer, RetryPolicy
from upturn.records import AgentKind, AgentVersion, JsonValue, Tool

DEFAULT_TEMPERATURE = 1.0
"""The temperature at which recorded log-probs are those of the sampling distribution."""
TIMEOUT_SECONDS, RETRIES = 60.0, 2
"""Of a call to an endpoint: seconds of one try, and further tries."""
PARAMETERS: Mapping[AgentKind, Sequence[str]] = {
    "local_model": ("temperature", "sampling", "max_tokens", *CONTEXT_PARAMETERS, "template_options", "weights"),
    "endpoint": (
        "temperature",
        "max_tokens",
        *CONTEXT_PARAMETERS,
        "timeout_seconds",
        "retries",
        "dialect",
        "tools",
    ),
    "rule_based": (),
    "callable": (),
}
"""Parameters of an agent version by kind; ``max_tokens`` overrides ``Limits.max_action_tokens``. Those of a
context budget come together, see ``Budget``."""


def build(
    version: AgentVersion,
    *,
    limits: Limits,
    renderer: Renderer | None = None,
    api_key: str = "",
    tools: Sequence[Tool] = (),
    note: Callable[[str], None] = lambda _: None,
) -> Agent:
    """The agent of a version. Raises ConfigError with every problem of the version.

    ``renderer``: for a ``local_model``; other kinds need none. For an endpoint: ``api_key``; ``tools`` of the
    environment, which a renderer has already; ``note``: gets a sentence where the model cannot have them as such.
    """
    problems = _problems(version, renderer)
    if problems:
        raise ConfigError([f"agent {version.id!r}: {problem}" for problem in problems])
    agent_limits, context = limits_of(version, limits), budget_of(version.parameters)
    match version.kind:
        case "local_model":
            assert renderer is not None  # among the problems
            with _named_errors(version):
                return ToolAgent(renderer, agent_limits, version.prompt, context=context)
        case "rule_based" | "callable":
            return CallableAgent(load_function(version.model))
        case "endpoint":
            with _named_errors(version):
                return EndpointAgent(
                    ChatEndpoint(
                        version.model,
                        version.model_name,
                        dialect=_dialect(version),
                        api_key=api_key,
                        retry=RetryPolicy(
                            _number(version, "timeout_seconds", TIMEOUT_SECONDS),
                            int(_number(version, "retries", RETRIES)),
                        ),
                    ),
                    prompt=version.prompt,
                    temperature=temperature(version),
                    max_tokens=agent_limits.max_action_tokens,
                    context=context,
                    offered=OfferedTools(tools, _tool_use(version), note),
                )
        case _:
            assert_never(version.kind)


def limits_of(version: AgentVersion, limits: Limits) -> Limits:
    """The limits of a rollout, with the version's overrides."""
    return replace(limits, max_action_tokens=int(_number(version, "max_tokens", limits.max_action_tokens)))


def prompt_builder_for(version: AgentVersion, limits: Limits, renderer: Renderer) -> PromptBuilder:
    """The prompt builder of a local model's agent, the same as in ``build``. Raises ConfigError."""
    context = budget_of(version.parameters)
    return prompt_builder(renderer, limits_of(version, limits), version.prompt, context=context)


@contextmanager
def _named_errors(version: AgentVersion) -> Iterator[None]:
    """Adds the version's name to problems raised while it is built."""
    try:
        yield
    except ConfigError as exc:
        raise ConfigError([f"agent {version.id!r}: {problem}" for problem in exc.problems]) from exc


def temperature(version: AgentVersion) -> float:
    """The version's sampling temperature."""
    return _number(version, "temperature", DEFAULT_TEMPERATURE)


def sampling(version: AgentVersion) -> SamplingSettings:
    """The version's sampling options; raises ConfigError with every invalid one."""
    options = version.parameters.get("sampling", {})
    if not isinstance(options, Mapping):
        raise ConfigError([f"agent {version.id!r}: sampling must be a table, got {options!r}"])
    return parse_settings(SamplingSettings, options)


def template_options(version: AgentVersion) -> Mapping[str, JsonValue]:
    """The variables of the version's chat template; raises ConfigError unless they are a table."""
    options = version.parameters.get("template_options", {})
    if not isinstance(options, Mapping):
        raise ConfigError([f"agent {version.id!r}: template_options must be a table, got {options!r}"])
    return options


def precision(version: AgentVersion) -> Literal["float32", "bfloat16"]:
    """The number type of the version's weights; raises ConfigError for an unsupported one."""
    match version.parameters.get("weights", "float32"):
        case "float32" | "bfloat16" as supported:
            return supported
        case unsupported:
            raise ConfigError(
                [f"agent {version.id!r}: weights must be 'float32' or 'bfloat16', got {unsupported!r}"]
            )


def _dialect(version: AgentVersion) -> str:
    match version.parameters.get("dialect", "chat"):
        case str() as name if name in DIALECTS:
            return name
        case unsupported:
            known = ", ".join(DIALECTS)
            raise ConfigError([f"dialect must be one of {known}, got {unsupported!r}"])


def _tool_use(version: AgentVersion) -> ToolUse:
    match version.parameters.get("tools", "auto"):
        case "auto" | "native" | "text" as supported:
            return supported
        case unsupported:
            raise ConfigError([f"tools must be 'auto', 'native' or 'text', got {unsupported!r}"])


def _number(version: AgentVersion, name: str, default: float) -> float:
    value = version.parameters.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError([f"agent {version.id!r}: {name} must be a number, got {value!r}"])
    return value


def load_function(path: str) -> AgentFunction:
    """The function at ``package.module:name``; raises ConfigError when there is none."""
    module_name, colon, name = path.partition(":")
    if not colon or not module_name or not name:
        raise ConfigError([f"an agent function is named 'package.module:function', got {path!r}"])
    try:
        target: object = importlib.import_module(module_name)
    except ImportError as exc:
        raise ConfigError([f"cannot import {module_name!r} of {path!r}: {exc}"]) from exc
    except (Exception, SystemExit) as exc:  # third-party code may raise anything on import
        raise ConfigError(
            [f"cannot import {module_name!r} of {path!r}: {error_text(exc)}{_location(exc)}"]
        ) from exc
    try:
        for part in name.split("."):
            target = getattr(target, part)
    except AttributeError as exc:
        raise ConfigError([f"{module_name!r} has no {name!r}: {exc}"]) from exc
    if not callable(target):
        raise ConfigError([f"{path!r} is not a function, it is {target!r}"])
    if inspect.isclass(target) or not _accepts_three_arguments(target):
        raise ConfigError(
            [f"{path!r} cannot be called as function(instruction, turns, observation); name one that can"]
        )
    function: AgentFunction = target
    return function


def _location(exc: BaseException) -> str:
    """The location of the error in third-party code; empty where its message contains it."""
    if isinstance(exc, SyntaxError):
        return ""
    frame = traceback.extract_tb(exc.__traceback__)[-1]
    return f" ({frame.filename}, line {frame.lineno})"


def _accepts_three_arguments(function: Callable[..., object]) -> bool:
    """False when the function certainly cannot be called with three arguments."""
    try:
        inspect.signature(function).bind(None, None, None)
    except TypeError:
        return False
    except ValueError:  # some built-in functions have no signature
        pass
    return True


def _problems(version: AgentVersion, renderer: Renderer | None) -> list[str]:
    is_sampling = version.kind in {"local_model", "endpoint"}
    known = PARAMETERS[version.kind]
    problems = [
        f"parameter {name!r} has no effect on kind {version.kind!r}; known: {', '.join(known) or 'none'}"
        for name in version.parameters
        if name not in known
    ]
    if temperature(version) < 0:
        problems.append(f"temperature must be 0 (greedy) or more, got {temperature(version)!r}")
    if is_sampling:
        try:
            sampling(version)
        except ConfigError as exc:
            problems += exc.problems
    if _number(version, "max_tokens", 1) < 1:
        problems.append(f"max_tokens must be 1 or more, got {version.parameters['max_tokens']!r}")
    if (seconds := _number(version, "timeout_seconds", TIMEOUT_SECONDS)) <= 0:
        problems.append(f"timeout_seconds must be above 0, got {seconds!r}")
    if (retries := _number(version, "retries", RETRIES)) < 0:
        problems.append(f"retries must be 0 or more, got {retries!r}")
    if is_sampling:
        try:
            budget_of(version.parameters)
        except ConfigError as exc:
            problems += exc.problems
    if version.prompt and not is_sampling:
        problems.append(f"a prompt has no effect on kind {version.kind!r}")
    if version.kind == "local_model" and renderer is None:
        problems.append("a local model needs the renderer of its tokenizer")
    if version.kind == "endpoint" and not version.model_name:
        problems.append("an endpoint needs model_name, the model's name there")
    return problems
