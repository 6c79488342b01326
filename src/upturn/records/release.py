"""Releases with the evidence of their canaries, snapshots of the pool, and runs."""

from typing import Literal

from upturn.records.record import record

CanaryVerdict = Literal["promote", "hold", "rollback"]
ReleaseState = Literal["canary", "promoted", "rolled_back", "watch"]
RunState = Literal["running", "done"]


@record
class ReleaseEvidence:
    """The canary's evidence after one block; all counts are totals since the first block."""

    block: int
    stage: int
    """Index into the release's stages."""
    candidate_tasks: int
    candidate_successes: int
    control_tasks: int
    control_successes: int
    missing: int
    """Tasks of either arm without an evaluation; in no other count."""
    log_e_better: float
    log_e_worse: float
    log_e_mismatch: float
    """Evidence that the split of tasks differs from the stage's share (sample-ratio mismatch)."""
    verdict: CanaryVerdict
    reason: str
    candidate_violations: int = 0
    """Candidate tasks with any safety cost."""
    control_violations: int = 0
    log_e_unsafe: float = 0.0


@record
class Release:
    """The release of one candidate version: its state and its canary's evidence."""

    id: str
    agent: str
    incumbent: str
    candidate: str
    stages: tuple[float, ...]
    """The candidate's share of the agent's traffic in each stage."""
    state: ReleaseState
    stage: int
    evidence: tuple[ReleaseEvidence, ...] = ()
    validation: str = ""
    """Result of the validation before the canary, as a sentence."""
    is_validation_skipped: bool = False
    """True = an operator skipped validation; ``reason`` records who and why."""
    reason: str = ""
    """Actions of operators with their reasons, in order; the canary's reasons are in the evidence."""
    is_held: bool = False
    """True = an operator holds the canary at its stage; it still collects evidence and may roll back."""


@record
class Snapshot:
    """A frozen, content-addressed selection of the pool."""

    id: str
    """Hash of the criteria, the tenants, and the sorted ids of trajectories and their evaluations."""
    trajectory_ids: tuple[str, ...]
    criteria: str
    tenants: tuple[str, ...]


@record
class Run:
    """One long-running command: a demo, the loop, a training run."""

    id: str
    command: str
    config_hash: str
    seed: int
    version: str
    """Upturn's version."""
    state: RunState = "running"
