"""``upturn doctor``: checks of this machine, with advice for those that fail."""

import json
import os
import shutil
import sqlite3
import sys
import tomllib
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import typer

import upturn
from upturn.cli.options import AsJson
from upturn.cli.output import emit, memory_bytes, package_version, print_message
from upturn.config import SHIPPED_MODELS
from upturn.errors import StoreError
from upturn.models import available_devices
from upturn.pool import PoolUrl, location_of
from upturn.pool.database import server_settings
from upturn.records import Result
from upturn.threads import WAIT_SETTINGS, cpu_quota, default_threads, usable_cores

MODEL_FILES = ("config.json", "model.safetensors", "tokenizer.json")
"""Files of a Hugging Face model folder that loading requires."""

MIN_DISK_GB = 2.0
"""A demo writes less than 0.2 GB, checkpoints of a long loop a few times as much."""

MIN_MEMORY_GB = 3.0
"""Bar of the demo's peak memory."""


_OLDEST_POSTGRES = 14
"""Older ones are no longer maintained."""


class Check(NamedTuple):
    """The outcome of one check."""

    name: str
    value: str
    is_ok: bool
    advice: str
    """How to fix a failed check."""


def check_python(version: tuple[int, int]) -> Check:
    """Whether Upturn is tested with this version of Python."""
    is_ok = (3, 11) <= version < (3, 14)
    value = f"{version[0]}.{version[1]}"
    return Check("python", value, is_ok, "install Python 3.11, 3.12 or 3.13 and run make again with PYTHON=…")


def check_torch(version: str) -> Check:
    """Whether torch is installed. ``version``: empty = it is not."""
    return Check("torch", version or "missing", bool(version), "run make demo, which installs it into .venv")


def check_model(name: str, folder: Path) -> Check:
    """Whether a shipped model's files are in ``folder`` and match its card."""
    problems = [problem for file in MODEL_FILES if (problem := _file_problem(folder, file))]
    value = f"{', '.join(problems)} in {folder}" if problems else str(folder)
    return Check(f"model {name}", value, not problems, f"restore it, or rebuild it: upturn model build-nano {name}")


def _file_problem(folder: Path, name: str) -> str:
    """The problem of a model's file; empty = none that can be detected without loading it."""
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
        state = "damaged" if (folder / "card.json").exists() else "missing"
        return f"{name}: cannot be compared, card.json is {state}"
    return "" if sha256(content).hexdigest() == expected else f"{name}: damaged"


_HASHES = {"model.safetensors": "weights_sha256", "tokenizer.json": "tokenizer_sha256"}
"""Names of the files' hashes in the card."""


def check_disk(free_gb: float) -> Check:
    """Whether the current folder's disk has enough space for runs."""
    advice = f"free at least {MIN_DISK_GB:g} GB, or set run.directory in upturn.toml to another disk"
    return Check("disk", f"{free_gb:.1f} GB free", free_gb >= MIN_DISK_GB, advice)


def check_memory(total_gb: float) -> Check:
    """Whether the machine has enough memory for a demo."""
    advice = f"the demo takes up to {MIN_MEMORY_GB:g} GB; close other programs or use upturn demo --size tiny"
    return Check("memory", f"{total_gb:.1f} GB", total_gb >= MIN_MEMORY_GB, advice)


def check_device(devices: Sequence[str]) -> Check:
    """The devices that ``run.device`` may name; with 'auto' a run uses the first."""
    return Check("device", f"{devices[0]} (run.device: auto, {', '.join(devices)})", True, "")


def find_devices() -> Check | None:
    """``check_device`` of this machine; None = torch is not installed. Fails if torch cannot be imported."""
    if not package_version("torch"):
        return None
    try:
        return check_device(available_devices())
    except (ImportError, OSError) as exc:  # OSError: a shared library of torch is missing
        return Check(
            "device", f"torch cannot be imported: {exc}", False, "install the build of torch for this machine"
        )


def check_cores(cores: int) -> Check:
    """The number of cores; one is enough, but documented times are measured on two."""
    return Check("cores", str(cores) if cores > 1 else "1 (documented times are for 2)", True, "")


