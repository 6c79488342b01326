"""Errands, the world of the benchmarks: a small office with the mail, calendar and sheets of one person.

Tasks come from seeds, the verifier is pure, and a small model (``MODEL``) already solves a part of them. Many
figures in the documentation were measured here, so the world never changes; users work in the office of the
package. Start with ``kit``; ``pretraining`` builds the model.
"""

from pathlib import Path

from benchmarks.errands.baseline import oracle
from benchmarks.errands.environment import OPERATIONS, ErrandsEnvironment
from benchmarks.errands.kit import ErrandsKit
from benchmarks.errands.tasks import FAMILIES, LEARNED, compose, make_task, task_stream
from benchmarks.errands.verifier import ErrandsVerifier

ENVIRONMENT = "benchmarks.errands:ErrandsKit"
"""The import path of errands for a configuration."""
MODEL = str(Path(__file__).parent / "nano_errands")
"""The folder of the model ``nano-errands``: config, weights (bfloat16), tokenizer, card."""

__all__ = [
    "ENVIRONMENT",
    "FAMILIES",
    "LEARNED",
    "MODEL",
    "OPERATIONS",
    "ErrandsEnvironment",
    "ErrandsKit",
    "ErrandsVerifier",
    "compose",
    "make_task",
    "oracle",
    "task_stream",
]
