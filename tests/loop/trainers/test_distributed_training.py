"""Several processes that train one model, seen from one: arguments, connections, and refusals in time.

Several processes are started in ``tests/cli/test_train_distributed.py``.
"""

import os
import pickle
import socket
import sys
from pathlib import Path
from subprocess import PIPE, Popen
from types import ModuleType
from typing import Any, cast

import pytest

from benchmarks.errands import MODEL
from upturn.errors import ConfigError, TrainingError
from upturn.loop.rollouts.policy_worker import PolicyWorker
from upturn.loop.trainers import distributed_training
from upturn.loop.trainers.distributed_training import (
    SHARDED_CRITIC,
    Rank0,
    follow_rank0,
    lead_ranks,
    rank0_collect,
    rank0_function,
    train_on_all_ranks,
)
from upturn.loop.trainers.registry import algorithm, parse_full_config
from upturn.training.distributed.process_group import Limits, World
from upturn.training.distributed.rank0 import Rank0Calls
from upturn.training.outcome import TrainingOutcome
from upturn.training.runs import RunOptions

OUTCOME = TrainingOutcome("finished", 2, 2, "final", 2, "ab", None, None)


class _Worker:
    model = "the model"


class _StatefulCollect:
    """Counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, iteration: int, /) -> list[Any]:
        self.calls += 1
        return []

    def state(self) -> dict[str, Any]:
        return {"calls": self.calls}

    def load_state(self, state: dict[str, Any]) -> None:
        self.calls = state["calls"]

    def metrics(self) -> dict[str, float]:
        return {"calls": float(self.calls)}

    def identity(self) -> dict[str, object]:
        return {"name": "counting"}


def test_a_single_process_runs_with_the_arguments_and_the_model_themselves() -> None:
    seen: list[Any] = []

    def run(model: object, rows: list[int], collect: object, *, critic: object) -> TrainingOutcome:
        seen.append((model, rows, collect, critic))
        return OUTCOME

    rows, collect = [1, 2], _StatefulCollect()
    worker = cast(PolicyWorker, _Worker())
    with lead_ranks(None):
        outcome = train_on_all_ranks(None, worker, run, rows, rank0_collect(collect), critic=SHARDED_CRITIC)
    assert outcome is OUTCOME
    ((model, given_rows, given_collect, critic),) = seen
    assert model is _Worker.model
    assert given_rows is rows
    assert given_collect is collect
    assert critic is None


def _connect(argument: Rank0) -> Any:
    """The argument on another rank, through pickle, with calls that reach rank 0's functions."""
    proxy = pickle.loads(pickle.dumps(argument.proxy))
    calls = Rank0Calls(None, argument.functions, lambda: None)
    return proxy.connect(calls, cast(Any, None), World(1, 2, 1, "cpu"))


def test_a_function_of_rank_0_is_called_by_name() -> None:
    assert _connect(rank0_function("add", lambda x, y: x + y))(2, y=3) == 5


def test_a_stateful_collect_keeps_its_state_on_rank_0() -> None:
    collect = _StatefulCollect()
    remote = _connect(rank0_collect(cast(Any, collect)))
    assert remote(0) == []
    assert remote.state() == {"calls": 1}
    remote.load_state({"calls": 5})
    assert (collect.calls, remote.metrics(), remote.identity()) == (5, {"calls": 5.0}, {"name": "counting"})


def test_a_plain_collect_has_no_state_on_other_ranks() -> None:
    remote = _connect(rank0_collect(lambda iteration: [cast(Any, iteration)]))
    assert remote(3) == [3]
    assert not hasattr(remote, "state")


def test_run_options_are_sent_with_held_out_data_and_without_callbacks(tmp_path: Path) -> None:
    functions: dict[str, Any] = {}
    data = RunOptions(3, tmp_path, evaluate=[1, 2], progress=lambda _: None)
    assert distributed_training._to_send(data, functions) == RunOptions(3, tmp_path, evaluate=[1, 2])
    assert not functions
    sent = distributed_training._to_send(RunOptions(3, tmp_path, evaluate=lambda _: 0.5), functions)
    assert functions["evaluate"](0) == 0.5
    assert pickle.loads(pickle.dumps(sent)) == sent


@pytest.fixture
def rendezvous(monkeypatch: pytest.MonkeyPatch) -> None:
    """The address where processes connect, as launchers set it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(port))


def test_a_process_without_its_others_reports_it_in_time(rendezvous: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for limits in ("RANK0_LIMITS", "OTHER_LIMITS"):
        monkeypatch.setattr(distributed_training, limits, Limits(meeting_seconds=1.0))
    for rank in (0, 1):
        world = World(rank, 2, rank, "cpu")
        with pytest.raises(TrainingError, match=rf"process {rank} of 2 could not reach the others .* within 1 s"):
            if rank:
                follow_rank0(world)
            else:
                with lead_ranks(world):
                    pytest.fail("they cannot have connected")


HANGING = """
import sys, time
from upturn.loop.trainers import distributed_training as training
from upturn.training.distributed.process_group import Limits, World, all_gather
from upturn.errors import TrainingError

rank = int(sys.argv[1])
world = World(rank, 2, rank, "cpu")
training.RANK0_LIMITS = Limits(silence_seconds=1.0)
training.RANK0_ERROR_GRACE_SECONDS = 0.0
training._run = lambda *_: (time.sleep(4.0), all_gather(world, 0))  # rank 1 hangs, but not for ever
if rank:
    print(training.follow_rank0(world))
else:
    try:
        with training.lead_ranks(world):
            time.sleep(2.0)  # longer than rank 0's own limit: other ranks wait longer
            training.broadcast_first(world, lambda: training._Job(None, "", None, (), {}, 1, "cpu"))
            started = time.monotonic()
            all_gather(world, 0)
    except TrainingError as exc:
        print(time.monotonic() - started < 3.0, exc)
"""


@pytest.mark.slow
def test_rank_0_notices_a_hanging_rank_and_other_ranks_wait_for_rank_0(rendezvous: None) -> None:
    processes = [Popen([sys.executable, "-c", HANGING, str(rank)], stdout=PIPE, text=True) for rank in (0, 1)]
    first, other = (process.communicate(timeout=240)[0] for process in processes)
    assert first.startswith("True process 0 lost another one, which ended or did not answer for 1 s")
    assert other == "False\n"


def test_sampling_ahead_is_refused_by_name() -> None:
    ahead = parse_full_config(
        {
            "agents": [{"name": "nano", "kind": "local_model", "model": MODEL}],
            "grpo": {"staleness": 1},
        }
    )
    with pytest.raises(ConfigError, match=r"grpo\.staleness = 1 samples while one process trains"):
        algorithm("grpo").check_ranks(ahead)
    algorithm("ppo").check_ranks(ahead)


def test_cores_are_shared_among_processes_where_no_threads_are_configured(desk: ModuleType, tmp_path: Path) -> None:
    import torch

    from upturn.loop.progress import NoProgress
    from upturn.loop.run.context import open_run

    cores = len(os.sched_getaffinity(0))
    for world, threads in (
        (None, cores),
        (World(0, 2, 0, "cpu"), max(1, cores // 2)),
        (World(0, 999, 0, "cpu"), 1),
    ):
        config = parse_full_config({"agents": [{"name": "nano", "kind": "local_model", "model": MODEL}]})
        name = f"{threads}-{world is None}"
        with open_run(config, tmp_path / name, "toy", NoProgress(), world=world) as context:
            assert torch.get_num_threads() == threads
            assert context.world == world
