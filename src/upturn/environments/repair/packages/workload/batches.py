"""Parts of lists."""


def chunks(items, size):
    """The items in lists of ``size``; the last one may be shorter."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def by_weight(jobs, most):
    """Names of jobs in batches whose seconds are at most ``most``, in order.

    A job that is longer than that has a batch of its own.
    """
    batches = []
    batch = []
    weight = 0
    for name, seconds in jobs:
        if batch and weight + seconds > most:
            batches.append(batch)
            batch = []
            weight = 0
        batch.append(name)
        weight += seconds
    if batch:
        batches.append(batch)
    return batches


def interleave(first, second):
    """The items in turn, beginning with the first list; what is left of the longer one comes at the end."""
    mixed = []
    for number in range(max(len(first), len(second))):
        if number < len(first):
            mixed.append(first[number])
        if number < len(second):
            mixed.append(second[number])
    return mixed
