"""What goes between an OpenEnv client and a kit's server. Fields that are not named here are refused."""

from typing import Any, Self

try:
    from openenv.core.env_server.types import Action, Observation, State
except ImportError as exc:
    raise ImportError("OpenEnv is not installed: pip install 'upturn[openenv]'") from exc

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, JsonValue, model_validator
from pydantic_core import PydanticCustomError

from upturn.records import Split


class KitAction(Action):
    """One call: a line of text, or its parts, of which two may have other names: ``target_app``, ``reasoning``."""

    text: str | None = None
    """``target.operation name=value; …``, or JSON; None = the parts say it."""
    target: str = Field("", validation_alias=AliasChoices("target", "target_app"))
    operation: str = ""
    parameters: dict[str, JsonValue] = Field(default_factory=dict)
    thought: str = Field("", validation_alias=AliasChoices("thought", "reasoning"))

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if self.text is not None and (self.target or self.operation or self.parameters or self.thought):
            # Not a ValueError: OpenEnv writes errors as JSON, and pydantic puts the exception into those.
            raise PydanticCustomError("two_actions", "an action is a text or its parts, not both")
        return self


class KitObservation(Observation):
    """What the environment answers."""

    text: str
    code: str = "ok"
    """``ok``, or what was wrong with the action."""
    info: dict[str, Any] = Field(default_factory=dict)
    """Rewards and costs of this step by component, faults and the state's hash."""
    is_truncated: bool = False
    """Done, but cut short: by the limit of its actions or by the environment."""
    evaluation: dict[str, Any] | None = None
    """The verifier's, with the last action."""


class KitState(State):
    """Which task is attempted, and the state of its world."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True)

    task: dict[str, Any] | None = None
    """None = there was no reset yet."""
    world: dict[str, JsonValue] = Field(default_factory=dict)
    """As the verifier will see it."""


class TaskRequest(BaseModel):
    """What ``reset`` takes."""

    model_config = ConfigDict(extra="forbid", strict=True)

    seed: int | None = Field(None, ge=0)
    """None = the tasks go on; at first, and where others are asked for, a seed by chance."""
    episode_id: str | None = None
    family: str | None = None
    level: int | None = None
    split: Split = "train"
