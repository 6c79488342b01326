"""``upturn env``: its output and exit codes."""

import asyncio
import json
import re
import signal
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks.errands import ENVIRONMENT, FAMILIES, compose, make_task
from upturn.cli.app import main
from upturn.cli.env.bench import (
    BARS,
    COLD_RESETS,
    _failures,
    _formula_variants,
    _measure_cold_resets,
    _measure_verifier,
    _parts,
    _play,
    _solve,
    _with_bar,
)
from upturn.cli.env.commands import _interruptible, env_app
from upturn.environments import Step, hint_of, resolve_kit
from upturn.environments.office.generation.profile import profile
from upturn.environments.stepwise import read_action
from upturn.environments.validation.determinism import digests
from upturn.errors import UnknownNameError
from upturn.models import write_call
from upturn.records import Action, Result

SHOP = """
from dataclasses import replace
from upturn.environments import one_step
def make(rng):
    count = rng.randint(1, 10_000)
    return f"twice {count}?", {"answer": str(2 * count)}
def kit():
    return one_step("shop", make, lambda action, right: action.parameters.get("text") == right["answer"])
class Unweighted:
    name = "shop/1"
    def verify(self, task, trajectory):
        evaluation = kit().verifier.verify(task, trajectory)
        return replace(evaluation, rewards={"success": evaluation.rewards["success"]})
def unweighted():
    shop = kit()
    shop.verifier = Unweighted()
    return shop
def careless():
    return one_step("careless", make, lambda action, right: action.parameters["text"] == right["answer"])
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop_for_test.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "shop_for_test", raising=False)


def run(*words: str, code: int = 0, text: str | None = None) -> dict[str, Any]:
    result = CliRunner().invoke(env_app, [*words, "--json"], input=text)
    assert result.exit_code == code, (result.output, result.exception)
    assert result.stdout.count("\n") == 1, "one object and nothing else on standard output"
    printed: dict[str, Any] = json.loads(result.stdout)
    printed["by_name"] = {result["name"]: result for result in printed["results"]}
    return printed


def solution(family: str) -> str:
    """The oracle's calls for the task of ``play`` with seed 0."""
    return "\n".join(write_call(action) for action in compose(make_task(family, 0)).draft.oracle) + "\n"


def test_list_names_families_and_levels() -> None:
    printed = run("list")
    levels = {name: family.level for name, family in FAMILIES.items()}
    assert list(printed["environments"]) == ["office", "repair", "repair-impossible"]
    assert run("list", ENVIRONMENT)["environments"] == {"errands": {"verifier": "errands/1", "levels": levels}}
    assert "mail_reply: 2" in CliRunner().invoke(env_app, ["list", ENVIRONMENT]).stdout


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """No subprocess and a short contract check, for speed."""
    monkeypatch.setattr("upturn.cli.env.validate.CONTRACT_TASKS", 2)
    monkeypatch.setattr(
        "upturn.environments.validation.kit.digests_in_subprocess",
        lambda name, families, tasks: digests(resolve_kit(name), families, tasks),
    )


def test_validate_shows_every_check_with_its_bar(fast: None) -> None:
    printed = run("validate", ENVIRONMENT, "--tasks", "2", "--family", "mail_file")
    checks = ["oracle", "ceiling", "floor", "rewarded", "random", "replay", "isolation", "canaries", "mutants"]
    attacks = [
        "nothing",
        "echo",
        "claim",
        "dump",
        "stuff",
        "empty",
        "delete",
        "spam",
        "repeat",
        "neighbour",
        "refuse",
    ]
    own = ["own outsider", "own refusal", "own no_end"]
    names = [*checks, *attacks, *own, "unjudged", "repeated", "constant", "determinism"]
    assert list(printed["by_name"]) == ["contract", *(f"{name} mail_file" for name in names)]
    assert printed["by_name"]["contract"]["value"] == "kept"
    assert (printed["unchecked"], printed["breaches"]) == (
        ["empty, repeat: not applicable in any family"],
        [],
    )
    bars = {"random": "<= 0.01", "mutants": ">= 0.95", "oracle": ">= 1", "floor": "<= 0", "nothing": "<= 0"}
    for name, bar in bars.items():
        result = printed["by_name"][f"{name} mail_file"]
        assert (result["bar"], result["holds"]) == (bar, True)
    assert printed["by_name"]["oracle mail_file"]["n"] == 2
    assert printed["by_name"]["determinism mail_file"]["n"] == 3, "twice here and once elsewhere"
    repeat = printed["by_name"]["repeat mail_file"]
    assert (repeat["value"], repeat["n"], repeat["bar"]) == ("not applicable", 0, None)


