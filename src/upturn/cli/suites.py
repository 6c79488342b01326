"""``upturn eval run``: evaluates an agent on frozen suites and extra held-out tasks."""

import os
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from upturn import __version__
from upturn.cli.options import AsJson, read_config
from upturn.cli.output import emit, print_message, progress, resume_hint
from upturn.errors import ConfigError
from upturn.records import Result
from upturn.threads import cpu_quota, default_threads, usable_cores

if TYPE_CHECKING:
    from upturn.config import Config
    from upturn.loop.evaluation import SuiteResult, SuiteRun
    from upturn.records import AgentVersion, Task

ORACLE = "oracle"
"""Name of the agent that plays the shortest known solutions."""


def run_suites(  # noqa: PLR0913 - a command's parameters are its options
    suite: Annotated[list[str] | None, typer.Option("--suite", help="A frozen suite; repeatable.")] = None,
    *,
    agent: Annotated[
        str,
        typer.Option(
            help="An agent of the configuration file, a function (package.module:function), or 'oracle' for the "
            "shortest known solutions."
        ),
    ],
    heldout: Annotated[
        int | None,
        typer.Option(min=1, help="Minimum number of extra held-out tasks, in full rounds over families."),
    ] = None,
    family: Annotated[
        list[str] | None,
        typer.Option("--family", help="A family of the held-out tasks; repeatable. Default: all office families."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the held-out tasks. Default: the file's, or 0.")
    ] = None,
    config_path: Annotated[
        Path | None, typer.Option("--config", help="Path of the configuration file with the agent.")
    ] = None,
    together: Annotated[int, typer.Option(min=1, help="Number of concurrent rollouts.")] = 32,
    pool: Annotated[str | None, typer.Option(help="Pool that stores each finished batch.")] = None,
    resume: Annotated[
        str | None, typer.Option(help="Resume the run with this key in --pool; the other options must be the same.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate an agent on frozen suites and extra held-out tasks of the office.

    Suites whose families have changed since they were frozen are refused. The seed and the limits on tokens and
    time come from the configuration file; a rollout may take 50 actions. Exits with 1 if every rollout ended in an
    error; missed bars do not change the exit code.
    """
    from upturn.loop import FailureSummary

    if resume is not None and pool is None:
        raise ConfigError([f"--resume {resume} has no effect without --pool, which stores the run; add it"])
    suites, families = tuple(dict.fromkeys(suite or ())), tuple(dict.fromkeys(family or ()))
    options = _Options(suites, heldout, families, seed, agent, config_path, together)
    options.check()
    config = _read_config(options)
    runner = _Runner(options, config)
    parts = options.parts(0 if config is None else config.run.seed)
    failures = FailureSummary()
    results: dict[str, list[SuiteResult]] = {part.name: [] for part in parts}
    details: dict[str, object] = {"agent": runner.agent_id, "suites": [part.id for part in parts]}
    with (
        options.open_run(pool, resume, config) as run,
        progress("rollouts", sum(len(part.tasks) for part in parts)) as ticker,
        runner.threads(),
    ):
        details |= {} if run is None else {"run": run.key}
        for part in parts:
            for batch in runner.batches(part, run):
                results[part.name] += batch
                for result in batch:
                    failures.add(result.trajectory, result.evaluation)
                ticker.advance(len(batch))
    if as_json:
        details["attempts"] = [_describe(result) for part in results.values() for result in part]
    if failures.text():
        print_message(failures.text())
    config_hash = "" if config is None else config.config_hash
    emit("eval run", _metrics(results), details, as_json=as_json, config_hash=config_hash)
    if failures.errors == failures.trajectories:
        raise typer.Exit(1)


class _Part(NamedTuple):
    """Tasks with common metrics."""

    name: str
    id: str
    tasks: "list[Task]"


@dataclass(frozen=True, slots=True)
class _Options:
    """The options that determine a run's results; a resumed run must have the same ones."""

    suites: tuple[str, ...]
    heldout: int | None
    """None = no extra held-out tasks."""
    families: tuple[str, ...]
    """Of the held-out tasks; empty = all."""
    seed: int | None
    """Of the held-out tasks; None = the file's, or 0."""
    agent: str
    config_path: Path | None
    together: int

    def check(self) -> None:
        """Raises ConfigError if there are no tasks, or if options have no effect."""
        if not self.suites and self.heldout is None:
            raise ConfigError(["there are no tasks; name frozen suites with --suite, or set --heldout"])
        useless = [
            name for name, value in (("--family", self.families), ("--seed", self.seed)) if value not in ((), None)
        ]
        if useless and self.heldout is None:
            raise ConfigError([f"{', '.join(useless)} without --heldout: the tasks of a frozen suite are fixed"])

    def parts(self, default_seed: int) -> list[_Part]:
        """The suites, then the held-out tasks."""
        from upturn.environments.office import OfficeKit, family_named, suite_named, tasks_of
        from upturn.loop.evaluation import HELDOUT, extra_heldout_tasks

        parts = [_Part(suite.name, suite.id, tasks_of(suite)) for suite in map(suite_named, self.suites)]
        if self.heldout is not None:
            kit, seed = OfficeKit(), default_seed if self.seed is None else self.seed
            families = [family_named(name).name for name in self.families] or list(kit.families)
            tasks = extra_heldout_tasks(kit, families, self.heldout, seed=seed)
            parts.append(_Part(HELDOUT, f"{HELDOUT}/{seed}", tasks))
        return parts

    @contextmanager
    def open_run(
        self, pool: str | None, resume: str | None, config: "Config | None"
    ) -> "Iterator[SuiteRun | None]":
        """The run in the pool, started or resumed; None = there is no pool, and nothing is stored."""
        from upturn.loop.evaluation import SuiteRun
        from upturn.pool import Pool
        from upturn.records import Run

        if pool is None:
            yield None
            return
        seed, config_hash = (0, "") if config is None else (config.run.seed, config.config_hash)
        record = Run(resume or _new_key(), shlex.join(self._command()), config_hash, seed, __version__)
        with Pool.open(pool) as opened:
            run = SuiteRun.start(opened, record) if resume is None else SuiteRun.resume(opened, record)
            config_option = [] if self.config_path is None else ["--config", str(self.config_path)]
            command = [
                "upturn",
                *self._command(),
                *config_option,
                "--pool",
                str(opened.location),
                "--resume",
                run.key,
            ]
            print_message(f"stored in {opened.location} as {run.key}")
            with resume_hint(shlex.join(command)):
                yield run
            run.finish()

    def _command(self) -> list[str]:
        """The command without its program, --config, --pool and --resume."""
        command = ["eval", "run", *(word for name in self.suites for word in ("--suite", name))]
        command += [] if self.heldout is None else ["--heldout", str(self.heldout)]
        command += [word for name in self.families for word in ("--family", name)]
        command += [] if self.seed is None else ["--seed", str(self.seed)]
        return [*command, "--agent", self.agent, "--together", str(self.together)]


def _new_key() -> str:
    return f"eval-{datetime.now(UTC):%Y%m%d-%H%M%S}"


class _Runner:
    """Runs the agent on tasks."""

    def __init__(self, options: _Options, config: "Config | None") -> None:
        from upturn.environments.office import TimedKit

        self._kit, self._config, self._batch_size = TimedKit(time.monotonic), config, options.together
        self._config_path = options.config_path
        self._version = None if options.agent == ORACLE else _agent_version(options.agent, config)
        self.agent_id = ORACLE if self._version is None else self._version.id

    def threads(self) -> "AbstractContextManager[None]":
        """Sets the number of torch threads if a model runs in this process."""
        from upturn.loop.run import configure_torch

        if self._version is None or self._config is None or not self._version.has_local_model:
            return nullcontext()
        return configure_torch(self._config.run.threads or default_threads(usable_cores(), cpu_quota()))

    def batches(self, part: _Part, run: "SuiteRun | None") -> "Iterator[list[SuiteResult]]":
        """Results of all tasks of a part: the stored ones, then new ones, which are stored by batch.

        ``run``: None = nothing is stored.
        """
        stored = {} if run is None else {result.task.id: result for result in run.results(part.id)}
        if stored:
            yield [stored[task.id] for task in part.tasks if task.id in stored]
        key = _new_key() if run is None else run.key
        results = self._run([task for task in part.tasks if task.id not in stored], f"{key}/{part.id}", run)
        count = len(stored)
        while batch := list(islice(results, self._batch_size)):
            if run is not None:
                run.store(part.id, batch, offset=count)
            count += len(batch)
            yield batch

    def _run(self, tasks: "Sequence[Task]", key: str, run: "SuiteRun | None") -> "Iterator[SuiteResult]":
        from upturn.config import ApiKeys, Limits, api_keys
        from upturn.environments import LONG_TURNS
        from upturn.loop import AgentRuntime, Purpose
        from upturn.loop.evaluation import run_oracle, run_tasks
        from upturn.loop.run import limits_of
        from upturn.models import choose_device

        if self._version is None:
            return run_oracle(tasks)
        config = self._config
        limits, keys, stored, seed, device = Limits(), {}, ApiKeys(), 0, "auto"
        if config is not None:
            seed, limits, device = config.run.seed, limits_of(config), config.run.device
            stored = api_keys(config, os.environ, self._config_path)
            keys = {agent.name: stored.of(agent) for agent in config.agents}
        is_local = self._version.has_local_model
        runtime = AgentRuntime(
            self._kit,
            replace(limits, max_turns=LONG_TURNS),
            keys,
            device=choose_device(device) if is_local else "cpu",
            recall=None if run is None or config is None else run.recall(config.pool, stored),
        )
        return run_tasks(runtime, self._version, tasks, Purpose(key, seed), batch_size=self._batch_size)


def _read_config(options: _Options) -> "Config | None":
    """The configuration file; raises ConfigError if it is missing or has no effect."""
    needs_file = options.agent != ORACLE and ":" not in options.agent
    if options.config_path is None:
        if needs_file:
            raise ConfigError([f"--agent {options.agent}: name its configuration file with --config"])
        return None
    if not needs_file:
        raise ConfigError([f"--config has no effect with --agent {options.agent}, which is in no file; omit it"])
    return read_config(options.config_path)


def _agent_version(agent: str, config: "Config | None") -> "AgentVersion":
    from upturn.loop.run import version_of
    from upturn.records import AgentVersion

    if config is None:
        return AgentVersion("own", "base", "callable", model=agent)
    agents = {known.name: known for known in config.agents}
    if agent not in agents:
        raise ConfigError([f"--agent {agent}: the file has no such agent; it has: {', '.join(agents)}"])
    return version_of(agents[agent], config.agents)


def _metrics(results: "Mapping[str, list[SuiteResult]]") -> list[Result]:
    """Metrics of each part, and of all together if there are several."""
    from upturn.loop.evaluation import metrics

    parts = dict(results)
    if len(parts) > 1:
        parts["all"] = [result for part in results.values() for result in part]
    return [
        replace(metric, name=f"{name} {metric.name}") for name, part in parts.items() for metric in metrics(part)
    ]


def _describe(result: "SuiteResult") -> dict[str, object]:
    return {
        "task": result.task.id,
        "verdict": result.evaluation.verdict,
        "outcome": result.trajectory.outcome,
        "turns": len(result.trajectory.turns),
        "failed_gates": [gate.name for gate in result.evaluation.gates if not gate.is_passed],
        "costs": dict(result.evaluation.costs),
    }
