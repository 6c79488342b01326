"""``upturn train``: its settings, what is refused, and a whole run."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmarks.errands import ENVIRONMENT, MODEL
from upturn.config import OptimiserSettings
from upturn.errors import ConfigError
from upturn.loop.evaluation.evaluate import HeldoutResult
from upturn.loop.run.context import Context
from upturn.loop.trainers import registry
from upturn.loop.trainers.algorithms import distillation, mixture, online_dpo, ppo
from upturn.loop.trainers.algorithms.expert_iteration import Variant
from upturn.loop.trainers.candidate import TrainedVersion
from upturn.loop.trainers.pool_data import check_pool, with_copied_pool
from upturn.loop.trainers.registry import ALGORITHMS, algorithm, parse_full_config, section_name, sections
from upturn.loop.trainers.rl_training import RlSpec
from upturn.loop.trainers.train_command import check, run_training
from upturn.pool import Pool
from upturn.records import AgentVersion
from upturn.training import OnlineSettings
from upturn.training.algorithms.dpo import DpoSettings
from upturn.training.algorithms.expert_iteration import RejectionSettings, StarSettings
from upturn.training.algorithms.kto import KtoSettings
from upturn.training.algorithms.offline import OfflineSettings
from upturn.training.algorithms.ppo import CriticSettings
from upturn.training.algorithms.sft import SftSettings
from upturn.training.algorithms.world_model import WorldModelSettings

NANO = {"name": "nano", "kind": "local_model", "model": MODEL}
FROM_POOL = {name for name in ALGORITHMS if "pool" in algorithm(name).uses}


def test_every_registered_algorithm_has_a_section_of_its_name() -> None:
    assert list(sections()) == [section_name(name) for name in ALGORITHMS]
    config = parse_full_config({"agents": [NANO]})
    for name in ALGORITHMS:
        kind = algorithm(name).settings
        assert config.algorithms[section_name(name)] == kind()
    models = {"reward-model", "process-reward"}
    assert {"sft", "dpo", "kto", "world-model", "offline", "mixture"} | models == FROM_POOL


def test_shared_optimiser_settings_go_between_an_algorithms_defaults_and_its_own_table() -> None:
    shared = {"weight_decay": 0.5, "precision": "bfloat16"}
    config = parse_full_config(
        {"agents": [NANO], "optimiser": shared, "dpo": {"optimiser": {"learning_rate": 0.5, "weight_decay": 0.1}}}
    )
    expected = OptimiserSettings(learning_rate=0.5, weight_decay=0.1, precision="bfloat16")
    assert config.section(DpoSettings).optimiser == expected
    sft = config.section(SftSettings).optimiser
    assert sft == OptimiserSettings(learning_rate=1e-3, warmup_steps=10, weight_decay=0.5, precision="bfloat16")
    assert config.section(KtoSettings).optimiser == OptimiserSettings(weight_decay=0.5, precision="bfloat16")
    warm_up = config.section(WorldModelSettings).warm_up
    assert warm_up is not None and warm_up.optimiser.learning_rate == 3e-4 and warm_up.optimiser.weight_decay == 0.5


def test_bad_shared_optimiser_settings_are_named_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_full_config({"agents": [NANO], "optimiser": {"weight_decay": -1}})
    (problem,) = caught.value.problems
    assert problem.startswith("optimiser.weight_decay: input should be greater than or equal to 0")


def test_a_nested_default_is_kept_where_one_of_its_settings_changes() -> None:
    """The default belongs to the section's field, not to the nested class."""
    config = parse_full_config({"agents": [NANO], "offline": {"mismatch": {"weight_cap": 5.0}}})
    correction = config.section(OfflineSettings).mismatch
    assert correction is not None and (correction.weight, correction.weight_cap) == ("token", 5.0)


def test_shares_of_levels_are_a_table_by_level() -> None:
    levels = {"final_mix": {"1": 0.4, "9": 0.6}}
    curriculum = parse_full_config({"agents": [NANO], "curriculum": {"levels": levels}}).curriculum
    assert curriculum is not None and curriculum.levels is not None
    assert curriculum.levels.final_mix == {1: 0.4, 9: 0.6}
    for mix, problem in (
        ({"hard": 1.0}, r"curriculum\.levels\.final_mix"),
        ({"1": 0.4, "2": 0.4}, r"curriculum\.levels: final_mix must have positive shares that add up to 1"),
    ):
        with pytest.raises(ConfigError, match=problem):
            parse_full_config({"agents": [NANO], "curriculum": {"levels": {"final_mix": mix}}})


SPECS: Mapping[str, Callable[[Context, str, Mapping[str, float]], RlSpec]] = {
    "ppo": ppo._spec,
    "online_dpo": online_dpo._spec,
    "mixture": mixture._spec,
    "distillation": distillation._spec,
    "rejection": Variant("rejection", RejectionSettings, "").spec,
    "star": Variant("star", StarSettings, "").spec,
}


