"""Who a process is among others, and what it does when they are not there."""

import socket
import time

import pytest

from upturn.errors import TrainingError
from upturn.training.distributed.process_group import (
    Limits,
    World,
    agreed,
    connected,
    everyone,
    refuse_different,
    shared,
    side_by_side,
    world_from_environment,
)

MEETING = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


def test_a_process_that_no_launcher_started_is_alone() -> None:
    assert world_from_environment({}) is None
    assert world_from_environment({"WORLD_SIZE": "1", "RANK": "0"}) is None


@pytest.mark.parametrize(
    "names",
    [
        ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ],
)
def test_launchers_say_who_a_process_is(names: tuple[str, str, str]) -> None:
    found = dict(zip(names, ("3", "4", "1"), strict=True))
    world = world_from_environment({**found, **MEETING, "ACCELERATE_USE_CPU": "true"})
    assert world == World(rank=3, size=4, local_rank=1, device="cpu")
    assert not world.is_first


@pytest.mark.parametrize(
    ("environment", "word"),
    [
        ({"WORLD_SIZE": "2", **MEETING}, "RANK is None"),
        ({"WORLD_SIZE": "2", "RANK": "2", **MEETING}, "RANK is 2"),
        ({"WORLD_SIZE": "two", **MEETING}, "WORLD_SIZE must be a whole number, got 'two'"),
        ({"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "here"}, "MASTER_PORT is not set"),
        ({"ACCELERATE_USE_CPU": "True", **MEETING}, "started one"),
    ],
)
def test_variables_that_contradict_each_other_are_refused(environment: dict[str, str], word: str) -> None:
    with pytest.raises(TrainingError, match=word):
        world_from_environment(environment)


def test_a_cluster_that_is_not_there_is_named_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = str(closed.getsockname()[1])  # bound, but nobody listens
        for name, value in {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}.items():
            monkeypatch.setenv(name, value)
        started = time.monotonic()
        with (
            pytest.raises(TrainingError, match=f"process 1 of 2 could not meet the others at 127.0.0.1:{port}"),
            connected(World(1, 2, 1, "cpu"), Limits(meeting_seconds=0.5)),
        ):
            pass
    assert time.monotonic() - started < 20


def test_the_first_of_two_does_not_wait_forever_for_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    for name, value in {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}.items():
        monkeypatch.setenv(name, value)
    started = time.monotonic()
    with (
        pytest.raises(TrainingError, match="process 0 of 2 could not meet"),
        connected(World(0, 2, 0, "cpu"), Limits(meeting_seconds=0.5)),
    ):
        pass
    assert time.monotonic() - started < 20


def test_alone_everything_is_as_without_others() -> None:
    calls: list[str] = []
    assert agreed(None, lambda: 3) == 3
    assert everyone(None, "a") == ["a"]
    assert shared(lambda x: x + 1, None, lambda: calls.append("before"))(1) == 2
    assert side_by_side(lambda x: [x], None, lambda: calls.append("before"))(1) == [1]
    assert calls == ["before", "before"]
    refuse_different(None, {"seed": "1"})
    with connected(None) as world:
        assert world is None
