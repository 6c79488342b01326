"""Messages between an OpenEnv client and a kit's server. Unknown fields are refused."""

from typing import Any, Self

try:
    from openenv.core.env_server.types import Action, Observation, State
except ImportError as exc:
    raise ImportError("OpenEnv is not installed: pip install 'upturn[openenv]'") from exc

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, JsonValue, model_validator
from pydantic_core import PydanticCustomError

from upturn.records import Split


class KitAction(Action):
    """One call: a line of text, or its parts; ``target_app`` and ``reasoning`` are aliases of two of them."""

    text: str | None = None
    """``target.operation name=value; …``, or JSON; None = the parts are used."""
    target: str = Field("", validation_alias=AliasChoices("target", "target_app"))
    operation: str = ""
    parameters: dict[str, JsonValue] = Field(default_factory=dict)
    thought: str = Field("", validation_alias=AliasChoices("thought", "reasoning"))

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if self.text is not None and (self.target or self.operation or self.parameters or self.thought):
            # Not a ValueError: OpenEnv serialises errors as JSON, and pydantic would include the exception.
            raise PydanticCustomError("two_actions", "an action is a text or its parts, not both")
        return self


class KitObservation(Observation):
    """An observation with its info."""

    text: str
    code: str = "ok"
    """``ok``, or the action's error."""
    info: dict[str, Any] = Field(default_factory=dict)
    """Rewards and costs of this step by component, faults and the state's hash."""
    is_truncated: bool = False
    """Done by truncation: by the limit of turns or by the environment."""
    evaluation: dict[str, Any] | None = None
    """The verifier's, with the last action."""


class KitState(State):
    """The current task, and the state of its world."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True)

    task: dict[str, Any] | None = None
    """None = no reset yet."""
    world: dict[str, JsonValue] = Field(default_factory=dict)
    """As the verifier sees it."""


class TaskRequest(BaseModel):
    """Arguments of ``reset``."""

    model_config = ConfigDict(extra="forbid", strict=True)

    seed: int | None = Field(None, ge=0)
    """None = the next task of the stream; a random seed at first and when the selection changes."""
    episode_id: str | None = None
    family: str | None = None
    level: int | None = None
    split: Split = "train"
