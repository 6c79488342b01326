"""The output of commands: exactly one JSON object, or a table."""

import json
import math
from typing import Any

import pytest

from upturn import __version__
from upturn.cli.output import ENVELOPE_KEYS, build_result_object, emit, machine, print_message, progress, show_table
from upturn.records import Result

RESULTS = [
    Result("success", 0.8534, "share", 0.81, 0.9, 400, ">= 0.85", True),
    Result("verdict", "hold", bar="promote", holds=False),
    Result("tasks", 400.0),
]


def test_json_is_one_object_on_standard_output_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    emit("demo", RESULTS, {"by_family": {"mail": {"n": 3}}, "seeds": (0, 1)}, as_json=True, config_hash="c0")
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.count("\n") == 1
    read = json.loads(captured.out)
    assert list(read) == [*ENVELOPE_KEYS, "by_family", "seeds"]
    assert (read["command"], read["version"], read["config_hash"]) == ("demo", __version__, "c0")
    assert read["by_family"] == {"mail": {"n": 3}}
    assert read["seeds"] == [0, 1]
    assert read["results"][0] == {
        "name": "success",
        "value": 0.8534,
        "unit": "share",
        "low": 0.81,
        "high": 0.9,
        "n": 400,
        "bar": ">= 0.85",
        "holds": True,
    }


def test_without_json_there_is_a_table_and_the_details(capsys: pytest.CaptureFixture[str]) -> None:
    details = {
        "seed": 0,
        "by_family": {"mail": {"n": 3, "ok": True}},
        "rows": [{"a": 1, "b": None}, {"a": 2, "b": []}],
    }
    emit("demo", RESULTS, details, as_json=False)
    captured = capsys.readouterr()
    lines = [line.rstrip() for line in captured.out.splitlines()]
    assert lines == [
        "upturn demo",
        "what            value    interval    n  bar",
        "success  0.8534 share  0.81 … 0.9  400  >= 0.85 holds",
        "verdict          hold                   promote MISSED",
        "tasks             400",
        "seed: 0",
        "by_family:",
        "  mail:",
        "    n: 3",
        "    ok: yes",
        "rows:",
        "  a 1, b -",
        "  a 2, b none",
    ]
    assert "\x1b" not in captured.out


def test_markup_in_names_and_values_is_not_interpreted(capsys: pytest.CaptureFixture[str]) -> None:
    emit("x", [Result("[red]r[/red]", "[bold]")], {"[d]": "[/d]"}, as_json=False)
    out = capsys.readouterr().out
    assert all(text in out for text in ("[red]r[/red]", "[bold]", "[d]: [/d]"))


@pytest.mark.parametrize(
    ("details", "error", "message"),
    [
        ({"results": 1, "version": 2}, ValueError, r"may not use the reserved keys \['results', 'version'\]"),
        ({"a": {"b": [math.nan]}}, ValueError, r"a\.b\[0\] is nan"),
        ({"a": {1, 2}}, TypeError, "a is a set"),
        ({"a": b"bytes"}, TypeError, "a is a bytes"),
    ],
)
def test_details_that_are_not_json_are_refused(
    details: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        build_result_object("demo", [], details, machine={})


def test_result_names_are_unique() -> None:
    with pytest.raises(ValueError, match=r"several of \['a'\]"):
        build_result_object("demo", [Result("a", 1.0), Result("a", 2.0)], {}, machine={})


def test_machine_is_described_without_importing_torch() -> None:
    described = machine()
    assert set(described) == {"cpu", "cores", "memory_gb", "python", "torch", "system"}
    assert isinstance(described["cores"], int)
    assert described["cores"] >= 1
    assert isinstance(described["memory_gb"], float)
    assert described["memory_gb"] > 0
    assert json.loads(json.dumps(described)) == described


def test_progress_without_terminal_is_ten_plain_lines_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("tasks", 40) as ticker:
        for _ in range(40):
            ticker.advance()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [f"tasks: {done}/40" for done in range(4, 41, 4)]


def test_progress_of_nothing_and_in_large_steps(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("none", 0) as ticker:
        ticker.advance()
    with progress("leaps", 100) as ticker:
        ticker.advance(55)
        ticker.advance(45)
    assert capsys.readouterr().err.splitlines() == ["leaps: 55/100", "leaps: 100/100"]


def test_messages_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    print_message("reading [1/2]")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "reading [1/2]\n")


def test_a_narrow_terminal_truncates_no_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("upturn.cli.output._PLAIN_WIDTH", 24)
    emit("x", [Result("trajectories_with_tools", 12345.0, "tasks"), Result("turns", 1.0)], {}, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines) <= 24
    assert lines[1].split() == ["what", "value"]  # empty columns are omitted
    assert "".join(line[:11].strip() for line in lines[2:]) == "trajectories_with_toolsturns"


def test_foreign_text_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    emit("x", [Result("a\x1b[31m", 1.0, "b\r")], {"c\x07": {"d\x1b]0;": ["e\x9b"]}}, as_json=False)
    print_message("f\x1b[2J\ng")
    captured = capsys.readouterr()
    assert not set(captured.out + captured.err) & set("\x1b\r\x07\x9b")
    assert captured.err == "f\ufffd[2J\ng\n"


def test_file_names_that_are_not_text_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for as_json in (True, False):
        emit("x", [], {"file": "chat\udcff.jsonl"}, as_json=as_json)
        assert "chat?.jsonl" in capsys.readouterr().out


def test_a_table_does_not_interpret_its_text(capsys: pytest.CaptureFixture[str]) -> None:
    show_table("figures", ("family", "rate"), [("mail [bold]", "100 %"), ("cell", "\x1b[2J–")])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["figures"], ["family", "rate"], ["mail", "[bold]", "100", "%"], ["cell", "�[2J–"]]


def test_sentences_in_a_list_have_their_own_lines(capsys: pytest.CaptureFixture[str]) -> None:
    emit("x", [], {"plain": ["a", "b"], "sentences": ["one, two", "three"]}, as_json=False)
    assert capsys.readouterr().out.splitlines() == ["plain: a, b", "sentences:", "  one, two", "  three"]
