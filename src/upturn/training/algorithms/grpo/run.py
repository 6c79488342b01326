"""Group-relative policy optimisation as a run: resumable, evaluated, stopped early."""

from transformers import PreTrainedModel

from upturn.errors import TrainingError
from upturn.training.advantage import Advantage
from upturn.training.algorithms.grpo.settings import GrpoSettings
from upturn.training.algorithms.policy_gradient import PolicyGradient
from upturn.training.algorithms.policy_update import check_both_or_neither
from upturn.training.algorithms.teacher_signal import teacher_of, whole_teacher
from upturn.training.data import AheadCollect, Collect, Refill, attach_collect
from upturn.training.optimisation import DistributionTeacher, IterationSchedule, Trainer, frozen_scorer
from upturn.training.outcome import TrainingOutcome
from upturn.training.policy_settings import PolicyGradientSettings
from upturn.training.runs import Run, RunOptions, check_evaluation, identity_of, plan_of
from upturn.training.scorer import Scorer
from upturn.training.signature import signature


def run_grpo(  # noqa: PLR0913  # three optional inputs
    model: PreTrainedModel,
    collect: Collect,
    settings: PolicyGradientSettings,
    options: RunOptions,
    *,
    refill: Refill | None = None,
    advantage: Advantage | None = None,
    teacher: Scorer | DistributionTeacher | None = None,
) -> TrainingOutcome:
    """Trains the model in place; resumes from the options' folder.

    ``collect(iteration)`` samples groups with the model's current weights, from iteration 0 (an ``AheadCollect``
    with earlier ones, during training), and ``refill(iteration, round)`` further ones where the settings have
    dynamic sampling; checkpoints contain the state of a ``StatefulCollect``; ``advantage`` is a custom estimator
    (None = that of the settings), whose class and options are part of the run's identity; ``teacher`` returns the
    teacher's log-probs, NaN = missing, or is the teacher itself for its estimator ``full``, where ``GrpoSettings``
    have one; ``evaluate(iterations)``
    returns the score after that many, first with 0. All may depend on their arguments, the seed and the weights
    only. When the run returns, the model has the weights of the best evaluation (``keep="best"``) or the last ones
    (``"final"``). Resuming needs the model with its initial weights, the same settings and seed. A KL term keeps a
    copy of the initial model. Raises TrainingError."""
    check_evaluation(options.evaluation, settings.evaluate_every)
    teacher_settings = settings.teacher if isinstance(settings, GrpoSettings) else None
    check_both_or_neither("settings.teacher", teacher_settings, "teacher", teacher)
    rate = IterationSchedule(settings.decay, settings.iterations, settings.optimiser.warmup_steps)
    trainer = Trainer(model, settings.optimiser, rate, teacher=whole_teacher(teacher, teacher_settings))
    policy = PolicyGradient(
        rate.follow(collect),
        settings,
        options.seed,
        advantage=advantage,
        refill=refill,
        scorer=None if settings.mismatch is None else trainer.score,
        reference=None if settings.objective.kl is None else frozen_scorer(trainer),
        teacher=teacher_of(teacher, teacher_settings),
    )
    if isinstance(collect, AheadCollect) and refill is not None:
        raise TrainingError(
            "dynamic sampling uses the present weights, sampling ahead uses earlier ones: leave out "
            "settings.dynamic_sampling, or collect without staleness"
        )
    facts = {} if advantage is None else {"advantage": signature(advantage)}
    algorithm, collect_facts = attach_collect(policy, collect)
    identity = identity_of(trainer, "grpo", settings, seed=options.seed, **facts, **collect_facts)
    return Run(trainer, algorithm, plan_of(settings), identity, options).finish()
