"""What is measured: models with random weights, recorded rollouts, conversations, and what they cost to compute.

Not here: the two sides of a comparison (``sides``). Start with ``subject``, then ``workload``.
"""

from benchmarks.workloads.conversations import Conversations, read_conversations
from benchmarks.workloads.flops import count_tree, update_flops
from benchmarks.workloads.model import Subject, build_model
from benchmarks.workloads.workload import (
    Attempt,
    Workload,
    WorkloadSettings,
    load_workload,
    make_workload,
    save_workload,
    training_rows,
)

__all__ = [
    "Attempt",
    "Conversations",
    "Subject",
    "Workload",
    "WorkloadSettings",
    "build_model",
    "count_tree",
    "load_workload",
    "make_workload",
    "read_conversations",
    "save_workload",
    "training_rows",
    "update_flops",
]