def check_threads(environ: Mapping[str, str], cores: int, quota: float | None) -> Check:
    """The number of threads of a run without ``run.threads``, its reasons, and how idle threads wait.

    Fails if OMP_NUM_THREADS, which limits libraries outside runs, is not a number of cores. ``quota``: of the
    container in cores; None = no quota.
    """
    setting = environ.get("OMP_NUM_THREADS", "")
    reasons = [f"usable cores {cores}"]
    reasons += [] if quota is None else [f"CPU quota {quota:g}"]
    reasons += [f"OMP_NUM_THREADS={setting}"] if setting else []
    waits = [f"{name}={environ[name]}" for name in WAIT_SETTINGS if name in environ]
    value = f"{default_threads(cores, quota)} ({', '.join(reasons)}); {', '.join(waits) or 'idle threads spin'}"
    is_ok = not setting or (setting.isdecimal() and 1 <= int(setting) <= cores)
    return Check("threads", value, is_ok, f"set OMP_NUM_THREADS to 1 … {cores}, or unset it")


def check_sqlite(version: tuple[int, ...]) -> Check:
    """The version of SQLite, and whether it has a known bug that can damage a pool.

    The bug (https://sqlite.org/wal.html#walresetbug) needs two connections that write at the same moment. A pool in
    a file has one writing process, and operators' short acts beside it; so it is no failure of the check.
    """
    value = ".".join(map(str, version))
    is_fixed = version >= (3, 51, 3) or (3, 50, 7) <= version < (3, 51) or (3, 44, 6) <= version < (3, 45)
    if not is_fixed:
        value += (
            " (has the WAL-reset bug, which very rarely damages a file that two processes write; fixed in 3.51.3)"
        )
    return Check("sqlite", value, True, "")


def check_postgres(location: PoolUrl, settings: Mapping[str, str] | StoreError) -> Check:
    """Whether the configured server can be used, and keeps what it has acknowledged."""
    if isinstance(settings, StoreError):
        return Check("postgresql", str(settings), False, "start it, or correct pool.path in upturn.toml")
    version = settings["server_version"]
    value = f"{version} at {location}"
    if int(version.partition(".")[0]) < _OLDEST_POSTGRES:
        return Check("postgresql", value, False, f"a pool needs PostgreSQL {_OLDEST_POSTGRES} or later")
    off = [name for name in ("fsync", "full_page_writes") if settings[name] != "on"]
    if off:
        advice = "set it to on in postgresql.conf: a power cut would lose acknowledged records"
        return Check("postgresql", f"{value}: {' and '.join(off)} off", False, advice)
    return Check("postgresql", value, True, "")


def find_postgres(folder: Path) -> Check | None:
    """``check_postgres`` of the server in the folder's configuration; None = it names none."""
    try:
        path = tomllib.loads((folder / "upturn.toml").read_text(encoding="utf-8"))["pool"]["path"]
        location = location_of(path)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StoreError):
        return None  # the commands that read it report it
    if not isinstance(location, PoolUrl):
        return None
    try:
        return check_postgres(location, server_settings(location))
    except StoreError as exc:
        return check_postgres(location, exc)


def all_checks() -> list[Check]:
    """All checks of this machine, in printed order."""
    cores = usable_cores()
    models, device = Path(upturn.__file__).parent / "models", find_devices()
    return [
        check_python(sys.version_info[:2]),
        check_torch(package_version("torch")),
        *(check_model(name, models / name.replace("-", "_")) for name in SHIPPED_MODELS),
        check_disk(shutil.disk_usage(Path.cwd()).free / 2**30),
        check_memory(memory_bytes() / 2**30),
        check_cores(cores),
        *([] if device is None else [device]),
        check_threads(os.environ, cores, cpu_quota()),
        check_sqlite(sqlite3.sqlite_version_info),
        *([] if (postgres := find_postgres(Path.cwd())) is None else [postgres]),
    ]


def doctor(as_json: AsJson = False) -> None:
    """Check this machine's setup, with advice for each failed check. Exits with 1 if a check fails."""
    checks = all_checks()
    results = [Result(name=check.name, value=check.value, bar="fine", holds=check.is_ok) for check in checks]
    advice = {check.name: check.advice for check in checks if not check.is_ok}
    if as_json:
        emit("doctor", results, {"advice": advice}, as_json=True)
    else:
        for check in checks:
            typer.echo(f"{'ok' if check.is_ok else 'NO':3}{check.name:12}{check.value}")
            if not check.is_ok:
                typer.echo(f"   {'':12}→ {check.advice}")
    if advice:
        print_message(f"{len(advice)} of {len(checks)} checks failed")
        raise typer.Exit(1)
