"""What is trained in place of a whole model: a LoRA adapter. No torch here."""

from dataclasses import dataclass

from upturn.training.validators import is_positive, refuse, unless, unless_missing

ALPHA_FACTOR = 2
"""``alpha`` in ranks where nobody chose it, as most recipes have it: another rank then takes steps of like size."""


@dataclass(frozen=True, slots=True)
class AdapterSettings:
    """A LoRA adapter (arXiv 2106.09685): of linear layers W, alpha / rank · B A is trained, and W stays as it is.

    Without dropout, which would make the trainer another policy than the sampler.
    """

    rank: int
    """Rows of A and columns of B."""
    alpha: int | None = None
    """None = ``ALPHA_FACTOR`` times the rank."""
    targets: tuple[str, ...] = ()
    """Last parts of layers' names, such as ``q_proj``; empty = all linear layers but the output layer."""
    seed: int = 0
    """What A is drawn from; B begins at 0, so that nothing changes before the first step."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        refuse(
            unless(self.rank, "rank", "at least 1", is_positive),
            unless_missing(self.alpha, "alpha", "at least 1, or None", is_positive),
        )
