"""Every code block of the README and of docs/ works: Python is run, TOML is loaded, commands are parsed or run.

A block that cannot be run has the comment ``<!-- not run: reason -->`` before it. Blocks that another test runs are
in ``ELSEWHERE`` with its name. Blocks of kind ``text`` are no code.
"""

import inspect
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from transformers import PreTrainedModel
from typer.main import get_command
from typer.testing import CliRunner

from benchmarks.__main__ import app as benchmarks_app
from tests.postgres_server import PostgresServer
from upturn.arbiter import AgentRegistry, DiscountedThompson, Router, RunKey
from upturn.cli.app import app
from upturn.deployment import CanarySettings, Override, RegistryTraffic, apply_traffic, start
from upturn.environments import oracle_of, play, resolve_kit
from upturn.loop.trainers import parse_full_config
from upturn.models import load_local
from upturn.records import AgentVersion, Alternative, Decision, Evaluation, Task
from upturn.training.algorithms.grpo import GrpoSettings, run_grpo

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
AGENT = {"name": "nano", "kind": "local_model", "model": "nano"}


class Block(NamedTuple):
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    text: str
    reason: str
    """Why it is not run; empty = it is."""

    @property
    def name(self) -> str:
        """Page and first line, which are stable while other text moves."""
        return f"{self.page}: {self.text.strip().splitlines()[0]}"


