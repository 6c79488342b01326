"""Two processes that hold one model in shards against one process that holds all of it.

One program does all of it (``toy_sharded.py``), started once for each part: starting takes longer than training.
"""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch

from upturn.training.runs import read_curve
from upturn.training.runs.metric import UNREPEATED
from upturn.training.runs.run_folder import CURVE_FILE, read_description, read_outcome

PROGRAM = Path(__file__).parent / "toy_sharded.py"
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port")
EXACT = (
    "sft",
    "untied",
    "padded",
    "one-micro-batch",
    "clipped",
    "evaluated",
    "checkpointed",
    "lora",
    "grpo",
    "grpo-lora",
    "grpo-kept-close",
    "dpo",
    "ppo",
    "online-dpo",
)
ROUGH = ("bfloat16", "lora-bfloat16-checkpointed")
"""Each process rounds its part of a gradient to bfloat16 before they are added."""

pytestmark = pytest.mark.slow


def _port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def _start(command: tuple[str, ...], folder: Path, part: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*command, str(PROGRAM), str(folder), part],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=dict(os.environ, OMP_NUM_THREADS="1"),
    )


def _two(folder: Path, part: str) -> "subprocess.CompletedProcess[str]":
    return _start((*TORCHRUN, _port()), folder, part)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("one")
    done = _start((sys.executable,), folder, "equal")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    done = _two(folder, "equal")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """What each process was told when something was wrong."""
    folder = tmp_path_factory.mktemp("refused")
    done = _two(folder, "refused")
    assert done.returncode == 0, done.stderr
    return [json.loads((folder / f"told-{rank}.json").read_text()) for rank in range(2)]


def _losses(folder: Path) -> list[float]:
    return [point.metrics["loss"] for point in read_curve(folder / CURVE_FILE) if point.steps]  # type: ignore[misc]


def _gap(one: Path, two: Path, name: str) -> float:
    weights = [safetensors.torch.load_file(folder / f"{name}.safetensors") for folder in (one, two)]
    assert weights[0].keys() == weights[1].keys()
    return max(float((weights[1][key] - weights[0][key]).abs().max()) for key in weights[0])


@pytest.mark.parametrize("name", EXACT)
def test_losses_and_weights_equal_a_single_process(one: Path, two: Path, name: str) -> None:
    assert _gap(one, two, name) < 1e-5
    np.testing.assert_allclose(_losses(two / name), _losses(one / name), rtol=0, atol=1e-5)
    curves = [read_curve(folder / name / CURVE_FILE) for folder in (one, two)]
    for lone, both in zip(*curves, strict=True):
        assert (lone.units, lone.steps) == (both.units, both.steps)
        assert lone.metrics.keys() - UNREPEATED == both.metrics.keys() - UNREPEATED
        for metric in lone.metrics.keys() - UNREPEATED - {"physical_tokens", "share_ratio"}:
            assert both.metrics[metric] == pytest.approx(lone.metrics[metric], rel=1e-4, abs=1e-5), metric
    outcomes = [read_outcome(folder / name) for folder in (one, two)]
    assert outcomes[0] is not None
    assert outcomes[1] is not None
    assert outcomes[0].kept_units == outcomes[1].kept_units
    assert outcomes[0].best_score == pytest.approx(outcomes[1].best_score, abs=1e-5)


@pytest.mark.parametrize("name", ROUGH)
def test_bfloat16_differs_by_its_rounding_only(one: Path, two: Path, name: str) -> None:
    assert _gap(one, two, name) < 4e-3  # four steps of a learning rate of 1e-3
    np.testing.assert_allclose(_losses(two / name), _losses(one / name), rtol=2e-2)


@pytest.mark.parametrize("name", EXACT + ROUGH)
def test_every_parameter_is_sharded_in_halves(two: Path, name: str) -> None:
    held = json.loads((two / f"{name}.json").read_text())
    assert [each["sharded"] for each in held] == [True, True]
    assert sum(each["local"] for each in held) == held[0]["all"]
    assert max(each["local"] for each in held) < 0.52 * held[0]["all"]  # 21 tokens do not divide by 2


def test_a_run_killed_in_one_process_ends_soon_and_resumes_bitwise(tmp_path: Path, two: Path) -> None:
    started = time.monotonic()
    killed = _two(tmp_path, "killed")
    assert time.monotonic() - started < 120
    assert killed.returncode != 0
    assert read_outcome(tmp_path / "run") is None
    resumed = _two(tmp_path, "killed")
    assert resumed.returncode == 0, resumed.stderr
    calm, shaken = read_outcome(two / "sft"), read_outcome(tmp_path / "run")
    assert calm is not None
    assert calm == shaken  # with the hash of the weights
    assert read_description(tmp_path / "run").identity == read_description(two / "sft").identity
    points = [
        [(p.units, {k: v for k, v in p.metrics.items() if k not in UNREPEATED}) for p in read_curve(path)]
        for path in (two / "sft" / CURVE_FILE, tmp_path / "run" / CURVE_FILE)
    ]
    assert points[0] == points[1]


def test_a_lost_process_is_detected_soon(tmp_path: Path) -> None:
    started = time.monotonic()
    done = _two(tmp_path, "left")
    assert time.monotonic() - started < 120
    assert done.returncode != 0
    assert "TrainingError: process 0 lost another one, which ended" in done.stderr
    assert read_outcome(tmp_path / "sft") is None


def test_processes_with_different_programs_are_refused(told: list[dict[str, str]]) -> None:
    for each in told:
        assert "the weights before training is" in each["other weights"]
        assert "seed is '5' in process 0 and '6' in process 1" in each["other seed"]
        assert "setting optimiser is" in each["other setting"]


def test_a_failure_of_one_process_reaches_all(told: list[dict[str, str]]) -> None:
    assert told[0]["first fails"] == "KeyError: 'nothing'"
    assert "the first process failed: KeyError" in told[1]["first fails"]


def test_a_non_finite_loss_stops_all_processes(told: list[dict[str, str]]) -> None:
    assert told[0]["explodes"] == told[1]["explodes"]
    assert "the weights are left as they were" in told[0]["explodes"]


def test_unsupported_uses_of_shards_are_refused_with_the_remedy(told: list[dict[str, str]]) -> None:
    for each in told:
        assert "save the model of its FullCopy" in each["saved"]
        assert "make its FullCopy before it is sharded" in each["copied too late"]
        assert "the model is sharded already" in each["sharded twice"]
        assert "collect without staleness" in each["sampled ahead"]


def test_more_processes_than_micro_batches_work(told: list[dict[str, str]]) -> None:
    assert told[0]["too many processes"] == told[1]["too many processes"]
    assert json.loads(told[0]["too many processes"])[0] > 0


def test_accelerate_launches_the_same_program(tmp_path: Path, two: Path) -> None:
    launch = (sys.executable, "-m", "accelerate.commands.launch", "--use_fsdp", "--num_processes", "2")
    settled = ("--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no")
    done = _start((*launch, *settled, "--main_process_port", _port()), tmp_path, "short")
    assert done.returncode == 0, done.stderr
    assert read_outcome(tmp_path / "sft") == read_outcome(two / "sft")


def test_accelerate_starting_one_process_of_two_is_refused(tmp_path: Path) -> None:
    launch = (sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2")
    done = _start((*launch, "--num_machines", "1", "--mixed_precision", "no"), tmp_path, "short")
    assert done.returncode != 0
    assert "accelerate launch was asked for several processes on CPUs but started one" in done.stderr
