"""The configuration file: all problems are reported together, and no setting is ignored silently."""

import importlib
import json
import pkgutil
import re
import tomllib
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

import upturn
from upturn.config import CORE, Settings, ValidationSettings, default_value, nested_settings
from upturn.config.contradiction import FEWEST_HELDOUT
from upturn.errors import ConfigError
from upturn.loop.trainers.registry import parse_full_config, sections
from upturn.training.algorithms.grpo import GrpoSettings

NANO = {"name": "nano", "kind": "local_model", "model": "nano"}
FAR = {"name": "far", "kind": "endpoint", "url": "http://localhost:1/v1", "model": "m"}
VLLM = {"place": "engine", "url": "http://x", "dialect": "vllm"}
SHORT_WEIGHTS = {"optimiser": {"precision": "bfloat16_weights"}}
PROGRAM = {"name": "mine", "kind": "program", "url": "http://localhost:1/v1", "model": "m"}
RULES = {"name": "rules", "kind": "rule_based", "import_path": "my.rules:agent"}


def problems_of(settings: dict[str, Any]) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        parse_full_config(settings)
    return caught.value.problems


def with_nano(**sections: Any) -> dict[str, Any]:
    return {"agents": [NANO], **sections}


def test_smallest_file_fills_in_every_default() -> None:
    config = parse_full_config(with_nano())
    assert (config.readiness.points, config.readiness.clean_share, config.readiness.categories) == (5000, 0.95, 5)
    assert (
        config.section(GrpoSettings).tasks_per_iteration,
        config.section(GrpoSettings).group_size,
        config.section(GrpoSettings).optimiser.learning_rate,
    ) == (24, 8, 1e-4)
    assert config.canary.stages == (0.1, 0.5, 1.0)
    assert config.routing.floor <= 0.05
    assert config.improved_agent == config.agents[0]


def every_section() -> Iterator[type[Settings]]:
    """Yields all sections of the file and the settings nested in them."""
    kinds = [*CORE.values(), *sections().values()]
    while kinds:
        kind = kinds.pop()
        yield kind
        kinds += nested_settings(kind).values()


def test_sections_stay_small() -> None:
    """At most 15 fields besides those of the bases."""
    for kind in every_section():
        inherited = {member.name for base in kind.__bases__ if is_dataclass(base) for member in fields(base)}
        added = [member.name for member in fields(kind) if member.name not in inherited]
        assert len(added) <= 15, kind.__name__


def test_every_setting_is_read_somewhere() -> None:
    """A setting that no code reads as an attribute has no effect."""
    source = Path(__file__).parent.parent / "src" / "upturn"
    text = "\n".join(path.read_text() for path in source.rglob("*.py"))
    read = set(re.findall(r"\.([a-z_0-9]+)\b", text))
    names = {f"{kind.__name__}.{member.name}" for kind in every_section() for member in fields(kind)}
    assert not {name for name in names if name.rpartition(".")[2] not in read} - {"GrpoSettings.preset"}


PASSED_ON = {"RaySettings", "RemoteSettings"}
"""Classes that are also used without a configuration; the loop passes them every value of ``[rollouts]``."""


def settings_classes() -> Iterator[type[Any]]:
    """Yields every dataclass of the package with a name for settings."""
    for module in pkgutil.walk_packages(upturn.__path__, "upturn."):
        if ".adapters" in module.name or "__main__" in module.name or "migrations" in module.name:
            continue  # optional frameworks, which may not be installed
        for name, kind in vars(importlib.import_module(module.name)).items():
            is_named = re.search(r"(Settings|Config|Limits|Thresholds|Budget|Options)$", name)
            if is_named and isinstance(kind, type) and is_dataclass(kind) and kind.__module__ == module.name:
                yield kind


def test_no_setting_has_two_defaults() -> None:
    """No class outside of the configuration shares two or more field names with defaults with a section."""

    def names_with_default(kind: type[Any]) -> set[str]:
        return {member.name for member in fields(kind) if default_value(member) is not MISSING}

    sections = set(every_section())
    duplicates = []
    for other in settings_classes():
        if issubclass(other, Settings) or other.__name__ in PASSED_ON:
            continue
        for kind in sections:
            shared = names_with_default(other) & names_with_default(kind)
            if len(shared) >= 2:
                duplicates.append((other.__name__, kind.__name__, sorted(shared)))
    assert duplicates == []


