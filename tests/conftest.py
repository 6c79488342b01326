"""Shared by all tests: profiles of property tests, devices, the path of child processes, and an engine server."""

import asyncio
import gc
import importlib
import inspect
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from upturn.threads import wait_passively

if TYPE_CHECKING:
    from tests.postgres_server import PostgresServer
    from upturn.pool import Location

# Before torch is imported, here and in child processes: `make test` has one process for each of two cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
wait_passively(os.environ)

# Compiled modules are kept, also where the environment says otherwise, as in many containers: the tests start
# hundreds of processes, each of which would compile up to 800 modules, and pytest would compile all tests twice.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    """Makes the profiles of property tests, before hypothesis looks for the one of the command line."""
    from hypothesis import HealthCheck, settings

    easy = settings(deadline=None, suppress_health_check=list(HealthCheck))  # a slow machine is no failure
    settings.register_profile(
        "same", easy, derandomize=True, database=None
    )  # `make test`: always the same examples
    settings.register_profile("search", easy, max_examples=400)  # `make test-all`: other examples every time
    settings.load_profile("same")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keeps the garbage collector from what lives until the end: it took 40 % of the time of the collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Lets the second of two processes collect from the end, so that each of them compiles half of the tests."""
    report = yield
    if isinstance(collector, pytest.Directory) and os.environ.get("PYTEST_XDIST_WORKER", "gw0")[-1] in "13579":
        report.result = (report.result or [])[::-1]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives all processes the same order again."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: item.path)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips tests marked ``gpu`` where there is no CUDA device."""
    if item.get_closest_marker("gpu") is not None:
        torch = pytest.importorskip("torch")
        if not torch.cuda.is_available():
            pytest.skip("there is no CUDA device")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is a coroutine function in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    """Runs the test on the CPU, and on a GPU where there is one."""
    kind: str = request.param
    return kind


NO_POSTGRES = "PostgreSQL is not installed: the tests of pools on it are SKIPPED (apt install postgresql)"


@pytest.fixture(scope="session")
def postgres_server() -> "Iterator[PostgresServer]":
    """A PostgreSQL server, which the first test that needs it starts."""
    from tests.postgres_server import running_server

    with running_server() as server:
        if server is None:
            pytest.skip(NO_POSTGRES)
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> "Location":
    """Runs the test with a pool in a file, and with one on PostgreSQL: the place of a pool without records."""
    if request.param == "sqlite":
        return tmp_path / "pool.db"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.clean_pool()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says loudly that half of the pool's tests did not run."""
    skipped = terminalreporter.stats.get("skipped", [])
    if any(NO_POSTGRES in str(report.longrepr) for report in skipped):
        terminalreporter.write_line(f"WARNING: {NO_POSTGRES}", red=True, bold=True)


@pytest.fixture(scope="session", autouse=True)
def benchmarks_in_child_processes() -> Iterator[None]:
    """Makes ``benchmarks``, which is not installed, importable in child processes from any folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent.parent), prepend=os.pathsep)
        yield


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves the curves out of the pages of training runs: drawing them takes longer than training a toy."""

    def picture(_: object, name: str) -> str:
        return f'<svg><title id="{name}">undrawn</title></svg>'

    monkeypatch.setattr("upturn.report.training.page.draw", lambda *_, **__: None)
    monkeypatch.setattr("upturn.report.training.page.canvas", SimpleNamespace(style=nullcontext, svg=picture))


@pytest.fixture
def engine_server(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """``models/engine_server.py``: any model behind the API of vLLM or SGLang."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "models"))
    return importlib.import_module("engine_server")
