"""Reinforcement from a handful of tasks, and the controls that say whether its gain is real.

With few tasks there is little to tell learning from luck, from format and from what a model had in it anyway. So
the same training is repeated with rewards that know nothing of success, from several seeds and, where one is named,
on a second model; the true reward has to beat each of them on the same held-out tasks.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Literal, NamedTuple

import numpy as np

from upturn.config import AgentConfig, Config
from upturn.deployment import RESAMPLES, Interval
from upturn.environments import verify
from upturn.errors import ConfigError
from upturn.loop.evaluation import HeldoutResult, evaluate_heldout
from upturn.loop.rollouts import RolloutPlan
from upturn.loop.run import Context, keep_agent_version, version_of
from upturn.loop.trainers.candidate import Learned
from upturn.loop.trainers.distributed_training import jointly
from upturn.loop.trainers.registry import Algorithm
from upturn.loop.trainers.rl_training import Course, RolloutSource, rollout_plan, train_on_rollouts
from upturn.loop.trainers.training_plan import Held, Plan, practice_plan
from upturn.records import AgentVersion, Evaluation, Result, Task, Trajectory, record
from upturn.rewards import acceptance_rate, acceptance_with_format, format_reward, random_acceptance
from upturn.training import IntArray, OnlineSettings, TrainingOutcome
from upturn.training.algorithms.rft import RftSettings
from upturn.training.runs import RunOptions

RewardKind = Literal["true", "random", "format"]
FEWEST_SEEDS = 3
"""With fewer an interval over seeds says next to nothing."""
_SEED_STEP = 1_009
"""Between the seeds of repeated trainings: their tasks' streams and attempts share nothing."""
FIXED_RATE = 0.5
"""At which a random reward pays where the agent's own rate would make all rewards equal, and train nothing."""


@record
class Trial:
    """One training run and its held-out evaluation."""

    base: str
    """Id of the version it began from."""
    reward: RewardKind
    seed: int
    version: AgentVersion
    heldout: HeldoutResult


@record
class Chance:
    """At which rate a random reward pays."""

    base: str
    """Id of the version that it stands beside."""
    measured: float | None
    """Its acceptance rate on the examples before training; None = nothing could be judged."""

    @property
    def rate(self) -> float:
        """The measured one where a reward at that rate differs between attempts, else a fixed one."""
        return self.measured if self.measured is not None and 0 < self.measured < 1 else FIXED_RATE

    def words(self) -> str:
        """The rate and where it comes from, in a sentence."""
        pays = f"{self.base}: the random reward pays at {100 * self.rate:.0f} %"
        if self.rate == self.measured:
            return f"{pays}, the acceptance rate on the examples before training."
        found = (
            "no attempt at the examples could be judged before training"
            if self.measured is None
            else f"{'all' if self.measured else 'none'} of the attempts at the examples succeeded before training, "
            "and a reward that is the same for all trains nothing"
        )
        return f"{pays}, a fixed rate: {found}."


class Study(NamedTuple):
    """All trainings."""

    trials: tuple[Trial, ...]
    before: dict[str, HeldoutResult]
    """By base model, how it did before."""
    chances: tuple[Chance, ...]
    """Of each base model; empty without the random control."""


class Shown(NamedTuple):
    """What one base model's trials show."""

    base: str
    seeds: int
    gain: Interval
    """Of the true reward over before, on the held-out tasks; over tasks and seeds."""
    over: dict[RewardKind, Interval]
    """Of the true reward over each control."""

    @property
    def survives(self) -> bool:
        """True when the gain and what it has over each control are shown to be above 0."""
        return self.gain.low > 0 and all(each.low > 0 for each in self.over.values())

    def results(self) -> list[Result]:
        """Its figures."""
        found = {"gain": self.gain} | {f"over_{name}": each for name, each in self.over.items()}
        return [
            Result(f"{self.base}: {name}", each.mean, "share", each.low, each.high, self.seeds)
            for name, each in found.items()
        ]

    def words(self) -> str:
        """Its figures in a sentence or two, and whether the gain survives."""
        if self.gain.low <= 0:
            verdict = "No gain is shown, so there is nothing that controls could take away."
        elif not self.over:
            verdict = "No control was run, so the gain is not shown to come from the reward."
        elif self.survives:
            verdict = "The gain survives its controls."
        else:
            lost = " and ".join(name for name, each in self.over.items() if each.low <= 0)
            verdict = f"The gain does not survive: it is not shown to be more than with the {lost} reward."
        figures = [f"gain {points(self.gain)}"] + [
            f"over {name} {points(each)}" for name, each in self.over.items()
        ]
        seeds = "1 seed" if self.seeds == 1 else f"{self.seeds} seeds"
        return f"{self.base}, {seeds}: {'; '.join(figures)}. {verdict}"