def test_resolved_configuration_reads_back_equal_with_equal_hash() -> None:
    config = parse_full_config(with_nano(grpo={"iterations": 7, "patience": 2}, canary={"stages": [0.2, 1.0]}))
    parsed = parse_full_config(json.loads(config.to_json()))
    assert parsed == config
    assert parsed.config_hash == config.config_hash


def test_hash_depends_on_values_not_on_which_are_written() -> None:
    assert parse_full_config(with_nano()).config_hash == parse_full_config(with_nano(run={"seed": 0})).config_hash
    assert parse_full_config(with_nano()).config_hash != parse_full_config(with_nano(run={"seed": 1})).config_hash


def test_all_problems_are_reported_together() -> None:
    problems = problems_of(
        {
            "agents": [
                {**NANO, "temperature": float("nan")},
                {"name": "A b", "kind": "rule_based", "url": "http://x"},
            ],
            "run": {"sed": 3},
            "routing": {"floor": 0.2},
            "rewards": {"weights": {"success": -1}},
            "grpo": {"minibatches": 99},
            "canary": {"stages": [0.5, 0.4], "min_candidate_tasks": 3000},
            "extra": {},
        }
    )
    names = [problem.split(" ")[0].rstrip(":") for problem in problems]
    assert sorted(names) == sorted(
        [
            "agents[0].temperature",
            "agents[1].name",
            "run.sed",
            "routing.floor",
            "rewards.weights",
            "canary.stages",
            "extra",
            # contradictions between settings that are valid alone
            "agents[1].kind",
            "agents[1].url",
            "grpo.minibatches",
            "canary",
        ]
    )
    assert ConfigError.exit_code == 2
    assert str(ConfigError(problems)).startswith("11 problems in the configuration:\n  - ")


@pytest.mark.parametrize(
    ("sections", "problem"),
    [
        (
            {"run": {"device": "gpu"}},
            "run.device: must be auto, cpu, mps, cuda or a card such as cuda:1, got 'gpu'",
        ),
        ({"run": {"sed": 1}}, "run.sed: unknown setting; did you mean 'seed'? known: seed, threads, device"),
        ({"grop": {}}, "grop: unknown section; did you mean 'grpo'? known: run, pool,"),
        ({"run": {"seed": "1"}}, "run.seed: input should be a valid integer, got '1'"),
        ({"run": {"seed": True}}, "run.seed: input should be a valid integer, got True"),
        ({"run": 3}, "run: must be a table, got 3"),
        ({"grpo": {"group_size": 0}}, "grpo.group_size: input should be greater than or equal to 1, got 0"),
        ({"routing": {"policy": "best"}}, "routing.policy: input should be 'thompson', 'linear_thompson'"),
        ({"canary": {"stages": [0.1, 0.5]}}, "canary.stages: stages must rise from above 0 to exactly 1.0"),
        (
            {"rewards": {"weights": {}}},
            "rewards.weights: weights must name at least one reward component with a positive weight",
        ),
        ({"agents": []}, "agents: at least one [[agents]] is needed"),
        (
            {"agents": [{"kind": "local_model", "model": "nano"}]},
            "agents[0].name: missing; it has no default; set it",
        ),
        ({"agents": [{**NANO, "kind": "robot"}]}, "agents[0].kind: input should be 'local_model'"),
    ],
)
def test_invalid_value_is_reported_with_the_allowed_values(sections: dict[str, Any], problem: str) -> None:
    (reported,) = problems_of(with_nano() | sections)
    assert reported.startswith(problem)


def test_missing_agents_are_reported_with_the_table_to_add() -> None:
    assert problems_of({}) == ("agents: missing; add at least one [[agents]]",)


