"""``upturn eval run``: an agent on frozen suites, and on further held-out tasks."""

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
from upturn.cli.import_path import import_beside
from upturn.cli.output import emit, progress, resumable, say
from upturn.errors import ConfigError
from upturn.records import Result
from upturn.threads import cpu_quota, default_threads, usable_cores

if TYPE_CHECKING:
    from upturn.config import Config
    from upturn.loop.evaluation import Finished, Sitting
    from upturn.records import AgentVersion, Task

ORACLE = "oracle"
"""The agent that is none: the shortest known solutions."""


def run_suites(  # noqa: PLR0913 - a command's parameters are its options
    suite: Annotated[list[str] | None, typer.Option("--suite", help="A frozen suite; repeat for several.")] = None,
    *,
    agent: Annotated[
        str,
        typer.Option(
            help="Who works: an agent of the configuration file, package.module:function of your own, or 'oracle'"
            " for the shortest known solutions."
        ),
    ],
    heldout: Annotated[
        int | None,
        typer.Option(min=1, help="So many further held-out tasks, in full rounds over their families."),
    ] = None,
    family: Annotated[
        list[str] | None,
        typer.Option("--family", help="A family of those; repeat for several. Default: all of the office's."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="What those are drawn by. Default: the file's, or 0.")
    ] = None,
    config_path: Annotated[
        Path | None, typer.Option("--config", help="The configuration file that the agent stands in.")
    ] = None,
    together: Annotated[
        int, typer.Option(min=1, help="Attempts alive at the same time; 1 = nobody waits for another.")
    ] = 32,
    pool: Annotated[
        Path | None, typer.Option(help="The pool to keep attempts and judgements in, a batch at a time.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option(help="Go on with a run that --pool keeps: its key; other options as it began.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Let an agent work on frozen suites and further held-out tasks of the office, and print what it came to.

    A suite whose families were changed since it was frozen is refused. Seed and limits on tokens and time are the
    file's; an attempt may take 50 actions. Exit code 1 where every attempt broke; an agent that misses bars was
    measured all the same.
    """
    from upturn.loop import FailureSummary

    if resume is not None and pool is None:
        raise ConfigError([f"--resume {resume} has no effect without --pool, which has what was done; name it"])
    chosen = _Chosen(tuple(dict.fromkeys(suite or ())), heldout, tuple(dict.fromkeys(family or ())), seed)
    chosen.check()
    config = _config(agent, config_path)
    who = _Worker(agent, config, together)
    parts = chosen.parts(0 if config is None else config.run.seed)
    failures = FailureSummary()
    finished: dict[str, list[Finished]] = {each.name: [] for each in parts}
    details: dict[str, object] = {"agent": who.id, "suites": [each.id for each in parts]}
    asked = _Asked(chosen, agent, config_path, together)
    with (
        asked.sitting(pool, resume, config) as sitting,
        progress("attempts", sum(len(each.tasks) for each in parts)) as ticker,
        who.threads(),
    ):
        details |= {} if sitting is None else {"run": sitting.key}
        for each in parts:
            for batch in who.batches(each.id, each.tasks, sitting):
                finished[each.name] += batch
                for one in batch:
                    failures.add(one.trajectory, one.evaluation)
                ticker.advance(len(batch))
    if as_json:
        details["attempts"] = [_told(one) for each in finished.values() for one in each]
    if failures.text():
        say(failures.text())
    digest = "" if config is None else config.config_hash
    emit("eval run", _results(finished), details, as_json=as_json, config_hash=digest)
    if failures.errors == failures.trajectories:
        raise typer.Exit(1)


def _results(finished: "Mapping[str, list[Finished]]") -> list[Result]:
    """By suite, of the further tasks, and over all where there are several."""
    from upturn.loop.evaluation import metrics

    parts = dict(finished)
    if len(parts) > 1:
        parts["all"] = [one for each in finished.values() for one in each]
    return [replace(found, name=f"{name} {found.name}") for name, part in parts.items() for found in metrics(part)]


class _Part(NamedTuple):
    """Tasks that are told of together."""

    name: str
    id: str
    tasks: "list[Task]"


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Which tasks are worked on."""

    suites: tuple[str, ...]
    heldout: int | None
    """None = no further tasks."""
    families: tuple[str, ...]
    """Of the further tasks; empty = all."""
    seed: int | None
    """None = the file's, or 0."""

    def check(self) -> None:
        """Raises ConfigError where nothing is chosen, or options have no effect."""
        if not self.suites and self.heldout is None:
            raise ConfigError(["there is nothing to work on; name frozen suites with --suite, or give --heldout"])
        given = [
            name for name, value in (("--family", self.families), ("--seed", self.seed)) if value not in ((), None)
        ]
        if given and self.heldout is None:
            raise ConfigError([f"{', '.join(given)} without --heldout: a frozen suite has its tasks already"])

    def parts(self, seed: int) -> list[_Part]:
        """The suites, then the further tasks; ``seed``: what these are drawn by where nothing else was said."""
        from upturn.environments.office import OfficeKit, family_named, suite_named, tasks_of
        from upturn.loop.evaluation import HOLDOUT, holdout

        found = [_Part(each.name, each.id, tasks_of(each)) for each in map(suite_named, self.suites)]
        if self.heldout is not None:
            kit, drawn_by = OfficeKit(), seed if self.seed is None else self.seed
            families = [family_named(each).name for each in self.families] or list(kit.families)
            tasks = holdout(kit, families, self.heldout, seed=drawn_by)
            found.append(_Part(HOLDOUT, f"{HOLDOUT}/{drawn_by}", tasks))
        return found

    def words(self) -> list[str]:
        """As options."""
        found = [word for name in self.suites for word in ("--suite", name)]
        if self.heldout is not None:
            found += ["--heldout", str(self.heldout)]
        found += [word for name in self.families for word in ("--family", name)]
        return found if self.seed is None else [*found, "--seed", str(self.seed)]


@dataclass(frozen=True, slots=True)
class _Asked:
    """What decides what a run makes, and so has to be the same when it goes on."""

    chosen: _Chosen
    agent: str
    config_path: Path | None
    together: int

    @contextmanager
    def sitting(self, pool: Path | None, resume: str | None, config: "Config | None") -> "Iterator[Sitting | None]":
        """The run in the pool; None = there is no pool, and nothing can be resumed."""
        from upturn.loop.evaluation import Sitting
        from upturn.pool import Pool
        from upturn.records import Run

        if pool is None:
            yield None
            return
        seed, digest = (0, "") if config is None else (config.run.seed, config.config_hash)
        run = Run(resume or _key(), shlex.join(self._words()), digest, seed, __version__)
        with Pool.open(pool) as opened:
            sitting = Sitting.begun(opened, run) if resume is None else Sitting.resumed(opened, run)
            where = [] if self.config_path is None else ["--config", str(self.config_path)]
            again = ["upturn", *self._words(), *where, "--pool", str(pool), "--resume", sitting.key]
            say(f"kept in {pool} as {sitting.key}")
            with resumable(shlex.join(again)):
                yield sitting
            sitting.end()

    def _words(self) -> list[str]:
        return ["eval", "run", *self.chosen.words(), "--agent", self.agent, "--together", str(self.together)]


def _key() -> str:
    return f"eval-{datetime.now(UTC):%Y%m%d-%H%M%S}"


class _Worker:
    """Whoever works on the tasks."""

    def __init__(self, agent: str, config: "Config | None", together: int) -> None:
        from upturn.environments.office import TimedKit

        self.kit, self._config, self._together = TimedKit(time.monotonic), config, together
        self._version = None if agent == ORACLE else _version(agent, config)
        self.id = ORACLE if self._version is None else self._version.id

    def threads(self) -> "AbstractContextManager[None]":
        """Sets torch's threads where a model runs here."""
        from upturn.loop.run import configure_torch

        if self._version is None or self._config is None or self._version.kind != "local_model":
            return nullcontext()
        return configure_torch(self._config.run.threads or default_threads(usable_cores(), cpu_quota()))

    def batches(self, suite: str, tasks: "Sequence[Task]", sitting: "Sitting | None") -> "Iterator[list[Finished]]":
        """Attempts at all tasks of a suite: first those that the sitting has, then new ones, which it keeps.

        ``sitting``: None = nothing is kept.
        """
        stored = {} if sitting is None else {each.task.id: each for each in sitting.finished(suite)}
        if stored:
            yield [stored[task.id] for task in tasks if task.id in stored]
        key = _key() if sitting is None else sitting.key
        made = self._attempts([task for task in tasks if task.id not in stored], f"{key}/{suite}")
        count = len(stored)
        while batch := list(islice(made, self._together)):
            if sitting is not None:
                sitting.keep(suite, batch, after=count)
            count += len(batch)
            yield batch

    def _attempts(self, tasks: "Sequence[Task]", key: str) -> "Iterator[Finished]":
        from upturn.config import Limits, keys_in
        from upturn.environments import LONG_TURNS
        from upturn.loop import AgentRuntime, Purpose
        from upturn.loop.evaluation import attempted, perfect
        from upturn.loop.run import limits_of

        if self._version is None:
            return perfect(tasks)
        config = self._config
        limits, keys, seed = Limits(), {}, 0
        if config is not None:
            seed = config.run.seed
            limits, found = limits_of(config), keys_in(config, os.environ)
            keys = {each.name: found.get(each.api_key_env, "") for each in config.agents}
        runtime = AgentRuntime(self.kit, replace(limits, max_turns=LONG_TURNS), keys)
        return attempted(runtime, self._version, tasks, Purpose(key, seed), together=self._together)


def _config(agent: str, path: Path | None) -> "Config | None":
    """The file's; raises ConfigError where it has no effect, or is missing."""
    from upturn.loop.trainers import load_full_config

    needs_file = agent != ORACLE and ":" not in agent
    if path is None:
        if needs_file:
            raise ConfigError([f"--agent {agent}: name the file that it stands in with --config"])
        return None
    if not needs_file:
        raise ConfigError([f"--config has no effect with --agent {agent}, which stands in no file; leave it out"])
    import_beside(path)
    return load_full_config(path, os.environ)


def _version(agent: str, config: "Config | None") -> "AgentVersion":
    from upturn.loop.run import version_of
    from upturn.records import AgentVersion

    if config is None:
        return AgentVersion("own", "base", "callable", model=agent)
    for each in config.agents:
        if each.name == agent:
            return version_of(each)
    known = ", ".join(each.name for each in config.agents)
    raise ConfigError([f"--agent {agent}: the file has no such agent; it has: {known}"])


def _told(one: "Finished") -> dict[str, object]:
    return {
        "task": one.task.id,
        "verdict": one.evaluation.verdict,
        "outcome": one.trajectory.outcome,
        "turns": len(one.trajectory.turns),
        "failed_gates": [gate.name for gate in one.evaluation.gates if not gate.is_passed],
        "costs": dict(one.evaluation.costs),
    }
