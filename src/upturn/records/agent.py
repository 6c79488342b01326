"""Agent versions."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from upturn.records.json import JsonValue
from upturn.records.record import record

AgentKind = Literal["local_model", "rule_based", "callable", "endpoint", "program"]


@record
class AgentVersion:
    """Everything that determines how an agent acts. Immutable: a change is a new version."""

    agent: str
    version: str
    kind: AgentKind
    model: str = ""
    """local_model: a folder or name; endpoint: the base URL of the model; program: either; callable and rule_based:
    an import path."""
    model_name: str = ""
    """endpoint: the model's name at that URL; program: as well, empty = ``model`` is a folder or name."""
    weights_hash: str = ""
    prompt: str = ""
    """System prompt; empty = none (the nano policy has none)."""
    parameters: Mapping[str, JsonValue] = field(default_factory=dict)
    """Inference parameters: ``temperature``, ``max_tokens``, a context's budget; for a local model also
    ``sampling``, ``template_options`` and ``weights``. Omitted parameters have their defaults."""
    capabilities: tuple[str, ...] = ()
    """Environments that the agent can act in; empty = any."""
    parent: str | None = None
    """Id of the version that this one was trained or tuned from; None = the first."""
    snapshot: str | None = None
    """Id of the snapshot that it was trained on; None = not trained by Upturn."""
    run: str | None = None
    """Id of the run that produced it; None = the user configured it."""
    tenants: tuple[str, ...] | None = None
    """Tenants that it may serve; None = all."""

    @property
    def has_local_model(self) -> bool:
        """Whether Upturn runs its model, and can train it."""
        return self.kind == "local_model" or (self.kind == "program" and not self.model_name)

    @property
    def id(self) -> str:
        """``agent@version``, the reference used in other records."""
        return f"{self.agent}@{self.version}"
