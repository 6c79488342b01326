"""A thousand attempts of programs in trouble: what each is recorded as, and what is left after them.

Programs are commands, but for those with another attempt's key. The measurement starts after the first eighteen
attempts, which load modules and fill caches.
"""

import asyncio
import gc
import itertools
import os
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from benchmarks.comparison import result
from benchmarks.measurement import Measurement
from benchmarks.program.chat_models import NANO, load_measured
from benchmarks.program.observed_engine import ObservedEngine
from benchmarks.program.plan import Plan, load
from benchmarks.program.talk import KIT, setting
from upturn.agents import Attempt, RolloutRequest, Setting, run_rollouts
from upturn.agents.program import Program, ProgramCommand
from upturn.agents.rollout import Job
from upturn.config import Limits
from upturn.models import LocalModel
from upturn.models.engine import LocalEngine
from upturn.records import Outcome, Trajectory

_SCRIPT = Path(__file__).with_name("trouble.py")
_MARK = "UPTURN_BENCHMARK"
_PARALLEL = 8
_PATIENT, _IMPATIENT = 120.0, 3.0
"""Time limits in seconds: of programs that end, and of those that do not."""
_MAX_GROWTH_MB = 32.0
"""Of the process over all attempts, in which the caches of allocators still grow a little."""
OUTCOMES: Mapping[str, Outcome] = {
    "answers": "finished",
    "exits at once": "program_error",
    "is killed": "program_error",
    "hangs": "time_limit",
    "forks": "finished",
    "prints for ever": "time_limit",
    "calls after its end": "finished",
    "leaves a call": "finished",
    "uses another key": "finished",
}
"""What each behaviour must be recorded as."""
_ENDLESS = ("hangs", "prints for ever")


class Left(NamedTuple):
    """What a process has open."""

    processes: int
    """That carry the mark of this measurement, besides this one."""
    descriptors: int
    threads: int
    folders: int
    """In the folder for temporary files."""
    sessions: int
    """Of the engine."""
    resident_mb: float

    def more_than(self, other: "Left") -> dict[str, int]:
        """What there is more of, memory aside."""
        counts = {name: getattr(self, name) - getattr(other, name) for name in self._fields[:-1]}
        return {name: count for name, count in counts.items() if count > 0}


def behaviours(count: int) -> list[str]:
    """So many, in turn."""
    return list(itertools.islice(itertools.cycle(OUTCOMES), count))


def unexpected(made: Sequence[tuple[str, Trajectory]]) -> Counter[str]:
    """Number of attempts by behaviour and outcome, where it is not the one in ``OUTCOMES``."""
    return Counter(
        f"{behaviour}: {trajectory.outcome} {trajectory.error[-200:]}".strip()
        for behaviour, trajectory in made
        if trajectory.outcome != OUTCOMES[behaviour]
    )


def measure_attempts(plan: Plan) -> Measurement:
    """Outcomes, and what is left after all attempts."""
    with _folder() as folder:
        local = load_measured(NANO)
        engine = ObservedEngine(LocalEngine(local.model, slots=16, max_length=600, tokenizer=local.tokenizer))
        programs = _programs(local, engine)
        made: list[tuple[str, Trajectory]] = []
        pending, before = behaviours(plan.attempts), None
        while pending:
            batch, pending = pending[: 2 * len(OUTCOMES)], pending[2 * len(OUTCOMES) :]
            made += [(name, _bare(trajectory)) for name, trajectory in _run(batch, programs, len(made))]
            engine.taken()
            before = before or _left(folder, engine)
            plan.log(f"attempts: {len(made)} of {plan.attempts}")
        after = _left(folder, engine)
    assert before is not None
    wrong, growth = unexpected(made), after.resident_mb - before.resident_mb
    more = after.more_than(before)
    counts = Counter(f"{behaviour}: {trajectory.outcome}" for behaviour, trajectory in made)
    return Measurement(
        (
            result("attempts", float(len(made)), "attempts"),
            result("other_outcomes", float(wrong.total()), "attempts", plan.bar(0.0, is_upper=True)),
            result("left_behind", float(sum(more.values())), "things", plan.bar(0.0, is_upper=True)),
            result("memory_growth", growth, "MB", plan.bar(_MAX_GROWTH_MB, is_upper=True)),
        ),
        {
            "outcomes": dict(sorted(counts.items())),
            "other_outcomes": dict(wrong),
            "left": dict(more),
            "before": before._asdict(),
            "after": after._asdict(),
            "load": load(),
        },
    )