def blocks_of(text: str, page: str) -> Iterator[Block]:
    pattern = re.compile(r"(?:^<!-- not run: (.*?) -->\n)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    for found in pattern.finditer(text):
        yield Block(page, text[: found.start()].count("\n") + 1, found[2], found[3], found[1] or "")


BLOCKS = [block for page in PAGES for block in blocks_of(page.read_text(encoding="utf-8"), page.name)]
ADAPTERS = "tests/environments/adapters/test_adapters_page.py"
ENVIRONMENTS = "tests/environments/test_environments_page.py"
SANDBOX = "tests/environments/sandbox/test_bubblewrap.py"
ELSEWHERE = {
    "README.md: import re": "tests/test_readme.py::test_environment_keeps_the_contract_and_grades_actions",
    "environments.md: from upturn.environments import check_environment, one_step": (
        f"{ENVIRONMENTS}::test_the_pages_example_works"
    ),
    "environments.md: from itertools import count": (
        f"{ENVIRONMENTS}::test_the_pages_multi_step_example_validates"
    ),
    "environments.md: from upturn.environments import Solved, program_kit": (
        f"{ENVIRONMENTS}::test_the_pages_example_for_programs_validates"
    ),
    "sandbox.md: from upturn.environments.sandbox import Bubblewrap, sandbox_environment": (
        f"{SANDBOX}::test_the_pages_example_works"
    ),
    "sandbox.md: import tempfile": "tests/environments/sandbox/test_session.py::test_the_pages_example_works",
    "programs.md: import httpx2": "tests/agents/program/test_program.py::test_the_pages_example_works",
    "environments.md: import gymnasium": f"{ADAPTERS}::test_the_gymnasium_example_works",
    "environments.md: import uvicorn": f"{ADAPTERS}::test_the_openenv_example_works",
    "environments.md: from upturn.environments.adapters.openenv import KitAction, KitClient": (
        f"{ADAPTERS}::test_the_openenv_example_works"
    ),
    "environments.md: from upturn.environments.adapters.verifiers import KitEnv, KitTaskset": (
        f"{ADAPTERS}::test_the_verifiers_example_is_discovered_by_verifiers"
    ),
}
"""Tests of Python blocks, by the blocks' names."""


def blocks(language: str) -> list[Any]:
    return [pytest.param(block, id=block.name) for block in BLOCKS if block.language == language]


def test_every_block_has_a_known_kind() -> None:
    kinds = {block.language for block in BLOCKS}
    assert kinds <= {"python", "toml", "json", "console", "text"}
    assert [block.name for block in BLOCKS if not block.language] == []
    fences = sum(page.read_text(encoding="utf-8").count("\n```") for page in PAGES)
    assert fences == 2 * len(BLOCKS), "every fence belongs to a block"


def test_blocks_run_by_other_tests_exist_and_so_do_the_tests() -> None:
    names = [block.name for block in BLOCKS]
    for name, test in ELSEWHERE.items():
        assert names.count(name) == 1
        path, _, function = test.partition("::")
        assert f"def {function}(" in (ROOT / path).read_text(encoding="utf-8")


# Python


def pool_names() -> dict[str, Any]:
    kit = resolve_kit("office")
    task = next(iter(kit.tasks(seed=0, split="train", families=["mail_flag"])))
    oracle = oracle_of(kit, task)
    assert oracle is not None
    trajectory = play(kit.environment(task), task, oracle)
    return {"task": task, "trajectory": trajectory, "evaluation": kit.verifier.verify(task, trajectory)}


def logged_decision(number: int, chosen: str) -> Decision:
    both = (Alternative("nano@1", 0.5, None), Alternative("nano@2", 0.5, None))
    name = f"t{number}"
    return Decision(f"d{number}", name, "mail", "default", "p", "h", both, "nano", chosen, 0.5, "drawn")


def log_names() -> dict[str, Any]:
    rng = Random(0)
    drawn = [rng.choice(("nano@1", "nano@2")) for _ in range(400)]
    logged = [(logged_decision(number, chosen), float(rng.random() < 0.5)) for number, chosen in enumerate(drawn)]
    return {"logged": logged}


def release_names() -> dict[str, Any]:
    """A candidate that always succeeds over an incumbent that succeeds half of the time."""
    incumbent, candidate = (AgentVersion("clerk", number, "rule_based") for number in "12")
    registry = AgentRegistry()
    registry.add(incumbent)
    router, rng, number = Router(registry, DiscountedThompson(), RunKey("run", 0)), Random(0), iter(range(10**6))

    def next_block() -> list[tuple[Decision, Evaluation]]:
        served = []
        for _ in range(50):
            name = f"t{next(number)}"
            decision = router.decide(Task(name, "do", "mail", "office"))
            is_right = decision.chosen == candidate.id or rng.random() < 0.5
            verdict: Any = "success" if is_right else "failure"
            served.append(
                (
                    decision,
                    Evaluation(f"e-{name}", name, f"t-{name}", "v/1", verdict, (), {}, {"leak": 0.0}, None),
                )
            )
        return served

    versions = {version.id: version for version in (incumbent, candidate)}
    return {
        "incumbent": incumbent,
        "candidate": candidate,
        "validation": Override("ana", "hotfix"),
        "registry": registry,
        "version_of": versions.__getitem__,
        "next_block": next_block,
    }


def late_names() -> dict[str, Any]:
    """A release, and ten decisions of which one has no outcome yet."""
    names = release_names()
    settings = CanarySettings(safety_costs=("leak",))
    release = start(names["incumbent"], names["candidate"], settings, Override("ana", "hotfix"))
    apply_traffic(release, RegistryTraffic(names["registry"], names["version_of"]))
    outcomes = {decision.id: evaluation for decision, evaluation in names["next_block"]()[:10]}
    decisions = [decision for decision, _ in names["next_block"]()[:10]]
    evaluations = dict(zip((decision.id for decision in decisions[:9]), outcomes.values(), strict=False))
    return {
        "settings": settings,
        "release": release,
        "waiting": [],
        "new_decisions": lambda: [(decision, float(number)) for number, decision in enumerate(decisions)],
        "with_outcome": lambda item: item._replace(
            served=item.served._replace(evaluation=evaluations.get(item.served.decision.id))
        ),
        "clock": lambda: 100.0,
    }


def distributed_names() -> dict[str, Any]:
    """A single process, which only calls what the run is given."""
    saved: list[PreTrainedModel] = []
    return {
        "load": lambda: load_local("nano").model,
        "collect": lambda iteration: [iteration],
        "evaluate": lambda _: 0.5,
        "settings": GrpoSettings(),
        "folder": Path("run"),
        "save": saved.append,
        "saved": saved,
    }


NAMES: dict[str, Callable[[], dict[str, Any]]] = {
    "evaluation.md: from random import Random": dict,
    "evaluation.md: from upturn.rewards.judging import Pair, compare_pairs, label_accuracy, measure_biases, "
    "rogan_gladen": dict,
    "evaluation.md: from upturn.rewards import Gate, Rubric, Sequential, WeightedSum": dict,
    "evaluation.md: from upturn.rewards.difference import compare_patch, minimal_difference": dict,
    "evaluation.md: from upturn.rewards.hacking import Change, find_hacks": dict,
    "sandbox.md: import asyncio": dict,
    "models.md: from upturn.training.algorithms.grpo import run_grpo": distributed_names,
    "pool.md: from upturn.pool import Pool, Selection": pool_names,
    "batches.md: from upturn.pool import BatchCriteria, Pool, Priorities, freeze_batch, get_batch, redraw": dict,
    "similar.md: from upturn.pool import Pool, Question, SuccessIndex": dict,
    "routing.md: from upturn.arbiter import AgentRegistry, DiscountedThompson, Router, RoutingOutcome, "
    "RunKey": dict,
    "routing.md: from upturn.arbiter import LoggedOutcome, always, self_normalised": log_names,
    "routing.md: from upturn.arbiter import LoggedOutcome": log_names,
    "releases.md: from upturn.deployment import Canary, CanarySettings, RegistryTraffic, Served, apply_traffic, "
    "episodes_of, start": release_names,
    "releases.md: from upturn.deployment import Awaited, Canary, Served, episodes_of, split_settled": late_names,
}
"""The names that a block takes from its page's text."""


def fake_run_grpo(*arguments: Any, **named: Any) -> None:
    """Calls what the real function calls, with arguments that it accepts."""
    bound = inspect.signature(run_grpo).bind(*arguments, **named)
    assert bound.arguments["collect"](0) == [0]
    assert bound.arguments["options"].evaluate(0) == 0.5


@pytest.mark.parametrize("block", blocks("python"))
def test_python_runs(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("upturn.training.algorithms.grpo.run_grpo", fake_run_grpo)
    if block.name in ELSEWHERE or block.reason:
        return
    names = NAMES[block.name]()
    exec(block.text, names)
    if "saved" in names:
        assert [type(model).__name__ for model in names["saved"]] == ["Qwen2ForCausalLM"]
    if "waiting" in names:
        assert len(names["waiting"]) == 1
        last = names["release"].evidence[-1]
        assert last.candidate_tasks + last.control_tasks == 9
    elif "release" in names:
        assert names["release"].state == "promoted"
    if "hack_findings" in names:
        assert [(one.rule, one.line) for one in names["hack_findings"]] == [("special-case", 2)]
    if "rubric" in names:
        assert names["score"] == pytest.approx(0.75 - 0.1 / 4)
    if "smallest" in names:
        assert (names["smallest"].edits, names["patch"].edits) == (1, 12)
    if "rate" in names:
        assert (names["accuracy"], round(names["rate"].mean, 3)) == (0.5, 0.571)
    if "match" in names:
        assert [(fault.kind, fault.parameter) for fault in names["match"].faults] == [("type", "days")]
    if "estimate" in names:
        assert names["estimate"].low < 0.5 < names["estimate"].high
    if "best" in names:
        assert names["best"].families == ("mail",)
        assert (tmp_path / "upturn.db").exists()


# TOML and JSON


@pytest.mark.parametrize("block", blocks("toml"))
def test_toml_is_a_configuration(block: Block) -> None:
    raw = tomllib.loads(block.text)
    config = parse_full_config(raw if "agents" in raw else raw | {"agents": [AGENT]})
    assert config.agents


@pytest.mark.parametrize("block", blocks("json"))
def test_json_is_one_object_a_line(block: Block) -> None:
    for line in block.text.splitlines():
        assert isinstance(json.loads(line), dict)


# Commands


def commands_of(block: Block) -> list[str]:
    """The block's commands; with prompts, other lines are output."""
    lines = [line for line in block.text.splitlines() if line.strip()]
    prompted = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return prompted or lines


def parse(command: Any, words: list[str], name: str) -> None:
    """Parses the words as the command line does, without running anything."""
    parent = None
    while hasattr(command, "list_commands"):
        parent = command.context_class(command, info_name=name, parent=parent)
        name, command, words = command.resolve_command(parent, words)
    command.make_context(name, words, parent=parent)


def check_command(line: str) -> None:
    words = shlex.split(line, comments=True)
    if ">" in words:  # the shell's
        words = words[: words.index(">")]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    if words[0] == "make":
        assert {word for word in words[1:] if "=" not in word} <= targets, line
    elif words[1:3] == ["-m", "benchmarks"]:
        parse(get_command(benchmarks_app), words[3:], "benchmarks")
    else:
        places = [index for index, word in enumerate(words) if word.rpartition("/")[2] == "upturn"]
        assert places, f"{line!r} is no command of this project"
        assert places[0] == 0 or words[0] in ("torchrun", "accelerate")
        parse(get_command(app), words[places[0] + 1 :], "upturn")


@pytest.mark.parametrize("block", blocks("console"))
def test_commands_are_parsed(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT if block.page == "README.md" else tmp_path)
    if not block.reason:
        for line in commands_of(block):
            check_command(line)


def test_commands_in_sentences_exist_with_their_options() -> None:
    """``upturn loop run|status`` names two; what is in capitals or has three dots is a placeholder."""
    root = get_command(app)
    for page in PAGES:
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for found in re.finditer(r"`(?:\.venv/bin/)?upturn ([^`]+)`", text):
            for words in alternatives(shlex.split(found[1].replace("\n", " "))):
                check_words(root, words, f"{page.name}: {found[0]}")


def alternatives(words: list[str]) -> Iterator[list[str]]:
    for index, word in enumerate(words):
        if "|" in word and not word.startswith("-"):
            for choice in word.split("|"):
                yield from alternatives([*words[:index], choice, *words[index + 1 :]])
            return
    yield words


def check_words(command: Any, words: list[str], where: str) -> None:
    context = command.context_class(command, info_name="upturn")
    while hasattr(command, "list_commands") and words and not words[0].startswith("-"):
        if words[0].isupper() or words[0] == "…":
            return
        name, command, words = command.resolve_command(context, words)
        context = command.context_class(command, info_name=name, parent=context)
    options = {
        spelling for parameter in command.params for spelling in (*parameter.opts, *parameter.secondary_opts)
    }
    used = {word.partition("=")[0] for word in words if word.startswith("--")}
    assert used <= {*options, "--help", "--version"}, where


def run_block(page: str, start: str, folder: Path, codes: tuple[int, ...] = (0,)) -> list[str]:
    """Runs the commands of the block that starts with ``start``; returns their outputs."""
    [block] = [block for block in BLOCKS if block.page == page and block.text.startswith(start)]
    outputs = []
    for line in commands_of(block):
        words = shlex.split(line, comments=True)
        done = CliRunner().invoke(app, words[1:])
        assert done.exit_code in codes, (line, done.output, done.exception)
        outputs.append(done.output)
    return outputs


def test_the_path_from_logs_to_a_report_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_server: PostgresServer
) -> None:
    monkeypatch.chdir(tmp_path)
    sample, settings = (
        next(block.text for block in BLOCKS if (block.page, block.language) == ("pool.md", language))
        for language in ("json", "toml")
    )
    (tmp_path / "talks.jsonl").write_text(sample)
    outputs = run_block("pool.md", "upturn ingest talks.jsonl", tmp_path, codes=(0, 1))
    ingested, quarantined, validated, ready, _, frozen, listed, _ = outputs
    assert "4 trajectories" in ingested
    assert "1 lines" in ingested
    assert "did you mean 'reward'" in quarantined
    assert re.search(r"clean_points +3", validated)
    assert re.search(r"supervised +yes +2 successes +upturn train sft", ready)
    for line in settings.split("\n\n")[0].strip().splitlines():
        assert f"  {line}" in ready.splitlines()
    assert "<title>Pool" in (tmp_path / "pool.html").read_text(encoding="utf-8")
    (snapshot,) = re.findall(r"snapshot: ([0-9a-f]{64})", frozen)
    assert snapshot in listed
    exported = (tmp_path / "evidence.jsonl").read_text()
    assert "ruth.klein" not in exported
    assert "<EMAIL>" in exported
    run_block("pool.md", "upturn pool stats", tmp_path, codes=(0, 1))  # no environment has these tasks
    (tmp_path / "upturn.toml").write_text(settings)
    plan = CliRunner().invoke(app, ["train", "sft", "--dry-run", "--json"])
    assert json.loads(plan.stdout)["learns_from"] == "1 verified successes from the pool"
    place = postgres_server.create_database()
    try:
        url = place.url.render_as_string(hide_password=False).replace("+psycopg", "")
        moved = CliRunner().invoke(app, ["pool", "move", "--pool", "upturn.db", "--to", url])
    finally:
        postgres_server.drop_database(place)
    assert moved.exit_code == 0, moved.output


def test_the_commands_of_the_replay_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"{number},{number % 2},{(number + 1) % 3 == 0:d},{('a', 'b')[number % 2]}" for number in range(60)]
    (tmp_path / "outcomes.csv").write_text("\n".join(["task,gpt-x,local,topic", *rows]) + "\n")
    detected, chosen = run_block("routing.md", "upturn route replay", tmp_path)
    assert "gpt-x" in detected
    assert json.loads(chosen.splitlines()[-1])["command"] == "route replay"


# The smallest file


def test_the_smallest_file_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It serves and solves some of its first tasks; the run's seed is fixed (22.9 % of 5,000 are solved)."""
    monkeypatch.chdir(tmp_path)
    [smallest] = [block for block in BLOCKS if (block.page, block.language) == ("configuration.md", "toml")]
    (tmp_path / "upturn.toml").write_text(
        "[run]\nthreads = 1\n[tasks]\ncount = 12\n[loop]\ntrain = []\n" + smallest.text
    )
    done = CliRunner().invoke(app, ["loop", "run", "--json"])
    assert done.exit_code == 0, (done.output, done.exception)
    run = json.loads(done.stdout)["run"]
    stats = CliRunner().invoke(app, ["pool", "stats", "--pool", f"{run}/pool.db", "--json"])
    [agent] = json.loads(stats.stdout)["agents"]
    assert (agent["trajectories"], agent["missing"]) == (12, 0)
    assert agent["successes"] > 0
