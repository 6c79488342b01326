"""Freezes the suites of ``upturn.environments.office.suites`` in its package data, or reports changed tasks.

``freeze_suites.py`` draws all suites again and writes them. A suite with a changed task gets the next version; with
``--keep-version`` it keeps its version, for suites without published results. ``freeze_suites.py --check`` writes
nothing and fails when a frozen task has changed, naming it.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from upturn.environments.office import RECIPES, Suite, freeze, suite_named, tasks_of, write_suite
from upturn.errors import WorldError

FOLDER = Path(__file__).resolve().parent.parent / "src" / "upturn" / "environments" / "office" / "frozen"


def draw_suite(name: str, *, keeps_version: bool) -> Suite:
    """The newly drawn suite, with the next version where a task changed."""
    if not (FOLDER / f"{name}.json").exists():
        return freeze(name, 1)
    frozen = suite_named(name)
    drawn = freeze(name, frozen.version)
    return drawn if keeps_version or drawn == frozen else drawn._replace(version=frozen.version + 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """1 = a frozen task has changed. ``arguments``: None = those of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a task has changed")
    parser.add_argument("--keep-version", action="store_true", help="keep the version: it has no published results")
    options = parser.parse_args(arguments)
    has_changed = False
    for name in RECIPES:
        if options.check:
            try:
                print(f"{suite_named(name).id}: {len(tasks_of(suite_named(name)))} tasks as frozen")
            except WorldError as exc:
                print(exc)
                has_changed = True
            continue
        suite = draw_suite(name, keeps_version=options.keep_version)
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"{name}.json").write_text(write_suite(suite), encoding="utf-8")
        print(f"{suite.id}: {len(suite.entries)} tasks of {len(RECIPES[name].families)} families")
    return int(has_changed)


if __name__ == "__main__":
    sys.exit(main())
