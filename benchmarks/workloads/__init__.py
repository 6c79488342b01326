"""Inputs of measurements: models with random weights, recorded rollouts, conversations, and their operation counts.

Not here: the implementations that are compared on them (``implementations``). Start with ``model``, then
``workload``.
"""

from benchmarks.workloads.conversations import Conversations, parse_conversations
from benchmarks.workloads.flops import TreeCount, count_tree, update_flops
from benchmarks.workloads.model import ModelSpec, build_model
from benchmarks.workloads.workload import Rollout, Workload, WorkloadSettings, make_workload, training_rows

__all__ = [
    "Conversations",
    "ModelSpec",
    "Rollout",
    "TreeCount",
    "Workload",
    "WorkloadSettings",
    "build_model",
    "count_tree",
    "make_workload",
    "parse_conversations",
    "training_rows",
    "update_flops",
]
