"""The difference of two versions of a file: its time, and whether it sees small changes as small."""

import ast
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

from benchmarks.judging.mutations import KINDS, mutant
from upturn.errors import MeasurementError
from upturn.records import Result
from upturn.rewards.difference import compare_file

LINES = 1_000
TIME_BAR_MS = 150
_LARGE = "argparse.py"
_SIZES = range(2_000, 60_000)
"""Bytes of the library's files that are changed."""


def library_files(step: int) -> list[Path]:
    """Every ``step``-th module of the standard library of ordinary size."""
    files = sorted(Path(ast.__file__).parent.glob("*.py"))
    return [file for file in files if file.stat().st_size in _SIZES][::step]


def measure_one_statement(files: Sequence[Path], per_kind: int, seed: int) -> tuple[list[Result], list[str]]:
    """How many changes of one statement are seen as one, and what was seen of the others."""
    chance = Random(seed)
    missed: list[str] = []
    results: list[Result] = []
    seen_of_all, count_of_all = 0, 0
    for kind in KINDS:
        count, seen = 0, 0
        for file in files:
            text = file.read_text(encoding="utf-8")
            for _ in range(per_kind):
                changed = mutant(text, kind, chance)
                if changed is None:
                    continue
                difference = compare_file(text, changed.text, file.name)
                count += 1
                if difference.method == "tree" and difference.statements == 1:
                    seen += 1
                else:
                    missed.append(f"{file.name}, {kind}: {difference.statements} statements {difference.reason}")
        if count:
            results.append(Result(f"one statement, {kind}", seen / count, "share", n=count))
        seen_of_all, count_of_all = seen_of_all + seen, count_of_all + count
    share = seen_of_all / count_of_all
    return [Result("one statement", share, "share", n=count_of_all, bar="= 1", holds=share == 1), *results], missed


def measure_formatting(files: Sequence[Path]) -> tuple[Result, list[str]]:
    """How many files that were only formatted anew, by ``ast.unparse`` or ``ruff format``, have no edits."""
    missed: list[str] = []
    count = 0
    for file in files:
        text = file.read_text(encoding="utf-8")
        for formatter, formatted in _formatted(text):
            count += 1
            difference = compare_file(text, formatted, file.name)
            if difference.method != "tree" or difference.edits:
                missed.append(f"{file.name}, {formatter}: {difference.edits} edits {difference.reason}")
    share = 1 - len(missed) / count
    return Result("formatting without edits", share, "share", n=count, bar="= 1", holds=share == 1), missed


def _formatted(text: str) -> Iterator[tuple[str, str]]:
    with suppress(ValueError):  # ast.unparse of Python 3.11 cannot write some nested f-strings
        yield "ast.unparse", ast.unparse(ast.parse(text))
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length", "60", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MeasurementError(f"ruff format failed: {done.stderr.strip()[-300:]}; install it: pip install ruff")
    yield "ruff format", done.stdout


def measure_time(repetitions: int, seed: int, changes: Sequence[int] = (1, 30)) -> list[Result]:
    """Milliseconds of processor time of a pair of files of 1,000 lines, by the number of changed statements.

    Raises MeasurementError where a change is not seen.
    """
    text = _first_lines((Path(ast.__file__).parent / _LARGE).read_text(encoding="utf-8"))
    results: list[Result] = []
    for count in changes:
        changed = _changed(text, count, Random(seed))
        difference = compare_file(text, changed, _LARGE)
        if difference.method != "tree" or not difference.edits:
            raise MeasurementError(f"the changes of {_LARGE} are not seen: {difference}")
        times = []
        for _ in range(repetitions):
            start = time.process_time()
            compare_file(text, changed, _LARGE)
            times.append((time.process_time() - start) * 1_000)
        median = statistics.median(times)
        results.append(
            Result(
                f"pair of {LINES:,} lines, {count} changed",
                median,
                "ms of processor time",
                low=min(times),
                high=max(times),
                n=repetitions,
                bar=f"<= {TIME_BAR_MS}",
                holds=median <= TIME_BAR_MS,
            )
        )
    return results


def _changed(text: str, count: int, chance: Random) -> str:
    while count:
        made = mutant(text, chance.choice(KINDS), chance)
        if made is not None:
            text, count = made.text, count - 1
    return text


def _first_lines(text: str) -> str:
    """Its whole statements in as many lines."""
    body = [statement for statement in ast.parse(text).body if (statement.end_lineno or 0) <= LINES]
    return "".join(text.splitlines(keepends=True)[: body[-1].end_lineno])
