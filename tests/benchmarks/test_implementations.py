"""Implementations on a tiny model: the dense path against a derivative by hand, the library against it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias, cast

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from benchmarks.agreement import compare
from benchmarks.implementations.copying import LENGTH, copying_rows
from benchmarks.implementations.dense import serve_dense
from benchmarks.implementations.library_update import serve_update, serve_utilisation
from benchmarks.implementations.update_task import UpdateTask, parse_update_task
from benchmarks.machine.processor import has_bfloat16, matrix_rate
from benchmarks.worker_process import Implementation
from benchmarks.workloads.model import build_model
from benchmarks.workloads.workload import make_workload
from upturn.errors import ConfigError
from upturn.records import JsonValue

Run: TypeAlias = Callable[[Implementation, Mapping[str, JsonValue], int], list[dict[str, JsonValue]]]


def test_task_survives_json(task: UpdateTask) -> None:
    assert parse_update_task(task.settings()) == task
    assert parse_update_task(replace(task, gradient=None).settings()).gradient is None
    assert parse_update_task(replace(task, device="cuda").settings()).device == "cuda"


def test_dense_logprobs_are_the_models(task: UpdateTask, run_steps: Run) -> None:
    run_steps(serve_dense, task.settings(), 0)
    model, workload = build_model(task.model), make_workload(task.workload)
    first = workload.rollouts[0]
    with torch.no_grad():
        logits = model(input_ids=torch.from_numpy(first.token_ids)[None]).logits[0].double()
    position = int(first.positions[2])
    expected = logits[position - 1, first.token_ids[position]] - logits[position - 1].exp().sum().log()
    assert task.load_model_logprobs()[2] == pytest.approx(float(expected), abs=1e-5)


def test_dense_gradient_is_the_slope_of_the_loss(task: UpdateTask, run_steps: Run) -> None:
    """Along a random direction, by the loss of the policy computed independently, in float64."""
    assert task.gradient is not None
    loss = float(cast(float, run_steps(serve_dense, task.settings(), 0)[0]["loss"]))
    gradient, workload = load_file(task.gradient), make_workload(task.workload)
    model = build_model(task.model).double()
    model_logprobs = torch.from_numpy(task.load_model_logprobs()).double()
    rng = torch.Generator().manual_seed(0)
    direction = {
        name: torch.randn(value.shape, generator=rng, dtype=torch.float64)
        for name, value in model.named_parameters()
    }

    def policy_loss(step: float) -> float:
        total, start = 0.0, 0
        with torch.no_grad():
            for name, value in model.named_parameters():
                value.add_(direction[name], alpha=step)
            for rollout, advantage in zip(workload.rollouts, workload.advantages, strict=True):
                ids, positions = torch.from_numpy(rollout.token_ids), torch.from_numpy(rollout.positions)
                logprobs = model(input_ids=ids[None]).logits[0].log_softmax(-1)[positions - 1, ids[positions]]
                old = model_logprobs[start : start + len(positions)] - torch.from_numpy(rollout.log_ratios).double()
                start += len(positions)
                for new, before in zip(logprobs, old, strict=True):
                    ratio = float((new - before).exp())
                    total -= min(ratio * advantage, min(max(ratio, 0.8), 1.28) * advantage)
            for name, value in model.named_parameters():
                value.add_(direction[name], alpha=-step)
        return total / workload.written_tokens

    assert loss == pytest.approx(policy_loss(0.0), rel=1e-5)
    slope = (policy_loss(1e-6) - policy_loss(-1e-6)) / 2e-6
    assert sum(float((direction[name] * gradient[name]).sum()) for name in gradient) == pytest.approx(
        slope, rel=1e-3
    )


def test_library_agrees_with_the_dense_path(task: UpdateTask, run_steps: Run, tmp_path: Path) -> None:
    assert task.gradient is not None
    dense = run_steps(serve_dense, task.settings(), 0)[0]
    ours = tmp_path / "ours.safetensors"
    responses = run_steps(serve_update, replace(task, gradient=ours).settings() | {"optimiser": {}}, 2)
    agreement = compare(
        float(cast(float, responses[0]["loss"])),
        ours,
        reference_loss=float(cast(float, dense["loss"])),
        reference_gradient=task.gradient,
    )
    agreement.check("the library and the dense path")
    assert 0 <= cast(float, responses[0]["max_logprob_gap"]) < 1e-4
    assert len(responses) == 3
    assert all(cast(float, response["seconds"]) > 0 for response in responses)


def test_saved_gradient_is_that_of_the_first_step(task: UpdateTask, run_steps: Run, tmp_path: Path) -> None:
    run_steps(serve_dense, task.settings(), 0)
    paths = [tmp_path / f"{steps}.safetensors" for steps in (0, 3)]
    for path, steps in zip(paths, (0, 3), strict=True):
        run_steps(serve_update, replace(task, gradient=path).settings() | {"optimiser": {}}, steps)
    first, later = (load_file(path) for path in paths)
    assert all(torch.equal(first[name], later[name]) for name in first)


def test_settings_of_the_optimiser_reach_the_trainer(task: UpdateTask, run_steps: Run) -> None:
    run_steps(serve_dense, task.settings(), 0)
    with pytest.raises(ConfigError, match="no_such_setting"):
        run_steps(serve_update, task.settings() | {"optimiser": {"no_such_setting": 1}}, 0)


def test_utilisation_steps_have_the_best_rate_before_and_after(
    task: UpdateTask, run_steps: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_steps(serve_dense, task.settings(), 0)
    rates = iter([5.0, 3.0, 9.0])
    monkeypatch.setattr("benchmarks.implementations.library_update.matrix_rate", lambda: next(rates))
    responses = run_steps(serve_utilisation, task.settings() | {"optimiser": {}}, 2)
    assert [response["matrix_rate"] for response in responses[1:]] == [5.0, 9.0]
    assert responses[0]["device_name"] == "cpu"
    assert responses[0]["fallbacks"] == 0


def test_copying_rows_train_on_a_copy() -> None:
    rows = copying_rows(3)
    assert all(np.array_equal(row.token_ids[:LENGTH], row.token_ids[row.positions]) for row in rows)
    assert not np.array_equal(rows[0].token_ids, copying_rows(4)[0].token_ids)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [("fpu avx2 avx512_bf16 sse", True), ("amx_bf16", True), ("avx512f avx512_bf16x", False), ("", False)],
)
def test_bfloat16_is_read_from_the_processors_flags(tmp_path: Path, flags: str, expected: bool) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nflags\t\t: {flags}\nbugs : avx512_bf16\n")
    assert has_bfloat16(cpuinfo) is expected
    assert not has_bfloat16(tmp_path / "absent")


def test_matrix_rate_is_the_best_of_its_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 2.0, 10.0, 11.0])  # 2·4³ in 2 s, then 2·8³ in 1 s
    monkeypatch.setattr("benchmarks.machine.processor.time.perf_counter", lambda: next(clock))
    assert matrix_rate((4, 8)) == 1024.0
