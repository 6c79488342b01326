"""On-policy distillation as a run: the policy gradient of ``grpo``, with a teacher in place of rewards."""

from transformers import PreTrainedModel

from upturn.training.algorithms.distillation.settings import DistillationSettings
from upturn.training.algorithms.policy_gradient import PolicyGradient
from upturn.training.algorithms.teacher_signal import WithoutRewards, teacher_of, whole_teacher
from upturn.training.data import Collect, attach_collect
from upturn.training.optimisation import DistributionTeacher, IterationSchedule, Trainer, frozen_scorer
from upturn.training.outcome import TrainingOutcome
from upturn.training.runs import Run, RunOptions, check_evaluation, identity_of, plan_of
from upturn.training.scorer import Scorer


def run_distillation(
    model: PreTrainedModel,
    collect: Collect,
    settings: DistillationSettings,
    options: RunOptions,
    *,
    teacher: Scorer | DistributionTeacher,
) -> TrainingOutcome:
    """Trains the model in place; resumes from the options' folder. Other arguments and guarantees are those of
    ``run_grpo``.

    ``teacher``: returns the teacher's log-probs of the written tokens of rows, NaN = missing; or the teacher itself
    for its estimator ``full``. Rewards are reported and not trained on, so trajectories without one are trained on
    like others."""
    check_evaluation(options.evaluation, settings.evaluate_every)
    rate = IterationSchedule(settings.decay, settings.iterations, settings.optimiser.warmup_steps)
    trainer = Trainer(model, settings.optimiser, rate, teacher=whole_teacher(teacher, settings.teacher))
    policy = PolicyGradient(
        rate.follow(collect),
        settings,
        options.seed,
        advantage=WithoutRewards(),
        scorer=None if settings.mismatch is None else trainer.score,
        reference=None if settings.objective.kl is None else frozen_scorer(trainer),
        teacher=teacher_of(teacher, settings.teacher),
    )
    algorithm, collect_facts = attach_collect(policy, collect)
    identity = identity_of(trainer, "distillation", settings, seed=options.seed, **collect_facts)
    return Run(trainer, algorithm, plan_of(settings), identity, options).finish()
