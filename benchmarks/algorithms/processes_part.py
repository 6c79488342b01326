"""One model in shards over two processes of this machine, against one process that holds it whole."""

from benchmarks.algorithms.sharding import ShardedWork, measure_sharding
from benchmarks.comparison import Bar, result
from benchmarks.workloads import Subject
from upturn.records import JsonValue, Result

QUICK = ShardedWork(Subject(width=64, layers=2, vocabulary=256), rollouts=2, tokens=8)


def measure_processes(work: ShardedWork, *, has_bars: bool = True) -> tuple[list[Result], dict[str, JsonValue]]:
    """Largest difference of a step's loss, and the share of one process's memory that each of two holds at most.

    Raises MeasurementError when a process fails.
    """
    found = measure_sharding(work)
    loss_bar, memory_bar = (Bar(1e-5, is_upper=True), Bar(0.65, is_upper=True)) if has_bars else (None, None)
    seconds = max(each.seconds for each in found.several)
    results = [
        result("processes_loss_gap", found.loss_gap, "nats", loss_bar),
        result("processes_memory_share", found.memory_share, "of one process", memory_bar),
        result("processes_seconds_share", seconds / found.one.seconds, "of one process"),
        Result("processes_sharded", "yes" if all(each.sharded for each in found.several) else "no"),
    ]
    details: dict[str, JsonValue] = {
        "width": work.subject.width,
        "layers": work.subject.layers,
        "peak_gb_one": round(found.one.peak_bytes / 2**30, 3),
        "peak_gb_each": [round(each.peak_bytes / 2**30, 3) for each in found.several],
        "seconds_one": round(found.one.seconds, 2),
        "seconds_each": [round(each.seconds, 2) for each in found.several],
    }
    return results, details
