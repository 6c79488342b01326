"""``upturn train`` in several processes: one run, the same weights, and a timely end.

Two processes on this machine, each with one thread, are compared with one process.
"""

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import safetensors.torch
import torch

from benchmarks.errands import ENVIRONMENT, MODEL
from upturn.training.runs.run_folder import CHECKPOINTS_FOLDER, CURVE_FILE

pytestmark = pytest.mark.slow

UPTURN = (str(Path(sys.executable).with_name("upturn")), "train")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--no-python", "--master-port")
ACCELERATE = (
    *(sys.executable, "-m", "accelerate.commands.launch", "--use_fsdp", "--num_processes", "2"),
    *("--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no", "--no_python"),
    "--main_process_port",
)
COMMON = f"""
[[agents]]
name = "nano"
kind = "local_model"
model = "{MODEL}"

[environment]
name = "{ENVIRONMENT}"
max_turns = 6
max_tokens = 240
max_action_tokens = 40

[run]
threads = 1

[tasks]
families = ["mail_to_event"]
heldout_count = 30

[optimiser]
micro_batch_tokens = 400
"""
GRPO = f"""{COMMON}
[grpo]
iterations = 2
checkpoint_every = 1
tasks_per_iteration = 4
group_size = 6
evaluate_every = 2
optimiser.learning_rate = 3e-4
"""
SFT = f"""{COMMON}
[pool]
path = "pool.db"

[sft]
epochs = 1
batch_rows = 8
"""


CRITIC = f"""{COMMON}
[online_dpo]
iterations = 2
evaluate_every = 2
tasks_per_iteration = 4
group_size = 6
optimiser.learning_rate = 3e-4

[online_dpo.pairs]
by = "turn"
monte_carlo_share = 0.5
"""

WORLD_MODEL = f"""{COMMON}
[pool]
path = "pool.db"

[world_model]
iterations = 2
evaluate_every = 2
transitions_per_iteration = 6
group_size = 4
optimiser.learning_rate = 3e-4
"""


SERVED = COMMON.replace("[tasks]", "[tasks]\ncount = 40")
LOOP = f"""{SERVED}
[readiness]
points = 1
categories = 1

[sft]
epochs = 1

{GRPO.removeprefix(COMMON)}"""


class Ended(NamedTuple):
    """The result of a command."""

    folder: Path
    code: int
    out: str
    err: str

    @property
    def run(self) -> Path:
        """Its only run."""
        (run,) = (self.folder / "runs").iterdir()
        return run

    def weights(self) -> dict[str, torch.Tensor]:
        """The weights at the end of training; the version may have earlier ones."""
        return {
            f"{path.parents[2].name} {name}": tensor
            for path in self.run.rglob(f"{CHECKPOINTS_FOLDER}/*/weights.safetensors")
            for name, tensor in safetensors.torch.load_file(path).items()
        }

    def printed(self) -> dict[str, Any]:
        """The printed object."""
        content: dict[str, Any] = json.loads(self.out)
        return content


def _port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def _together(launcher: tuple[str, ...] = TORCHRUN) -> tuple[str, ...]:
    return (*launcher, _port(), *UPTURN)


