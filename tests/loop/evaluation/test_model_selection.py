"""What a training run is watched on: never what it practises, or it says so."""

from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import ModuleType

from benchmarks.errands import MODEL
from upturn.config import AgentConfig, Config, LoopConfig
from upturn.loop.evaluation.model_selection import SELECTION_TASKS, watched, watcher
from upturn.loop.progress import NoProgress
from upturn.loop.rollouts.policy_worker import PolicyWorker, TaskSampler
from upturn.loop.run.context import open_run, version_of
from upturn.loop.run.task_source import FEWEST_SET_ASIDE, FileKit, kit_of
from upturn.records import Task, fields_json
from upturn.training.algorithms.grpo import GrpoSettings
from upturn.training.evaluation_result import EvaluationResult

NANO = AgentConfig(name="nano", kind="local_model", model=MODEL)


def test_practice_is_watched_on_tasks_with_an_interval_and_costs(desk: ModuleType, tmp_path: Path) -> None:
    plain = desk.config(("solver",), environment={"max_turns": 1, "max_tokens": 64})
    config = replace(plain, agents=(NANO,))
    with desk.opened(tmp_path / "run", config) as context:
        worker = PolicyWorker(context.runtime, version_of(NANO))
        found = watcher(context, worker, "grpo")(0)
        again = watcher(context, worker, "grpo")(5)
    assert isinstance(found, EvaluationResult)
    assert found == again  # of the weights alone
    assert found.tasks == SELECTION_TASKS
    assert found.low is not None and found.high is not None
    assert 0 <= found.low <= found.score <= found.high <= 1
    assert set(found.costs) == {"error"}  # the desk's judge knows no other
    assert found.missing_costs == {}
    assert found.costs["error"] > 0  # the model of errands answers in words that the desk refuses
    assert found.measure == "success on training templates in unseen worlds"


def test_the_watched_cost_is_the_mean_over_what_could_be_judged(desk: ModuleType, tmp_path: Path) -> None:
    """A third cannot be judged and is counted as such; half of the rest is unsafe."""
    plain = desk.config(
        ("solver",), environment={"max_turns": 1, "max_tokens": 64, "verifier": "toy_desk:costly_judge"}
    )
    with desk.opened(tmp_path / "run", replace(plain, agents=(NANO,))) as context:
        found = watcher(context, PolicyWorker(context.runtime, version_of(NANO)), "grpo")(0)
    assert isinstance(found, EvaluationResult)
    third = SELECTION_TASKS // 3
    assert (found.costs, found.missing_costs) == (
        {"error": 0.0, "safety": 0.5},
        {"error": third, "safety": third},
    )
    assert found.metrics()["missing_cost_safety"] == third


def _on_file(desk: ModuleType, tmp_path: Path, **counts: int) -> Config:
    """So many training tasks of each family, and four of each held out; practised by the model of errands."""
    kit, tasks = desk.kit(), list[Task]()
    for family, count in counts.items():
        for split, many in (("train", count), ("heldout", 4)):
            tasks += islice(kit.tasks(seed=9, split=split, families=[family]), many)
    path = tmp_path / "tasks.jsonl"
    path.write_text("\n".join(map(fields_json, tasks)))
    plain: Config = desk.config(tasks={"file": str(path)}, environment={"max_turns": 1, "max_tokens": 64})
    practice = GrpoSettings(iterations=1, tasks_per_iteration=2, group_size=2, evaluate_every=1)
    return plain.with_sections(practice, agents=(NANO,), loop=LoopConfig())


class _Told(NoProgress):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_of_a_file_one_task_in_eight_is_watched_and_never_practised_or_served(
    desk: ModuleType, tmp_path: Path
) -> None:
    config = _on_file(desk, tmp_path, sums=200, products=100)
    with desk.opened(tmp_path / "run", config) as context:
        found = watched(context)
        served = {task.id for task in context.next_tasks(1000)}
        sampler = TaskSampler(context.kit, {"sums": 1.0, "products": 1.0}, 400, seed=0)
        practised_ids = {task.id for task in (*sampler.tasks(0), *sampler.further_tasks(0, 1))}
    aside = {task.id for task in found.tasks}
    assert found.is_unseen
    assert {task.split for task in found.tasks} == {"train"}
    assert {task.family for task in found.tasks} == {"sums", "products"}
    assert 300 / 8 * 0.6 < len(aside) == len(found.tasks) < 300 / 8 * 1.4
    assert not aside & (served | practised_ids)
    assert practised_ids == served
    assert len(aside | served) == 300


def test_which_tasks_are_set_aside_is_decided_by_their_ids_alone(desk: ModuleType, tmp_path: Path) -> None:
    """Whatever the seed, the order of the lines and what else stands in the file."""
    large = kit_of(_on_file(desk, tmp_path, sums=500))
    small = kit_of(_on_file(desk, tmp_path, sums=300))
    assert isinstance(large, FileKit) and isinstance(small, FileKit)
    known = {task.id for task in small.tasks(seed=1, split="train", families=["sums"])}
    aside = {task.id for task in small.set_aside(seed=1, families=["sums"])}
    again = {task.id for task in large.set_aside(seed=2, families=["sums"])}
    assert len(known) + len(aside) == 300
    assert len(aside) >= FEWEST_SET_ASIDE
    assert aside < again
    assert not again & known


def test_nothing_is_set_aside_where_nothing_is_trained_or_the_file_is_small(
    desk: ModuleType, tmp_path: Path
) -> None:
    config = _on_file(desk, tmp_path, sums=300)
    idle = replace(config, loop=LoopConfig(train=()))
    for each in (idle, _on_file(desk, tmp_path, sums=FEWEST_SET_ASIDE)):
        kit = kit_of(each)
        assert isinstance(kit, FileKit)
        assert list(kit.set_aside(seed=0, families=["sums"])) == []


def test_no_family_loses_its_only_task(desk: ModuleType, tmp_path: Path) -> None:
    config = _on_file(desk, tmp_path, sums=300)
    plain = kit_of(config)
    assert isinstance(plain, FileKit)
    lonely = next(plain.set_aside(seed=0, families=["sums"]))
    path = Path(config.tasks.file)
    lines = [line for line in path.read_text().splitlines() if f'"{lonely.id}"' not in line]
    path.write_text("\n".join([*lines, fields_json(replace(lonely, family="alone"))]))
    kit = kit_of(config)
    assert [task.id for task in kit.tasks(seed=0, split="train", families=["alone"])] == [lonely.id]


def test_a_small_file_is_watched_on_what_is_practised_and_that_is_said(desk: ModuleType, tmp_path: Path) -> None:
    config, told = _on_file(desk, tmp_path, sums=20), _Told()
    with open_run(config, tmp_path / "run", "toy", told) as context:
        found = watcher(context, PolicyWorker(context.runtime, version_of(NANO)), "grpo")(0)
        assert isinstance(found, EvaluationResult)
        assert not watched(context).is_unseen
    assert found.tasks == 20
    assert "trained on too" in found.measure
    assert any("weights are chosen on tasks that are trained on too" in note for note in told.notes)
