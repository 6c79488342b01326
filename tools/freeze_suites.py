"""Freezes the suites of ``upturn.environments.office.suites`` in its package data, or says what has drifted.

``freeze_suites.py`` draws all suites anew and writes them; a suite in which a task changed gets the next version,
unless ``--keep-version`` says that nobody has results on the old one yet. ``freeze_suites.py --check`` writes
nothing and fails when a frozen task has drifted, naming it.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from upturn.environments.office import RECIPES, Suite, freeze, suite_named, tasks_of, write_suite
from upturn.errors import WorldError

FOLDER = Path(__file__).resolve().parent.parent / "src" / "upturn" / "environments" / "office" / "frozen"


def refrozen(name: str, *, keeps_version: bool) -> Suite:
    """The suite as it is drawn now, under the version that it has to have."""
    if not (FOLDER / f"{name}.json").exists():
        return freeze(name, 1)
    known = suite_named(name)
    drawn = freeze(name, known.version)
    return drawn if keeps_version or drawn == known else drawn._replace(version=known.version + 1)


def main(words: Sequence[str] | None = None) -> int:
    """0 when all is written, or nothing has drifted. ``words``: None = those of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a task has drifted")
    parser.add_argument("--keep-version", action="store_true", help="nobody has results on the frozen version")
    asked = parser.parse_args(words)
    drifted = False
    for name in RECIPES:
        if asked.check:
            try:
                print(f"{suite_named(name).id}: {len(tasks_of(suite_named(name)))} tasks as frozen")
            except WorldError as exc:
                print(exc)
                drifted = True
            continue
        suite = refrozen(name, keeps_version=asked.keep_version)
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"{name}.json").write_text(write_suite(suite), encoding="utf-8")
        print(f"{suite.id}: {len(suite.entries)} tasks of {len(RECIPES[name].families)} families")
    return int(drifted)


if __name__ == "__main__":
    sys.exit(main())
