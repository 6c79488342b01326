"""How the distribution of the next token is changed before a token is drawn; temperature and seed are separate.

The temperature defines the policy that is trained, so it is a setting of its own wherever one samples. The options
here move the distribution that is sampled from away from that policy. Order, as in ``transformers``: logit bias,
repetition penalty, temperature, top-k, top-p, min-p. vLLM applies min-p before top-k.
"""

from dataclasses import field
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field

from upturn.config.settings import Positive, Rate, Settings, WholeNumber, changed_settings, dump_settings, settings


@settings
class SamplingSettings(Settings):
    """Options of sampling. The defaults change nothing: tokens are drawn from the whole distribution."""

    top_k: WholeNumber = 0
    """Only the ``top_k`` likeliest tokens can be drawn, and those as likely as the last of them. 0 = all."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Only the likeliest tokens can be drawn, as many as have this total probability. 1 = all."""
    min_p: Rate = 0.0
    """Only tokens can be drawn that have at least this share of the likeliest token's probability. 0 = all."""
    repetition_penalty: Positive = 1.0
    """Divides the positive logits of tokens in the context by this number, and multiplies their negative ones
    (CTRL, arXiv 1909.05858). 1 = no penalty."""
    logit_bias: dict[Annotated[int, Field(ge=0)], Annotated[float, Field(ge=-100, le=100)]] = field(
        default_factory=dict
    )
    """Added to the logit of a token, by token id, such as ``{ "11" = -100 }``. Empty = nothing."""
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Strings that end an action. Their tokens belong to the action. Empty = only the model's stop tokens end
    it."""
    calls_only: bool = False
    """Whether an output can only be a call of one of the environment's tools with arguments that fit its schema.
    Needs a chat template, and in process ``upturn[grammar]``."""

    @property
    def is_reshaped(self) -> bool:
        """True if tokens are drawn from another distribution than the model's at the sampling temperature."""
        return bool(self.changed - {"stop"})

    @property
    def is_truncated(self) -> bool:
        """True if a token may be impossible that the temperature alone leaves possible."""
        return bool(self.changed & {"top_k", "top_p", "min_p", "calls_only"})

    def as_parameters(self) -> dict[str, Any]:
        """Returns the options that are not at their defaults, as JSON data; ``parse_settings`` reads it back."""
        if not self.changed:
            return {}
        return {name: value for name, value in dump_settings(self).items() if name in self.changed}

    @cached_property
    def changed(self) -> frozenset[str]:
        """The names of the options that are not at their defaults; computed once, since every call asks."""
        return frozenset(name for name, _ in changed_settings(self, "sampling"))

    def describe(self) -> str:
        """Returns the changed options for a message, such as ``top_p = 0.9``."""
        return ", ".join(f"{name} = {value!r}" for name, value in self.as_parameters().items())


FULL_DISTRIBUTION = SamplingSettings()
"""No option: tokens are drawn from the model's distribution at the sampling temperature."""
