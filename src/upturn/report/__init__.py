"""The report of a run: what improved, by how much, and on what evidence.

Here: the content of a report as records, its numbers, sentences, pictures and HTML page, and in ``training`` the
page of one training run. Not here: collecting the content from a run (``loop.demo``). Start with ``content``, then
``page``.
"""

from upturn.report.content import (
    Canary,
    Change,
    ChangeKind,
    CoverageRow,
    CurvePoint,
    Estimate,
    FloorRow,
    Guardrail,
    GuardrailRow,
    Headline,
    LearningCurve,
    LineageStep,
    Measurement,
    NextCommand,
    ReadinessRow,
    ReportContent,
    Routing,
    RoutingEvent,
    RoutingPoint,
    RunFacts,
    Share,
    StateChange,
    Success,
    TaskStory,
    Transcript,
    TranscriptTurn,
)
from upturn.report.number import duration, percent_estimate
from upturn.report.page import read_content, render, write_content, write_report
from upturn.report.picture import save_png
from upturn.report.sentence import difference
from upturn.report.transcript import state_changes, transcript

__all__ = [
    "Canary",
    "Change",
    "ChangeKind",
    "CoverageRow",
    "CurvePoint",
    "Estimate",
    "FloorRow",
    "Guardrail",
    "GuardrailRow",
    "Headline",
    "LearningCurve",
    "LineageStep",
    "Measurement",
    "NextCommand",
    "ReadinessRow",
    "ReportContent",
    "Routing",
    "RoutingEvent",
    "RoutingPoint",
    "RunFacts",
    "Share",
    "StateChange",
    "Success",
    "TaskStory",
    "Transcript",
    "TranscriptTurn",
    "difference",
    "duration",
    "percent_estimate",
    "read_content",
    "render",
    "save_png",
    "state_changes",
    "transcript",
    "write_content",
    "write_report",
]
