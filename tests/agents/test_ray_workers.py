"""Which GPUs the workers of a cluster get. With Ray, GPUs are logical: none is needed to place workers on them."""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from upturn.agents.cluster import WorkItem
from upturn.agents.ray_workers import RaySettings, RayWorkerPool, check_gpus
from upturn.errors import ClusterError, ConfigError

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="the extra ray is not installed")


def _nodes(*gpus: float | None, dead: int = 0) -> list[dict[str, Any]]:
    """Machines with these GPUs (None = the resource is not listed), the last ``dead`` of them gone."""
    return [
        {
            "NodeManagerAddress": f"10.0.0.{index}",
            "Alive": index < len(gpus) - dead,
            "Resources": {"CPU": 8.0} | ({} if count is None else {"GPU": count}),
        }
        for index, count in enumerate(gpus)
    ]


@pytest.mark.parametrize(
    ("workers", "each", "nodes", "room"),
    [
        (2, 0.0, _nodes(None), None),
        (2, 1.0, _nodes(2.0), None),
        (2, 1.0, _nodes(1.0, 1.0), None),
        (4, 0.5, _nodes(2.0), None),
        (10, 0.1, _nodes(1.0), None),  # ten times .1 is 1, although 1 // .1 is 9
        (2, 2.0, _nodes(3.0, 1.0), 1),  # a worker's GPUs are on one machine
        (3, 0.4, _nodes(1.0), 2),
        (1, 1.0, _nodes(None), 0),
        (2, 1.0, _nodes(1.0, 1.0, dead=1), 1),
    ],
)
def test_workers_fit_where_machines_have_their_gpus(
    workers: int, each: float, nodes: list[dict[str, Any]], room: int | None
) -> None:
    settings = RaySettings(workers, gpus_per_worker=each)
    if room is None:
        check_gpus(settings, nodes)
        return
    with pytest.raises(
        ClusterError, match=rf"GPUs for {room} of {workers} workers with gpus_per_worker = {each:g}"
    ):
        check_gpus(settings, nodes)


def test_the_error_names_what_the_machines_have() -> None:
    with pytest.raises(ClusterError, match=r"10\.0\.0\.0 has 1, 10\.0\.0\.1 has 0\. Set a part of a GPU, or 0"):
        check_gpus(RaySettings(2, gpus_per_worker=1.0), _nodes(1.0, None))


@pytest.mark.parametrize("gpus", [0.0, 0.25, 1.0, 2.0])
def test_parts_of_a_gpu_and_whole_numbers_are_allowed(gpus: float) -> None:
    assert RaySettings(gpus_per_worker=gpus).gpus_per_worker == gpus


def test_other_numbers_of_gpus_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"gpus_per_worker must be a whole number above 1, got 1\.5"):
        RaySettings(gpus_per_worker=1.5)
    with pytest.raises(ConfigError, match=r"gpus_per_worker must be 0 or more, got -1"):
        RaySettings(gpus_per_worker=-1.0)


class _Looking:
    """A runtime that writes down which GPUs its process sees, instead of loading weights."""

    def load_weights(self, folder: str, version: str) -> str:
        ray: Any = __import__("ray")
        seen = os.environ.get("CUDA_VISIBLE_DEVICES", "unset")
        Path(folder, str(os.getpid())).write_text(f"{seen} {ray.get_gpu_ids()}")
        return version

    def prepare(self, items: object) -> None: ...

    def setting(self, item: WorkItem) -> Any: ...

    def environment(self, task: object) -> Any: ...


@dataclass(frozen=True)
class _LookingFactory:
    def __call__(self) -> Any:
        return _Looking()


@pytest.fixture
def two_gpus() -> Iterator[None]:
    """A cluster of this process with two GPUs, which nobody has to own."""
    ray: Any = __import__("ray")
    __import__("ray.cloudpickle", fromlist=["x"]).register_pickle_by_value(sys.modules[__name__])
    ray.init(address="local", num_cpus=4, num_gpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.slow
@needs_ray
@pytest.mark.filterwarnings("ignore")  # Ray leaves files and sockets of its own to the garbage collector
def test_ray_gives_each_worker_its_gpus_and_hides_the_others(two_gpus: None, tmp_path: Path) -> None:
    expected = {
        (2, 1.0): [["0"], ["1"]],
        (1, 2.0): [["0", "1"]],
        (2, 0.5): [["0"], ["0"]],  # Ray fills one GPU before it takes the next
        (2, 0.0): [[], []],
    }
    for (workers, each), gpus in expected.items():
        folder = tmp_path / f"{workers}-{each}"
        folder.mkdir()
        with RayWorkerPool(_LookingFactory(), RaySettings(workers, gpus_per_worker=each)) as pool:
            pool.load_weights(str(folder), "w")
        seen = sorted(path.read_text().partition(" ")[0] for path in folder.iterdir())
        assert [sorted(filter(None, devices.split(","))) for devices in seen] == gpus, (workers, each)
    with pytest.raises(ClusterError, match=r"GPUs for 2 of 3 workers with gpus_per_worker = 1: .* has 2\. Set"):
        RayWorkerPool(_LookingFactory(), RaySettings(3, gpus_per_worker=1.0))


@pytest.mark.slow
@needs_ray
@pytest.mark.filterwarnings("ignore")  # as above
@pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="this machine has a GPU")
def test_a_machine_without_gpus_is_refused_at_once() -> None:
    with pytest.raises(ClusterError, match=r"GPUs for 0 of 1 workers with gpus_per_worker = 0\.5: .* has 0\. Set"):
        RayWorkerPool(_LookingFactory(), RaySettings(1, gpus_per_worker=0.5))
