"""Loss and gradient of SFT, DPO and KTO on one batch, as far as they are from TRL's."""

from benchmarks.comparison import Bar, result
from benchmarks.trl_baseline import TRL_VERSION, require_trl
from benchmarks.worker import Worker
from upturn.errors import MeasurementError
from upturn.records import JsonValue, Result

LOSSES_SIDE = "benchmarks.implementations.trl_losses:losses_side"
LIMIT = 1e-5


def measure_losses(*, has_bars: bool = True) -> tuple[list[Result], dict[str, JsonValue]]:
    """Relative differences, in a process with TRL. Raises MeasurementError without TRL, and when it fails."""
    require_trl()
    bar = Bar(LIMIT, is_upper=True) if has_bars else None
    results = []
    with Worker(LOSSES_SIDE, {"threads": 1}, threads=1) as side:
        for name, gap in side.prepared.values.items():
            if not isinstance(gap, dict):
                continue
            for what, value in gap.items():
                if not isinstance(value, float | int):
                    raise MeasurementError(f"the side gave {value!r} for the {what} of {name}, which is no number")
                results.append(result(f"losses_{name}_{what}", float(value), "relative", bar))
    return results, {"trl": TRL_VERSION}
