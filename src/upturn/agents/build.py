"""From a frozen agent version to a living agent."""

import importlib
import inspect
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import assert_never

from upturn.agents.agent import Agent
from upturn.agents.context import CONTEXT_PARAMETERS, Prompts, budget_of, prompts_of
from upturn.agents.endpoint import EndpointAgent
from upturn.agents.tool import AgentFunction, CallableAgent, ToolAgent
from upturn.config import Limits
from upturn.errors import ConfigError, described
from upturn.models import ChatEndpoint, Precision, Renderer
from upturn.records import AgentKind, AgentVersion, JsonValue

DEFAULT_TEMPERATURE = 1.0
"""The temperature at which recorded log-probs are those of the sampling distribution."""
PARAMETERS: Mapping[AgentKind, Sequence[str]] = {
    "local_model": ("temperature", "max_tokens", *CONTEXT_PARAMETERS, "template_options", "weights"),
    "endpoint": ("temperature", "max_tokens", *CONTEXT_PARAMETERS),
    "rule_based": (),
    "callable": (),
}
"""What an agent version may set, by kind; ``max_tokens`` goes before ``Limits.max_action_tokens``. Those of a
context's budget go together, see ``Budget``."""


def build(
    version: AgentVersion,
    *,
    limits: Limits,
    renderer: Renderer | None = None,
    api_key: str = "",
) -> Agent:
    """The agent of a version. Raises ConfigError when the version cannot act, naming everything that is wrong.

    ``renderer`` belongs to the model of a ``local_model``; other kinds need none. ``api_key`` is an endpoint's.
    """
    problems = _problems(version, renderer)
    if problems:
        raise ConfigError([f"agent {version.id!r}: {problem}" for problem in problems])
    own_limits, context = limits_of(version, limits), budget_of(version.parameters)
    match version.kind:
        case "local_model":
            assert renderer is not None  # among the problems
            with _naming(version):
                return ToolAgent(renderer, own_limits, version.prompt, context=context)
        case "rule_based" | "callable":
            return CallableAgent(load_function(version.model))
        case "endpoint":
            with _naming(version):
                return EndpointAgent(
                    ChatEndpoint(version.model, version.model_name, api_key=api_key),
                    prompt=version.prompt,
                    temperature=temperature(version),
                    max_tokens=own_limits.max_action_tokens,
                    context=context,
                )
        case _:
            assert_never(version.kind)


def limits_of(version: AgentVersion, limits: Limits) -> Limits:
    """The limits of an attempt, with what the version sets itself."""
    return replace(limits, max_action_tokens=int(_number(version, "max_tokens", limits.max_action_tokens)))


def prompts_for(version: AgentVersion, limits: Limits, renderer: Renderer) -> Prompts:
    """How a local model's agent makes its prompts, as ``build`` has it. Raises ConfigError."""
    context = budget_of(version.parameters)
    return prompts_of(renderer, limits_of(version, limits), version.prompt, context=context)


@contextmanager
def _naming(version: AgentVersion) -> Iterator[None]:
    """Adds the version's name to problems that are found as it is built."""
    try:
        yield
    except ConfigError as exc:
        raise ConfigError([f"agent {version.id!r}: {problem}" for problem in exc.problems]) from exc


def temperature(version: AgentVersion) -> float:
    """The temperature the version samples at."""
    return _number(version, "temperature", DEFAULT_TEMPERATURE)


def template_options(version: AgentVersion) -> Mapping[str, JsonValue]:
    """The variables that the version's chat template is given; raises ConfigError for what is no table."""
    found = version.parameters.get("template_options", {})
    if not isinstance(found, Mapping):
        raise ConfigError([f"agent {version.id!r}: template_options must be a table, got {found!r}"])
    return found


def precision(version: AgentVersion) -> Precision:
    """How the version's weights are held; raises ConfigError for what nobody can hold them in."""
    match version.parameters.get("weights", "float32"):
        case "float32" | "bfloat16" as found:
            return found
        case other:
            raise ConfigError([f"agent {version.id!r}: weights must be 'float32' or 'bfloat16', got {other!r}"])


def _number(version: AgentVersion, name: str, default: float) -> float:
    found = version.parameters.get(name, default)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise ConfigError([f"agent {version.id!r}: {name} must be a number, got {found!r}"])
    return found


def load_function(path: str) -> AgentFunction:
    """The function at ``package.module:name``; raises ConfigError when there is none."""
    module_name, colon, name = path.partition(":")
    if not colon or not module_name or not name:
        raise ConfigError([f"an agent function is named 'package.module:function', got {path!r}"])
    try:
        found: object = importlib.import_module(module_name)
    except ImportError as exc:
        raise ConfigError([f"cannot import {module_name!r} of {path!r}: {exc}"]) from exc
    except (Exception, SystemExit) as exc:  # foreign code: whatever it does when it is imported
        raise ConfigError([f"cannot import {module_name!r} of {path!r}: {described(exc)}{_line(exc)}"]) from exc
    try:
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError as exc:
        raise ConfigError([f"{module_name!r} has no {name!r}: {exc}"]) from exc
    if not callable(found):
        raise ConfigError([f"{path!r} is not a function, it is {found!r}"])
    if inspect.isclass(found) or not _takes_three(found):
        raise ConfigError(
            [f"{path!r} cannot be called as function(instruction, turns, observation); name one that can"]
        )
    function: AgentFunction = found
    return function


def _line(exc: BaseException) -> str:
    """Where foreign code broke; empty where its message says so itself."""
    if isinstance(exc, SyntaxError):
        return ""
    frame = traceback.extract_tb(exc.__traceback__)[-1]
    return f" ({frame.filename}, line {frame.lineno})"


def _takes_three(function: Callable[..., object]) -> bool:
    """False when it is certain that the function cannot be called with three values."""
    try:
        inspect.signature(function).bind(None, None, None)
    except TypeError:
        return False
    except ValueError:  # some built-in functions do not say what they take
        return True
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
    if _number(version, "max_tokens", 1) < 1:
        problems.append(f"max_tokens must be 1 or more, got {version.parameters['max_tokens']!r}")
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