def _start(command: tuple[str, ...], folder: Path, config: str, *more: str) -> "subprocess.Popen[str]":
    folder.mkdir(exist_ok=True)
    (folder / "upturn.toml").write_text(config)
    return subprocess.Popen(
        [*command, *more, "--json"],
        cwd=folder,
        env=dict(os.environ, OMP_NUM_THREADS="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _end(process: "subprocess.Popen[str]", folder: Path) -> Ended:
    try:
        out, err = process.communicate(timeout=240)
    finally:
        process.kill()
    return Ended(folder, process.returncode, out, err)


def _run(command: tuple[str, ...], folder: Path, config: str, *more: str) -> Ended:
    return _end(_start(command, folder, config, *more), folder)


def _done(command: tuple[str, ...], folder: Path, config: str, *more: str) -> Ended:
    ended = _run(command, folder, config, *more)
    assert ended.code == 0, ended.err
    return ended


def _assert_same(one: Ended, two: Ended) -> None:
    expected, weights = one.weights(), two.weights()
    assert expected.keys() == weights.keys()
    for name, tensor in expected.items():
        assert (weights[name] - tensor).norm() <= 1e-5 * tensor.norm(), name
    assert [result["value"] for result in two.printed()["results"]] == [
        result["value"] for result in one.printed()["results"]
    ]


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    return _done(UPTURN, tmp_path_factory.mktemp("one"), GRPO, "grpo")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    return _done(_together(), tmp_path_factory.mktemp("two"), GRPO, "grpo")


def test_rl_training_in_two_processes_gives_the_weights_of_one(one: Ended, two: Ended) -> None:
    before = safetensors.torch.load_file(Path(MODEL) / "model.safetensors")
    name = "model.embed_tokens.weight"
    assert not torch.equal(one.weights()[f"grpo {name}"], before[name].float())
    _assert_same(one, two)


def test_two_processes_write_the_files_of_one(one: Ended, two: Ended) -> None:
    assert two.out.count("\n") == 1
    assert two.printed()["results"][0]["name"] == "success_before"
    assert two.err.count("Upturn train grpo") == 1
    names = [
        {path.relative_to(ended.run).as_posix() for path in ended.run.rglob("*") if "tensorboard" not in path.parts}
        for ended in (one, two)
    ]
    assert names[0] == names[1]
    assert (two.run / "card.md").is_file()


def test_a_critic_in_two_processes_gives_the_weights_of_one(tmp_path: Path) -> None:
    one, two = (
        _done(command, tmp_path / name, CRITIC, "online-dpo")
        for name, command in (("one", UPTURN), ("two", _together()))
    )
    _assert_same(one, two)
    (curve,) = one.run.rglob(CURVE_FILE)
    last = json.loads(curve.read_text().splitlines()[-1])
    assert last["steps"] > 0
    assert last["mean_value"] != 0.0


def test_a_teacher_on_rank_0_gives_the_weights_of_one(one: Ended, tmp_path: Path) -> None:
    (trained,) = (path.parent for path in one.run.rglob("model.safetensors"))
    distillation = GRPO.replace("[grpo]", f'[distillation]\nteacher.model = "{trained}"')
    results = [
        _done(command, tmp_path / name, distillation, "distillation")
        for name, command in (("one", UPTURN), ("two", _together()))
    ]
    _assert_same(*results)
    (curve,) = results[1].run.rglob(CURVE_FILE)
    last = json.loads(curve.read_text().splitlines()[-1])
    assert last["teacher_missing"] == 0.0 and last["steps"] == 2


def test_demonstrations_in_two_processes_give_the_weights_of_one(one: Ended, tmp_path: Path) -> None:
    results = []
    for name, command in (("one", UPTURN), ("two", _together())):
        (tmp_path / name).mkdir()
        shutil.copy(one.run / "pool.db", tmp_path / name / "pool.db")
        results.append(_done(command, tmp_path / name, SFT, "sft"))
    _assert_same(*results)


def test_a_world_model_in_two_processes_gives_the_weights_of_one(one: Ended, tmp_path: Path) -> None:
    results = []
    for name, command in (("one", UPTURN), ("two", _together())):
        (tmp_path / name).mkdir()
        shutil.copy(one.run / "pool.db", tmp_path / name / "pool.db")
        results.append(_done(command, tmp_path / name, WORLD_MODEL, "world-model"))
    _assert_same(*results)


def test_the_loop_trains_in_two_processes_as_in_one(tmp_path: Path) -> None:
    loop = (UPTURN[0], "loop", "run")
    one = _done(loop, tmp_path / "one", LOOP)
    two = _done((*TORCHRUN, _port(), *loop), tmp_path / "two", LOOP)
    assert {name.split()[0] for name in one.weights()} == {"sft", "grpo"}
    _assert_same(one, two)


def test_accelerate_starts_the_same_run(two: Ended, tmp_path: Path) -> None:
    ended = _done(_together(ACCELERATE), tmp_path, GRPO, "grpo")
    assert {name: tensor.tolist() for name, tensor in ended.weights().items()} == {
        name: tensor.tolist() for name, tensor in two.weights().items()
    }


def _processes(launcher: int) -> dict[str, int]:
    """Ids of the processes of a launcher, by rank."""
    processes = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == launcher:
                pairs = (entry / "environ").read_text().split("\0")
                processes[dict(pair.partition("=")[::2] for pair in pairs)["RANK"]] = int(entry.name)
        except (OSError, KeyError):
            continue
    return processes


def _wait_for_training(folder: Path, process: "subprocess.Popen[str]") -> None:
    """Waits until an iteration is on the curve."""
    deadline = time.monotonic() + 120
    while not any(path.read_text().count("\n") >= 2 for path in folder.glob(f"runs/*/training/*/{CURVE_FILE}")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _killed(folder: Path, rank: str) -> Ended:
    """A run in which one process is killed during training."""
    process = _start(_together(), folder, GRPO, "grpo")
    _wait_for_training(folder, process)
    started = time.monotonic()
    os.kill(_processes(process.pid)[rank], signal.SIGKILL)
    ended = _end(process, folder)
    assert time.monotonic() - started < 60
    return ended


def test_a_killed_rank_ends_all_processes(tmp_path: Path) -> None:
    killed = _killed(tmp_path, "1")
    assert killed.code != 0
    assert not (killed.run / "card.md").exists()


def test_a_run_with_killed_rank_0_ends_and_resumes_bitwise(two: Ended, tmp_path: Path) -> None:
    killed = _killed(tmp_path, "0")
    assert killed.code != 0
    assert not killed.out
    assert not (killed.run / "card.md").exists()
    resumed = _done(_together(), tmp_path, GRPO, "grpo", "--resume", "latest")
    uninterrupted = two.weights()
    for name, tensor in resumed.weights().items():
        assert torch.equal(tensor, uninterrupted[name]), name
    assert resumed.printed()["results"] == two.printed()["results"]


def test_ctrl_c_ends_all_processes_with_one_resume_message(tmp_path: Path) -> None:
    process = _start(_together(), tmp_path, GRPO, "grpo")
    _wait_for_training(tmp_path, process)
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    stopped = _end(process, tmp_path)
    assert time.monotonic() - started < 60
    assert stopped.code != 0
    (line,) = (line for line in stopped.err.splitlines() if line.startswith(("stopped", "error")))
    command = ["torchrun", "--nproc-per-node", "2", "--no-python", "upturn", "train", "grpo"]
    run = str(stopped.run.relative_to(tmp_path))
    assert line == f"stopped; resume with: {shlex.join([*command, '--config', 'upturn.toml', '--resume', run])}"
    (object_,) = stopped.out.splitlines()
    assert json.loads(object_)["error"]["exit_code"] == 130


def test_a_run_of_one_process_is_not_resumed_by_two(one: Ended, tmp_path: Path) -> None:
    shutil.copytree(one.folder, tmp_path / "copied")
    run = tmp_path / "copied" / "runs" / one.run.name
    lines = (run / "journal.jsonl").read_text().splitlines(keepends=True)
    end = next(index for index, line in enumerate(lines) if '"finished"' in line and '"train"' in line)
    (run / "journal.jsonl").write_text("".join(lines[:end]))
    ended = _run(_together(), tmp_path / "copied", GRPO, "grpo", "--resume", str(run))
    assert ended.code != 0
    assert ended.err.count("error: ") == 1
    assert "processes is '2', the checkpoint has None" in ended.err


def test_unsupported_settings_are_refused_once_by_name(tmp_path: Path) -> None:
    ended = _run(_together(), tmp_path, f"{GRPO}staleness = 1\n", "grpo")
    assert ended.code != 0
    assert ended.err.count("grpo.staleness = 1 samples while one process trains") == 1
    assert not (tmp_path / "runs").exists()