@pytest.mark.parametrize("section", SPECS)
def test_a_run_on_rollouts_has_the_settings_of_its_section(desk: ModuleType, tmp_path: Path, section: str) -> None:
    values = {"tasks_per_iteration": 5, "group_size": 3, "incumbent_share": 0.25}
    with desk.opened(tmp_path, desk.config(**{section: values})) as context:
        spec = SPECS[section](context, "x", {"sums": 1.0})
        assert type(spec.settings) is type(context.config.algorithms[section])
    assert isinstance(spec.settings, OnlineSettings)
    assert spec.rollouts.group_size == 3
    assert (spec.settings.tasks_per_iteration, spec.settings.incumbent_share) == (5, 0.25)
    assert spec.weights == {"sums": 1.0}


@pytest.mark.parametrize(
    ("pairs", "continuations", "gamma"),
    [
        ({"by": "turn", "gamma": 0.5}, 0, 0.5),
        ({"by": "turn", "valued_by": "state_values"}, 8, 1.0),
        ({"by": "turn", "valued_by": "state_values", "continuations": 3, "gamma": 0.5}, 3, 0.5),
    ],
)
def test_online_dpo_measures_states_where_actions_are_valued_by_them(
    desk: ModuleType, tmp_path: Path, pairs: dict[str, object], continuations: int, gamma: float
) -> None:
    with desk.opened(tmp_path, desk.config(online_dpo={"pairs": pairs})) as context:
        rollouts = online_dpo._spec(context, "x").rollouts
    assert (rollouts.continuations, rollouts.gamma) == (continuations, gamma)


def test_online_dpo_has_a_critic_where_it_has_a_share() -> None:
    def critic(pairs: dict[str, object]) -> object:
        config = parse_full_config({"agents": [NANO], "online_dpo": {"pairs": pairs}})
        return online_dpo.configured(config).critic

    assert critic({"by": "turn"}) is None
    assert critic({"by": "turn", "monte_carlo_share": 0.5}) == CriticSettings()
    assert critic({"by": "turn", "monte_carlo_share": 0.0, "gamma": 0.9}) == CriticSettings()


def test_a_mixture_of_grpo_alone_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"mixture\.sft, mixture\.dpo and mixture\.kto are all 0"):
        mixture.check(parse_full_config({"agents": [NANO], "mixture": {"sft": 0.0}}))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_nothing_is_trained_where_the_loop_trains_nothing(desk: ModuleType, name: str) -> None:
    with pytest.raises(ConfigError, match=r"loop\.train = \[\] means that no agent"):
        check(desk.config(), name)


@pytest.mark.parametrize(
    ("name", "raw", "problem"),
    [
        ("dpo", {"dpo": {"old": "a@1", "new": "a@1"}}, "dpo: old and new are both 'a@1'"),
        ("dpo", {"dpo": {"old": "a@1"}}, "dpo: old has no effect without new; set both"),
        ("dpo", {"dpo": {"new": "a@1"}}, "dpo: new has no effect without old; set both"),
        ("dpo", {"dpo": {"min_margin": 0.25}}, "dpo: min_margin = 0.25 has no effect without old and new"),
        (
            "rft",
            {"rft": {"replication_model": MODEL}},
            f"rft.replication_model = {MODEL!r} is the model that is trained",
        ),
        ("rft", {"rft": {"examples": 5}}, "rft: tasks_per_iteration = 10 is more than examples = 5"),
        ("ppo", {"ppo": {"iterations": 5, "critic": {"alone_iterations": 5}}}, "ppo: critic.alone_iterations=5"),
        (
            "online-dpo",
            {"online_dpo": {"pairs": {"valued_by": "state_values"}}},
            "online_dpo.pairs: valued_by='state_values' would do nothing with by='trajectory'",
        ),
        (
            "online-dpo",
            {"online_dpo": {"pairs": {"monte_carlo_share": 0.5}}},
            "online_dpo.pairs: monte_carlo_share=0.5 would do nothing with by='trajectory'",
        ),
        (
            "online-dpo",
            {"online_dpo": {"pairs": {"by": "turn", "monte_carlo_share": 0.0, "valued_by": "state_values"}}},
            "online_dpo.pairs: valued_by='state_values' would do nothing with monte_carlo_share=0",
        ),
        ("mixture", {"mixture": {"sft": 0.0}}, "mixture.sft, mixture.dpo and mixture.kto are all 0"),
        ("mixture", {"grpo": {"teacher": {"model": "nano"}}}, "grpo.teacher ('nano') has no effect in a mixture"),
        ("distillation", {}, "distillation.teacher.model is empty; name the teacher"),
        ("mixture", {"grpo": {"staleness": 1}}, "a mixture samples in plain iterations"),
        ("mixture", {"grpo": {"partial": {}}}, "a mixture samples in plain iterations"),
        (
            "grpo",
            {"grpo": {"partial": {}}, "rollouts": {"place": "ray"}},
            "rollouts.place = 'ray' runs whole rollouts",
        ),
        (
            "grpo",
            {"grpo": {"partial": {}}, "curriculum": {"policy": "uniform"}},
            "curriculum.policy = 'uniform' chooses an iteration's tasks by the results",
        ),
        (
            "grpo",
            {"grpo": {"partial": {}}, "environment": {"max_seconds": 9.0}},
            "environment.max_seconds = 9.0 ends",
        ),
        (
            "grpo",
            {"grpo": {"staleness": 1}, "curriculum": {"policy": "uniform"}},
            "curriculum.policy = 'uniform' chooses tasks by the last iteration's results",
        ),
    ],
)
def test_contradictions_are_reported_before_anything_is_opened(
    name: str, raw: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        check(parse_full_config({"agents": [NANO], **raw}), name)
    assert caught.value.problems[0].startswith(problem)


def test_all_problems_of_several_sections_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_full_config({"agents": [NANO], "dpo": {"old": "a@1"}, "ppo": {"iterations": 0}, "kot": {}})
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize("algorithm", sorted(FROM_POOL))
def test_a_missing_pool_is_refused_and_not_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"pool\.path is empty.*upturn ingest"):
        check_pool(parse_full_config({"agents": [NANO]}), algorithm)
    with pytest.raises(ConfigError, match=r"there is no file pool\.path = 'gone\.db' in .*upturn ingest"):
        check_pool(parse_full_config({"agents": [NANO], "pool": {"path": "gone.db"}}), algorithm)
    assert list(tmp_path.iterdir()) == []


