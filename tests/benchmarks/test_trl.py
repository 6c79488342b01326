"""TRL itself, where it is installed: it agrees with the dense path, and its tokens of errands are ours."""

import inspect
from dataclasses import replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from benchmarks import gpu
from benchmarks.against_trl import TRL
from benchmarks.agreement import BFLOAT16_TOLERANCE, compare
from benchmarks.errands import LEARNED, MODEL, ErrandsEnvironment
from benchmarks.errands.kit import ErrandsKit
from benchmarks.implementations.iteration_task import IterationTask
from benchmarks.implementations.update_task import UpdateTask
from benchmarks.iteration import TRL as TRL_ITERATION
from benchmarks.measurement import DENSE, QUICK, Bench
from benchmarks.trl_baseline import INSTALL
from benchmarks.worker import Worker
from upturn.models import CompactRenderer, write_call
from upturn.records import Action, JsonValue, fields_json

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("trl") is None, reason=f"TRL is not installed: {INSTALL}"),
    pytest.mark.filterwarnings("ignore"),  # TRL's and its dependencies' own
]


@pytest.mark.parametrize(("micro_batch", "checkpointing"), [(1, False), (2, False), (4, True)])
def test_trl_agrees_with_the_dense_path(
    task: UpdateTask, tmp_path: Path, micro_batch: int, checkpointing: bool
) -> None:
    assert task.gradient is not None
    trl_task = replace(task, gradient=tmp_path / "trl.safetensors")
    options: dict[str, JsonValue] = {
        "micro_batch": micro_batch,
        "gradient_checkpointing": checkpointing,
        "precision": "float32",
    }
    with Worker(DENSE, task.settings(), 1) as dense, Worker(TRL, trl_task.settings() | options, 1) as trl:
        agreement = compare(
            trl.prepared.number("loss"),
            tmp_path / "trl.safetensors",
            reference_loss=dense.prepared.number("loss"),
            reference_gradient=task.gradient,
        )
        agreement.check("TRL and the dense path")
        assert trl.step().seconds > 0
        assert trl.step().peak_bytes > 0


def test_gpu_measurement_runs_on_the_cpu_in_bfloat16(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole measurement with a tiny model, except for the device."""
    monkeypatch.setattr(gpu, "find_device", lambda: "cpu")
    measurement = gpu.measure_gpu(Bench(tmp_path, threads=1, repetitions=1, sizes=QUICK, has_bars=False))
    values = {row.name: float(row.value) for row in measurement.results}
    assert 0 < values["gpu_gradient_distance_vs_trl"] < BFLOAT16_TOLERANCE  # 0 would be float32 in disguise
    assert 1e-5 < values["gpu_mean_logprob_gap"] < 0.05
    assert values["gpu_speedup_vs_trl_default"] > 0
    assert values["gpu_utilisation"] > 0
    assert "gpu_utilisation_of_nameplate" not in values
    assert measurement.details["our_fallbacks"] == 0


def test_conversation_has_the_tokens_of_our_renderer() -> None:
    from benchmarks.implementations.trl_iteration import errands_tokenizer

    tokenizer: Any = errands_tokenizer()  # the types of its results depend on the arguments
    renderer = CompactRenderer(Tokenizer.from_file(str(Path(MODEL) / "tokenizer.json")))
    environment = ErrandsEnvironment()
    for task in islice(ErrandsKit().tasks(seed=3, split="train", families=LEARNED), 2 * len(LEARNED)):
        observation, _ = environment.reset(task)
        message = {"role": "user", "content": observation.text}
        prompt = tokenizer.apply_chat_template([message], add_generation_prompt=True, return_dict=False)
        assert tuple(prompt) == renderer.open(observation, "")
        for action in (Action("mail", "search", {"from": "nobody"}), Action("mail", "list"), Action("no", "such")):
            next_observation = environment.step(action).observation
            text = f"error {next_observation.code}" if next_observation.is_error else next_observation.text
            call = {"function": {"name": "act", "arguments": {}}}
            before = [message, {"role": "assistant", "content": "", "tool_calls": [call]}]
            after = [*before, {"role": "tool", "name": "act", "content": text}]
            whole = tokenizer.apply_chat_template(after, add_generation_prompt=True, return_dict=False)
            start = tokenizer.apply_chat_template(before, return_dict=False)
            assert whole[: len(start)] == start
            assert tuple(whole[len(start) :]) == renderer.extend(next_observation)


def test_written_text_is_a_tool_call_unless_it_ends_the_task() -> None:
    from benchmarks.implementations.trl_iteration import errands_tokenizer

    tokenizer = errands_tokenizer()
    renderer = CompactRenderer(Tokenizer.from_file(str(Path(MODEL) / "tokenizer.json")))
    search, finish = Action("mail", "search", {"from": "ann"}), Action("user", "finish")
    parsed = tokenizer.parse_response(list(renderer.write(search)))
    assert parsed["tool_calls"][0]["function"] == {"name": "act", "arguments": {"call": write_call(search)}}
    ended = tokenizer.parse_response(list(renderer.write(finish)))
    assert ended == {"role": "assistant", "content": "user.finish"}
    cut = tokenizer.parse_response(list(renderer.write(finish)[:-1]))
    assert cut["tool_calls"][0]["function"]["arguments"] == {"call": ""}


def test_reward_verifies_the_rollout() -> None:
    from benchmarks.errands import compose
    from benchmarks.implementations.trl_iteration import ErrandsTools, errands_reward

    for task in islice(ErrandsKit().tasks(seed=3, split="train", families=LEARNED), len(LEARNED)):
        environments, completions = [ErrandsTools(), ErrandsTools()], []
        *steps, last = compose(task).draft.oracle
        for environment, is_oracle in zip(environments, (True, False), strict=True):
            environment.reset(task=fields_json(task), prompt=[])
            if is_oracle:
                for action in steps:
                    environment.act(write_call(action))
            completions.append([{"role": "assistant", "content": write_call(last) if is_oracle else "user.ask"}])
        assert errands_reward(completions, environments) == [1.0, 0.0]


def test_act_is_the_only_tool_and_is_documented() -> None:
    from transformers.utils.chat_template_utils import get_json_schema

    from benchmarks.implementations.trl_iteration import ErrandsTools

    tools = [
        name
        for name, _ in inspect.getmembers(ErrandsTools, inspect.isfunction)
        if not name.startswith("_") and name != "reset"
    ]
    assert tools == ["act"]
    assert get_json_schema(ErrandsTools().act)["function"]["parameters"]["required"] == ["call"]


def test_iteration_of_trl_samples_and_scores() -> None:
    settings = IterationTask(2, 4, 5, 1).settings() | {"micro_batch": 8, "gradient_checkpointing": False}
    with Worker(TRL_ITERATION, settings, 1) as worker:
        step = worker.step()
    assert step.number("written_tokens") >= 8
    assert 0 <= step.number("reward") <= 1
