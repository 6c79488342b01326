"""What may import what: layers, wings, and nothing heavy or active when a module is imported."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "upturn"

HEAVY = ("torch", "transformers", "matplotlib", "sklearn", "gymnasium", "openenv", "verifiers")

HEAVY_FOLDERS = (
    "models/engine",
    "models/nano",
    "training",
    "environments/adapters/",
)
"""The only places whose modules may import heavy packages at their top; adapters are for users who have what they
adapt to."""

WATCHER = """
import importlib, sys

active = []

def watch(event, arguments):
    if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        active.append(f"{event} {arguments[0]!r} for writing")
    elif event.startswith(("socket.", "subprocess.", "os.mkdir", "os.remove", "os.rename", "os.system")):
        active.append(f"{event} {arguments!r}")

modules = sys.argv[1].split(",")
for each in sys.argv[2].split(","):
    importlib.import_module(each)  # what other people's packages do when imported is not ours to watch
sys.addaudithook(watch)
for module in modules:
    importlib.import_module(module)
assert not active, f"importing Upturn did something: {active}"
heavy = sorted(set(sys.argv[3].split(",")) & set(sys.modules))
assert not heavy, f"importing Upturn imported {heavy}"
"""


def light_modules() -> list[str]:
    """Every module that must be cheap to import."""
    found = list[str]()
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).with_suffix("").as_posix()
        if place.startswith(HEAVY_FOLDERS) or "migrations" in place:
            continue
        found.append(f"upturn.{place}".replace("/", ".").removesuffix(".__init__"))
    return found


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-B", *arguments], capture_output=True, text=True, check=False)


def test_importing_does_nothing_and_loads_nothing_heavy() -> None:
    modules = light_modules()
    assert len(modules) > 40
    foreign = "pydantic,sqlalchemy,alembic,rich.console,typer,numpy,scipy.stats,jinja2,httpx2"
    done = python("-c", WATCHER, ",".join(modules), foreign, ",".join(HEAVY))
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("module", ["upturn", "upturn.records", "upturn.errors"])
def test_the_words_import_no_database_or_arrays(module: str) -> None:
    program = f"import {module}, sys; assert not {{'sqlalchemy', 'numpy', 'typer'}} & set(sys.modules)"
    done = python("-c", program)
    assert done.returncode == 0, done.stderr


def test_layers_and_wings_hold() -> None:
    done = python(
        "-c", "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "4 kept, 0 broken" in done.stdout


FROM_IMPORT = re.compile(r"^\s*from (upturn(?:\.\w+)+) import", re.MULTILINE)


def imports_past_a_face(path: Path, module: str) -> Iterator[str]:
    """Imports of another room's modules that bypass its face.

    A room is a folder; its face is its ``__init__``. A module imports modules of its own room, and of the rooms
    around it, directly; everything else comes from faces.
    """
    for name in FROM_IMPORT.findall(path.read_text(encoding="utf-8")):
        target = SOURCE.parent.joinpath(*name.split("."))
        room = name.rpartition(".")[0]
        if not target.is_dir() and room != "upturn" and not f"{module}.".startswith(f"{room}."):
            yield f"{module} imports from {name}, not from {room}"


def test_rooms_import_from_each_other_s_faces_only() -> None:
    found = list[str]()
    for path in sorted(SOURCE.rglob("*.py")):
        if path.name != "__init__.py" and "migrations" not in path.parts:
            module = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
            found += imports_past_a_face(path, module)
    assert found == []


def test_an_import_past_a_face_is_found(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("from upturn.pool.store import Pool\nfrom upturn.pool import Selection\n")
    assert list(imports_past_a_face(path, "upturn.loop.module")) == [
        "upturn.loop.module imports from upturn.pool.store, not from upturn.pool"
    ]
    assert list(imports_past_a_face(path, "upturn.pool.formats.module")) == []
