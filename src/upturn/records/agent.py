"""Agent versions: frozen recipes."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from upturn.records.json import JsonValue
from upturn.records.record import record

AgentKind = Literal["local_model", "rule_based", "callable", "endpoint"]


@record
class AgentVersion:
    """Everything that decides how an agent acts. Never changed: a change is a new version."""

    agent: str
    version: str
    kind: AgentKind
    model: str = ""
    """local_model: a folder or name; endpoint: the base URL; callable and rule_based: an import path."""
    model_name: str = ""
    """endpoint: the model's name there."""
    weights_hash: str = ""
    prompt: str = ""
    """System prompt; empty = none (the nano policy has none)."""
    parameters: Mapping[str, JsonValue] = field(default_factory=dict)
    """How its model is run: ``temperature``, ``max_tokens``, a context's budget; for a local model also
    ``template_options`` and ``weights``. Omitted parameters have their defaults."""
    capabilities: tuple[str, ...] = ()
    """Environments it can act in; empty = any."""
    parent: str | None = None
    """Id of the version it was made from; None = the first."""
    snapshot: str | None = None
    """Id of the snapshot it was trained on; None = not trained here."""
    run: str | None = None
    """Id of the run that made it; None = the user configured it."""
    tenants: tuple[str, ...] | None = None
    """Tenants it may serve; None = all."""

    @property
    def id(self) -> str:
        """``agent@version``: the name used in every other record."""
        return f"{self.agent}@{self.version}"
