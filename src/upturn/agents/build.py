"""Builds an agent from a frozen agent version."""

import importlib
import inspect
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, assert_never

from upturn.agents.agent import Agent, AttemptAgent
from upturn.agents.context import CONTEXT_PARAMETERS, PromptBuilder, budget_of, prompt_builder
from upturn.agents.endpoint import EndpointAgent, OfferedTools, ToolUse
from upturn.agents.examples import example_count
from upturn.agents.tool import CallableAgent, ToolAgent
from upturn.config import (
    FULL_DISTRIBUTION,
    PARALLEL,
    Limits,
    SamplingSettings,
    SandboxLimits,
    TimeoutConfig,
    UpstreamConfig,
    parse_settings,
)
from upturn.dialects import DIALECTS, DialectName
from upturn.errors import ConfigError, error_text
from upturn.models import ChatEndpoint, Renderer, RetryPolicy
from upturn.records import AgentVersion, JsonValue, Tool

if TYPE_CHECKING:
    from upturn.agents.program import ForkedFunction, MakeUpstream, Program, ProgramCommand, ProgramModels
    from upturn.models.upstreams import Endpoint

DEFAULT_TEMPERATURE = 1.0
"""The temperature at which recorded log-probs are those of the sampling distribution."""
TIMEOUT_SECONDS, RETRIES = 60.0, 2
"""Of a call to an endpoint: seconds of one try, and further tries."""
_PROGRAM = ("import_path", "command", "parallel", "models", "sandbox", "readable", "own_process")
PARAMETERS: Mapping[str, Sequence[str]] = {
    "local_model": (
        "temperature",
        "sampling",
        "max_tokens",
        *CONTEXT_PARAMETERS,
        "template_options",
        "weights",
        "examples",
    ),
    "endpoint": (
        "temperature",
        "max_tokens",
        *CONTEXT_PARAMETERS,
        "timeout_seconds",
        "retries",
        "dialect",
        "tools",
        "examples",
    ),
    "program": ("dialect", "timeout_seconds", "retries", *_PROGRAM),
    "local_program": ("temperature", "sampling", "max_tokens", "template_options", "weights", *_PROGRAM),
    "rule_based": (),
    "callable": ("examples",),
}
"""Parameters by kind (``local_program``: a program with a local model); ``max_tokens`` overrides
``Limits.max_action_tokens``. Those of a context budget come together, see ``Budget``."""


def build(  # noqa: PLR0913  what the kinds of agents need
    version: AgentVersion,
    *,
    limits: Limits,
    renderer: Renderer | None = None,
    api_key: str = "",
    tools: Sequence[Tool] = (),
    note: Callable[[str], None] = lambda _: None,
    others: "Mapping[str, MakeUpstream] | None" = None,
) -> Agent | AttemptAgent:
    """The agent of a version. Raises ConfigError with every problem of the version.

    ``renderer``: of a local model; other kinds need none. ``others``: further models of a program, by the name that
    it asks for; None = none. For an endpoint: ``api_key``; ``tools`` of the
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
        case "program":
            from upturn.agents.program import ProgramAgent  # loads the client and server of its calls

            with _named_errors(version):
                models = _models_of(version, agent_limits, renderer, api_key)
                return ProgramAgent(
                    _program(version),
                    replace(models, others=others or {}),
                    tools,
                    parallel=int(_number(version, "parallel", PARALLEL)),
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
    return parse_settings(SamplingSettings, options) if options else FULL_DISTRIBUTION


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


def _dialect(version: AgentVersion) -> DialectName:
    match version.parameters.get("dialect", "chat"):
        case "chat" | "responses" | "messages" as name:
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


def _program(version: AgentVersion) -> "Program | ProgramCommand | ForkedFunction":
    """Raises ConfigError unless the version has either a function or a command."""
    from upturn.agents.program import ForkedFunction, program_command

    sandbox, readable = version.parameters.get("sandbox"), version.parameters.get("readable", [])
    limits = parse_settings(SandboxLimits, sandbox) if isinstance(sandbox, Mapping) else None
    assert isinstance(readable, list | tuple)
    match version.parameters.get("import_path"), version.parameters.get("command"):
        case str() as path, None:
            program: Callable[..., Any] = load_function(path, "attempt")
            return ForkedFunction(path) if version.parameters.get("own_process") else program
        case None, [_, *_] as command if all(isinstance(part, str) for part in command):
            return program_command(list(map(str, command)), limits, list(map(str, readable)))
        case path, command:
            raise ConfigError(
                [
                    "a program is either import_path = 'package.module:function' or command = [name, argument, …], "
                    f"got import_path = {path!r} and command = {command!r}"
                ]
            )


def _models_of(version: AgentVersion, limits: Limits, renderer: Renderer | None, api_key: str) -> "ProgramModels":
    """The own model of a program: local, or at an endpoint."""
    from upturn.agents.program import ProgramModels, endpoint_model, rollout_model
    from upturn.models.upstreams import script_for

    if not version.has_local_model:
        return ProgramModels(version.model_name, endpoint_model(endpoint_of(version, api_key)))
    assert renderer is not None  # among the problems
    own_model = rollout_model(version.agent, script_for(renderer, ""), limits)
    return ProgramModels(version.agent, own_model, lambda token_ids: renderer.read(token_ids).text)


def endpoint_of(version: AgentVersion, api_key: str) -> "Endpoint":
    """The model's server of an endpoint or a program, for calls as clients send them."""
    from upturn.models.upstreams import Endpoint

    seconds = _number(version, "timeout_seconds", TIMEOUT_SECONDS)
    timeouts = TimeoutConfig(*(min(seconds, limit) for limit in (5.0, seconds, seconds, seconds)))
    retries = int(_number(version, "retries", RETRIES))
    settings = UpstreamConfig(dialect=_dialect(version), timeouts=timeouts, retries=retries)
    return Endpoint(version.model, version.model_name, settings, api_key)