def settings(config: Config) -> RftSettings:
    """``[rft]``. Raises ConfigError where the second model is the first."""
    section, trained = config.section(RftSettings), config.improved_agent
    if trained is not None and section.second_base == trained.model:
        raise ConfigError(
            [f"rft.second_base = {section.second_base!r} is the model that is trained; name another, or none"]
        )
    return section


def plan(context: Context, parent: AgentVersion) -> Plan:
    """What all trials together would take."""
    section, trials = context.config.section(RftSettings), list(_trials(context, parent))
    bases = len({base.id for base, _, _ in trials})
    measured = bases * section.examples * section.group_size if "random" in section.controls else 0
    practice = _practice(context, "rft", "true", seed=context.seed, rate=FIXED_RATE)
    one = practice_plan(
        context,
        parent,
        "rft",
        course=_course(context, parent, "rft", practice),
        # Every base is evaluated before, every trial after, and the version that comes out once more, as always.
        held=Held(
            copies=1, scorings=1, trainings=len(trials), heldout_results=bases + len(trials) + 1, attempts=measured
        ),
    )
    told = f"{section.examples} tasks, {len(trials)} trainings with the controls and seeds"
    return replace(one, learns_from=told)


def train(context: Context, parent: AgentVersion, before: HeldoutResult, _name: str) -> Learned:
    """The version of the true reward and the run's own seed, and what all trials show."""
    found = study(context, parent, before)
    results, lines = list[Result](), list[str]()
    for base, heldout in found.before.items():
        each = shown(base, heldout, [trial for trial in found.trials if trial.base == base])
        results += each.results()
        lines += ["", each.words()]
    lines += [line for each in found.chances for line in ("", each.words())]
    if len(found.before) == 1:
        lines += ["", "No second base model was named (rft.second_base): it may be this one that gains so easily."]
    if context.config.section(RftSettings).seeds < FEWEST_SEEDS:
        lines += ["", f"Fewer than {FEWEST_SEEDS} seeds: how much luck is in it, nobody can say."]
    return Learned(found.trials[0].version, tuple(results), tuple(lines))


def study(context: Context, parent: AgentVersion, before: HeldoutResult) -> Study:
    """All trials, those of the given base first and there the true reward's; finished ones are not run again."""
    heldout_results, made = {parent.id: before}, list[Trial]()
    trials = list(_trials(context, parent))
    for base, _, _ in trials:  # all of them first: one that is not there must not cost the others' trials
        if base.id not in heldout_results:
            heldout_results[base.id] = evaluate_heldout(context, f"heldout-before-{base.agent}", base)
    chances = dict[str, Chance]()
    for base, reward, _ in trials:
        if reward == "random" and base.id not in chances:
            chances[base.id] = chance(context, base)
    for base, reward, seed in trials:
        rate = chances[base.id].rate if reward == "random" else FIXED_RATE  # of no effect on the others
        made.append(_trial(context, base, reward, seed=seed, rate=rate))
    return Study(tuple(made), heldout_results, tuple(chances.values()))


def chance(context: Context, base: AgentVersion) -> Chance:
    """Measured as practice samples, on the examples; nothing of it is kept. Broken attempts do not count."""
    name = f"rft-rate-{base.agent}"

    def measure() -> Chance:
        tasks = [task for task in examples(context) for _ in range(context.config.section(RftSettings).group_size)]
        jobs = [(base, task, at % context.config.section(RftSettings).group_size) for at, task in enumerate(tasks)]
        found = context.runtime.attempt(jobs, context.purpose(name, temperature=1.0))
        judged = [
            verify(context.kit.verifier, task, each)
            for task, each in zip(tasks, found, strict=True)
            if not each.error
        ]
        return Chance(base.id, acceptance_rate(judged))

    return context.journal.record_step(name, Chance, measure)


def _trials(context: Context, parent: AgentVersion) -> Iterator[tuple[AgentVersion, RewardKind, int]]:
    section = context.config.section(RftSettings)
    bases = [parent]
    if section.second_base:
        agent = AgentConfig(name="second-base", kind="local_model", model=section.second_base)
        bases.append(keep_agent_version(context.pool, version_of(agent)))
    kinds: list[RewardKind] = ["true", *dict.fromkeys(section.controls)]
    for base in bases:
        for reward in kinds:
            for number in range(section.seeds):
                yield base, reward, context.seed + _SEED_STEP * number


