"""Where a program's calls go: its own model, local or at an endpoint, and other models that it names.

Upstreams are made for each attempt, since a local model's script remembers the conversations of one attempt.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from upturn.agents.program.generator import ModelGenerator, SessionGenerator
from upturn.agents.program.turns import AttemptTurns
from upturn.agents.recorder import Recorder
from upturn.config import DEFAULT_CONTEXT_TOKENS, FULL_DISTRIBUTION, Limits, SamplingSettings
from upturn.models import Model
from upturn.models.upstreams import Endpoint, EndpointUpstream, LocalUpstream, Script, Upstream

MakeUpstream: TypeAlias = Callable[[AttemptTurns, Recorder], Upstream]
"""For one attempt."""


@dataclass(frozen=True)
class Destination:
    """What answers the calls of one model in one attempt."""

    upstream: Upstream
    is_own: bool = True
    """Whether it is the program's own model, whose completions are turns."""
    is_trained: bool = False
    """Whether its tokens are in the rollout's rows."""
    read: Callable[[Sequence[int]], str] | None = None
    """The text of its tokens; None = they are not known."""


@dataclass(frozen=True)
class ProgramModels:
    """The models that a program's calls reach."""

    name: str
    """Of its own model."""
    own_model: MakeUpstream
    read: Callable[[Sequence[int]], str] | None = None
    """The text of the own model's tokens; None = it is not the rollout's, and its tokens are not recorded."""
    others: Mapping[str, MakeUpstream] = field(default_factory=dict)
    """By the name that the program asks for; any other name means its own model."""


def endpoint_model(endpoint: Endpoint) -> MakeUpstream:
    """A model at a URL."""
    return lambda _turns, _model: EndpointUpstream(endpoint)


def rollout_model(name: str, script: Script, limits: Limits) -> MakeUpstream:
    """The rollout's own model. ``limits``: of contexts, and of answers to calls without a limit."""

    def make(turns: AttemptTurns, model: Recorder) -> Upstream:
        return LocalUpstream(
            SessionGenerator(model, turns.fail),
            script.fresh,
            model=name,
            temperature=model.request.temperature,
            sampling=model.request.sampling,
            max_length=lambda: limits.max_tokens or DEFAULT_CONTEXT_TOKENS,
            applies_sampling=not turns.stage.fixes_sampling,
            default_max_tokens=limits.max_action_tokens,
        )

    return make


def other_model(
    name: str,
    engine: Model,
    script: Script,
    limits: Limits,
    *,
    temperature: float = 1.0,
    sampling: SamplingSettings = FULL_DISTRIBUTION,
) -> MakeUpstream:
    """Another model of this process, whose calls are recorded without tokens."""

    def make(_turns: AttemptTurns, model: Recorder) -> Upstream:
        return LocalUpstream(
            ModelGenerator(engine, name, model.request),
            script.fresh,
            model=name,
            temperature=temperature,
            sampling=sampling,
            max_length=lambda: limits.max_tokens or DEFAULT_CONTEXT_TOKENS,
            default_max_tokens=limits.max_action_tokens,
        )

    return make
