"""Errands, the benchmarks' own world: a small office with mail, calendar and sheets of one person.

Tasks come from seeds, the verifier is pure, and a small model (``MODEL``) already does a part of them. Many figures
in the documentation were measured here, so the world stays as it is; users work in the office of the package.
Start with ``kit``; ``pretraining`` makes the model.
"""

from pathlib import Path

from benchmarks.errands.baseline import oracle
from benchmarks.errands.environment import OPERATIONS, ErrandsEnvironment, apply
from benchmarks.errands.family import CLOSERS, FINISH, OPENERS, call
from benchmarks.errands.kit import ErrandsKit
from benchmarks.errands.level2 import FUNCTIONS
from benchmarks.errands.level3 import PRICES, PROPOSALS
from benchmarks.errands.operation import OperationError
from benchmarks.errands.tasks import FAMILIES, LEARNED, compose, family_named, make_task, task_stream
from benchmarks.errands.verifier import ErrandsVerifier
from benchmarks.errands.workspace import DAYS, Workspace
from benchmarks.errands.world import FILING_FOLDERS, ITEMS, NAMES, PHRASES, SHEETS, TITLES, TOPICS, World

ENVIRONMENT = "benchmarks.errands:ErrandsKit"
"""Errands as a configuration names it: by its import path."""
MODEL = str(Path(__file__).parent / "nano_errands")
"""The folder of the model ``nano-errands``: config, weights (bfloat16), tokenizer, card."""

__all__ = [
    "CLOSERS",
    "DAYS",
    "ENVIRONMENT",
    "FAMILIES",
    "FILING_FOLDERS",
    "FINISH",
    "FUNCTIONS",
    "ITEMS",
    "LEARNED",
    "MODEL",
    "NAMES",
    "OPENERS",
    "OPERATIONS",
    "PHRASES",
    "PRICES",
    "PROPOSALS",
    "SHEETS",
    "TITLES",
    "TOPICS",
    "ErrandsEnvironment",
    "ErrandsKit",
    "ErrandsVerifier",
    "OperationError",
    "Workspace",
    "World",
    "apply",
    "call",
    "compose",
    "family_named",
    "make_task",
    "oracle",
    "task_stream",
]