def _trial(context: Context, base: AgentVersion, reward: RewardKind, *, seed: int, rate: float) -> Trial:
    name = f"rft-{base.agent}-{reward}-{seed}"

    def work() -> AgentVersion:
        from upturn.training.algorithms.grpo import run_grpo

        def learn(own: RolloutSource) -> TrainingOutcome:
            return jointly(
                context.world,
                own.worker,
                run_grpo,
                own.collect,
                settings(context.config),
                RunOptions(seed, own.folder, progress=own.progress),
            )

        practice = _practice(context, name, reward, seed=seed, rate=rate)
        return train_on_rollouts(context, base, name, course=_course(context, base, name, practice), learn=learn)

    version = context.journal.record_step(name, AgentVersion, work)
    return Trial(base.id, reward, seed, version, evaluate_heldout(context, f"heldout-{name}", version))


def _practice(context: Context, name: str, reward: RewardKind, *, seed: int, rate: float) -> RolloutPlan:
    """``rate``: at which a random reward pays."""
    earned: dict[RewardKind, Callable[[Trajectory, Evaluation], float | None]] = {
        "true": acceptance_with_format,
        "random": lambda trajectory, _: random_acceptance(trajectory, rate=rate, seed=seed),
        "format": lambda trajectory, _: format_reward(trajectory),
    }
    practice = rollout_plan(context, name, context.config.section(RftSettings).group_size)
    return replace(practice, seed=seed, both=earned[reward])


def _course(context: Context, base: AgentVersion, name: str, practice: RolloutPlan) -> Course:
    section = context.config.section(RftSettings)
    rounds = OnlineSettings(
        iterations=section.iterations,
        tasks_per_iteration=section.tasks_per_iteration,
        group_size=section.group_size,
        optimiser=section.optimiser,
        evaluate_every=None,
        keep="final",
    )
    found = examples(context)
    tasks = partial(rounds_of, found, section.tasks_per_iteration, practice.seed)
    weights = dict.fromkeys((task.family for task in found), 1.0)
    title = f"{name}: {base.id} on {section.examples} tasks"
    return Course(title, rounds, weights, practice, tasks=tasks, is_watched=False)


def rounds_of(found: Sequence[Task], count: int, seed: int, iteration: int) -> list[Task]:
    """``count`` of the tasks: in passes over all of them, each in an order of its own that the seed decides.

    What is left of a pass and fills no round is left to the next pass. A pure function of its arguments.
    """
    passed, at = divmod(iteration, len(found) // count)
    order = np.random.default_rng([seed, passed]).permutation(len(found)).tolist()
    return [found[each] for each in order[at * count : (at + 1) * count]]


def examples(context: Context) -> list[Task]:
    """The training tasks, the same for every trial: full rounds over the families as far as they go."""
    stream = context.kit.tasks(seed=context.seed + _SEED_STEP, split="train", families=context.trained_families)
    found = list(islice(stream, context.config.section(RftSettings).examples))
    if len(found) < context.config.section(RftSettings).examples:
        raise ConfigError(
            [
                f"rft.examples = {context.config.section(RftSettings).examples} are more than the {len(found)} "
                f"training tasks that "
                f"{context.kit.name} has; set that many or fewer"
            ]
        )
    return found


def shown(base: str, before: HeldoutResult, made: Sequence[Trial]) -> Shown:
    """Of one base model's trials."""
    own = _outcomes(made, "true")
    controls: list[RewardKind] = [each for each in dict.fromkeys(trial.reward for trial in made) if each != "true"]
    return Shown(
        base,
        len(own),
        over_seeds(own - np.asarray(before.outcomes())),
        {each: over_seeds(own - _outcomes(made, each)) for each in controls},
    )


def points(found: Interval) -> str:
    """In points with its interval."""
    return f"{100 * found.mean:+.1f} points [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"


_Outcomes = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def _outcomes(made: Sequence[Trial], reward: RewardKind) -> _Outcomes:
    """``(S, T)``: by seed and held-out task."""
    return np.array([each.heldout.outcomes() for each in made if each.reward == reward])


def over_seeds(differences: _Outcomes, *, seed: int = 0) -> Interval:
    """The mean of paired differences ``(S, T)``, with its 95 % bootstrap over seeds and tasks at once.

    Both are drawn anew: three seeds are few, and an interval over tasks alone would speak of these three only.
    """
    seeds, tasks = differences.shape
    rng = np.random.default_rng(seed)
    by_seed = rng.multinomial(tasks, np.full(tasks, 1 / tasks), size=RESAMPLES) @ differences.T / tasks
    drawn: IntArray = rng.integers(0, seeds, size=(RESAMPLES, seeds))
    means = np.take_along_axis(by_seed, drawn, axis=1).mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(float(differences.mean()), float(low), float(high), differences.size)


RFT = Algorithm(RftSettings, plan, train, frozenset({"rollouts"}), settings, examples)
