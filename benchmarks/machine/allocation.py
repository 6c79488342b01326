"""Peak memory of tensors on the CPU, counted allocation by allocation with torch's profiler."""

from collections.abc import Callable

from torch.autograd.profiler import profile


def peak_allocation(run: Callable[[], object]) -> int:
    """The largest number of bytes of tensors that ``run`` held at once; its result counts until the end.

    Tensors that existed before do not count, nor what libraries allocate without torch.
    """
    with profile(profile_memory=True) as recorded:
        result = run()
    assert recorded.kineto_results is not None
    events = [event for event in recorded.kineto_results.events() if event.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    del result
    return peak
