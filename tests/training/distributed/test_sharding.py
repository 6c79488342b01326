"""One model sharded over two processes, compared with a single process.

The program ``toy_sharded.py`` runs once for each part with all its cases: starting takes longer than training.
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
from upturn.training.runs.curve import CurvePoint
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
"""Each process rounds its part of a gradient to bfloat16 before they are summed."""

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


def _run_two(folder: Path, part: str) -> "subprocess.CompletedProcess[str]":
    return _start((*TORCHRUN, _port()), folder, part)


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("single")
    completed = _start((sys.executable,), folder, "equal")
    assert completed.returncode == 0, completed.stderr
    return folder


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sharded")
    completed = _run_two(folder, "equal")
    assert completed.returncode == 0, completed.stderr
    return folder


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """The error of each process, by case."""
    folder = tmp_path_factory.mktemp("refused")
    completed = _run_two(folder, "refused")
    assert completed.returncode == 0, completed.stderr
    return [json.loads((folder / f"errors-{rank}.json").read_text()) for rank in range(2)]


def _losses(folder: Path) -> list[float]:
    return [point.metrics["loss"] for point in read_curve(folder / CURVE_FILE) if point.steps]  # type: ignore[misc]


def _gap(single: Path, sharded: Path, name: str) -> float:
    weights = [safetensors.torch.load_file(folder / f"{name}.safetensors") for folder in (single, sharded)]
    assert weights[0].keys() == weights[1].keys()
    return max(float((weights[1][key] - weights[0][key]).abs().max()) for key in weights[0])


def _repeated(point: CurvePoint) -> set[str]:
    """The metrics that do not depend on how rows are batched; two processes have other batches than one.

    Whether a batch branches, and so which attention computes it, is among those that do.
    """
    return {name for name in point.metrics.keys() - UNREPEATED if not name.startswith("attention_")}


@pytest.mark.parametrize("name", EXACT)
def test_losses_and_weights_equal_a_single_process(single: Path, sharded: Path, name: str) -> None:
    assert _gap(single, sharded, name) < 1e-5
    np.testing.assert_allclose(_losses(sharded / name), _losses(single / name), rtol=0, atol=1e-5)
    curves = [read_curve(folder / name / CURVE_FILE) for folder in (single, sharded)]
    for point, sharded_point in zip(*curves, strict=True):
        assert (point.units, point.steps) == (sharded_point.units, sharded_point.steps)
        assert _repeated(point) == _repeated(sharded_point)
        for metric in _repeated(point) - {"physical_tokens", "share_ratio"}:
            assert sharded_point.metrics[metric] == pytest.approx(point.metrics[metric], rel=1e-4, abs=1e-5), metric
    outcomes = [read_outcome(folder / name) for folder in (single, sharded)]
    assert outcomes[0] is not None
    assert outcomes[1] is not None
    assert outcomes[0].kept_units == outcomes[1].kept_units
    assert outcomes[0].best_score == pytest.approx(outcomes[1].best_score, abs=1e-5)


@pytest.mark.parametrize("name", ROUGH)
def test_bfloat16_differs_by_its_rounding_only(single: Path, sharded: Path, name: str) -> None:
    assert _gap(single, sharded, name) < 4e-3  # four steps at a learning rate of 1e-3
    np.testing.assert_allclose(_losses(sharded / name), _losses(single / name), rtol=2e-2)


@pytest.mark.parametrize("name", EXACT + ROUGH)
def test_every_parameter_is_sharded_in_halves(sharded: Path, name: str) -> None:
    processes = json.loads((sharded / f"{name}.json").read_text())
    assert [process["sharded"] for process in processes] == [True, True]
    assert sum(process["local"] for process in processes) == processes[0]["all"]
    assert (
        max(process["local"] for process in processes) < 0.52 * processes[0]["all"]
    )  # 21 tokens do not divide by 2


def test_a_run_killed_in_one_process_ends_soon_and_resumes_bitwise(tmp_path: Path, sharded: Path) -> None:
    started = time.monotonic()
    killed = _run_two(tmp_path, "killed")
    assert time.monotonic() - started < 120
    assert killed.returncode != 0
    assert read_outcome(tmp_path / "run") is None
    resumed = _run_two(tmp_path, "killed")
    assert resumed.returncode == 0, resumed.stderr
    expected, outcome = read_outcome(sharded / "sft"), read_outcome(tmp_path / "run")
    assert expected is not None
    assert expected == outcome  # includes the hash of the weights
    assert read_description(tmp_path / "run").identity == read_description(sharded / "sft").identity
    points = [
        [(p.units, {k: v for k, v in p.metrics.items() if k not in UNREPEATED}) for p in read_curve(path)]
        for path in (sharded / "sft" / CURVE_FILE, tmp_path / "run" / CURVE_FILE)
    ]
    assert points[0] == points[1]


def test_a_lost_process_is_detected_soon(tmp_path: Path) -> None:
    started = time.monotonic()
    completed = _run_two(tmp_path, "left")
    assert time.monotonic() - started < 120
    assert completed.returncode != 0
    assert "TrainingError: process 0 lost another one, which ended" in completed.stderr
    assert read_outcome(tmp_path / "sft") is None


def test_processes_with_different_programs_are_refused(errors: list[dict[str, str]]) -> None:
    for messages in errors:
        assert "the weights before training is" in messages["other weights"]
        assert "seed is '5' in process 0 and '6' in process 1" in messages["other seed"]
        assert "setting optimiser is" in messages["other setting"]


def test_a_failure_of_one_process_reaches_all(errors: list[dict[str, str]]) -> None:
    assert errors[0]["first fails"] == "KeyError: 'nothing'"
    assert "the first process failed: KeyError" in errors[1]["first fails"]
    assert "rank 0 called 'a', this one 'b'" in errors[1]["other call"]


def test_a_non_finite_loss_stops_all_processes(errors: list[dict[str, str]]) -> None:
    assert errors[0]["explodes"] == errors[1]["explodes"]
    assert "the weights are unchanged" in errors[0]["explodes"]


def test_unsupported_uses_of_shards_are_refused_with_the_remedy(errors: list[dict[str, str]]) -> None:
    for messages in errors:
        assert "save the model of its FullCopy" in messages["saved"]
        assert "make its FullCopy before it is sharded" in messages["copied too late"]
        assert "the model is sharded already" in messages["sharded twice"]
        assert "collect without staleness" in messages["sampled ahead"]


def test_more_processes_than_micro_batches_work(errors: list[dict[str, str]]) -> None:
    assert errors[0]["too many processes"] == errors[1]["too many processes"]
    assert json.loads(errors[0]["too many processes"])[0] > 0


def test_accelerate_launches_the_same_program(tmp_path: Path, sharded: Path) -> None:
    launch = (sys.executable, "-m", "accelerate.commands.launch", "--use_fsdp", "--num_processes", "2")
    options = ("--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no")
    completed = _start((*launch, *options, "--main_process_port", _port()), tmp_path, "short")
    assert completed.returncode == 0, completed.stderr
    assert read_outcome(tmp_path / "sft") == read_outcome(sharded / "sft")


def test_accelerate_starting_one_process_of_two_is_refused(tmp_path: Path) -> None:
    launch = (sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2")
    completed = _start((*launch, "--num_machines", "1", "--mixed_precision", "no"), tmp_path, "short")
    assert completed.returncode != 0
    assert "accelerate launch was asked for several processes on CPUs but started one" in completed.stderr
