"""What ``datasets``, TRL and pyarrow read of the exports. In ``make test-reach``."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from upturn.pool import Pool
from upturn.pool.exports import FORMATS, ChatSource, TrainingExport
from upturn.records import (
    Action,
    Evaluation,
    EvaluationVerdict,
    JsonValue,
    Observation,
    Task,
    Tool,
    Trajectory,
    Turn,
)

MOVE = Tool("mail", "move", "Moves a mail.", {"id": {"type": "integer"}, "to": {"type": "string"}}, ("id",))
TEMPLATE = """{%- if tools %}<|im_start|>tools
{%- for tool in tools %} {{ tool | tojson }}{%- endfor %}<|im_end|>
{% endif %}{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}{%- for call in message.tool_calls or [] %}<call>{{ call.function.name }}
{%- for key, value in call.function.arguments | items %} {{ key }}={{ value | tojson }}{% endfor %}</call>
{%- endfor %}<|im_end|>
{% endfor %}{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """Two tasks with calls of different arguments, each done well and badly."""
    with Pool.open(tmp_path_factory.mktemp("pool") / "pool.db") as opened:
        used: list[dict[str, JsonValue]] = [{"id": 3}, {"id": 4, "to": "work"}]
        for number, arguments in enumerate(used):
            task = Task(f"t{number}", f"Move {number}.", "mail", "desk")
            opened.append(task)
            for is_good in (True, False):
                turns = (
                    Turn(Observation(f"Move {number}."), "", Action("mail", "move", arguments)),
                    Turn(
                        Observation("moved"), "", Action("user", "answer", {"text": "Done." if is_good else "No."})
                    ),
                )
                name = f"{number}-{is_good}"
                verdict: EvaluationVerdict = "success" if is_good else "failure"
                opened.append(
                    Trajectory(name, task.id, "nano@1", turns, Observation(""), "finished", "rendered"),
                    Evaluation(f"e{name}", task.id, name, "desk/1", verdict, (), {}, {}, float(is_good)),
                )
        yield opened


def write(pool: Pool, name: str, path: Path) -> list[Any]:
    """Writes the file; returns the rows as JSON lines have them."""
    for target in (path, path.with_suffix(".jsonl")):
        source = ChatSource(pool, tenant="default", tools_of=lambda _: (MOVE,))
        with target.open("wb") as file:
            TrainingExport(source, name).write(file, target.suffix)
    return [json.loads(line) for line in path.with_suffix(".jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", FORMATS)
def test_datasets_reads_the_same_rows_from_both_files(pool: Pool, name: str, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = write(pool, name, tmp_path / "out.parquet")
    assert len(rows) >= 2
    for kind in ("parquet", "json"):
        file = tmp_path / ("out.parquet" if kind == "parquet" else "out.jsonl")
        read = datasets.load_dataset(kind, data_files=str(file), split="train", cache_dir=str(tmp_path / kind))
        assert list(read) == rows


def test_parquet_has_the_types_of_the_columns(pool: Pool, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from pyarrow.parquet import read_schema

    write(pool, "verl", tmp_path / "out.parquet")
    types = {field.name: str(field.type) for field in read_schema(tmp_path / "out.parquet")}
    assert types == {
        "data_source": "string",
        "prompt": "list<element: struct<role: string, content: string>>",
        "ability": "string",
        "reward_model": "struct<style: string, ground_truth: string>",
        "extra_info": "struct<index: int64, split: string, task_id: string, level: int64, tools: string>",
    }


def test_an_empty_export_is_a_table_without_rows(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from pyarrow.parquet import read_table

    with Pool.open(tmp_path / "pool.db") as pool:
        assert write(pool, "sft", tmp_path / "out.parquet") == []
    assert read_table(tmp_path / "out.parquet").num_rows == 0


@cache
def tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: index for index, token in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    built = Tokenizer(models.BPE(vocabulary, []))
    built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    built.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(tokenizer_object=built, eos_token="<|im_end|>", pad_token="<|pad|>")
    made.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    made.chat_template = TEMPLATE
    return made


def model() -> Any:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        vocab_size=len(tokenizer()),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        eos_token_id=tokenizer().eos_token_id,
        pad_token_id=tokenizer().pad_token_id,
    )
    return Qwen2ForCausalLM(config)


def settings(folder: Path) -> dict[str, Any]:
    return {
        "output_dir": str(folder),
        "max_steps": 1,
        "per_device_train_batch_size": 2,
        "use_cpu": True,
        "bf16": False,
        "report_to": [],
        "save_strategy": "no",
        "disable_tqdm": True,
    }


def read(pool: Pool, name: str, folder: Path) -> Any:
    datasets = pytest.importorskip("datasets")
    write(pool, name, folder / "out.parquet")
    file = str(folder / "out.parquet")
    return datasets.load_dataset("parquet", data_files=file, split="train", cache_dir=str(folder / "cache"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["sft", "prompt-completion"])
def test_trl_trains_on_supervised_rows(pool: Pool, name: str, tmp_path: Path) -> None:
    trl = pytest.importorskip("trl")
    trainer = trl.SFTTrainer(
        model(),
        args=trl.SFTConfig(**settings(tmp_path)),
        train_dataset=read(pool, name, tmp_path),
        processing_class=tokenizer(),
    )
    texts = [tokenizer().decode(row["input_ids"]) for row in trainer.train_dataset]
    assert any('<call>mail.move id=4 to="work"</call><|im_end|>' in text for text in texts)
    assert any("<call>mail.move id=3</call><|im_end|>" in text for text in texts)
    assert all('<|im_start|>tools {"type": "function"' in text for text in texts)
    assert trainer.train().global_step == 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["dpo", "kto"])
def test_trl_trains_on_preferences(pool: Pool, name: str, tmp_path: Path) -> None:
    trl = pytest.importorskip("trl")
    config, trainer_class = {
        "dpo": lambda: (trl.DPOConfig, trl.DPOTrainer),
        "kto": lambda: (trl.KTOConfig, trl.KTOTrainer),
    }[name]()
    trainer = trainer_class(
        model(),
        ref_model=model(),
        args=config(**settings(tmp_path)),
        train_dataset=read(pool, name, tmp_path),
        processing_class=tokenizer(),
    )
    assert trainer.train().global_step == 1


@pytest.mark.filterwarnings("ignore")
def test_trl_samples_from_the_prompts_and_gives_the_task_to_rewards(pool: Pool, tmp_path: Path) -> None:
    trl = pytest.importorskip("trl")
    seen: set[str] = set()

    def reward(completions: list[Any], task: list[str], **_: Any) -> list[float]:
        seen.update(json.loads(text)["id"] for text in task)
        return [float(len(completion[0]["content"])) for completion in completions]

    trainer = trl.GRPOTrainer(
        model(),
        reward_funcs=reward,
        args=trl.GRPOConfig(**settings(tmp_path), num_generations=2, max_completion_length=4),
        train_dataset=read(pool, "grpo", tmp_path),
        processing_class=tokenizer(),
    )
    assert trainer.train().global_step == 1
    assert seen <= {"t0", "t1"}
    assert seen
