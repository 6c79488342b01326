"""``upturn model memory``."""

import json
from pathlib import Path

from typer.testing import CliRunner

from upturn.cli.app import app
from upturn.models import SHIPPED


def test_memory_is_estimated_from_a_configuration_alone(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text((SHIPPED["nano"] / "config.json").read_text())
    result = CliRunner().invoke(app, ["model", "memory", str(tmp_path), "--tokens", "64", "--json"])
    assert result.exit_code == 0, result.stderr
    figures = {entry["name"]: entry["value"] for entry in json.loads(result.stdout)["results"]}
    assert 1e6 < figures["parameters"] < 3e6
    assert 0 < figures["memory lora nf4"] < figures["memory lora float32"] < figures["memory float32"]
    assert len(figures) == 13


def test_memory_of_a_folder_without_a_configuration_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["model", "memory", str(tmp_path)])
    assert result.exit_code != 0
    assert "config.json" in result.stderr
