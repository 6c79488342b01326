"""Schemathesis against the gateway's OpenAPI document: every phase, every check."""

import shutil
from pathlib import Path

from tests.gateway.clients.environment import ROOT, needs_clients, run_client
from tests.gateway.running import running

CONFIG = """
loop = { train = [] }
environment = { name = "desk:kit" }
agents = [
  { name = "ann", kind = "callable", import_path = "desk:rule" },
  { name = "ben", kind = "callable", import_path = "desk:rule" },
]
"""


@needs_clients
def test_the_gateway_does_what_its_openapi_document_says(tmp_path: Path) -> None:
    shutil.copy(ROOT / "examples" / "own_agent" / "desk.py", tmp_path)
    settings = Path(__file__).with_name("schemathesis.toml")
    (tmp_path / "upturn.toml").write_text(CONFIG, encoding="utf-8")
    with running(tmp_path) as address:
        arguments = ["--checks", "all", "--seed", "1", "--no-color"]
        command: list[str | Path] = ["schemathesis", "--config-file", settings, "run"]
        command += [f"{address}/openapi.json", *arguments]
        output = run_client(command, tmp_path)
    assert "Tested: 20" in output, output
