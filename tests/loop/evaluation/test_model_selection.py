"""Model selection uses tasks that are not trained on, or notes that it does."""

from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import ModuleType

from benchmarks.errands import MODEL
from upturn.config import AgentConfig, Config, LoopConfig
from upturn.loop.evaluation.model_selection import SELECTION_TASKS, selection_evaluation, selection_tasks
from upturn.loop.progress import NoProgress
from upturn.loop.rollouts.policy_worker import PolicyWorker, TaskSampler
from upturn.loop.run.context import open_run, version_of
from upturn.loop.run.task_source import FEWEST_SET_ASIDE, FileKit, kit_of
from upturn.records import Task, fields_json
from upturn.training.algorithms.grpo import GrpoSettings
from upturn.training.evaluation_result import EvaluationResult

NANO = AgentConfig(name="nano", kind="local_model", model=MODEL)


def test_selection_evaluation_has_an_interval_and_costs(desk: ModuleType, tmp_path: Path) -> None:
    plain = desk.config(("solver",), environment={"max_turns": 1, "max_tokens": 64})
    config = replace(plain, agents=(NANO,))
    with desk.opened(tmp_path / "run", config) as context:
        worker = PolicyWorker(context.runtime, version_of(NANO))
        result = selection_evaluation(context, worker, "grpo")(0)
        again = selection_evaluation(context, worker, "grpo")(5)
    assert isinstance(result, EvaluationResult)
    assert result == again  # depends on the weights only
    assert result.tasks == SELECTION_TASKS
    assert result.low is not None and result.high is not None
    assert 0 <= result.low <= result.score <= result.high <= 1
    assert set(result.costs) == {"error"}  # the desk's verifier has no other
    assert result.missing_costs == {}
    assert result.costs["error"] > 0  # the errands model answers in text that the desk refuses
    assert result.measure == "success on training templates in unseen worlds"


def test_a_selection_cost_is_the_mean_over_evaluated_tasks(desk: ModuleType, tmp_path: Path) -> None:
    """A third has no verdict and is counted as missing; half of the rest is unsafe."""
    plain = desk.config(
        ("solver",), environment={"max_turns": 1, "max_tokens": 64, "verifier": "toy_desk:costly_judge"}
    )
    with desk.opened(tmp_path / "run", replace(plain, agents=(NANO,))) as context:
        result = selection_evaluation(context, PolicyWorker(context.runtime, version_of(NANO)), "grpo")(0)
    assert isinstance(result, EvaluationResult)
    third = SELECTION_TASKS // 3
    assert (result.costs, result.missing_costs) == (
        {"error": 0.0, "safety": 0.5},
        {"error": third, "safety": third},
    )
    assert result.metrics()["missing_cost_safety"] == third


def _on_file(desk: ModuleType, tmp_path: Path, **counts: int) -> Config:
    """A run of the errands model on a file with this many training tasks and four held-out tasks of each family."""
    kit, tasks = desk.kit(), list[Task]()
    for family, count in counts.items():
        for split, number in (("train", count), ("heldout", 4)):
            tasks += islice(kit.tasks(seed=9, split=split, families=[family]), number)
    path = tmp_path / "tasks.jsonl"
    path.write_text("\n".join(map(fields_json, tasks)))
    plain: Config = desk.config(tasks={"file": str(path)}, environment={"max_turns": 1, "max_tokens": 64})
    grpo = GrpoSettings(iterations=1, tasks_per_iteration=2, group_size=2, evaluate_every=1)
    return plain.with_sections(grpo, agents=(NANO,), loop=LoopConfig())


class _Notes(NoProgress):
    """Stores the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_one_task_in_eight_of_a_file_is_set_aside_and_never_trained_on_or_served(
    desk: ModuleType, tmp_path: Path
) -> None:
    config = _on_file(desk, tmp_path, sums=200, products=100)
    with desk.opened(tmp_path / "run", config) as context:
        selection = selection_tasks(context)
        served = {task.id for task in context.next_tasks(1000)}
        sampler = TaskSampler(context.kit, {"sums": 1.0, "products": 1.0}, 400, seed=0)
        trained_ids = {task.id for task in (*sampler.tasks(0), *sampler.further_tasks(0, 1))}
    aside = {task.id for task in selection.tasks}
    assert selection.is_unseen
    assert {task.split for task in selection.tasks} == {"train"}
    assert {task.family for task in selection.tasks} == {"sums", "products"}
    assert 300 / 8 * 0.6 < len(aside) == len(selection.tasks) < 300 / 8 * 1.4
    assert not aside & (served | trained_ids)
    assert trained_ids == served
    assert len(aside | served) == 300


def test_tasks_are_set_aside_by_their_ids_alone(desk: ModuleType, tmp_path: Path) -> None:
    """Not by the seed, the order of the lines or other tasks in the file."""
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


def test_nothing_is_set_aside_without_training_or_in_a_small_file(desk: ModuleType, tmp_path: Path) -> None:
    config = _on_file(desk, tmp_path, sums=300)
    idle = replace(config, loop=LoopConfig(train=()))
    for settings in (idle, _on_file(desk, tmp_path, sums=FEWEST_SET_ASIDE)):
        kit = kit_of(settings)
        assert isinstance(kit, FileKit)
        assert list(kit.set_aside(seed=0, families=["sums"])) == []


def test_no_family_loses_its_only_task(desk: ModuleType, tmp_path: Path) -> None:
    config = _on_file(desk, tmp_path, sums=300)
    plain = kit_of(config)
    assert isinstance(plain, FileKit)
    single = next(plain.set_aside(seed=0, families=["sums"]))
    path = Path(config.tasks.file)
    lines = [line for line in path.read_text().splitlines() if f'"{single.id}"' not in line]
    path.write_text("\n".join([*lines, fields_json(replace(single, family="alone"))]))
    kit = kit_of(config)
    assert [task.id for task in kit.tasks(seed=0, split="train", families=["alone"])] == [single.id]


def test_selection_on_a_small_file_uses_training_tasks_and_notes_it(desk: ModuleType, tmp_path: Path) -> None:
    config, progress = _on_file(desk, tmp_path, sums=20), _Notes()
    with open_run(config, tmp_path / "run", "toy", progress) as context:
        result = selection_evaluation(context, PolicyWorker(context.runtime, version_of(NANO)), "grpo")(0)
        assert isinstance(result, EvaluationResult)
        assert not selection_tasks(context).is_unseen
    assert result.tasks == 20
    assert "trained on too" in result.measure
    assert any("model selection uses tasks that are trained on too" in note for note in progress.notes)
