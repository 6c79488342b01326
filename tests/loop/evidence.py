"""The records of a run, for comparing runs; not a test module."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from upturn.errors import StoreError
from upturn.pool import Pool
from upturn.records import Release, Usage


def contents(run_dir: Path) -> dict[str, list[Any]]:
    """All records in order of arrival, without measured times, which differ between runs."""
    with Pool.open(run_dir / "pool.db", read_only=True) as pool:
        experiences = [
            (item.task, replace(item.trajectory, usage=Usage()), item.evaluation)
            for item in pool.experiences(tenant="default")
        ]
        history = [state for release in pool.states(Release) for state in pool.states(Release, release.id)]
        return {
            "decisions": list(pool.decisions(tenant="default")),
            "experiences": experiences,
            "releases": history,
            "versions": pool.agent_versions(),
        }


def step_results(run_dir: Path) -> dict[str, Any]:
    """Results in the journal by step, without an incomplete last line."""
    lines = (run_dir / "journal.jsonl").read_text().split("\n")[:-1]
    events = [json.loads(line) for line in lines]
    return {event["step"]: event["result"] for event in events if event["event"] == "finished"}


def acknowledged(run_dir: Path) -> dict[str, Any]:
    """All durable records by kind and id, with measured times; empty before there is a pool.

    May be called during the run.
    """
    records: dict[str, Any] = {}
    try:
        with Pool.open(run_dir / "pool.db", read_only=True) as pool:
            records |= {f"task {task.id}": task for task in pool.tasks(tenant="default")}
            records |= {f"decision {decision.id}": decision for decision in pool.decisions(tenant="default")}
            for item in pool.experiences(tenant="default"):
                records[f"trajectory {item.trajectory.id}"] = item.trajectory
                if item.evaluation is not None:
                    records[f"evaluation {item.evaluation.id}"] = item.evaluation
            records |= {f"version {version.id}": version for version in pool.agent_versions()}
    except StoreError:  # killed before the pool was created
        return {}
    return records


def lost(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Names of records in ``before`` that are missing or changed in ``after``."""
    return [name for name, record in before.items() if name not in after or after[name] != record]
