"""The sides themselves on a tiny model: the dense path against a derivative by hand, the library against it."""

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
from benchmarks.implementations.dense import dense_side
from benchmarks.implementations.library_update import library_side, utilisation_side
from benchmarks.implementations.update_task import UpdateTask, read_task
from benchmarks.machine.processor import has_bfloat16, matrix_rate
from benchmarks.worker_process import Side
from benchmarks.workloads.model import build_model
from upturn.errors import ConfigError
from upturn.records import JsonValue

Talk: TypeAlias = Callable[[Side, Mapping[str, JsonValue], int], list[dict[str, JsonValue]]]


def test_a_task_survives_json(task: UpdateTask) -> None:
    assert read_task(task.settings()) == task
    assert read_task(replace(task, gradient=None).settings()).gradient is None
    assert read_task(replace(task, device="cuda").settings()).device == "cuda"


def test_dense_own_log_probs_are_the_models(task: UpdateTask, talk: Talk) -> None:
    talk(dense_side, task.settings(), 0)
    model, workload = build_model(task.subject), task.load_workload()
    first = workload.attempts[0]
    with torch.no_grad():
        logits = model(input_ids=torch.from_numpy(first.token_ids)[None]).logits[0].double()
    place = int(first.positions[2])
    expected = logits[place - 1, first.token_ids[place]] - logits[place - 1].exp().sum().log()
    assert task.load_own_logprobs()[2] == pytest.approx(float(expected), abs=1e-5)


def test_dense_gradient_is_the_slope_of_the_loss(task: UpdateTask, talk: Talk) -> None:
    """Along a random direction, by the loss of the policy written out once more, in float64."""
    assert task.gradient is not None
    loss = float(cast(float, talk(dense_side, task.settings(), 0)[0]["loss"]))
    gradient, workload = load_file(task.gradient), task.load_workload()
    model = build_model(task.subject).double()
    own = torch.from_numpy(task.load_own_logprobs()).double()
    rng = torch.Generator().manual_seed(0)
    direction = {
        name: torch.randn(value.shape, generator=rng, dtype=torch.float64)
        for name, value in model.named_parameters()
    }

    def written_out(step: float) -> float:
        total, start = 0.0, 0
        with torch.no_grad():
            for name, value in model.named_parameters():
                value.add_(direction[name], alpha=step)
            for attempt, advantage in zip(workload.attempts, workload.advantages, strict=True):
                ids, places = torch.from_numpy(attempt.token_ids), torch.from_numpy(attempt.positions)
                found = model(input_ids=ids[None]).logits[0].log_softmax(-1)[places - 1, ids[places]]
                old = own[start : start + len(places)] - torch.from_numpy(attempt.log_ratios).double()
                start += len(places)
                for new, before in zip(found, old, strict=True):
                    ratio = float((new - before).exp())
                    total -= min(ratio * advantage, min(max(ratio, 0.8), 1.28) * advantage)
            for name, value in model.named_parameters():
                value.add_(direction[name], alpha=-step)
        return total / workload.written_tokens

    assert loss == pytest.approx(written_out(0.0), rel=1e-5)
    slope = (written_out(1e-6) - written_out(-1e-6)) / 2e-6
    assert sum(float((direction[name] * gradient[name]).sum()) for name in gradient) == pytest.approx(
        slope, rel=1e-3
    )


def test_the_library_computes_what_the_dense_path_does(task: UpdateTask, talk: Talk, tmp_path: Path) -> None:
    assert task.gradient is not None
    dense = talk(dense_side, task.settings(), 0)[0]
    ours = tmp_path / "ours.safetensors"
    answers = talk(library_side, replace(task, gradient=ours).settings() | {"optimiser": {}}, 2)
    agreement = compare(
        float(cast(float, answers[0]["loss"])),
        ours,
        reference_loss=float(cast(float, dense["loss"])),
        reference_gradient=task.gradient,
    )
    agreement.check("the library and the dense path")
    assert 0 <= cast(float, answers[0]["max_logprob_gap"]) < 1e-4
    assert len(answers) == 3
    assert all(cast(float, answer["seconds"]) > 0 for answer in answers)


def test_the_kept_gradient_is_that_of_the_first_step(task: UpdateTask, talk: Talk, tmp_path: Path) -> None:
    talk(dense_side, task.settings(), 0)
    paths = [tmp_path / f"{steps}.safetensors" for steps in (0, 3)]
    for path, steps in zip(paths, (0, 3), strict=True):
        talk(library_side, replace(task, gradient=path).settings() | {"optimiser": {}}, steps)
    first, later = (load_file(path) for path in paths)
    assert all(torch.equal(first[name], later[name]) for name in first)


def test_settings_of_the_optimiser_reach_the_trainer(task: UpdateTask, talk: Talk) -> None:
    talk(dense_side, task.settings(), 0)
    with pytest.raises(ConfigError, match="no_such_setting"):
        talk(library_side, task.settings() | {"optimiser": {"no_such_setting": 1}}, 0)


def test_utilisation_steps_carry_the_best_rate_before_and_after(
    task: UpdateTask, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(dense_side, task.settings(), 0)
    rates = iter([5.0, 3.0, 9.0])
    monkeypatch.setattr("benchmarks.implementations.library_update.matrix_rate", lambda: next(rates))
    answers = talk(utilisation_side, task.settings() | {"optimiser": {}}, 2)
    assert [answer["matrix_rate"] for answer in answers[1:]] == [5.0, 9.0]
    assert answers[0]["device_name"] == "cpu"
    assert answers[0]["fallbacks"] == 0


def test_copying_rows_ask_for_what_they_showed() -> None:
    rows = copying_rows(3)
    assert all(np.array_equal(row.token_ids[:LENGTH], row.token_ids[row.positions]) for row in rows)
    assert not np.array_equal(rows[0].token_ids, copying_rows(4)[0].token_ids)


@pytest.mark.parametrize(
    ("flags", "found"),
    [("fpu avx2 avx512_bf16 sse", True), ("amx_bf16", True), ("avx512f avx512_bf16x", False), ("", False)],
)
def test_bfloat16_is_read_from_the_processors_flags(tmp_path: Path, flags: str, found: bool) -> None:
    listing = tmp_path / "cpuinfo"
    listing.write_text(f"processor\t: 0\nflags\t\t: {flags}\nbugs : avx512_bf16\n")
    assert has_bfloat16(listing) is found
    assert not has_bfloat16(tmp_path / "absent")


def test_the_matrix_rate_is_the_best_of_its_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 2.0, 10.0, 11.0])  # 2·4³ in 2 s, then 2·8³ in 1 s
    monkeypatch.setattr("benchmarks.machine.processor.time.perf_counter", lambda: next(clock))
    assert matrix_rate((4, 8)) == 1024.0