@pytest.mark.parametrize(
    ("raw", "sides"),
    [
        ({"agents": [NANO, NANO], "loop": {"improve": "nano"}}, ("agents[0].name", "agents[1].name")),
        ({"agents": [NANO, {**RULES, "temperature": 0.5}]}, ("agents[1].temperature = 0.5", "'rule_based'")),
        (
            {"agents": [NANO, {"name": "e", "kind": "endpoint", "model": "m"}]},
            ("'endpoint' needs", "agents[1].url"),
        ),
        (
            {"agents": [NANO, {**FAR, "template_options": {"enable_thinking": False}}]},
            ("agents[1].template_options = {'enable_thinking': False}", "'endpoint'"),
        ),
        ({"agents": [NANO, {**FAR, "weights": "bfloat16"}]}, ("agents[1].weights = 'bfloat16'", "'endpoint'")),
        (
            {"agents": [{**NANO, "weights": "bfloat16"}]},
            ("agents[0].weights = 'bfloat16' cannot be trained", "optimiser.precision"),
        ),
        ({"lora": {"rank": 4, "base": "nf4"}}, ("lora.base = 'nf4' needs", "but optimiser.precision is 'float32'")),
        (
            {"lora": {"rank": 4, "base": "nf4"}, **SHORT_WEIGHTS, "grpo": {"optimiser": {"precision": "float32"}}},
            ("lora.base = 'nf4' needs bfloat16", "grpo.optimiser.precision is 'float32'"),
        ),
        ({"rollouts": {"place": "ray"}, "grpo": SHORT_WEIGHTS}, ("place = 'ray'", "grpo.optimiser.precision = ")),
        (
            {"rollouts": {"place": "ray"}, **SHORT_WEIGHTS},
            ("place = 'ray'", "but optimiser.precision = 'bfloat16_w"),
        ),
        (
            {"agents": [FAR], "loop": {"train": []}, "run": {"device": "cuda"}},
            ("run.device = 'cuda' has no effect", "local model"),
        ),
        ({"agents": [{**NANO, "api_key_env": "KEY"}]}, ("agents[0].api_key_env = 'KEY'", "'local_model'")),
        ({"agents": [{**NANO, "tools": "text"}]}, ("agents[0].tools = 'text'", "'local_model'")),
        ({"agents": [NANO, {**PROGRAM}]}, ("agents[1].kind = 'program'", "import_path or agents[1].command")),
        (
            {"agents": [NANO, {**PROGRAM, "import_path": "a:b", "command": ["ls"]}]},
            ("agents[1].kind = 'program'", "set one of them"),
        ),
        (
            {"agents": [NANO, {**PROGRAM, "import_path": "a:b", "prompt": "x"}]},
            ("agents[1].prompt = 'x'", "'program'"),
        ),
        (
            {"agents": [{**NANO, "context": {"low_mark": 0.5}}]},
            ("agents[0].context.low_mark = 0.5", "without agents[0].context.tokens"),
        ),
        (
            {"agents": [NANO, {**RULES, "context": {"tokens": 999}}]},
            ("agents[1].context.tokens = 999", "agents[1].kind = 'rule_based'"),
        ),
        (
            {"agents": [{**NANO, "context": {"tokens": 160}}]},
            ("agents[0].context.summary_tokens = 48", "agents[0].context.tokens = 160", "at most 40 tokens"),
        ),
        (
            {"agents": [{**NANO, "context": {"tokens": 300, "observation_tokens": 280}}]},
            ("agents[0].context.tokens = 300", "observation of 280", "environment.max_action_tokens = 64"),
        ),
        (
            {"agents": [{**NANO, "context": {"tokens": 512}}], "environment": {"max_tokens": 512}},
            ("agents[0].context.tokens = 512", "environment.max_tokens = 512"),
        ),
        (
            {"environment": {"max_tokens": 32, "max_action_tokens": 33}},
            ("environment.max_action_tokens = 33", "environment.max_tokens = 32"),
        ),
        ({"tasks": {"file": "t.jsonl", "levels": [1]}}, ("tasks.levels = (1,)", "tasks.file = 't.jsonl'")),
        (
            {"routing": {"rules": {"mail": "nano"}}},
            ("routing.rules = {'mail': 'nano'}", "routing.policy = 'thompson'"),
        ),
        ({"routing": {"policy": "uniform", "floor": 0.02}}, ("routing.floor = 0.02", "routing.policy = 'uniform'")),
        ({"routing": {"policy": "fixed_weights"}}, ("routing.policy = 'fixed_weights'", "routing.weights")),
        (
            {"routing": {"policy": "fixed_weights", "weights": {"gone": 1.0}}},
            ("routing.weights.gone", "[[agents]] has: nano"),
        ),
        ({"routing": {"policy": "ucb1", "discount": 0.9}}, ("routing.discount = 0.9", "routing.policy = 'ucb1'")),
        (
            {"routing": {"policy": "gaussian_thompson", "discount": 0.9, "window": 50}},
            ("routing.discount = 0.9", "routing.window = 50 both forget"),
        ),
        ({"routing": {"policy": "rule_based"}}, ("routing.policy = 'rule_based'", "routing.default_agent")),
        (
            {"routing": {"policy": "rule_based", "default_agent": "nano", "rules": {"mail": "gone"}}},
            ("routing.rules.mail = 'gone'", "[[agents]] has: nano"),
        ),
        ({"loop": {"train": ["grpo"]}, "sft": {"epochs": 2}}, ("sft.epochs = 2", "loop.train = ['grpo']")),
        (
            {"loop": {"train": ["sft"]}, "grpo": {"objective": {"clip_high": 0.1}}},
            ("grpo.objective.clip_high = 0.1", "loop.train = ['sft']"),
        ),
        ({"rewards": {"overlong_tokens": 90}}, ("rewards.overlong_tokens", "rewards.overlong_buffer")),
        (
            {"rewards": {"overlong_tokens": 90, "overlong_buffer": 90}},
            ("rewards.overlong_buffer = 90", "rewards.overlong_tokens = 90"),
        ),
        (
            {"rewards": {"overlong_tokens": 90, "overlong_buffer": 9}, "loop": {"train": ["sft"]}},
            ("rewards.overlong_tokens = 90", "loop.train = ['sft']"),
        ),
        (
            {"rewards": {"overlong_tokens": 1124, "overlong_buffer": 100}},
            (
                "rewards.overlong_tokens = 1124 has no effect",
                "starts above 1024 tokens",
                "environment.max_turns = 16 times environment.max_action_tokens = 64 allow 1024",
            ),
        ),
        (
            {"grpo": {"iterations": 3, "evaluate_every": 4}},
            ("grpo.evaluate_every = 4", "grpo.iterations = 3"),
        ),
        ({"ppo": {"iterations": 4}}, ("ppo.evaluate_every = 5", "ppo.iterations = 4")),
        ({"world_model": {"iterations": 4}}, ("world_model.evaluate_every = 5", "world_model.iterations = 4")),
        ({"offline": {"iterations": 4}}, ("offline.evaluate_every = 5", "offline.iterations = 4")),
        ({"rejection": {"evaluate_every": 2}}, ("rejection.evaluate_every = 2", "rejection.iterations = 1")),
        ({"grpo": {"minibatches": 25}}, ("grpo.minibatches = 25", "grpo.tasks_per_iteration = 24")),
        (
            {"ppo": {"minibatches": 3, "tasks_per_iteration": 2}},
            ("ppo.minibatches = 3", "ppo.tasks_per_iteration = 2"),
        ),
        (
            {"ppo": {"critic": {"minibatches": 25}}},
            ("ppo.critic.minibatches = 25", "ppo.tasks_per_iteration = 24"),
        ),
        ({"offline": {"minibatches": 25}}, ("offline.minibatches = 25", "offline.groups = 24")),
        ({"mixture": {"minibatches": 25}}, ("mixture.minibatches = 25", "mixture.tasks_per_iteration = 24")),
        ({"iterated": {"selection": {"top": 9}}}, ("iterated: selection.top=9", "group_size=8")),
        ({"star": {"selection": {"top": 3}, "group_size": 2}}, ("star: selection.top=3", "group_size=2")),
        (
            {"curriculum": {"policy": "uniform", "levels": {"max_drop": 0.5}}},
            ("curriculum: levels would do nothing", "policy='uniform'"),
        ),
        ({"rollouts": {"workers": 3}}, ("rollouts.workers = 3", "rollouts.place = 'process'")),
        ({"rollouts": {"folder": "x"}}, ("rollouts.folder = 'x'", "rollouts.place = 'process'")),
        (
            {"rollouts": {"place": "ray", "api_key_env": "X"}},
            ("rollouts.api_key_env = 'X'", "rollouts.place = 'ray'"),
        ),
        ({"rollouts": {"timeout_seconds": 9.0}}, ("rollouts.timeout_seconds = 9.0", "rollouts.place = 'process'")),
        ({"rollouts": {"max_length": 9}}, ("rollouts.max_length = 9", "rollouts.place = 'process'")),
        (
            {"rollouts": {"place": "ray", "url": "http://x"}},
            ("rollouts.url = 'http://x'", "rollouts.place = 'ray'"),
        ),
        ({"rollouts": {"gpus_per_worker": 1}}, ("rollouts.gpus_per_worker = 1", "rollouts.place = 'process'")),
        (
            {"rollouts": {"place": "ray", "gpus_per_worker": 1}, "run": {"device": "cpu"}},
            ("rollouts.gpus_per_worker = 1", "run.device = 'cpu'"),
        ),
        ({"rollouts": {"place": "engine"}}, ("rollouts.place = 'engine'", "needs rollouts.url")),
        (
            {"rollouts": {"place": "engine", "url": "http://x", "workers": 3}},
            ("rollouts.workers = 3", "rollouts.place = 'engine'"),
        ),
        (
            {
                "rollouts": {"place": "engine", "url": "http://x", "dialect": "vllm", "weights": "bfloat16"},
                "lora": {"rank": 8},
            },
            ("rollouts.weights = 'bfloat16'", "rollouts.dialect = 'vllm' and [lora]"),
        ),
        ({"rollouts": {"logprobs": "raw"}}, ("rollouts.logprobs = 'raw'", "rollouts.place = 'process'")),
        (
            {"rollouts": VLLM, "grpo": {"temperature": 0.7}},
            ("grpo.temperature = 0.7", "the default of rollouts.dialect = 'vllm'", "--logprobs-mode processed"),
        ),
        (
            {"rollouts": {"place": "engine", "url": "http://x", "logprobs": "raw"}, "ppo": {"temperature": 1.2}},
            ("ppo.temperature = 1.2", "rollouts.logprobs = 'raw'", "without SGLANG_RETURN_ORIGINAL_LOGPROB"),
        ),
        ({"rollouts": {"weights": "bfloat16"}}, ("rollouts.weights = 'bfloat16'", "rollouts.place = 'process'")),
        ({"lora": {"alpha": 16}}, ("lora.rank: missing", "set it")),
        (
            {"loop": {"train": []}, "lora": {"rank": 8}},
            ("lora has no effect", "loop.train = []"),
        ),
        (
            {"loop": {"train": []}, "trackers": {"use": ["wandb"]}},
            ("trackers.use = ('wandb',) has no effect", "loop.train = []"),
        ),
        ({"trackers": {"project": "mail"}}, ("trackers: project='mail'", "use=()")),
        ({"trackers": {"use": ["mlflow", "wandb", "mlflow"]}}, ("trackers: use names 'mlflow' twice", "once")),
        (
            {"online_dpo": {"pairs": {"by": "turn", "continuations": 8}}},
            ("online_dpo.pairs: continuations=8", "valued_by='returns'"),
        ),
        (
            {"online_dpo": {"pairs": {"by": "turn"}, "critic": {"passes": 3}}},
            ("online_dpo: critic would do nothing", "pairs.monte_carlo_share=1"),
        ),
        ({"agents": [RULES]}, ("loop.train = ['sft', 'grpo'] would train", "[[agents]]")),
        ({"loop": {"improve": "rules"}, "agents": [NANO, RULES]}, ("loop.improve = 'rules'", "those are: nano")),
        (
            {"agents": [NANO, {**NANO, "name": "hot", "temperature": 2.5}]},
            ("several with a local model (nano, hot)", "loop.improve"),
        ),
        (
            {"loop": {"train": [], "improve": "nano"}},
            ("loop.improve = 'nano'", "loop.train = []"),
        ),
        (
            {"canary": {"min_candidate_tasks": 50, "max_candidate_episodes": 40}},
            ("canary: min_candidate_tasks = 50", "max_candidate_episodes = 40"),
        ),
        (
            {"tasks": {"families": ["mail"], "train_families": ["mail", "sheet"]}},
            ("tasks.train_families names 'sheet'", "tasks.families = ('mail',)"),
        ),
        ({"tasks": {"count": 100}}, ("readiness.points = 5000", "tasks.count = 100")),
        (
            {"tasks": {"heldout_count": 29}},
            ("tasks.heldout_count = 29 is fewer than the 30", "loop.train = []"),
        ),
    ],
)
def test_contradiction_names_both_sides(raw: dict[str, Any], sides: tuple[str, ...]) -> None:
    (problem,) = problems_of(with_nano() | raw)
    assert all(side in problem for side in sides), problem


