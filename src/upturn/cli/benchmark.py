"""``upturn eval run``: an agent on frozen suites."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from upturn.cli.output import emit, progress, say, usable_cores
from upturn.errors import ConfigError
from upturn.records import Result

if TYPE_CHECKING:
    from upturn.config import Config
    from upturn.loop.benchmark import Finished
    from upturn.records import AgentVersion, Task

ORACLE = "oracle"
"""The agent that is none: the shortest known solutions."""


def run_suites(
    suite: Annotated[list[str], typer.Option("--suite", help="A frozen suite; repeat for several.")],
    *,
    agent: Annotated[
        str,
        typer.Option(
            help="Who works: an agent of the configuration file, package.module:function of your own, or 'oracle'"
            " for the shortest known solutions."
        ),
    ],
    config_path: Annotated[
        Path | None, typer.Option("--config", help="The configuration file that the agent stands in.")
    ] = None,
    together: Annotated[
        int, typer.Option(min=1, help="Attempts alive at the same time; 1 = nobody waits for another.")
    ] = 32,
    pool: Annotated[Path | None, typer.Option(help="The pool to keep attempts and judgements in.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Let an agent work on frozen suites of held-out tasks, and print what it came to.

    A suite whose families were changed since it was frozen is refused. Seed and limits on tokens and time are the
    file's; an attempt may take 50 actions.
    """
    from upturn.environments.office.benchmark import suite_named, tasks_of
    from upturn.loop.benchmark import metrics
    from upturn.loop.trouble import Troubles

    suites = [suite_named(name) for name in dict.fromkeys(suite)]
    config = _config(agent, config_path)
    who = _Worker(agent, config, together)
    drawn = [tasks_of(each) for each in suites]
    troubles = Troubles()
    key = f"eval-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    results: list[Result] = []
    details: dict[str, object] = {"agent": who.id, "suites": [each.id for each in suites]}
    everything: list[Finished] = []
    with progress("attempts", sum(map(len, drawn))) as ticker, who.threads():
        for each, tasks in zip(suites, drawn, strict=True):
            finished: list[Finished] = []
            for one in who.attempts(tasks, f"{key}/{each.id}"):
                finished.append(one)
                troubles.add(one.trajectory, one.evaluation)
                ticker.advance()
            if pool is not None:
                _keep(pool, f"{key}/{each.id}", finished)
            results += [replace(found, name=f"{each.name} {found.name}") for found in metrics(finished)]
            everything += finished
    if len(suites) > 1:
        results += [replace(found, name=f"all {found.name}") for found in metrics(everything)]
    if as_json:
        details["attempts"] = [_told(one) for one in everything]
    if troubles.words():
        say(troubles.words())
    emit("eval run", results, details, as_json=as_json, config_hash="" if config is None else config.config_hash)


class _Worker:
    """Whoever works on the tasks."""

    def __init__(self, agent: str, config: "Config | None", together: int) -> None:
        from upturn.environments.office.stopwatch import TimedKit

        self.kit, self._config, self._together = TimedKit(time.monotonic), config, together
        self._version = None if agent == ORACLE else _version(agent, config)
        self.id = ORACLE if self._version is None else self._version.id

    def threads(self) -> "AbstractContextManager[None]":
        """Sets torch's threads where a model runs here."""
        from upturn.loop.context import torch_set

        if self._version is None or self._config is None or self._version.kind != "local_model":
            return nullcontext()
        return torch_set(self._config.run.threads or usable_cores())

    def attempts(self, tasks: "Sequence[Task]", key: str) -> "Iterator[Finished]":
        """At all tasks, in order."""
        from upturn.agents import Limits
        from upturn.config import keys_in
        from upturn.loop.benchmark import MAX_TURNS, attempted, perfect
        from upturn.loop.context import limits_of
        from upturn.loop.fleet import Fleet, Purpose

        if self._version is None:
            return perfect(tasks)
        config = self._config
        limits, keys, seed = Limits(), {}, 0
        if config is not None:
            seed = config.run.seed
            limits, found = limits_of(config), keys_in(config, os.environ)
            keys = {each.name: found.get(each.api_key_env, "") for each in config.agents}
        fleet = Fleet(self.kit, replace(limits, max_turns=MAX_TURNS), keys)
        return attempted(fleet, self._version, tasks, Purpose(key, seed), together=self._together)


def _config(agent: str, path: Path | None) -> "Config | None":
    """The file's; raises ConfigError where it has no effect, or is missing."""
    from upturn.config import load_config

    needs_file = agent != ORACLE and ":" not in agent
    if path is None:
        if needs_file:
            raise ConfigError([f"--agent {agent}: name the file that it stands in with --config"])
        return None
    if not needs_file:
        raise ConfigError([f"--config has no effect with --agent {agent}, which stands in no file; leave it out"])
    started_in = sys.path.index("") if "" in sys.path else len(sys.path)
    sys.path.insert(started_in, str(path.resolve().parent))  # as for upturn loop run
    return load_config(path, os.environ)


def _version(agent: str, config: "Config | None") -> "AgentVersion":
    from upturn.loop.context import version_of
    from upturn.records import AgentVersion

    if config is None:
        return AgentVersion("own", "base", "callable", model=agent)
    for each in config.agents:
        if each.name == agent:
            return version_of(each)
    known = ", ".join(each.name for each in config.agents)
    raise ConfigError([f"--agent {agent}: the file has no such agent; it has: {known}"])


def _keep(path: Path, key: str, finished: "Sequence[Finished]") -> None:
    from upturn.pool import Pool, PoolSink

    with Pool.open(path) as pool:
        PoolSink(pool).append(key, 0, [(each.task, each.trajectory, each.evaluation) for each in finished])


def _told(one: "Finished") -> dict[str, object]:
    return {
        "task": one.task.id,
        "verdict": one.evaluation.verdict,
        "outcome": one.trajectory.outcome,
        "turns": len(one.trajectory.turns),
        "failed_gates": [gate.name for gate in one.evaluation.gates if not gate.is_passed],
        "costs": dict(one.evaluation.costs),
    }