def load_function(path: str, *arguments: str) -> Callable[..., Any]:
    """The function at ``package.module:name``; raises ConfigError when there is none.

    ``arguments``: that it is called with; none = those of an ``AgentFunction``.
    """
    arguments = arguments or ("instruction", "turns", "observation")
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
    if inspect.isclass(target) or not _accepts(target, len(arguments)):
        raise ConfigError([f"{path!r} cannot be called as function({', '.join(arguments)}); name one that can"])
    function: Callable[..., Any] = target
    return function


def _location(exc: BaseException) -> str:
    """The location of the error in third-party code; empty where its message contains it."""
    if isinstance(exc, SyntaxError):
        return ""
    frame = traceback.extract_tb(exc.__traceback__)[-1]
    return f" ({frame.filename}, line {frame.lineno})"


def _accepts(function: Callable[..., object], count: int) -> bool:
    """False when the function certainly cannot be called with so many arguments."""
    try:
        inspect.signature(function).bind(*(None,) * count)
    except TypeError:
        return False
    except ValueError:  # some built-in functions have no signature
        pass
    return True


def _problems(version: AgentVersion, renderer: Renderer | None) -> list[str]:
    is_local = version.has_local_model
    is_sampling = is_local or version.kind == "endpoint"
    known = PARAMETERS["local_program" if is_local and version.kind == "program" else version.kind]
    problems = [
        f"parameter {name!r} has no effect on kind {version.kind!r}; known: {', '.join(known) or 'none'}"
        for name in version.parameters
        if name not in known
    ]
    if temperature(version) < 0:
        problems.append(f"temperature must be 0 (greedy) or more, got {temperature(version)!r}")
    checks: list[Callable[[], object]] = [lambda: example_count(version)]
    if is_sampling:
        checks += [lambda: sampling(version), lambda: budget_of(version.parameters)]
    for check in checks:
        try:
            check()
        except ConfigError as exc:
            problems += exc.problems
    if _number(version, "max_tokens", 1) < 1:
        problems.append(f"max_tokens must be 1 or more, got {version.parameters['max_tokens']!r}")
    if (seconds := _number(version, "timeout_seconds", TIMEOUT_SECONDS)) <= 0:
        problems.append(f"timeout_seconds must be above 0, got {seconds!r}")
    if (retries := _number(version, "retries", RETRIES)) < 0:
        problems.append(f"retries must be 0 or more, got {retries!r}")
    if version.prompt and (not is_sampling or version.kind == "program"):
        problems.append(f"a prompt has no effect on kind {version.kind!r}")
    if is_local and renderer is None:
        problems.append("a local model needs the renderer of its tokenizer")
    if version.kind in {"endpoint", "program"} and not is_local and not version.model_name:
        problems.append(f"kind {version.kind!r} needs model_name, the model's name at its endpoint")
    return problems
