"""RFT: RL training on a handful of tasks, with controls that test whether its gain is real.

With few tasks a gain may come from chance, from the format of actions or from what the model could do before. So
the same training is repeated with rewards that do not depend on success, from several seeds and, if configured, on
a second model; the true reward has to beat each control on the same held-out tasks.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Literal, NamedTuple

import numpy as np

from upturn.config import AgentConfig, Config
from upturn.environments import draw_tasks, verify
from upturn.errors import ConfigError
from upturn.interval import RESAMPLES, Interval
from upturn.loop.evaluation import HeldoutResult, evaluate_heldout
from upturn.loop.rollouts import rollout_runtime
from upturn.loop.run import Context, store_agent_version, version_of
from upturn.loop.trainers.candidate import TrainedVersion
from upturn.loop.trainers.registry import Algorithm
from upturn.loop.trainers.rl_training import RlSpec, rollout_spec, train_on_rollouts
from upturn.loop.trainers.training_plan import Overhead, Plan, plan_on_rollouts
from upturn.records import AgentVersion, Evaluation, Result, Task, Trajectory, record
from upturn.rewards import acceptance_rate, acceptance_with_format, format_reward, random_acceptance
from upturn.training import IntArray
from upturn.training.algorithms.rft import RftSettings

RewardKind = Literal["true", "random", "format"]
FEWEST_SEEDS = 3
"""With fewer seeds an interval over them is meaningless."""
SEED_STEP = 1_009
"""Between the seeds of repeated trainings, which share neither tasks nor rollouts."""
FIXED_RATE = 0.5
"""Rate of the random reward where the agent's own rate would make all rewards equal, and train nothing."""


def plan(context: Context, parent: AgentVersion) -> Plan:
    """Estimated cost of all trials together."""
    settings, trials = context.config.section(RftSettings), list(_planned_trials(context, parent))
    bases = len({base.id for base, _, _ in trials})
    measured = bases * settings.examples * settings.group_size if "random" in settings.controls else 0
    # Held-out evaluations: of each base before, of each trial after, and of the version that the command returns.
    evaluations = bases + len(trials) + 1
    overhead = Overhead(
        copies=1, scorings=1, trainings=len(trials), heldout_evaluations=evaluations, rollouts=measured
    )
    spec = _trial_spec(context, parent, "rft", "true", seed=context.seed, rate=FIXED_RATE)
    return replace(
        plan_on_rollouts(context, parent, "rft", spec, overhead=overhead),
        learns_from=f"{settings.examples} tasks, {len(trials)} trainings with the controls and seeds",
    )


def train(context: Context, parent: AgentVersion, before: HeldoutResult, _name: str) -> TrainedVersion:
    """The version of the first trial, with the true reward and the run's seed; and the gain over the controls.

    All bases are evaluated before any training, so that a missing one costs none. Finished trials are not repeated.
    """
    planned = list(_planned_trials(context, parent))
    befores, rates = {parent.id: before}, dict[str, ChanceRate]()
    for base, _, _ in planned:
        if base.id not in befores:
            befores[base.id] = evaluate_heldout(context, f"heldout-before-{base.agent}", base)
    for base, reward, _ in planned:
        if reward == "random" and base.id not in rates:
            rates[base.id] = measure_chance(context, base)
    trials = [
        _run_trial(context, base, reward, seed=seed, rate=rates[base.id].rate if base.id in rates else FIXED_RATE)
        for base, reward, seed in planned
    ]
    reports = [
        report_gain(base, result, [trial for trial in trials if trial.base == base])
        for base, result in befores.items()
    ]
    summaries = [*(report.summary() for report in reports), *(rate.summary() for rate in rates.values())]
    lines = [line for summary in summaries for line in ("", summary)]
    if len(befores) == 1:
        lines += [
            "",
            "No second model is configured (rft.replication_model): the gain may be specific to this one.",
        ]
    if context.config.section(RftSettings).seeds < FEWEST_SEEDS:
        lines += ["", f"Fewer than {FEWEST_SEEDS} seeds: the effect of chance is unknown."]
    results = tuple(result for report in reports for result in report.results())
    return TrainedVersion(trials[0].version, results, tuple(lines))


def check(config: Config) -> None:
    """Raises ConfigError where the second model is the first."""
    model, agent = config.section(RftSettings).replication_model, config.improved_agent
    if agent is not None and model == agent.model:
        raise ConfigError(
            [f"rft.replication_model = {model!r} is the model that is trained; name another, or none"]
        )


