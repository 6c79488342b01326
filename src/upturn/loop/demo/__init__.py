"""The demo: the whole loop with three agents, then a degraded model that the canary must roll back.

Here: its plan, its steps, its results with their bars, and the content of its report. Start with ``demo``.
"""

from upturn.loop.demo.demo import Facts, run_demo
from upturn.loop.demo.plan import DemoPlan, demo_config, plan_named
from upturn.loop.demo.report import demo_content, run_facts
from upturn.loop.demo.results import Resources, demo_details, demo_results

__all__ = [
    "DemoPlan",
    "Facts",
    "Resources",
    "demo_config",
    "demo_content",
    "demo_details",
    "demo_results",
    "plan_named",
    "run_demo",
    "run_facts",
]
