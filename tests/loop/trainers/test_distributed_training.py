"""What one process does by itself of training in several: nothing other than before, and refusals in time.

Several are started in ``tests/cli/test_train_distributed.py``.
"""

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE, Popen
from types import ModuleType
from typing import Any, cast

import pytest

from benchmarks.errands import MODEL
from upturn.errors import ConfigError, TrainingError
from upturn.loop.rollouts.policy_worker import PolicyWorker
from upturn.loop.trainers import distributed_training as peer
from upturn.loop.trainers.distributed_training import follow_rank0, jointly, lead_ranks, refuse_together
from upturn.loop.trainers.registry import parse_full_config
from upturn.training.algorithms.online_dpo import OnlineDpoSettings
from upturn.training.algorithms.ppo import CriticSettings, PpoSettings
from upturn.training.distributed.process_group import Limits, World
from upturn.training.outcome import TrainingOutcome
from upturn.training.pair_settings import PairSettings

OUTCOME = TrainingOutcome("finished", 2, 2, "final", 2, "ab", None, None)


class _Trainee:
    model = "the model itself"


def test_one_process_runs_what_it_is_given_with_the_model_itself() -> None:
    seen: list[Any] = []

    def run(model: object, rows: list[int], *, seed: int) -> TrainingOutcome:
        seen.append((model, rows, seed))
        return OUTCOME

    rows = [1, 2]
    worker = cast(PolicyWorker, _Trainee())
    with lead_ranks(None):
        assert jointly(None, worker, run, rows, seed=3) is OUTCOME
    ((model, given, seed),) = seen
    assert model is _Trainee.model
    assert given is rows
    assert seed == 3


@pytest.fixture
def meeting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A place where processes can meet, as launchers name it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(port))


def test_a_process_whose_others_do_not_come_says_so_in_time(meeting: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for limits in ("FIRST_LIMITS", "PEER_LIMITS"):
        monkeypatch.setattr(peer, limits, Limits(meeting_seconds=1.0))
    for rank in (0, 1):
        world = World(rank, 2, rank, "cpu")
        with pytest.raises(TrainingError, match=rf"process {rank} of 2 could not reach the others .* within 1 s"):
            if rank:
                follow_rank0(world)
            else:
                with lead_ranks(world):
                    pytest.fail("they cannot have met")


HANGING = """
import sys, time
from upturn.loop.trainers import distributed_training as peer
from upturn.training.distributed.process_group import Limits, World, all_gather
from upturn.errors import TrainingError

rank = int(sys.argv[1])
world = World(rank, 2, rank, "cpu")
peer.FIRST_LIMITS = Limits(silence_seconds=1.0)
peer.RANK0_ERROR_GRACE_SECONDS = 0.0
peer._done = lambda *_: (time.sleep(4.0), all_gather(world, 0))  # a peer that hangs, but not for ever
if rank:
    print(peer.attend(world))
else:
    try:
        with peer.leading(world):
            time.sleep(2.0)  # longer than its own patience: peers have more
            peer.broadcast_first(world, lambda: peer._Work(None, "", None, (), {}, 1))
            started = time.monotonic()
            all_gather(world, 0)
    except TrainingError as exc:
        print(time.monotonic() - started < 3.0, exc)
"""


@pytest.mark.slow
def test_a_peer_that_hangs_is_missed_by_the_first_process_and_a_first_one_that_takes_long_is_not(
    meeting: None,
) -> None:
    told = [Popen([sys.executable, "-c", HANGING, str(rank)], stdout=PIPE, text=True) for rank in (0, 1)]
    first, other = (each.communicate(timeout=240)[0] for each in told)
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
        refuse_together(ahead, "grpo")
    refuse_together(ahead, "ppo")


def test_a_value_model_is_made_where_one_is_trained() -> None:
    """All processes make it before the model is cut into shards."""
    from upturn.training.algorithms.online_dpo.run import run_online_dpo
    from upturn.training.algorithms.ppo.run import run_ppo

    def trains(run: Callable[..., TrainingOutcome], settings: object) -> bool:
        return peer._trains_critic(peer._Work(run, "nano", None, (None, settings), {}, 1))

    mixed = PairSettings(by="turn", monte_carlo_share=0.5)
    assert trains(run_ppo, PpoSettings())
    assert trains(run_online_dpo, OnlineDpoSettings(pairs=mixed, critic=CriticSettings()))
    assert not trains(run_online_dpo, OnlineDpoSettings())


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
