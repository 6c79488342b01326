"""One way of learning, run by itself: examined before, trained, examined after, on held-out tasks.

The same durable steps as in a cycle of the loop, without serving and without release: what comes out is a version
in the run's folder and in the pool, with a card that says what was shown of it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from upturn.config import Config
from upturn.deployment import Validation
from upturn.errors import ConfigError
from upturn.loop.evaluation import ExamResult, compare, examine
from upturn.loop.rollouts import check_sampler
from upturn.loop.run import Context, algorithm_settings
from upturn.loop.trainers import dpo, grpo, kto, mixture, ppo, rft, sft, world_model
from upturn.loop.trainers import offline_policy_gradient as offline
from upturn.loop.trainers import online_dpo as dpo_rounds
from upturn.loop.trainers.candidate import Learned, has_run, training_told
from upturn.loop.trainers.cycle_training import sft_settings
from upturn.loop.trainers.expert_iteration import Imitation, Way
from upturn.loop.trainers.pool_data import check_evidence
from upturn.loop.trainers.training_plan import Plan
from upturn.records import AgentVersion, Result


class Lesson(NamedTuple):
    """A way of learning."""

    check: Callable[[Config], object]
    """Raises ConfigError for what its section asks for and cannot be."""
    plan: Callable[[Context, AgentVersion], Plan]
    """What it would do and take; nothing is trained or kept."""
    train: Callable[[Context, AgentVersion, ExamResult, str], Learned]
    """What it makes of a version, given its exam before and the step's name."""
    ready: Callable[[Context], object] = lambda _: None
    """Raises ConfigError for what the run's environment does not have; asked before anything is examined."""


def _lesson(
    check: Callable[[Config], object],
    plan: Callable[[Context, AgentVersion], Plan],
    train: Callable[[Context, AgentVersion, ExamResult, str], AgentVersion],
) -> Lesson:
    """One that has nothing to say beside the exams."""

    def learn(context: Context, parent: AgentVersion, before: ExamResult, name: str) -> Learned:
        return Learned(train(context, parent, before, name))

    return Lesson(check, plan, learn)


def _imitation(way: Way) -> Lesson:
    own = Imitation(way)
    return _lesson(own.settings, own.plan, own.train)


LESSONS: Mapping[str, Lesson] = {
    "sft": _lesson(sft_settings, sft.plan, sft.train),
    "grpo": _lesson(algorithm_settings, grpo.plan, grpo.train),
    "ppo": _lesson(ppo.settings, ppo.plan, ppo.train),
    "dpo": _lesson(dpo.settings, dpo.plan, dpo.train),
    "dpo-rounds": _lesson(dpo_rounds.settings, dpo_rounds.plan, dpo_rounds.train),
    "kto": _lesson(kto.settings, kto.plan, kto.train),
    "rejection": _imitation("rejection"),
    "iterated": _imitation("iterated"),
    "star": _imitation("star"),
    "self-repair": _imitation("self_repair"),
    "rft": Lesson(rft.settings, rft.plan, rft.train, rft.examples),
    "world-model": Lesson(world_model.settings, world_model.plan, world_model.train),
    "offline": _lesson(offline.settings, offline.plan, offline.train),
    "mixture": _lesson(
        lambda config: (mixture.settings(config), mixture.policy(config)), mixture.plan, mixture.train
    ),
}
"""By the name of the command."""


STEPS = ("exam-before", "train", "exam-after", "validation")
"""Of a run, as its journal calls them."""


class Taught(NamedTuple):
    """What a lesson came to."""

    algorithm: str
    incumbent: AgentVersion
    before: ExamResult
    after: ExamResult
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
        exams = {"success_before": self.before.interval()}
        if self.validation is not None:
            exams["success_after"] = self.after.interval()
            exams["gain"] = self.after.gain_over(self.before)
        found = [Result(name, each.mean, "share", each.low, each.high, each.n) for name, each in exams.items()]
        if self.validation is not None:
            found.append(Result("validation", self.validation.verdict))
        return [*found, *self.learned.results]


def check(config: Config, algorithm: str) -> None:
    """Before anything is opened or made: raises ConfigError for what cannot be."""
    if config.improved_agent is None:
        raise ConfigError(
            [
                "sft.enabled = false and grpo.enabled = false say that no agent is to be trained; leave one of "
                "them out: they decide what a cycle of the loop does and nothing else"
            ]
        )
    LESSONS[algorithm].check(config)
    check_effect(config, algorithm)
    check_evidence(config, algorithm)


def student(context: Context) -> AgentVersion:
    """The version that is to be trained; ``check`` has seen that there is one."""
    agent = context.config.improved_agent
    assert agent is not None
    return context.router.registry.served(agent.name).incumbent


def teach(context: Context, algorithm: str) -> Taught:
    """Runs the lesson, or goes on with it. Raises ConfigError, see ``check``, and what ``check_sampler`` raises."""
    check(context.config, algorithm)
    lesson, incumbent = LESSONS[algorithm], student(context)
    if not context.journal.has_finished("train"):
        lesson.ready(context)
        check_sampler(context)
    before = examine(context, "exam-before", incumbent)
    context.fleet.keep_only(())  # two copies of the model that training has better use for
    learned = context.journal.record_step(
        "train", Learned, lambda: lesson.train(context, incumbent, before, algorithm)
    )
    candidate = learned.version
    ending = training_told(context, algorithm) if has_run(context, algorithm) else ""
    if candidate.id == incumbent.id:
        return Taught(algorithm, incumbent, before, before, None, ending, learned)
    after = examine(context, "exam-after", candidate)
    validation = compare(context, "validation", before, after)
    return Taught(algorithm, incumbent, before, after, validation, ending, learned)


_GUIDED = ("grpo", "ppo")
_PRACTISING = ("grpo", "ppo", "dpo-rounds", "rejection", "iterated", "star", "self-repair", "rft", "mixture")
_REWARDED = (*(way for way in _PRACTISING if way != "rft"), "offline")


def check_effect(config: Config, algorithm: str) -> None:
    """Raises ConfigError with every setting that this way of learning would not look at, though it was chosen."""
    problems = list(_idle(config, algorithm))
    if problems:
        raise ConfigError(problems)


def _idle(config: Config, algorithm: str) -> Iterator[str]:
    command = f"`upturn train {algorithm}`"
    if config.curriculum.policy is not None and algorithm not in _GUIDED:
        yield (
            f"curriculum.policy = {config.curriculum.policy!r} has no effect with {command}: a curriculum guides "
            f"{' and '.join(_GUIDED)}; leave it out"
        )
    if config.rollouts.place != "process" and algorithm not in _PRACTISING:
        yield (
            f"rollouts.place = {config.rollouts.place!r} has no effect with {command}, which attempts no tasks to "
            "learn from; leave it out"
        )
    if config.rewards.overlong_tokens is not None and algorithm not in _REWARDED:
        why = "has a reward of its own" if algorithm == "rft" else "learns from no rewards"
        yield (
            f"rewards.overlong_tokens = {config.rewards.overlong_tokens} has no effect with {command}, which "
            f"{why}; leave it out"
        )
