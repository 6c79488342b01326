"""Loss and gradient of SFT, DPO and KTO on one batch, compared with TRL's."""

from benchmarks.comparison import Bar, result
from benchmarks.trl_baseline import TRL_VERSION, require_trl
from benchmarks.worker import Worker
from upturn.errors import MeasurementError
from upturn.records import JsonValue, Result

TRL_LOSSES = "benchmarks.implementations.trl_losses:serve_gaps"
MAX_GAP = 1e-5


def measure_losses(*, has_bars: bool = True) -> tuple[list[Result], dict[str, JsonValue]]:
    """Relative differences, computed in a process with TRL. Raises MeasurementError without TRL."""
    require_trl()
    bar = Bar(MAX_GAP, is_upper=True) if has_bars else None
    results = []
    with Worker(TRL_LOSSES, {"threads": 1}, threads=1) as worker:
        for name, gaps in worker.prepared.values.items():
            if not isinstance(gaps, dict):
                continue
            for kind, gap in gaps.items():
                if not isinstance(gap, float | int):
                    raise MeasurementError(f"the {kind} gap of {name} must be a number, got {gap!r}")
                results.append(result(f"losses_{name}_{kind}", float(gap), "relative", bar))
    return results, {"trl": TRL_VERSION}
