"""Releases with the evidence of their canaries, snapshots of the pool, and runs."""

from collections.abc import Mapping
from dataclasses import field
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
    """Candidate tasks with a safety cost."""
    control_violations: int = 0
    log_e_unsafe: float = 0.0
    log_e_safe: float = 0.0
    """That the candidate's violations exceed the control's by less than the margin."""
    log_e_losing: float = 0.0
    """That more of the candidate's outcomes are missing than of the control's."""
    log_e_harder: float = 0.0
    """That the candidate breaks hard constraints more often than the control; ``log_e_less_hard``: less often."""
    log_e_less_hard: float = 0.0
    candidate_missing: int = 0
    """The candidate's part of ``missing``."""
    candidate_episodes: int = 0
    control_episodes: int = 0
    candidate_hard_violations: int = 0
    """Candidate tasks that broke a hard constraint."""
    repeats: int = 0
    """Outcomes of episodes that had been counted already; they were dropped."""


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
    """True: an operator holds the canary at its stage; it gathers evidence and may still roll back."""
    attempt: int = 1
    """Number of this release among its agent's since the last promotion; later ones need more evidence."""
    rule_state: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """The canary rule's arrays by name, flattened; empty = before the first block."""
    counted: tuple[str, ...] = ()
    """Digests of the episodes in the evidence, in order; an episode counts once."""


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