@record
class ChanceRate:
    """Rate of the random reward."""

    base: str
    """Id of the version that it is measured on."""
    measured: float | None
    """Acceptance rate on the examples before training; None means that no trajectory could be verified."""

    @property
    def rate(self) -> float:
        """The measured rate where it makes rewards differ, else a fixed one."""
        return self.measured if self.measured is not None and 0 < self.measured < 1 else FIXED_RATE

    def summary(self) -> str:
        """The rate and its origin, as a sentence."""
        pays = f"{self.base}: the random reward pays at {100 * self.rate:.0f} %"
        if self.rate == self.measured:
            return f"{pays}, the acceptance rate on the examples before training."
        if self.measured is None:
            return f"{pays}, a fixed rate: no trajectory on the examples could be verified before training."
        return (
            f"{pays}, a fixed rate: {'all' if self.measured else 'none'} of the trajectories on the examples "
            "succeeded before training, and equal rewards train nothing."
        )


def measure_chance(context: Context, base: AgentVersion) -> ChanceRate:
    """The rate on the examples, sampled as in training and not stored; trajectories with errors do not count."""
    name, group_size = f"rft-rate-{base.agent}", context.config.section(RftSettings).group_size

    def measure() -> ChanceRate:
        jobs = [(base, task, number) for task in load_examples(context) for number in range(group_size)]
        with rollout_runtime(context, base, name) as runtime:
            trajectories = runtime.rollout(jobs, context.purpose(name, temperature=1.0))
        evaluations = [
            verify(context.kit.verifier, task, trajectory)
            for (_, task, _), trajectory in zip(jobs, trajectories, strict=True)
            if not trajectory.error
        ]
        return ChanceRate(base.id, acceptance_rate(evaluations))

    return context.journal.record_step(name, ChanceRate, measure)


class Trial(NamedTuple):
    """One training run and its held-out evaluation."""

    base: str
    """Id of the version that it started from."""
    reward: RewardKind
    version: AgentVersion
    heldout: HeldoutResult


def _planned_trials(context: Context, parent: AgentVersion) -> Iterator[tuple[AgentVersion, RewardKind, int]]:
    """Base, reward and seed of each trial; the first ones have the parent and the true reward."""
    settings = context.config.section(RftSettings)
    bases = [parent]
    if settings.replication_model:
        agent = AgentConfig(name="second-base", kind="local_model", model=settings.replication_model)
        bases.append(store_agent_version(context.pool, version_of(agent)))
    rewards: list[RewardKind] = ["true", *dict.fromkeys(settings.controls)]
    for base in bases:
        for reward in rewards:
            for number in range(settings.seeds):
                yield base, reward, context.seed + SEED_STEP * number


def _run_trial(context: Context, base: AgentVersion, reward: RewardKind, *, seed: int, rate: float) -> Trial:
    name = f"rft-{base.agent}-{reward}-{seed}"

    def work() -> AgentVersion:
        from upturn.training.algorithms.grpo import run_grpo

        spec = _trial_spec(context, base, name, reward, seed=seed, rate=rate)
        return train_on_rollouts(context, base, name, spec=spec, run=run_grpo)

    version = context.journal.record_step(name, AgentVersion, work)
    return Trial(base.id, reward, version, evaluate_heldout(context, f"heldout-{name}", version))


def _trial_spec(
    context: Context, base: AgentVersion, name: str, reward: RewardKind, *, seed: int, rate: float
) -> RlSpec:
    """``rate``: of the random reward."""
    rewards: dict[RewardKind, Callable[[Trajectory, Evaluation], float | None]] = {
        "true": acceptance_with_format,
        "random": lambda trajectory, _: random_acceptance(trajectory, rate=rate, seed=seed),
        "format": lambda trajectory, _: format_reward(trajectory),
    }
    settings, examples = context.config.section(RftSettings), load_examples(context)
    rollouts = replace(rollout_spec(context, name, settings.group_size), seed=seed, reward=rewards[reward])
    tasks = partial(iteration_tasks, examples, settings.tasks_per_iteration, seed)
    title = f"{name}: {base.id} on {settings.examples} tasks"
    return RlSpec(title, settings, rollouts, tasks=tasks, seed=seed)


