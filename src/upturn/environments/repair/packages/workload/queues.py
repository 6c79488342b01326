"""Orders in which jobs run."""

from workload.batches import chunks


def round_robin(jobs, slice_seconds):
    """The names in the order in which they end, where each job in turn gets a slice until it is done."""
    waiting = [[name, seconds] for name, seconds in jobs]
    ended = []
    while waiting:
        name, seconds = waiting.pop(0)
        if seconds <= slice_seconds:
            ended.append(name)
        else:
            waiting.append([name, seconds - slice_seconds])
    return ended


def shortest_first(jobs):
    """The names, shortest job first, equally long ones in their given order."""
    return [name for name, _ in sorted(jobs, key=lambda job: job[1])]


def waiting_time(jobs):
    """The sum of the seconds that the jobs wait when they run one after the other."""
    waited = 0
    clock = 0
    for _, seconds in jobs:
        waited += clock
        clock += seconds
    return waited


def on_workers(jobs, workers):
    """The busiest worker's seconds: each job goes to the worker with the least so far, the first of equal ones."""
    loads = [0] * workers
    for _, seconds in jobs:
        least = loads.index(min(loads))
        loads[least] += seconds
    return max(loads)


def rounds(jobs, workers):
    """The seconds that the jobs take if so many start together and the next ones wait until all of them have ended."""
    return sum(max(seconds for _, seconds in part) for part in chunks(jobs, workers))