def test_a_plan_works_on_a_copy_of_the_pool(desk: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    settings = desk.config(pool={"path": str(path)})
    with desk.opened(tmp_path / "run", settings) as context:
        context.finish()
        copied = with_copied_pool(settings, tmp_path, is_read=True)  # while another process holds it
    assert copied.pool.path == str(tmp_path / "copy.db")
    with Pool.open(path, read_only=True) as pool, Pool.open(copied.pool.path, read_only=True) as copy:
        assert list(copy.agent_versions()) == list(pool.agent_versions())
    assert with_copied_pool(settings, tmp_path, is_read=False).pool.path == ""


TINY = {
    "agents": [{**NANO, "temperature": 1.0}],
    "run": {"threads": 1},
    "environment": {"name": ENVIRONMENT, "max_turns": 4, "max_tokens": 160, "max_action_tokens": 32},
    "tasks": {"heldout_count": 30, "families": ["mail_file"]},
    "iterated": {
        "iterations": 1,
        "tasks_per_iteration": 4,
        "group_size": 4,
        "epochs": 1,
        "selection": {"threshold": 0.1},
    },
}


def test_the_models_of_the_evaluation_are_unloaded_before_training(
    desk: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def evaluate(context: Context, _name: str, version: AgentVersion) -> HeldoutResult:
        context.runtime.renderer(version)
        engines.append(len(context.runtime._engines))
        return HeldoutResult("heldout", version.id, 1.0, ())

    def train(context: Context, parent: AgentVersion, _before: HeldoutResult, _name: str) -> TrainedVersion:
        engines.append(len(context.runtime._engines))
        return TrainedVersion(parent)

    engines: list[int] = []
    monkeypatch.setattr("upturn.loop.trainers.train_command.evaluate_heldout", evaluate)
    config = parse_full_config(TINY)
    fake = replace(algorithm("iterated"), train=train)
    monkeypatch.setattr(registry, "algorithm", lambda _: fake)
    with desk.opened(tmp_path, config) as context:
        assert not run_training(context, "iterated").ending
    assert engines == [1, 0]


def test_a_whole_run_trains_a_version_and_a_resumed_one_returns_the_same(desk: ModuleType, tmp_path: Path) -> None:
    """One round of three tasks in errands."""
    config = parse_full_config(TINY)
    with desk.opened(tmp_path / "run", config) as context:
        result = run_training(context, "iterated")
    with desk.opened(tmp_path / "run", config) as context:
        again = run_training(context, "iterated")
    assert again == result
    assert result.candidate.parent == result.incumbent.id == "nano@base"
    assert Path(result.candidate.model).is_dir()
    assert result.ending.startswith("Its one round was done. The weights ")
    assert [figure.name for figure in result.results()] == ["success_before", "success_after", "gain", "validation"]
    assert result.before.interval().n == result.after.interval().n == 30
