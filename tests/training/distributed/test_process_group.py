"""Ranks, the rendezvous and collective calls of processes."""

import socket
import time

import pytest

from upturn.errors import TrainingError
from upturn.training.distributed.process_group import (
    Limits,
    World,
    all_gather,
    broadcast_first,
    connect,
    refuse_different,
    world_from_environment,
)
from upturn.training.distributed.rank0 import Rank0Calls

RENDEZVOUS = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


def test_a_process_without_launcher_is_single() -> None:
    assert world_from_environment({}) is None
    assert world_from_environment({"WORLD_SIZE": "1", "RANK": "0"}) is None


@pytest.mark.parametrize(
    "names",
    [
        ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ],
)
def test_launchers_set_rank_and_size(names: tuple[str, str, str]) -> None:
    variables = dict(zip(names, ("3", "4", "1"), strict=True))
    world = world_from_environment({**variables, **RENDEZVOUS, "ACCELERATE_USE_CPU": "true"})
    assert world == World(rank=3, size=4, local_rank=1, device="cpu")
    assert not world.is_first


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"WORLD_SIZE": "2", **RENDEZVOUS}, "RANK is None"),
        ({"WORLD_SIZE": "2", "RANK": "2", **RENDEZVOUS}, "RANK is 2"),
        ({"WORLD_SIZE": "two", **RENDEZVOUS}, "WORLD_SIZE must be a whole number, got 'two'"),
        ({"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "here"}, "MASTER_PORT is not set"),
        ({"ACCELERATE_USE_CPU": "True", **RENDEZVOUS}, "started one"),
    ],
)
def test_contradictory_variables_are_refused(environment: dict[str, str], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        world_from_environment(environment)


def test_an_unreachable_cluster_is_an_error_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = str(closed.getsockname()[1])  # bound, but not listening
        for name, value in {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}.items():
            monkeypatch.setenv(name, value)
        started = time.monotonic()
        with (
            pytest.raises(TrainingError, match=f"process 1 of 2 could not reach the others at 127.0.0.1:{port}"),
            connect(World(1, 2, 1, "cpu"), Limits(meeting_seconds=0.5)),
        ):
            pass
    assert time.monotonic() - started < 20


def test_the_rendezvous_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    for name, value in {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}.items():
        monkeypatch.setenv(name, value)
    started = time.monotonic()
    with (
        pytest.raises(TrainingError, match="process 0 of 2 could not reach"),
        connect(World(0, 2, 0, "cpu"), Limits(meeting_seconds=0.5)),
    ):
        pass
    assert time.monotonic() - started < 20


def test_single_process_collectives_are_identities() -> None:
    calls: list[str] = []
    assert broadcast_first(None, lambda: 3) == 3
    assert all_gather(None, "a") == ["a"]
    calls_rank0 = Rank0Calls(None, {"add": lambda x, y: x + y}, lambda: calls.append("before"))
    assert calls_rank0("add", 1, y=1) == calls_rank0.function("add")(1, 1) == 2
    assert calls == ["before"] * 2
    refuse_different(None, {"seed": "1"})
    with connect(None) as world:
        assert world is None
