"""Sides as processes: each has environment variables and a memory of its own, and only one computes at a time.

A side that was asked for nothing waits for a line and uses no processor.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import IO, Self

from upturn.errors import MeasurementError
from upturn.records import JsonValue

TUNED_ALLOCATOR = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "200000000000"}
"""glibc then keeps freed memory instead of giving it back to the system and fetching it again, page by page: half
of the time of an update that allocates a lot. Set for both sides, or for neither."""
_QUIET = {
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_VERBOSITY": "error",
    "TRL_EXPERIMENTAL_SILENCE": "1",
    "PYTHONWARNINGS": "ignore",
}
_PATIENCE_SECONDS = 20.0
"""For a side to end by itself once it is asked for nothing more."""
_SHOWN = 2_000
"""Last characters of what a side that died printed."""


@dataclass(frozen=True, slots=True)
class Made:
    """What a side answered to one request."""

    values: Mapping[str, JsonValue]

    def number(self, name: str) -> float:
        """A figure that the side must have given."""
        value = self.values.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise MeasurementError(
                f"a side gave {value!r} for {name!r}, which is no number; it gave {self.values!r}"
            )
        return float(value)

    @property
    def seconds(self) -> float:
        """Of the step."""
        return self.number("seconds")

    @property
    def peak_bytes(self) -> float:
        """The most that was held during the step beyond what was held before the first."""
        return self.number("peak_bytes")


@dataclass(slots=True)
class Worker:
    """A side's process. Use as a context manager: it is over at the end of the block."""

    side: str
    """``module:function``, see ``benchmarks.worker_process``."""
    settings: Mapping[str, JsonValue]
    threads: int
    allocator: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the memory allocator; empty = as the system has it."""
    prepared: Made = field(default_factory=lambda: Made({}))
    """What the side answered to its settings; empty before the block is entered."""
    _process: "subprocess.Popen[str] | None" = None
    _printed: IO[bytes] | None = None

    def __enter__(self) -> Self:
        """Starts the side and waits until it is prepared; raises MeasurementError with what it printed."""
        self._printed = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker_process", self.side],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._printed,
            env=side_environment(os.environ, self.threads, self.allocator),
            text=True,
            encoding="utf-8",
        )
        try:
            self.prepared = self._ask(json.dumps(dict(self.settings)))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def step(self) -> Made:
        """One more step. Raises MeasurementError when the side has died or says so."""
        return self._ask("step")

    def close(self) -> None:
        """Ends the process; waits for it."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        try:
            process.stdin.close()
            process.wait(_PATIENCE_SECONDS)
        except (subprocess.TimeoutExpired, OSError):
            process.kill()
            process.wait()
        finally:
            assert process.stdout is not None
            process.stdout.close()
            if self._printed is not None:
                self._printed.close()

    def _ask(self, line: str) -> Made:
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(line + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            raise MeasurementError(self._obituary()) from None
        answer = process.stdout.readline()
        if not answer:
            raise MeasurementError(self._obituary())
        values = json.loads(answer)
        if "error" in values:
            raise MeasurementError(f"side {self.side!r} failed: {values['error']}\n{values['trace'][-_SHOWN:]}")
        return Made(values)

    def _obituary(self) -> str:
        assert self._process is not None and self._printed is not None
        code = self._process.wait(_PATIENCE_SECONDS)
        self._printed.seek(0)
        printed = self._printed.read()[-_SHOWN:].decode("utf-8", "replace")
        reason = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        cure = "; there may be too little memory for it" if code == -9 else ""
        return f"side {self.side!r} {reason}{cure}; it printed last:\n{printed}"


def side_environment(inherited: Mapping[str, str], threads: int, allocator: Mapping[str, str]) -> dict[str, str]:
    """A side's environment variables: what this process has, but threads and allocator as asked."""
    kept = {name: value for name, value in inherited.items() if not name.startswith("MALLOC_")}
    return kept | _QUIET | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)} | dict(allocator)
