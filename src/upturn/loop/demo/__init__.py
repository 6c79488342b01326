"""The demo: the whole loop with three agents, then a damaged version that the canary must roll back.

Here: its plans, its steps, its results with their bars, and the content of its report. Start with ``demo``.
"""

from upturn.loop.demo.demo import Facts, run_demo
from upturn.loop.demo.plan import PLANS, DemoPlan, Size, demo_config
from upturn.loop.demo.report import demo_content, run_facts
from upturn.loop.demo.results import Resources, demo_details, demo_results

__all__ = [
    "PLANS",
    "DemoPlan",
    "Facts",
    "Resources",
    "Size",
    "demo_config",
    "demo_content",
    "demo_details",
    "demo_results",
    "run_demo",
    "run_facts",
]