@pytest.mark.parametrize(
    "sections",
    [
        {"agents": [RULES], "loop": {"train": []}},
        {"tasks": {"count": 100}, "pool": {"path": "shared.db"}},
        {"tasks": {"count": 1000}, "loop": {"cycles": 5}},
        {"agents": [NANO, {**NANO, "name": "hot"}], "loop": {"improve": "hot"}},
        {"routing": {"policy": "rule_based", "default_agent": "nano"}},
        {"loop": {"train": ["grpo"]}, "grpo": {"iterations": 5}},
        {"tasks": {"heldout_count": 30}},
        {"agents": [{**NANO, "context": {"tokens": 511}}], "environment": {"max_tokens": 512}},
        {"iterated": {"group_size": 3}},
        {"iterated": {"group_size": 3, "selection": {"top": 3}}},
        {"curriculum": {"policy": "levels", "gate": {"low": 0.2}, "levels": {"max_drop": 0.5}}},
        {"rollouts": {"place": "ray", "workers": 3, "folder": "x"}},
        {"rollouts": {"place": "engine", "url": "http://localhost:30000", "folder": "x"}},
        {"rollouts": {"place": "engine", "url": "http://localhost:8000", "dialect": "vllm"}, "lora": {"rank": 8}},
        {"rollouts": {"place": "engine", "url": "http://x", "dialect": "vllm", "weights": "bfloat16"}},
        {"lora": {"rank": 4, "base": "nf4"}, **SHORT_WEIGHTS, "agents": [{**NANO, "weights": "bfloat16"}]},
        {"rollouts": {**VLLM, "logprobs": "raw"}},
        {"rollouts": {**VLLM, "logprobs": "processed"}, "grpo": {"temperature": 0.7}},
        {"rollouts": {"place": "engine", "url": "http://x"}, "grpo": {"temperature": 0.7}},
        {"rollouts": VLLM, "online_dpo": {"temperature": 0.7}},
        {"rollouts": {"place": "ray"}, "lora": {"rank": 8, "alpha": 8, "targets": ["q_proj"]}},
        {"world_model": {"warm_up": False}},
        {"rejection": {"group_size": 4}},
        {"online_dpo": {"pairs": {"by": "turn", "monte_carlo_share": 0.5}, "critic": {"passes": 3}}},
        {"online_dpo": {"pairs": {"by": "turn", "valued_by": "state_values", "continuations": 4}}},
        {"tasks": {"heldout_count": 5}, "loop": {"train": []}},
    ],
)
def test_consistent_settings_are_accepted(sections: dict[str, Any]) -> None:
    config = parse_full_config(with_nano() | sections)
    assert parse_full_config(json.loads(config.to_json())) == config


def test_fewest_heldout_tasks_are_those_that_validation_needs() -> None:
    assert ValidationSettings().min_tasks == FEWEST_HELDOUT


def test_contradictions_with_an_invalid_setting_are_not_reported() -> None:
    # default_agent is for rule_based only, but whether it contradicts the misspelt policy is unknown
    (problem,) = problems_of(with_nano(routing={"policy": "rule-based", "default_agent": "nano"}))
    assert problem.startswith("routing.policy: ")


def test_improved_agent_is_the_named_one_or_none_without_training() -> None:
    agents = [NANO, {**NANO, "name": "hot"}]
    chosen = parse_full_config({"agents": agents, "loop": {"improve": "hot"}}).improved_agent
    assert chosen is not None
    assert chosen.name == "hot"
    assert parse_full_config({"agents": agents, "loop": {"train": []}}).improved_agent is None


def test_example_in_the_reference_page_is_a_complete_configuration() -> None:
    page = Path(__file__).parent.parent / "docs" / "configuration.md"
    example = page.read_text().split("```toml\n")[1].split("```")[0]
    assert parse_full_config(tomllib.loads(example)).agents[0].name == "nano"
