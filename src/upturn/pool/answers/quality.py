"""The quality of a tenant's evidence by gates (``validate_quality``)."""

from upturn.pool.answers.answer import Answer
from upturn.pool.privacy import redact
from upturn.pool.quality import GateReport, ValidationReport
from upturn.records import JsonValue, Result


def quality_answer(report: ValidationReport, *, tenant: str) -> Answer:
    """Returns the figures of a report; the reasons of failures are anonymised."""
    points, clean = report.points, report.clean
    results = [
        Result("points", float(points)),
        Result("clean_points", float(clean)),
        *([Result("clean_share", clean / points, n=points)] if points else []),
    ]
    gates: dict[str, JsonValue] = {gate.gate.label: _described(gate) for gate in report.gates}
    return Answer(results, {"tenant": tenant, "gates": gates})


def _described(report: GateReport) -> JsonValue:
    return {
        "is_required": report.gate.is_required,
        "points": report.points,
        "failed": report.failed,
        "share": report.share,
        "unchecked": dict(report.unchecked),
        "examples": [{"id": failure.record_id, "problem": redact(failure.problem)} for failure in report.examples],
    }
