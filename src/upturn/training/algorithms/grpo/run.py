"""Group-relative policy optimisation as a run: resumable, evaluated, stopped in time."""

from transformers import PreTrainedModel

from upturn.errors import TrainingError
from upturn.training.advantage import Advantage
from upturn.training.algorithms.policy_gradient import PolicyGradient
from upturn.training.data import AheadCollect, Collect, Collecting, Refill, StatefulCollect
from upturn.training.optimisation import IterationSchedule, Trainer, frozen_scorer
from upturn.training.outcome import TrainingOutcome
from upturn.training.policy_settings import PolicyGradientSettings
from upturn.training.runs import Run, RunOptions, RunPlace, check_evaluation, identity_of, plan_of
from upturn.training.signature import signature
from upturn.training.stream import Algorithm


def run_grpo(
    model: PreTrainedModel,
    collect: Collect,
    settings: PolicyGradientSettings,
    options: RunOptions,
    *,
    refill: Refill | None = None,
    advantage: Advantage | None = None,
) -> TrainingOutcome:
    """Trains the model in place; resumes from the options' folder.

    ``collect(iteration)`` samples groups with the model's current weights, from iteration 0 (an ``AheadCollect``
    with earlier ones, while the model is trained), and ``refill(iteration, round)`` further ones where the settings
    have dynamic sampling; what a ``StatefulCollect`` remembers goes into the checkpoint; ``advantage`` is an
    estimator of your own (None = that of the settings), whose class and options belong to what the run is;
    ``evaluate(iterations)`` gives the score after that many, first with 0. All may depend on their arguments, the
    seed and the weights only. When the run returns, the model holds the weights of the best evaluation
    (``keep="best"``) or the last ones (``"final"``). Resuming needs the model as it was before training, the same
    settings and seed. A KL term keeps a copy of the model as it was. Raises TrainingError.
    """
    check_evaluation(options.evaluation, settings.evaluate_every)
    rate = IterationSchedule(settings.decay, settings.iterations, settings.optimiser.warmup_steps)
    trainer = Trainer(model, settings.optimiser, rate)
    algorithm: Algorithm = PolicyGradient(
        rate.follow(collect),
        settings,
        options.seed,
        advantage=advantage,
        refill=refill,
        scorer=None if settings.mismatch is None else trainer.score,
        reference=None if settings.objective.kl is None else frozen_scorer(trainer),
    )
    further: dict[str, object] = {"seed": options.seed}
    if advantage is not None:
        further["advantage"] = signature(advantage)
    if isinstance(collect, AheadCollect) and refill is not None:
        raise TrainingError(
            "dynamic sampling draws more from the present weights, sampling ahead from earlier ones: leave out "
            "settings.dynamic_sampling, or collect without staleness"
        )
    if isinstance(collect, StatefulCollect):
        algorithm, further = Collecting(algorithm, collect), {**further, **collect.identity()}
    place = RunPlace(options.folder, identity_of(trainer, "grpo", settings, **further))
    return Run(
        trainer, algorithm, plan_of(settings, settings.iterations), place, options.evaluation, options.progress
    ).finish()
