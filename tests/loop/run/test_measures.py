"""Configured components: they are stored with every evaluation, and a broken one is missing."""

import importlib
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from upturn.config import LoopConfig
from upturn.environments import verify, verify_all
from upturn.errors import ConfigError
from upturn.loop.run.measures import MeasuredVerifier, with_measures
from upturn.loop.run.preflight import check_names
from upturn.loop.run.task_source import kit_of
from upturn.records import Action, Evaluation, Observation, Task, TokenRow, Trajectory, Turn, Usage, WrittenSpan

TASK = Task("task", "add", "sums", "desk")
MEASURES = [
    {"name": "format", "kind": "format"},
    {"name": "brief", "kind": "cosine", "tokens": 100},
    {"name": "exact", "kind": "lcpo_exact", "tokens": 1000},
    {"name": "max", "kind": "lcpo_max", "tokens": 1000, "delta": 0.25},
    {"name": "fits", "kind": "within", "tokens": 49},
    {"name": "again", "kind": "repetition", "size": 2},
    {"name": "repeats", "kind": "repeated_calls"},
    {"name": "used", "kind": "tool_use"},
]


class Plain:
    """Gives every trajectory the same verdict."""

    name = "plain/1"

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation = evaluation

    def verify(self, task: Task, trajectory: Trajectory) -> Evaluation:
        return replace(self.evaluation, task_id=task.id, trajectory_id=trajectory.id)


SUCCESS = Evaluation("v", "task", "t", "plain/1", "success", (), {"success": 1.0}, {"error": 1.0}, 0.5)


def attempt(*, written: int = 50) -> Trajectory:
    """Two equal calls with equal results; the words ``a b a b a b``."""
    look = Action("desk", "look", {"at": "a"})
    turns = tuple(Turn(Observation(text), "a b a", look) for text in ("add", "nothing"))
    span = WrittenSpan(0, 1, 1 + written)
    rows = (TokenRow((0,) * (1 + written), (span,), (0.0,) * written),) if written else ()
    return Trajectory("t", "task", "a@1", turns, Observation("nothing"), "finished", "sampled", rows)


def test_every_kind_is_stored_with_the_evaluation(desk: ModuleType) -> None:
    """Fifty of 100 tokens give the middle of the cosine's bounds; of five bigrams two are new."""
    config = desk.config(rewards={"name": "thrifty", "version": 3, "measures": MEASURES})
    verifier = with_measures(Plain(SUCCESS), config)
    judged = verifier.verify(TASK, attempt())
    assert judged.rewards == {
        "format": 1.0,
        "brief": pytest.approx(0.75),
        "exact": pytest.approx(1 - 3e-4 * 950),
        "max": pytest.approx(0.25 + 3e-4 * 950),
        "fits": 0.0,
        "again": pytest.approx(1 - 3 / 5),
        "repeats": 0.5,
        "used": 0.0,
        "success": 1.0,
    }
    assert (judged.verdict, judged.score, judged.costs) == ("success", 0.5, {"error": 1.0})  # still the verifier's
    assert judged.evaluator == verifier.name and verifier.name.startswith("plain/1+thrifty/3@")
    assert verify_all(verifier, [(TASK, attempt())]) == [judged]
    reported = replace(attempt(written=0), usage=Usage(written_tokens=50))  # of an endpoint
    assert verifier.verify(TASK, reported).rewards == judged.rewards


def test_the_name_says_which_measures_gave_the_components(desk: ModuleType) -> None:
    names = {
        with_measures(Plain(SUCCESS), desk.config(rewards={"measures": [measure]})).name for measure in MEASURES[:4]
    }
    assert len(names) == 4
    plain = Plain(SUCCESS)
    assert with_measures(plain, desk.config()) is plain


def test_a_broken_measure_is_missing_and_a_missing_evaluation_has_none(
    desk: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "def fails(t, e): return 1 / 0\ndef nan(t, e): return float('nan')\n"
    source += "def text(t, e): return 'x'\ndef none(t, e): return None\n"
    source += "def turns(t, e): return len(t.turns)\nnumber = 3\n"
    (tmp_path / "own_measures.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    kinds = [
        {"name": name, "kind": "function", "function": f"own_measures:{name}"}
        for name in ("fails", "nan", "text", "none", "turns")
    ]
    verifier = with_measures(Plain(SUCCESS), desk.config(rewards={"measures": kinds}))
    assert verifier.verify(TASK, attempt()).rewards == {
        "fails": None,
        "nan": None,
        "text": None,
        "none": None,
        "turns": 2.0,
        "success": 1.0,
    }
    missing = replace(SUCCESS, verdict="missing", rewards={}, score=None)
    assert isinstance(verifier, MeasuredVerifier)
    assert (
        verify(with_measures(Plain(missing), desk.config(rewards={"measures": kinds})), TASK, attempt()).rewards
        == {}
    )
    broken = [
        {"name": "a", "kind": "function", "function": "no_such_module:f"},
        {"name": "b", "kind": "function", "function": "own_measures:gone"},
        {"name": "c", "kind": "function", "function": "own_measures:number"},
    ]
    with pytest.raises(ConfigError) as refusal:
        with_measures(Plain(SUCCESS), desk.config(rewards={"measures": broken}))
    assert [problem.split(" ")[-1] for problem in refusal.value.problems] == [
        "'no_such_module'",
        "'gone'",
        "function",
    ]


def test_measures_of_a_run_are_known_to_its_checks(desk: ModuleType) -> None:
    rewards = {"weights": {"success": "essential", "format": 0.1}, "gates": {"calm": 1.0}, "measures": MEASURES}
    config = replace(desk.config(rewards=rewards), loop=LoopConfig(train=("grpo",)))
    with pytest.raises(ConfigError) as refusal:
        check_names(config, kit_of(config))
    (problem,) = refusal.value.problems
    assert problem.startswith("rewards.gates names 'calm', which desk/1+rewards/1@")
    clash = replace(
        desk.config(rewards={"measures": [{"name": "success", "kind": "format"}]}), loop=LoopConfig(train=("grpo",))
    )
    with pytest.raises(ConfigError, match="measures: desk/1 gives 'success' too; rename the measure"):
        check_names(clash, kit_of(clash))