def load_examples(context: Context) -> list[Task]:
    """The training tasks, the same for every trial, in rounds over the families.

    Raises ConfigError where the environment has too few.
    """
    count = context.config.section(RftSettings).examples
    stream = draw_tasks(
        context.kit, seed=context.seed + SEED_STEP, split="train", families=context.trained_families
    )
    examples = list(islice(stream, count))
    if len(examples) < count:
        raise ConfigError(
            [
                f"rft.examples = {count} is more than the {len(examples)} training tasks of {context.kit.name}; "
                "set that many or fewer"
            ]
        )
    return examples


def iteration_tasks(examples: Sequence[Task], count: int, seed: int, iteration: int) -> list[Task]:
    """``count`` of the examples, in passes over all of them, each in its own order; a pure function of its
    arguments.

    The rest of a pass that does not fill an iteration is skipped.
    """
    number, position = divmod(iteration, len(examples) // count)
    order = np.random.default_rng([seed, number]).permutation(len(examples)).tolist()
    return [examples[index] for index in order[position * count : (position + 1) * count]]


class GainReport(NamedTuple):
    """The result of one base model's trials."""

    base: str
    seeds: int
    gain: Interval
    """Of the true reward over the base on the held-out tasks; over tasks and seeds."""
    over: dict[RewardKind, Interval]
    """Of the true reward over each control."""

    @property
    def survives(self) -> bool:
        """True when the gain, over the base and over each control, is significantly above 0."""
        return self.gain.low > 0 and all(interval.low > 0 for interval in self.over.values())

    def results(self) -> list[Result]:
        """The figures of a command."""
        intervals = {"gain": self.gain} | {f"over_{reward}": interval for reward, interval in self.over.items()}
        return [
            interval._replace(n=self.seeds).result(f"{self.base}: {name}") for name, interval in intervals.items()
        ]

    def summary(self) -> str:
        """The figures and the conclusion, as sentences."""
        if self.gain.low <= 0:
            verdict = "There is no significant gain."
        elif not self.over:
            verdict = "Without a control the gain is not shown to come from the reward."
        elif self.survives:
            verdict = "The gain survives its controls."
        else:
            controls = " and ".join(reward for reward, interval in self.over.items() if interval.low <= 0)
            verdict = f"The gain does not survive: it is not significantly above that of the {controls} reward."
        figures = [f"gain {format_points(self.gain)}"]
        figures += [f"over {reward} {format_points(interval)}" for reward, interval in self.over.items()]
        seeds = "1 seed" if self.seeds == 1 else f"{self.seeds} seeds"
        return f"{self.base}, {seeds}: {'; '.join(figures)}. {verdict}"


_Outcomes = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def report_gain(base: str, before: HeldoutResult, trials: Sequence[Trial]) -> GainReport:
    """The gain in one base model's trials."""
    outcomes: dict[RewardKind, _Outcomes] = {  # (S, T): by seed and held-out task
        reward: np.array([trial.heldout.outcomes() for trial in trials if trial.reward == reward])
        for reward in dict.fromkeys(trial.reward for trial in trials)
    }
    true = outcomes.pop("true")
    over: dict[RewardKind, Interval] = {
        reward: bootstrap_over_seeds(true - control) for reward, control in outcomes.items()
    }
    return GainReport(base, len(true), bootstrap_over_seeds(true - np.asarray(before.outcomes())), over)


def format_points(interval: Interval) -> str:
    """An interval of rates in percentage points."""
    return f"{100 * interval.mean:+.1f} points [{100 * interval.low:+.1f}, {100 * interval.high:+.1f}]"


def bootstrap_over_seeds(differences: _Outcomes, *, seed: int = 0) -> Interval:
    """The mean of paired differences ``(S, T)`` with its 95 % bootstrap interval over seeds and tasks.

    Both are resampled: an interval over tasks alone would hold for these few seeds only.
    """
    seeds, tasks = differences.shape
    rng = np.random.default_rng(seed)
    by_seed = rng.multinomial(tasks, np.full(tasks, 1 / tasks), size=RESAMPLES) @ differences.T / tasks
    drawn: IntArray = rng.integers(0, seeds, size=(RESAMPLES, seeds))
    means = np.take_along_axis(by_seed, drawn, axis=1).mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(float(differences.mean()), float(low), float(high), differences.size)


RFT = Algorithm(RftSettings, plan, train, frozenset({"rollouts"}), check, load_examples)
