"""The examples for other frameworks on the page about environments."""

import importlib
import json
import re
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from upturn.environments.office import OfficeKit
from upturn.records import Task, from_fields

PAGE = (Path(__file__).parents[3] / "docs" / "environments.md").read_text(encoding="utf-8")


def snippets(heading: str) -> list[str]:
    """Returns the Python code of the paragraph with this heading in bold."""
    [part] = re.findall(rf"^\*\*{heading}\*\*(.*?)(?=^\*\*|\Z)", PAGE, flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"```python\n(.*?)```", part, flags=re.DOTALL)


def test_the_gymnasium_example_works(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gymnasium", reason="the extra gymnasium is not installed")
    [example] = snippets("Gymnasium")
    exec(example, {"__name__": "example"})
    assert re.fullmatch(r"(failure|success) \{'error': .*\}\n", capsys.readouterr().out)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # OpenEnv's and websockets' own
def test_the_openenv_example_works(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openenv.core", reason="the extra openenv is not installed")
    uvicorn = pytest.importorskip("uvicorn")
    serving, talking = snippets("OpenEnv")
    listening = socket.create_server(("127.0.0.1", 0))
    started: list[Any] = []

    def run(app: Any, port: int) -> None:
        """Runs the server on a free port, in a thread."""
        assert port == 8000
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        started[:] = server, thread

    monkeypatch.setattr(uvicorn, "run", run)
    exec(serving, {"__name__": "example"})
    exec(talking.replace("8000", str(listening.getsockname()[1])), {"__name__": "example"})
    assert capsys.readouterr().out.splitlines()[-1] == "True 0.0 failure"
    server, thread = started
    server.should_exit = True
    thread.join(10)
    listening.close()


@pytest.mark.filterwarnings("ignore")  # verifiers' own
def test_the_verifiers_example_is_discovered_by_verifiers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vf = pytest.importorskip("verifiers.v1", reason="the extra verifiers is not installed")
    [module] = snippets("Verifiers v1")
    (tmp_path / "office_tasks.py").write_text(module)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    importlib.invalidate_caches()
    [command] = re.findall(r"^vf-eval office_tasks (.*)", PAGE, flags=re.MULTILINE)
    options = dict(re.findall(r"--env\.taskset\.(\w+) (\w+)", command))
    assert options == {"level": "1", "split": "heldout"}
    env = vf.load_environment(vf.resolve_env_config({"taskset": {"id": "office_tasks", **options}}))
    [drawn] = [from_fields(Task, json.dumps(task.data.task)) for task in env.taskset.take(1)]
    assert (OfficeKit().families[drawn.family], drawn.split) == (1, "heldout")
    assert env.config.agent.harness.id == "null"
    monkeypatch.delitem(sys.modules, "office_tasks")
