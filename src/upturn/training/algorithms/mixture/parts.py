"""The common ways of learning as parts of a mixture. ``dataclasses.replace`` gives one a weight, start or stop."""

from collections.abc import Sequence
from dataclasses import fields

from upturn.errors import ConfigError, TrainingError
from upturn.records import PreferencePair, RatedTrajectory
from upturn.training.algorithms import dpo, kto
from upturn.training.algorithms.dpo import DpoSettings
from upturn.training.algorithms.kto import KtoSettings
from upturn.training.algorithms.mixture.run import Part
from upturn.training.algorithms.policy_gradient import PolicyGradient
from upturn.training.algorithms.sft import SupervisedSteps, rows_digest
from upturn.training.data import Collect, Collecting, Refill, StatefulCollect, pair_rows
from upturn.training.optimisation import Trainer, frozen_scorer
from upturn.training.policy_settings import PolicyGradientSettings
from upturn.training.row import TrainingRow
from upturn.training.stream import Algorithm


def supervised_part(rows: Sequence[TrainingRow], batch_rows: int, *, name: str = "sft") -> Part:
    """Supervised training on ``rows``: one step of ``batch_rows`` of them in each unit, epoch after epoch.

    Fewer rows than that make a step of all of them, which weighs as much as any other.
    """
    if not rows:
        raise TrainingError(f"part {name!r} has no rows to train on; supervised training needs at least one")
    size = min(batch_rows, len(rows))
    facts = {"rows": rows_digest(rows), "batch_rows": size}
    return Part(name, lambda _trainer, seed: SupervisedSteps(rows, size, seed), facts=facts)


def policy_part(
    collect: Collect, settings: PolicyGradientSettings, *, refill: Refill | None = None, name: str = "policy"
) -> Part:
    """A policy gradient on what ``collect`` gives, with fresh attempts or stored ones.

    The settings that belong to a run (iterations, optimiser, evaluations, ...) are the mixture's: raises
    ConfigError where they are set here.
    """
    facts = _facts(name, settings)
    if isinstance(collect, StatefulCollect):
        facts |= collect.identity()

    def make(trainer: Trainer, seed: int) -> Algorithm:
        algorithm = PolicyGradient(
            collect,
            settings,
            seed,
            refill=refill,
            scorer=None if settings.mismatch is None else trainer.score,
            reference=None if settings.objective.kl is None else frozen_scorer(trainer),
        )
        return Collecting(algorithm, collect) if isinstance(collect, StatefulCollect) else algorithm

    return Part(name, make, facts=facts)


def preference_part(pairs: Sequence[PreferencePair], settings: DpoSettings, *, name: str = "preference") -> Part:
    """Direct preference optimisation on ``pairs``: one step of ``batch_pairs`` of them in each unit, epoch after
    epoch.

    A reference that was not recorded is computed once, with the weights before the mixture's first unit. Raises
    ConfigError as ``policy_part`` does, and TrainingError for pairs that nobody can learn from.
    """
    facts = _facts(name, settings)
    found = pair_rows(pairs, settings.objective, settings.reference)
    facts["pairs"] = dpo.digest(found)
    return Part(name, lambda trainer, seed: dpo.pair_steps(found, settings, seed, trainer.score), facts=facts)


def rating_part(rated: Sequence[RatedTrajectory], settings: KtoSettings, *, name: str = "rating") -> Part:
    """Kahneman-Tversky optimisation on attempts rated one by one, in the same way."""
    facts = {**_facts(name, settings), "ratings": kto.digest(rated)}
    return Part(name, lambda trainer, seed: kto.rated_steps(rated, settings, seed, trainer.score), facts=facts)


_RUN_FIELDS = frozenset(
    {
        "iterations",
        "epochs",
        "optimiser",
        "decay",
        "evaluate_every",
        "target_score",
        "patience",
        "cost_limits",
        "keep",
        "checkpoint_every",
    }
)
"""What belongs to a run and its optimiser, wherever it stands in settings."""


def _facts(name: str, settings: PolicyGradientSettings | DpoSettings | KtoSettings) -> dict[str, object]:
    """What the settings say of learning. Raises ConfigError where they say something of the run."""
    values, defaults = {each.name: getattr(settings, each.name) for each in fields(settings)}, type(settings)()
    idle = [each for each in values if each in _RUN_FIELDS and values[each] != getattr(defaults, each)]
    if idle:
        raise ConfigError(
            [
                f"part {name!r}: {', '.join(idle)} would do nothing here: the mixture's own settings decide; "
                "set them there"
            ]
        )
    return {each: value for each, value in values.items() if each not in _RUN_FIELDS}
