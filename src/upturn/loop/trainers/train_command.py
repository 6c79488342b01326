"""``upturn train``: one algorithm on its own, with held-out evaluations before and after.

It has the same durable steps as a cycle of the loop, without serving and without release. The result is a version
in the run's folder and in the pool, with a card that reports its evaluation.
"""

from collections.abc import Iterator
from typing import NamedTuple

from upturn.config import Config
from upturn.deployment import Validation
from upturn.errors import ConfigError
from upturn.loop.evaluation import HeldoutResult, compare, evaluate_heldout, warn_of_few_tasks
from upturn.loop.rollouts import check_sampler
from upturn.loop.run import Context
from upturn.loop.trainers import registry
from upturn.loop.trainers.candidate import TrainedVersion, has_run, training_summary
from upturn.loop.trainers.pool_data import check_pool
from upturn.records import AgentVersion, Result
from upturn.training import EpochSettings, IterationSettings

STEPS = ("heldout-before", "train", "heldout-after", "validation")
"""Of a run, by their names in its journal."""


class TrainingResult(NamedTuple):
    """The result of a run."""

    algorithm: str
    incumbent: AgentVersion
    before: HeldoutResult
    after: HeldoutResult
    validation: Validation | None
    """None means that there is no new version to compare, or that nothing is evaluated."""
    ending: str
    """How far training got and which weights were kept; empty where there were several training runs."""
    trained: TrainedVersion

    @property
    def candidate(self) -> AgentVersion:
        """The trained version; the incumbent where no weights were kept."""
        return self.trained.version

    def results(self) -> list[Result]:
        """Success before and after, the gain with its interval, and the algorithm's figures."""
        results = [self.before.interval().result("success_before")] if self.before.marks else []
        if self.validation is not None:
            results += [
                self.after.interval().result("success_after"),
                self.after.gain_over(self.before).result("gain"),
                Result("validation", self.validation.verdict),
            ]
        return [*results, *self.trained.results]


def check(config: Config, algorithm: str) -> None:
    """Raises ConfigError for a configuration that the algorithm cannot run with; opens nothing."""
    if config.improved_agent is None:
        raise ConfigError(
            [
                "loop.train = [] means that no agent is trained; omit it: it applies to cycles of the loop and to "
                "nothing else"
            ]
        )
    entry = registry.algorithm(algorithm)
    entry.check(config)
    check_effect(config, algorithm)
    if "pool" in entry.uses:
        check_pool(config, algorithm)


def trained_incumbent(context: Context) -> AgentVersion:
    """The version to train; ``check`` ensures that there is one."""
    agent = context.config.improved_agent
    assert agent is not None
    return context.router.registry.served(agent.name).incumbent


def run_training(context: Context, algorithm: str) -> TrainingResult:
    """Runs the training, or resumes it. Raises ConfigError, see ``check``, and the errors of ``check_sampler``."""
    check(context.config, algorithm)
    entry, incumbent = registry.algorithm(algorithm), trained_incumbent(context)
    name = registry.run_name(algorithm)
    if not context.journal.has_finished("train"):
        entry.ready(context)
        check_sampler(context)
    is_evaluated = context.config.traffic is None or context.config.traffic.evaluate
    if is_evaluated:
        warn_of_few_tasks(context, "heldout-before", incumbent)
        before = evaluate_heldout(context, "heldout-before", incumbent)
    else:
        before = HeldoutResult("not evaluated", incumbent.id, 0.0, ())
    context.runtime.keep_only(())  # frees the memory of two copies of the model

    def train() -> TrainedVersion:
        trained = entry.train(context, incumbent, before, name)
        return trained if isinstance(trained, TrainedVersion) else TrainedVersion(trained)

    trained = context.journal.record_step("train", TrainedVersion, train)
    ending = training_summary(context, name) if has_run(context, name) else ""
    if trained.version.id == incumbent.id or not is_evaluated:
        return TrainingResult(algorithm, incumbent, before, before, None, ending, trained)
    after = evaluate_heldout(context, "heldout-after", trained.version)
    validation = compare(context, "validation", before, after)
    return TrainingResult(algorithm, incumbent, before, after, validation, ending, trained)


def check_effect(config: Config, algorithm: str) -> None:
    """Raises ConfigError with all configured settings that have no effect on the algorithm."""
    problems = list(_idle_settings(config, algorithm))
    if problems:
        raise ConfigError(problems)


def _idle_settings(config: Config, algorithm: str) -> Iterator[str]:
    command, uses = f"`upturn train {algorithm}`", registry.algorithm(algorithm).uses
    settings = config.section(registry.algorithm(algorithm).settings)
    if (
        config.traffic is not None
        and not config.traffic.evaluate
        and isinstance(settings, EpochSettings | IterationSettings)
        and settings.evaluate_every
    ):
        name = registry.section_name(algorithm)
        yield (
            f"{name}.evaluate_every = {settings.evaluate_every} has no effect with traffic.evaluate = false, which "
            f'excludes evaluations in the environment; set {name}.evaluate_every = false and {name}.keep = "final"'
        )
    if config.curriculum is not None and "curriculum" not in uses:
        guided = [name for name in registry.ALGORITHMS if "curriculum" in registry.algorithm(name).uses]
        yield (
            f"curriculum.policy = {config.curriculum.policy!r} has no effect with {command}: a curriculum applies "
            f"to {' and '.join(guided)}; omit it"
        )
    if config.traffic is not None and "traffic" not in uses:
        able = [name for name in registry.ALGORITHMS if "traffic" in registry.algorithm(name).uses]
        yield f"[traffic] has no effect with {command}: {', '.join(able)} train on traffic; omit it"
    if config.pool.learn_from and (algorithm != "sft" or config.traffic is not None):
        used = "[traffic]" if algorithm == "sft" else command
        yield (
            f"pool.learn_from has no effect with {used}: `upturn train sft` without [traffic] trains on "
            "successes of other tenants; omit it"
        )
    if config.rollouts.place != "process" and "rollouts" not in uses:
        yield (
            f"rollouts.place = {config.rollouts.place!r} has no effect with {command}, which does not train on "
            "rollouts; omit it"
        )
    if config.rewards.overlong_tokens is not None and "rewards" not in uses:
        yield (
            f"rewards.overlong_tokens = {config.rewards.overlong_tokens} has no effect with {command}, which does "
            "not train on the configured rewards; omit it"
        )
