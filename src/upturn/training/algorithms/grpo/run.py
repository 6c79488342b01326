"""Group-relative policy optimisation as a run: resumable, evaluated, stopped in time."""

from pathlib import Path

from transformers import PreTrainedModel

from upturn.errors import TrainingError
from upturn.training.advantage import Advantage
from upturn.training.algorithms.policy_gradient import PolicyGradient
from upturn.training.data import AheadCollect, Collect, Collecting, Refill, StatefulCollect
from upturn.training.optimisation import IterationSchedule, Trainer, frozen_scorer
from upturn.training.outcome import TrainingOutcome
from upturn.training.policy_settings import PolicyGradientSettings
from upturn.training.runs import Evaluate, Progress, Run, RunPlace, check_evaluation, identity_of, plan_of
from upturn.training.signature import signature
from upturn.training.stream import Algorithm


def run_grpo(  # noqa: PLR0913  # a run's seed, place and callbacks are independent of each other
    model: PreTrainedModel,
    collect: Collect,
    settings: PolicyGradientSettings,
    *,
    seed: int,
    run_dir: Path,
    refill: Refill | None = None,
    advantage: Advantage | None = None,
    evaluate: Evaluate | None = None,
    progress: Progress | None = None,
) -> TrainingOutcome:
    """Trains the model in place; resumes from ``run_dir``.

    ``collect(iteration)`` samples groups with the model's current weights, from iteration 0 (an ``AheadCollect``
    with earlier ones, while the model is trained), and ``refill(iteration, round)`` further ones where the settings
    have dynamic sampling; what a ``StatefulCollect`` remembers goes into the checkpoint; ``advantage`` is an
    estimator of your own (None = that of the settings), whose class and options belong to what the run is;
    ``evaluate(iterations)`` gives the score after that many, first with 0. All may depend on their arguments, the
    seed and the weights only. When the run returns, the model holds the weights of the best evaluation
    (``keep="best"``) or the last ones (``"final"``). Resuming needs the model as it was before training, the same
    settings and seed. A KL term keeps a copy of the model as it was. Raises TrainingError.
    """
    if seed < 0:
        raise TrainingError(f"seed must be 0 or more, got {seed!r}")
    check_evaluation(evaluate, settings.evaluate_every)
    rate = IterationSchedule(settings.decay, settings.iterations, settings.optimiser.warmup_steps)
    trainer = Trainer(model, settings.optimiser, rate)
    algorithm: Algorithm = PolicyGradient(
        rate.noted(collect),
        settings,
        seed,
        advantage=advantage,
        refill=refill,
        scorer=None if settings.mismatch is None else trainer.score,
        reference=None if settings.objective.kl is None else frozen_scorer(trainer),
    )
    further: dict[str, object] = {"seed": seed}
    if advantage is not None:
        further["advantage"] = signature(advantage)
    if isinstance(collect, AheadCollect) and refill is not None:
        raise TrainingError(
            "dynamic sampling draws more from the present weights, sampling ahead from earlier ones: leave out "
            "settings.dynamic_sampling, or collect without staleness"
        )
    if isinstance(collect, StatefulCollect):
        algorithm, further = Collecting(algorithm, collect), {**further, **collect.identity()}
    place = RunPlace(run_dir, identity_of(trainer, "grpo", settings, **further))
    return Run(trainer, algorithm, plan_of(settings, settings.iterations), place, evaluate, progress).finish()
