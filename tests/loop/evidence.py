"""What a run left, read so that runs can be compared; not a test module."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from upturn.errors import StoreError
from upturn.pool import Pool
from upturn.records import Release, Usage


def contents(run_dir: Path) -> dict[str, list[Any]]:
    """All evidence in the order of arrival; measured seconds are the one thing that may differ between runs."""
    with Pool.open(run_dir / "pool.db", read_only=True) as pool:
        experiences = [
            (each.task, replace(each.trajectory, usage=Usage()), each.evaluation)
            for each in pool.experiences(tenant="default")
        ]
        history = [state for each in pool.states(Release) for state in pool.states(Release, each.id)]
        return {
            "decisions": list(pool.decisions(tenant="default")),
            "experiences": experiences,
            "releases": history,
            "versions": pool.agent_versions(),
        }


def step_results(run_dir: Path) -> dict[str, Any]:
    """What the journal recorded, by step; a last line that is being written is left out."""
    lines = (run_dir / "journal.jsonl").read_text().split("\n")[:-1]
    events = [json.loads(line) for line in lines]
    return {event["step"]: event["result"] for event in events if event["event"] == "finished"}


def acknowledged(run_dir: Path) -> dict[str, Any]:
    """Everything durable by kind and id, measured seconds included; empty before there is a pool.

    May be called while the run is at work.
    """
    found: dict[str, Any] = {}
    try:
        with Pool.open(run_dir / "pool.db", read_only=True) as pool:
            found |= {f"task {task.id}": task for task in pool.tasks(tenant="default")}
            found |= {f"decision {decision.id}": decision for decision in pool.decisions(tenant="default")}
            for each in pool.experiences(tenant="default"):
                found[f"trajectory {each.trajectory.id}"] = each.trajectory
                if each.evaluation is not None:
                    found[f"evaluation {each.evaluation.id}"] = each.evaluation
            found |= {f"version {version.id}": version for version in pool.agent_versions()}
    except StoreError:  # killed before the pool was made
        return {}
    return found


def lost(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Names of what stood in ``before`` and is gone or changed in ``after``."""
    return [name for name, record in before.items() if name not in after or after[name] != record]
