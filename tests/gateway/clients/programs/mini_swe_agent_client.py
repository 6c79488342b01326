"""mini-swe-agent: its default agent with its shipped configuration, in the current folder."""

import json
import sys
from typing import Any

import yaml
from minisweagent.agents.default import DefaultAgent
from minisweagent.config import builtin_config_dir
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel

shipped = yaml.safe_load((builtin_config_dir / "mini.yaml").read_text())


def tried(name: str) -> Any:
    options = {key: shipped["agent"][key] for key in ("system_template", "instance_template")}
    model = LitellmModel(model_name=name, cost_tracking="ignore_errors", **shipped["model"])
    agent = DefaultAgent(model, LocalEnvironment(), **options)
    return [agent.run("Write two files."), agent.n_calls]


if __name__ == "__main__":
    kinds = ("openai", "anthropic")
    print(json.dumps({name: {kind: tried(f"{kind}/{name}") for kind in kinds} for name in sys.argv[1:]}))