def _bare(trajectory: Trajectory) -> Trajectory:
    """Without what would count as growth of memory."""
    return replace(trajectory, turns=(), rows=(), error=trajectory.error[-200:])


def _run(names: Sequence[str], programs: Mapping[str, Setting], first: int) -> list[tuple[str, Trajectory]]:
    """One attempt of each."""
    tasks = itertools.islice(KIT.tasks(seed=first, split="train", families=["talk"]), len(names))
    jobs = [
        Job(RolloutRequest(task, 0, index), programs[name])
        for index, (name, task) in enumerate(zip(names, tasks, strict=True))
    ]
    trajectories = asyncio.run(run_rollouts(jobs, KIT.environment, slots=_PARALLEL))
    return list(zip(names, trajectories, strict=True))


def _programs(local: LocalModel, engine: ObservedEngine) -> dict[str, Setting]:
    settings = {}
    for number, behaviour in enumerate(OUTCOMES):
        seconds = _IMPATIENT if behaviour in _ENDLESS else _PATIENT
        limits = Limits(max_turns=8, max_tokens=500, max_action_tokens=8, max_seconds=seconds)
        command = ProgramCommand((sys.executable, "-I", "-S", str(_SCRIPT), behaviour))
        program: Program | ProgramCommand = _Intruder() if behaviour == "uses another key" else command
        settings[behaviour] = setting(local, engine, program, limits, parallel=2, key=f"trouble-{number}")
    return settings


class _Intruder:
    """A program that uses the key of another attempt, which still runs where there are two at a time."""

    def __init__(self) -> None:
        self._running: list[Attempt] = []

    async def __call__(self, attempt: Attempt) -> str:
        """Raises AssertionError where a foreign key is taken, or the own one is not."""
        import aiohttp

        self._running.append(attempt)
        async with aiohttp.ClientSession() as client:

            async def ask(url: str, key: str) -> int:
                body = {"model": "m", "messages": [{"role": "user", "content": "Hi."}], "max_tokens": 4}
                headers = {"authorization": f"Bearer {key}"}
                async with client.post(f"{url}/chat/completions", json=body, headers=headers) as response:
                    return response.status

            for other in self._running[-2:]:
                if other is not attempt:
                    assert await ask(attempt.base_url, other.api_key) == 401
                    with suppress(aiohttp.ClientConnectionError):  # it has ended
                        assert await ask(other.base_url, attempt.api_key) == 401
            assert await ask(attempt.base_url, attempt.api_key) == 200
        return "user.refuse"


@contextmanager
def _folder() -> Iterator[Path]:
    """An empty folder for all temporary files; this process and its children get the mark."""
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix="upturn-attempts-") as name:
        tempfile.tempdir, os.environ[_MARK] = name, uuid4().hex
        try:
            yield Path(name)
        finally:
            tempfile.tempdir = before
            del os.environ[_MARK]


def _left(folder: Path, engine: ObservedEngine) -> Left:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return Left(
        _marked_processes(os.environ[_MARK].encode()),
        len(list(Path("/proc/self/fd").iterdir())),
        threading.active_count(),
        len(list(folder.iterdir())),
        len(engine.sessions),
        pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
    )


def _marked_processes(mark: bytes) -> int:
    """Processes whose environment has the mark, and children of this one. Linux only."""
    count, parent = 0, os.getpid()
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == parent:
            continue
        with suppress(OSError):  # it has ended meanwhile
            fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            count += int(fields[1]) == parent or mark in (folder / "environ").read_bytes()
    return count
