"""``python -m benchmarks memory``: peak memory of a GRPO step with the copies that a run holds."""

from benchmarks.commands.options import AsJson, Quick, emit_and_exit


def bench_memory(quick: Quick = False, as_json: AsJson = False) -> None:
    """Count the tensors of a GRPO step on the CPU: float32 and all weights, an adapter on bfloat16, and on 4 bits.

    It takes two minutes. The 4-bit row needs bitsandbytes.
    """
    from benchmarks.grpo_memory import Size, measure_memory

    size = Size(128, 2, 500, 2, 32, 16) if quick else Size()
    results = measure_memory(size, has_bars=not quick)
    emit_and_exit("memory", results, size._asdict(), as_json=as_json)
