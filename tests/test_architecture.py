"""Import rules: layers and wings; importing a module has no side effects and loads no heavy package."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "upturn"

HEAVY = ("torch", "transformers", "matplotlib", "scipy.stats", "sklearn", "gymnasium", "openenv", "verifiers")

HEAVY_FOLDERS = (
    "models/engine",
    "models/nano",
    "training",
    "environments/adapters/",
)
"""The only folders whose modules may import heavy packages at their top."""
DATA = "environments/repair/packages/"
"""The sources of repair tasks."""

WATCHER = """
import importlib, sys

active = []

def watch(event, arguments):
    if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        active.append(f"{event} {arguments[0]!r} for writing")
    elif event.startswith(("socket.", "subprocess.", "os.mkdir", "os.remove", "os.rename", "os.system")):
        active.append(f"{event} {arguments!r}")

modules = sys.argv[1].split(",")
for package in sys.argv[2].split(","):
    importlib.import_module(package)  # side effects of third-party imports do not count
sys.addaudithook(watch)
for module in modules:
    importlib.import_module(module)
assert not active, f"importing Upturn had side effects: {active}"
heavy = sorted(set(sys.argv[3].split(",")) & set(sys.modules))
assert not heavy, f"importing Upturn imported {heavy}"
"""


def light_modules() -> list[str]:
    """Returns the modules that must be cheap to import."""
    paths = (path.relative_to(SOURCE).with_suffix("").as_posix() for path in sorted(SOURCE.rglob("*.py")))
    return [
        f"upturn.{path}".replace("/", ".").removesuffix(".__init__")
        for path in paths
        if not path.startswith((*HEAVY_FOLDERS, DATA)) and "migrations" not in path
    ]


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-B", *arguments], capture_output=True, text=True, check=False)


def test_importing_does_nothing_and_loads_nothing_heavy() -> None:
    modules = light_modules()
    assert len(modules) > 40
    third_party = "pydantic,sqlalchemy,alembic,rich.console,typer,numpy,scipy.special,jinja2,httpx2"
    result = run_python("-c", WATCHER, ",".join(modules), third_party, ",".join(HEAVY))
    assert result.returncode == 0, result.stderr[-2000:]


@pytest.mark.parametrize("module", ["upturn", "upturn.records", "upturn.errors"])
def test_records_and_errors_import_no_database_or_arrays(module: str) -> None:
    program = f"import {module}, sys; assert not {{'sqlalchemy', 'numpy', 'typer'}} & set(sys.modules)"
    result = run_python("-c", program)
    assert result.returncode == 0, result.stderr


def test_layers_and_wings_hold() -> None:
    program = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    result = run_python("-c", program)
    assert result.returncode == 0, result.stdout[-3000:]
    assert "4 kept, 0 broken" in result.stdout


FROM_IMPORT = re.compile(r"^\s*from (upturn(?:\.\w+)+) import", re.MULTILINE)


def imports_past_a_face(path: Path, module: str) -> Iterator[str]:
    """Yields the imports of another room's modules that bypass its face.

    A room is a folder; its face is its ``__init__``. A module imports modules of its own room, and of the rooms
    around it, directly; everything else comes from faces.
    """
    for name in FROM_IMPORT.findall(path.read_text(encoding="utf-8")):
        target = SOURCE.parent.joinpath(*name.split("."))
        room = name.rpartition(".")[0]
        if not target.is_dir() and room != "upturn" and not f"{module}.".startswith(f"{room}."):
            yield f"{module} imports from {name}, not from {room}"


def test_rooms_import_only_from_the_faces_of_other_rooms() -> None:
    violations = list[str]()
    for path in sorted(SOURCE.rglob("*.py")):
        if path.name != "__init__.py" and "migrations" not in path.parts:
            module = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
            violations += imports_past_a_face(path, module)
    assert violations == []


def test_an_import_past_a_face_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("from upturn.pool.store import Pool\nfrom upturn.pool import Selection\n")
    assert list(imports_past_a_face(path, "upturn.loop.module")) == [
        "upturn.loop.module imports from upturn.pool.store, not from upturn.pool"
    ]
    assert list(imports_past_a_face(path, "upturn.pool.ingestion.formats.module")) == []
