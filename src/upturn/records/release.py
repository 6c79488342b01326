"""Releases with their canaries' evidence, snapshots of the pool, and runs."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from upturn.records.record import record

CanaryVerdict = Literal["promote", "hold", "rollback"]
ReleaseState = Literal["canary", "promoted", "rolled_back", "watch"]
RunState = Literal["running", "done"]


@record
class ReleaseEvidence:
    """The canary's evidence after one block; all counts are totals since its first block."""

    block: int
    stage: int
    """Index into the release's stages."""
    candidate_tasks: int
    candidate_successes: int
    control_tasks: int
    control_successes: int
    missing: int
    """Tasks of either arm whose evaluation is missing; not counted above."""
    log_e_better: float
    log_e_worse: float
    log_e_mismatch: float
    """Sample-ratio mismatch between the arms and the stage's weight."""
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
    """The release of one candidate: its canary, its state and the evidence."""

    id: str
    agent: str
    incumbent: str
    candidate: str
    stages: tuple[float, ...]
    """Shares of the agent's traffic that the candidate serves, in order."""
    state: ReleaseState
    stage: int
    evidence: tuple[ReleaseEvidence, ...] = ()
    validation: str = ""
    """Outcome of validation before the canary, as a sentence."""
    is_validation_skipped: bool = False
    """True: an operator overrode validation; ``reason`` says who and why."""
    reason: str = ""
    """What operators did and why, in order; the canary's own reasons are in the evidence."""
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
    """A frozen, content-addressed selection of the pool that a training run consumed."""

    id: str
    """Hash over the sorted trajectory ids and the criteria."""
    trajectory_ids: tuple[str, ...]
    criteria: str
    tenants: tuple[str, ...]


@record
class Run:
    """One piece of long work: a demo, a loop cycle, a training run."""

    id: str
    command: str
    config_hash: str
    seed: int
    version: str
    """Of Upturn."""
    state: RunState = "running"
