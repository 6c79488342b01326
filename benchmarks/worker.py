"""Implementations in processes of their own: each has its environment variables and memory, and only one computes
at a time. A worker without a request blocks on its input and uses no processor.
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
"""With these, glibc keeps freed memory instead of returning it to the system and fetching it again page by page,
which takes half of the time of an update that allocates a lot. Set for all compared implementations or for none."""
_QUIET = {
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_VERBOSITY": "error",
    "TRL_EXPERIMENTAL_SILENCE": "1",
    "PYTHONWARNINGS": "ignore",
}
_EXIT_TIMEOUT_SECONDS = 20.0
"""For a worker to exit after its input is closed."""
_SHOWN = 2_000
"""Last characters of a worker's output that an error shows."""


@dataclass(frozen=True, slots=True)
class Response:
    """A worker's response to one request."""

    values: Mapping[str, JsonValue]

    def number(self, name: str) -> float:
        """A required number. Raises MeasurementError where it is missing or not a number."""
        value = self.values.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise MeasurementError(f"{name!r} of a worker must be a number, got {value!r} in {self.values!r}")
        return float(value)

    @property
    def seconds(self) -> float:
        """Duration of the step."""
        return self.number("seconds")

    @property
    def peak_bytes(self) -> float:
        """Peak memory of the step beyond the baseline."""
        return self.number("peak_bytes")


@dataclass(slots=True)
class Worker:
    """The process of an implementation. A context manager: the process ends with the block."""

    implementation: str
    """``module:function``, see ``benchmarks.worker_process``."""
    settings: Mapping[str, JsonValue]
    threads: int
    allocator: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the memory allocator; empty = the system's defaults."""
    prepared: Response = field(default_factory=lambda: Response({}))
    """The response to the settings; empty before the block is entered."""
    _process: "subprocess.Popen[str] | None" = None
    _stderr: IO[bytes] | None = None

    def __enter__(self) -> Self:
        """Starts the process and waits until it is prepared. Raises MeasurementError with its output on failure."""
        self._stderr = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker_process", self.implementation],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=worker_environment(os.environ, self.threads, self.allocator),
            text=True,
            encoding="utf-8",
        )
        try:
            self.prepared = self._request(json.dumps(dict(self.settings)))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def step(self) -> Response:
        """The result of one more step. Raises MeasurementError when the worker fails."""
        return self._request("step")

    def close(self) -> None:
        """Ends the process and waits for it."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        try:
            process.stdin.close()
            process.wait(_EXIT_TIMEOUT_SECONDS)
        except (subprocess.TimeoutExpired, OSError):
            process.kill()
            process.wait()
        finally:
            assert process.stdout is not None
            process.stdout.close()
            if self._stderr is not None:
                self._stderr.close()

    def _request(self, line: str) -> Response:
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(line + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            raise MeasurementError(self._exit_message()) from None
        response = process.stdout.readline()
        if not response:
            raise MeasurementError(self._exit_message())
        values = json.loads(response)
        if "error" in values:
            raise MeasurementError(
                f"worker {self.implementation!r} failed: {values['error']}\n{values['trace'][-_SHOWN:]}"
            )
        return Response(values)

    def _exit_message(self) -> str:
        assert self._process is not None and self._stderr is not None
        code = self._process.wait(_EXIT_TIMEOUT_SECONDS)
        self._stderr.seek(0)
        output = self._stderr.read()[-_SHOWN:].decode("utf-8", "replace")
        reason = f"was ended by signal {-code}" if code < 0 else f"exited with code {code}"
        hint = "; there may be too little memory for it" if code == -9 else ""
        return f"worker {self.implementation!r} {reason}{hint}; its last output:\n{output}"


def worker_environment(inherited: Mapping[str, str], threads: int, allocator: Mapping[str, str]) -> dict[str, str]:
    """Environment variables of a worker: those of this process, with other threads and allocator settings."""
    kept = {name: value for name, value in inherited.items() if not name.startswith("MALLOC_")}
    return kept | _QUIET | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)} | dict(allocator)
