"""Detectors of reward hacking: what a change does to pass its tests without doing its work.

Start with ``detection``, which has all detectors by name; ``change`` is what they see. ``test_files``, ``runner``,
``control_flow``, ``operators``, ``literals``, ``outside`` and ``scaffolding`` have the rules; ``examples`` reads
inputs and expected outputs of tests, ``names`` follows imports and aliases, ``constants`` knows what never varies.
Files are read, never run. Not here: the reward or gate that follows from a finding, and languages other than
Python.
"""

from upturn.rewards.hacking.change import Change
from upturn.rewards.hacking.detection import DETECTORS, detectors_of, find_hacks
from upturn.rewards.hacking.finding import Detector, Finding, Spot

__all__ = ["DETECTORS", "Change", "Detector", "Finding", "Spot", "detectors_of", "find_hacks"]
