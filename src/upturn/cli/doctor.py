"""``upturn doctor``: what this machine has, one line each, with what to do where something is missing."""

import json
import os
import shutil
import sys
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

import upturn
from upturn.cli.output import emit, memory_bytes, package_version, say
from upturn.config import SHIPPED_MODELS
from upturn.records import Result
from upturn.threads import WAIT_SETTINGS, cpu_quota, default_threads, usable_cores

MODEL_FILES = ("config.json", "model.safetensors", "tokenizer.json")
"""What a Hugging Face model folder needs to be loaded."""

NEEDED_DISK_GB = 2.0
"""A demo writes under 0.2 GB; checkpoints of a long loop a few times that."""

NEEDED_MEMORY_GB = 3.0
"""The demo's peak memory must stay under this."""


class Check(NamedTuple):
    """One thing looked at."""

    name: str
    found: str
    is_fine: bool
    advice: str
    """What to do when it is not fine; empty = nothing."""


def check_python(version: tuple[int, int]) -> Check:
    """Whether this Python is one that Upturn is tested with."""
    is_fine = (3, 11) <= version < (3, 14)
    found = f"{version[0]}.{version[1]}"
    return Check("python", found, is_fine, "install Python 3.11, 3.12 or 3.13 and run make again with PYTHON=…")


def check_torch(version: str) -> Check:
    """Whether torch is installed; ``version`` is empty when it is not."""
    return Check("torch", version or "missing", bool(version), "run make demo, which installs it into .venv")


def check_model(name: str, folder: Path) -> Check:
    """Whether a shipped model's files lie in ``folder`` and are those that its card was written for."""
    problems = [problem for name in MODEL_FILES if (problem := _file_problem(folder, name))]
    found = f"{', '.join(problems)} in {folder}" if problems else str(folder)
    return Check(f"model {name}", found, not problems, f"restore it, or rebuild it: upturn model build-nano {name}")


def _file_problem(folder: Path, name: str) -> str:
    """What is wrong with a file of the model; empty = nothing that can be told without loading it."""
    try:
        content = (folder / name).read_bytes()
    except OSError as exc:
        return f"{name}: {exc.strerror}"
    if not content:
        return f"{name}: empty"
    if name not in _HASHES:
        return ""
    try:
        expected = json.loads((folder / "card.json").read_text())[_HASHES[name]]
    except (OSError, ValueError, KeyError, TypeError):
        return f"{name}: cannot be compared, card.json is missing or damaged"
    return "" if sha256(content).hexdigest() == expected else f"{name}: damaged"


_HASHES = {"model.safetensors": "weights_sha256", "tokenizer.json": "tokenizer_sha256"}
"""What the card calls the hash of a file."""


def check_disk(free_gb: float) -> Check:
    """Whether the current folder's disk has room for runs."""
    advice = f"free at least {NEEDED_DISK_GB:g} GB, or set run.directory in upturn.toml to another disk"
    return Check("disk", f"{free_gb:.1f} GB free", free_gb >= NEEDED_DISK_GB, advice)


def check_memory(total_gb: float) -> Check:
    """Whether the machine has the memory a demo needs."""
    advice = f"the demo takes up to {NEEDED_MEMORY_GB:g} GB; close other programs or use upturn demo --size tiny"
    return Check("memory", f"{total_gb:.1f} GB", total_gb >= NEEDED_MEMORY_GB, advice)


def check_cores(cores: int) -> Check:
    """The cores; one is enough, though the stated times are measured on two."""
    return Check("cores", str(cores) if cores > 1 else "1 (stated times are for 2)", True, "")


def check_threads(environ: Mapping[str, str], cores: int, quota: float | None) -> Check:
    """The threads of a run without ``run.threads``, why, and how idle ones wait.

    Fine unless OMP_NUM_THREADS, which limits libraries outside runs, exceeds the cores. ``quota``: the container's,
    in cores; None = none.
    """
    setting = environ.get("OMP_NUM_THREADS", "")
    reasons = [f"usable cores {cores}"]
    reasons += [] if quota is None else [f"CPU quota {quota:g}"]
    reasons += [f"OMP_NUM_THREADS={setting}"] if setting else []
    waits = [f"{name}={environ[name]}" for name in WAIT_SETTINGS if name in environ]
    found = f"{default_threads(cores, quota)} ({', '.join(reasons)}); {', '.join(waits) or 'idle threads spin'}"
    is_fine = not setting or (setting.isdecimal() and 1 <= int(setting) <= cores)
    return Check("threads", found, is_fine, f"set OMP_NUM_THREADS to 1 … {cores}, or unset it")


def all_checks() -> list[Check]:
    """Every check on this machine, in the order they are printed."""
    cores = usable_cores()
    models = Path(upturn.__file__).parent / "models"
    return [
        check_python(sys.version_info[:2]),
        check_torch(package_version("torch")),
        *(check_model(name, models / name.replace("-", "_")) for name in SHIPPED_MODELS),
        check_disk(shutil.disk_usage(Path.cwd()).free / 2**30),
        check_memory(memory_bytes() / 2**30),
        check_cores(cores),
        check_threads(os.environ, cores, cpu_quota()),
    ]


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Check this machine: one line each, with what to do. Exit code 1 when something is missing."""
    checks = all_checks()
    results = [Result(name=check.name, value=check.found, bar="fine", holds=check.is_fine) for check in checks]
    advice = {check.name: check.advice for check in checks if not check.is_fine}
    if as_json:
        emit("doctor", results, {"advice": advice}, as_json=True)
    else:
        for check in checks:
            typer.echo(f"{'ok' if check.is_fine else 'NO':3}{check.name:12}{check.found}")
            if not check.is_fine:
                typer.echo(f"   {'':12}→ {check.advice}")
    if advice:
        say(f"{len(advice)} of {len(checks)} checks need attention")
        raise typer.Exit(1)