@pytest.mark.slow
def test_validate_shows_unusual_right_solutions_of_the_office(fast: None) -> None:
    result = CliRunner().invoke(env_app, ["validate", "office", "--tasks", "2", "--family", "mail_role"])
    assert result.exit_code == 0, result.output
    lines = [line.strip() for line in result.stdout.splitlines()]
    shown = lines[lines.index("upturn env validate: unusual right solutions") :]
    assert shown[1].split() == ["solution", "families", "accepted", "lowest"]
    [row] = [line for line in shown if line.startswith("family name first")]
    assert row.split()[3:] == ["1", "2", "of", "2", "100", "%"]


def test_a_missed_bar_is_exit_code_1(fast: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.errands.kit.oracle", lambda *_: None)
    printed = run("validate", ENVIRONMENT, "--tasks", "2", "--family", "mail_file", code=1)
    assert printed["by_name"]["oracle mail_file"]["holds"] is False
    assert printed["breaches"][0] == "oracle mail_file: 'errands/mail_file/train/6/0' is not solved"


def test_a_broken_contract_is_named_and_exit_code_1(shop: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(".")
    printed = run("validate", "shop_for_test:careless", code=1)
    assert printed["by_name"].keys() == {"contract"}
    assert printed["by_name"]["contract"]["holds"] is False
    assert "raised KeyError: 'text'" in printed["breach"]
    assert printed["unchecked"] == ["everything else: fix the contract first"]


def test_validate_lists_what_it_could_not_check(shop: None, fast: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(".")
    result = CliRunner().invoke(env_app, ["validate", "shop_for_test:kit", "--tasks", "2"])
    assert result.exit_code == 1, "without an oracle it is not shown that the reward can be earned"
    lines = result.stdout.splitlines()
    assert lines[lines.index("unchecked:") + 1].startswith(
        "  oracle, ceiling, mutants, repeat, neighbour, refuse: the kit"
    )
    [row] = [line for line in lines if line.startswith("shop (level 1)") and "100 %" in line]
    assert row.split()[3:8] == ["–", "–", "0", "0", "!"], "no oracle, no ceiling, nothing rewarded"
    breaches = lines[lines.index("breaches:") + 1 :]
    assert re.match(r"  rewarded shop: none of \d+ trajectories scored above 0, as with a reward that", breaches[0])


def test_validate_names_default_weights_that_the_verifier_does_not_give(
    shop: None, fast: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(".")
    assert "configuration" not in run("validate", "shop_for_test:kit", "--tasks", "2", code=1)
    printed = run("validate", "shop_for_test:unweighted", "--tasks", "2", code=1)
    assert printed["configuration"] == [
        "the default [rewards] weights name efficiency, which shop/1 does not give; it gives: success. Set "
        "[rewards] weights for these, or add the component"
    ]


def test_modules_are_found_in_the_current_folder(
    shop: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["upturn", "env", "list", "shop_for_test:kit"])
    with pytest.raises(SystemExit) as done:
        main()
    assert done.value.code == 0
    assert "shop: 1" in capsys.readouterr().out
    assert sys.path[-1] == "", "after installed packages"


@pytest.mark.parametrize("family", ["mail_file", "call_off"])
def test_a_task_can_be_played_from_a_pipe(family: str) -> None:
    printed = run("play", ENVIRONMENT, "--family", family, text=solution(family))
    assert printed["by_name"]["verdict"]["value"] == "success"
    assert printed["by_name"]["score"]["value"] == 1.0
    assert printed["by_name"]["cost error"]["value"] == 0.0
    assert all(gate["passed"] for gate in printed["gates"].values())
    assert printed["state"]["changes"] == compose(make_task(family, 0)).draft.changes
    assert printed["task"] == make_task(family, 0).id


def test_an_office_task_shows_every_component_of_the_rubric() -> None:
    kit = resolve_kit("office")
    task = next(iter(kit.tasks(seed=0, split="train", families=["mail_move"])))
    calls = str(hint_of(kit, task))
    printed = run("play", "office", "--family", "mail_move", text=f"outlook.read id=m1\n{calls}\n")
    values = {name: result["value"] for name, result in printed["by_name"].items()}
    assert (values["verdict"], values["reward success"], values["cost error"]) == ("success", 1.0, 1.0)
    rubric = {name.removeprefix("office-rubric/2 "): value for name, value in values.items() if "rubric" in name}
    steps = len(calls.splitlines())
    efficiency = steps / (steps + 1)
    assert rubric == {
        "score": pytest.approx(0.5 + 0.2 + 0.15 * efficiency + 0.1 + 0.05),
        **{f"reward {name}": 1.0 for name in ("success", "restraint", "quality", "milestones", "user")},
        **{f"reward quality_{name}": 1.0 for name in ("format", "content", "semantics")},
        "reward efficiency": pytest.approx(efficiency),
        **{"cost error": 1.0, "cost safety": 0.0, "cost soft": 0.0},
    }


def test_a_level_selects_a_task_of_any_of_its_families() -> None:
    printed = run("play", ENVIRONMENT, "--level", "3", "--seed", "2", text="user.finish\n")
    assert (printed["level"], FAMILIES[printed["family"]].level) == (3, 3)
    task = make_task(printed["family"], 2 * 1_000_003)
    assert printed["task"] == task.id
    assert printed["by_name"].keys() >= {"verdict", "score", "reward success", "cost safety"}
    again = run(
        "play", ENVIRONMENT, "--level", "3", "--family", printed["family"], "--seed", "2", text="user.finish\n"
    )
    assert again["task"] == task.id


def test_play_shows_observations_errors_and_the_evaluation() -> None:
    text = "\nwhat now\nmail.move id=m1; folder=archive\nuser.finish\n"
    result = CliRunner().invoke(env_app, ["play", ENVIRONMENT, "--family", "mail_file"], input=text)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "One call per line, at most 50; help lists all calls."
    assert lines[2] == make_task("mail_file", 0).instruction
    assert lines[3].startswith("error malformed: write one call")
    assert lines[4].startswith("error not_found: no mail 'm1'")
    assert lines[5] == "done"
    assert "failure" in result.stdout
    assert "goal:" in result.stdout


def test_help_lists_calls_and_is_not_a_call() -> None:
    text = "help\nhelp mail\nhelp calendar.create\nhelp fax\nuser.finish\n"
    result = CliRunner().invoke(env_app, ["play", ENVIRONMENT, "--family", "mail_file"], input=text)
    assert "mail: list, search, read, send, reply, forward, move, mark\n" in result.stdout
    assert "mail.search [from=…]; [subject=…]\n    " in result.stdout
    assert "calendar.create title=…; day=" in result.stdout
    assert "there is no 'fax'; help lists all calls" in result.stdout
    assert re.search(r"cost error +0\n", result.stdout)


def test_input_that_ends_early_is_a_failure() -> None:
    printed = run(
        "play", ENVIRONMENT, "--family", "mail_file", "--heldout", "--seed", "4", text="mail.list folder=inbox\n"
    )
    assert printed["by_name"]["verdict"]["value"] == "failure"
    assert (printed["turns"], printed["gates"]["ended"]["passed"]) == (1, False)
    assert "/heldout/" in printed["task"]
    result = CliRunner().invoke(env_app, ["play", ENVIRONMENT, "--family", "mail_file"], input="mail.list\n")
    assert "\nThe input ended before the task did.\n" in result.stdout


def test_bench_measures_every_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bars depend on the machine, and memory on earlier tests; the exit code is consistent with them."""
    monkeypatch.setattr("upturn.cli.env.bench.registered_kits", lambda: (ENVIRONMENT,))  # the office takes longer
    result = CliRunner().invoke(env_app, ["bench", ENVIRONMENT, "--tasks", "10", "--json"])
    printed = json.loads(result.stdout)
    printed["by_name"] = {result["name"]: result for result in printed["results"]}
    assert result.exit_code == int(any(figure["holds"] is False for figure in printed["results"]))
    assert list(printed["by_name"]) == [
        "resets_per_second",
        "steps_per_second",
        "verify_p50",
        "verify_p99",
        "verify_failed_p50",
        "verify_failed_p99",
        "verify_formulas_p50",
        "verify_formulas_p99",
        "memory_128",
    ]
    assert all(result["value"] > 0 for result in printed["results"])
    assert printed["by_name"]["verify_p99"]["value"] >= printed["by_name"]["verify_p50"]["value"]
    assert printed["by_name"]["memory_128"]["n"] == 110
    assert {name: figure["bar"] for name, figure in printed["by_name"].items() if figure["bar"]} == {
        "resets_per_second": ">= 1000",
        "steps_per_second": ">= 5000",
        "verify_p99": "<= 2",
        "verify_failed_p99": "<= 2",
        "memory_128": "<= 1024",
    }


def test_the_verifier_is_timed_on_failures_and_formulas_too() -> None:
    kit = resolve_kit("office")
    tasks = list(islice(kit.tasks(seed=0, split="train", families=["column_product"]), 3))
    solutions = [_solve(kit, task) for task in tasks]
    counts = {result.name: result.n for result in _measure_verifier(kit, tasks, solutions)}
    assert counts == {
        **{"verify_p50": 3, "verify_p99": 3},
        **{"verify_failed_p50": 6, "verify_failed_p99": 6},
        **{"verify_formulas_p50": 6, "verify_formulas_p99": 6},
    }
    for task, solution in zip(tasks, solutions, strict=True):
        assert not any(kit.verifier.verify(task, failure).is_success for failure in _failures(kit, task, solution))
        same, other = (kit.verifier.verify(task, variant) for variant in _formula_variants(kit, task, solution))
        assert (same.is_success, other.is_success) == (True, False), "=B2*C2+0 computes the same, =B2*C2+1 does not"


def test_the_first_verification_is_timed_for_a_caching_kit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kit = resolve_kit("office")
    monkeypatch.setattr(kit, "families", {"mail_move": 1})
    names = [result.name for part in _parts(kit, 4) for result in part]
    assert names[-3:] == ["verify_first_p50", "verify_first_p99", "memory_128"]
    assert "verify_formulas_p99" not in names


def test_steps_are_parsed_from_text() -> None:
    kit = resolve_kit(ENVIRONMENT)
    task = next(iter(kit.tasks(seed=0, split="train", families=["mail_file"])))
    solution, environment = _solve(kit, task), kit.environment(task)
    actions: list[Action] = []
    step = environment.step

    def record(action: Action) -> Step:
        actions.append(action)
        return step(action)

    environment.step = record  # type: ignore[method-assign]
    assert _play(environment, task, solution)[0] == len(solution.turns)
    assert actions == [read_action(write_call(turn.action)) for turn in solution.turns if turn.action is not None]


def test_a_caching_kit_is_measured_with_cold_resets() -> None:
    profile(0)
    [cold] = _measure_cold_resets(resolve_kit("office"))
    assert (cold.name, cold.unit, cold.n) == ("cold_reset", "ms", COLD_RESETS)
    assert profile.cache_info().currsize == 1  # of the last task; the cache was cleared before
    assert _measure_cold_resets(resolve_kit(ENVIRONMENT)) == []


def test_bars_are_minima_or_maxima() -> None:
    assert _with_bar(Result("steps_per_second", 4_999.0), BARS["steps_per_second"]).holds is False
    assert _with_bar(Result("verify_p99", 2.0), BARS["verify_p99"]).holds is True
    assert _with_bar(Result("verify_p50", 9.0), None).holds is None


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["list", "ofice"], UnknownNameError),
        (["play", ENVIRONMENT, "--family", "fax"], UnknownNameError),
        (["play", ENVIRONMENT, "--level", "99"], UnknownNameError),
        (["play", ENVIRONMENT, "--family", "mail_file", "--level", "3"], UnknownNameError),
        (["validate", ENVIRONMENT, "--family", "fax"], UnknownNameError),
        (["bench", "shop:kit"], UnknownNameError),
    ],
)
def test_unknown_names_are_upturn_errors(words: list[str], error: type[Exception]) -> None:
    assert isinstance(CliRunner().invoke(env_app, words).exception, error)


def test_ctrl_c_ends_a_read_in_an_event_loop_at_once() -> None:
    continued: list[bool] = []

    async def read() -> None:
        signal.raise_signal(signal.SIGINT)
        continued.append(True)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), _interruptible():
        asyncio.run(read())
    assert not continued
    assert signal.getsignal(signal.SIGINT) is before
