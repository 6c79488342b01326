"""One way of learning, run by itself: evaluated before, trained, evaluated after, on held-out tasks.

The same durable steps as in a cycle of the loop, without serving and without release: what comes out is a version
in the run's folder and in the pool, with a card that says what was shown of it.
"""

from collections.abc import Iterator
from typing import NamedTuple

from upturn.config import Config
from upturn.deployment import Validation
from upturn.errors import ConfigError
from upturn.loop.evaluation import HeldoutResult, compare, evaluate_heldout
from upturn.loop.rollouts import check_sampler
from upturn.loop.run import Context
from upturn.loop.trainers import registry
from upturn.loop.trainers.candidate import Learned, has_run, training_summary
from upturn.loop.trainers.pool_data import check_evidence
from upturn.records import AgentVersion, Result

STEPS = ("heldout-before", "train", "heldout-after", "validation")
"""Of a run, as its journal calls them."""


class TrainingResult(NamedTuple):
    """What a lesson came to."""

    algorithm: str
    incumbent: AgentVersion
    before: HeldoutResult
    after: HeldoutResult
    validation: Validation | None
    """None = there is no new version to compare."""
    ending: str
    """How far training got, and which weights came out of it; empty = there is more than one training run."""
    learned: Learned

    @property
    def candidate(self) -> AgentVersion:
        """The incumbent itself where nothing was kept."""
        return self.learned.version

    def results(self) -> list[Result]:
        """Success before and after, and the gain with its interval."""
        heldout_results = {"success_before": self.before.interval()}
        if self.validation is not None:
            heldout_results["success_after"] = self.after.interval()
            heldout_results["gain"] = self.after.gain_over(self.before)
        found = [
            Result(name, each.mean, "share", each.low, each.high, each.n) for name, each in heldout_results.items()
        ]
        if self.validation is not None:
            found.append(Result("validation", self.validation.verdict))
        return [*found, *self.learned.results]


def check(config: Config, algorithm: str) -> None:
    """Before anything is opened or made: raises ConfigError for what cannot be."""
    if config.improved_agent is None:
        raise ConfigError(
            [
                "loop.train = [] says that no agent is to be trained; leave it out: it decides what a cycle of the "
                "loop does and nothing else"
            ]
        )
    entry = registry.algorithm(algorithm)
    entry.check(config)
    check_effect(config, algorithm)
    if "pool" in entry.uses:
        check_evidence(config, algorithm)


def trained_incumbent(context: Context) -> AgentVersion:
    """The version that is to be trained; ``check`` has seen that there is one."""
    agent = context.config.improved_agent
    assert agent is not None
    return context.router.registry.served(agent.name).incumbent


def run_training(context: Context, algorithm: str) -> TrainingResult:
    """Runs the lesson, or goes on with it. Raises ConfigError, see ``check``, and what ``check_sampler`` raises."""
    check(context.config, algorithm)
    entry, incumbent = registry.algorithm(algorithm), trained_incumbent(context)
    name = registry.run_name(algorithm)
    if not context.journal.has_finished("train"):
        entry.ready(context)
        check_sampler(context)
    before = evaluate_heldout(context, "heldout-before", incumbent)
    context.runtime.keep_only(())  # two copies of the model that training has better use for

    def train() -> Learned:
        made = entry.train(context, incumbent, before, name)
        return made if isinstance(made, Learned) else Learned(made)

    learned = context.journal.record_step("train", Learned, train)
    candidate = learned.version
    ending = training_summary(context, name) if has_run(context, name) else ""
    if candidate.id == incumbent.id:
        return TrainingResult(algorithm, incumbent, before, before, None, ending, learned)
    after = evaluate_heldout(context, "heldout-after", candidate)
    validation = compare(context, "validation", before, after)
    return TrainingResult(algorithm, incumbent, before, after, validation, ending, learned)


def check_effect(config: Config, algorithm: str) -> None:
    """Raises ConfigError with every setting that this way of learning would not look at, though it was chosen."""
    problems = list(_idle(config, algorithm))
    if problems:
        raise ConfigError(problems)


def _idle(config: Config, algorithm: str) -> Iterator[str]:
    command, uses = f"`upturn train {algorithm}`", registry.algorithm(algorithm).uses
    if config.curriculum is not None and "curriculum" not in uses:
        guided = [name for name in registry.ALGORITHMS if "curriculum" in registry.algorithm(name).uses]
        yield (
            f"curriculum.policy = {config.curriculum.policy!r} has no effect with {command}: a curriculum guides "
            f"{' and '.join(guided)}; leave it out"
        )
    if config.rollouts.place != "process" and "rollouts" not in uses:
        yield (
            f"rollouts.place = {config.rollouts.place!r} has no effect with {command}, which samples no "
            "trajectories to learn from; leave it out"
        )
    if config.rewards.overlong_tokens is not None and "rewards" not in uses:
        yield (
            f"rewards.overlong_tokens = {config.rewards.overlong_tokens} has no effect with {command}, which does "
            "not learn from the configured rewards; leave it out"
        )
