"""The common algorithms as parts of a mixture. ``dataclasses.replace`` sets a weight, start or stop."""

from collections.abc import Sequence
from dataclasses import fields

from upturn.errors import ConfigError, TrainingError
from upturn.records import PreferencePair, RatedTrajectory
from upturn.training.algorithms import dpo, kto
from upturn.training.algorithms.dpo import DpoSettings
from upturn.training.algorithms.kto import KtoSettings
from upturn.training.algorithms.mixture.run import Part
from upturn.training.algorithms.policy_gradient import PolicyGradient
from upturn.training.algorithms.sft import rows_digest, supervised_steps
from upturn.training.data import Collect, Refill, StatefulCollect, attach_collect, pair_rows
from upturn.training.optimisation import Trainer, frozen_scorer
from upturn.training.policy_settings import PolicyGradientSettings
from upturn.training.row import TrainingRow
from upturn.training.run_settings import SAVING_SETTINGS
from upturn.training.stream import Algorithm


def supervised_part(rows: Sequence[TrainingRow], batch_rows: int, *, name: str = "sft") -> Part:
    """Returns supervised training on ``rows``: one step of ``batch_rows`` of them per unit, epoch after epoch.

    Fewer rows than that make a step of all of them, which weighs as much as any other.
    """
    if not rows:
        raise TrainingError(f"part {name!r} has no rows to train on; supervised training needs at least one")
    size = min(batch_rows, len(rows))
    facts = {"rows": rows_digest(rows), "batch_rows": size}
    return Part(name, lambda _trainer, seed: supervised_steps(rows, size, seed), facts=facts)


def policy_part(
    collect: Collect, settings: PolicyGradientSettings, *, refill: Refill | None = None, name: str = "policy"
) -> Part:
    """Returns a policy gradient on the groups of ``collect``, with fresh or stored trajectories.

    Settings of the run (iterations, optimiser, evaluations, ...) are the mixture's: raises ConfigError where they
    are set here."""
    facts = _facts(name, settings)
    if isinstance(collect, StatefulCollect):
        facts |= collect.identity()

    def create(trainer: Trainer, seed: int) -> Algorithm:
        algorithm = PolicyGradient(
            collect,
            settings,
            seed,
            refill=refill,
            scorer=None if settings.mismatch is None else trainer.score,
            reference=None if settings.objective.kl is None else frozen_scorer(trainer),
        )
        return attach_collect(algorithm, collect)[0]

    return Part(name, create, facts=facts)


def preference_part(pairs: Sequence[PreferencePair], settings: DpoSettings, *, name: str = "preference") -> Part:
    """Returns direct preference optimisation on ``pairs``: one step of ``batch_pairs`` of them per unit, epoch
    after epoch.

    A reference that was not recorded is computed once, with the weights before the mixture's first unit. Raises
    ConfigError as ``policy_part`` does, and TrainingError for unusable pairs."""
    facts = _facts(name, settings)
    rows = pair_rows(pairs, settings.objective, settings.reference)
    facts["pairs"] = dpo.pairs_digest(rows)
    return Part(name, lambda trainer, seed: dpo.pair_steps(rows, settings, seed, trainer.score), facts=facts)


def rating_part(rated: Sequence[RatedTrajectory], settings: KtoSettings, *, name: str = "rating") -> Part:
    """Returns Kahneman-Tversky optimisation on rated trajectories, like ``preference_part``."""
    facts = {**_facts(name, settings), "ratings": kto.ratings_digest(rated)}
    return Part(name, lambda trainer, seed: kto.rated_steps(rated, settings, seed, trainer.score), facts=facts)


_RUN_FIELDS = SAVING_SETTINGS | {
    "iterations",
    "epochs",
    "optimiser",
    "decay",
    "evaluate_every",
    "target_score",
    "patience",
    "cost_limits",
    "keep",
}
"""Settings of a run and its optimiser."""


def _facts(name: str, settings: PolicyGradientSettings | DpoSettings | KtoSettings) -> dict[str, object]:
    """The settings of the part, without those of a run. Raises ConfigError where one of the latter is set."""
    values = {field.name: getattr(settings, field.name) for field in fields(settings)}
    defaults = type(settings)()
    unused = [field for field in values if field in _RUN_FIELDS and values[field] != getattr(defaults, field)]
    if unused:
        raise ConfigError(
            [
                f"part {name!r}: {', '.join(unused)} would do nothing here: the mixture's own settings decide; "
                "set them there"
            ]
        )
    return {field: value for field, value in values.items() if field not in _RUN_FIELDS}
