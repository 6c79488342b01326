"""What the ways of learning are told by the configuration: no key is silent; and whole runs of two of them."""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from upturn.cli.train import WAYS
from upturn.config import Config, Section, parse_config
from upturn.errors import ConfigError
from upturn.loop.evaluation.evaluate import ExamResult
from upturn.loop.run.context import Context
from upturn.loop.run.settings import curriculum_settings, optimiser
from upturn.loop.trainers import dpo, kto, mixture, ppo, rft, world_model
from upturn.loop.trainers import expert_iteration as imitation
from upturn.loop.trainers import offline_policy_gradient as offline
from upturn.loop.trainers import online_dpo as dpo_rounds
from upturn.loop.trainers.candidate import Learned
from upturn.loop.trainers.pool_data import FROM_POOL, check_evidence, with_copied_pool
from upturn.loop.trainers.rl_training import Course
from upturn.loop.trainers.train_command import LESSONS, check, teach
from upturn.pool import Pool
from upturn.records import AgentVersion
from upturn.training.algorithms.dpo import DpoSettings
from upturn.training.algorithms.ppo import CriticSettings

NANO = {"name": "nano", "kind": "local_model", "model": "nano-errands"}
ROUNDS = {"iterations": 7, "learning_rate": 3e-3, "evaluate_every": 2, "patience": 3, "target_score": 0.5}
PAIRS = {
    "objective.beta": 0.7,
    "objective.label_smoothing": 0.2,
    "objective.is_length_normalised": True,
    "objective.sft_coefficient": 0.3,
    "objective.kind": "ipo",
}
CRITIC = {"learning_rate": 0.5, "minibatches": 5, "passes": 6, "alone_iterations": 1, "value_clip": 0.75}
OWN = {
    **ROUNDS,
    "decay": "cosine",
    "epochs": 9,
    "batch_rows": 5,
    "threshold": 0.3,
    "top": 2,
    "prefer": "shortest",
}
CHANGES: Mapping[str, Mapping[str, object]] = {
    "ppo": {
        **ROUNDS,
        "decay": "cosine",
        "minibatches": 3,
        "passes": 4,
        "credit.step": "token",
        "credit.gamma": 0.5,
        "credit.trace": 0.25,
        "credit.value_trace": 0.125,
        "credit.is_whitened": False,
        "clip.by": "turn",
        "clip.low": 0.125,
        "clip.high": 0.375,
        **{f"critic.{key}": value for key, value in CRITIC.items()},
    },
    "dpo": {"epochs": 9, "learning_rate": 3e-3, "batch_pairs": 5, "reference": "recorded", **PAIRS},
    "dpo_rounds": {
        **ROUNDS,
        "decay": "cosine",
        "pairs.by": "turn",
        "pairs.min_margin": 0.25,
        "pairs.gamma": 0.5,
        "pairs.valued_by": "state_values",
        "pairs.monte_carlo_share": 0.75,
        "epochs": 9,
        "batch_pairs": 5,
        "reference": "initial",
        **PAIRS,
        **{f"critic.{key}": value for key, value in CRITIC.items()},
    },
    "kto": {
        "epochs": 9,
        "learning_rate": 3e-3,
        "batch_trajectories": 5,
        "beta": 0.7,
        "desirable_weight": 2.0,
        "undesirable_weight": 3.0,
    },
    "rejection": {key: value for key, value in OWN.items() if key not in ("iterations", "evaluate_every")},
    "iterated": OWN,
    "star": {**OWN, "mentions": ("answer",)},
    "self_repair": {**OWN, "mentions": ("answer",)},
    "world_model": {
        **ROUNDS,
        "decay": "cosine",
        "transitions_per_iteration": 5,
        "attempts": 3,
        "threshold": 0.75,
        "common_ratio": 0.5,
        "warm_up_epochs": 9,
        "warm_up_learning_rate": 3e-3,
    },
    "offline": {**ROUNDS, "decay": "cosine", "groups": 5, "minibatches": 3, "max_age": 4, "weight_cap": 5.0},
    "mixture": {**ROUNDS, "decay": "cosine"},
    "rft": {"iterations": 7, "learning_rate": 3e-3},
    "curriculum": {
        "policy": "uniform",
        "window": 3,
        "min_attempts": 5,
        "is_gated": True,
        "levels.advance_at": 0.5,
        "levels.ahead_share": 0.3,
        "levels.easier_share": 0.2,
        "levels.max_drop": 0.3,
        "levels.final_mix": {"1": 0.5, "2": 0.5},
    },
}
"""Another value for each key that decides the settings of the section's algorithm."""
_COURSE = {"tasks_per_iteration", "attempts", "incumbent_share"}
ELSEWHERE: Mapping[str, set[str]] = {
    "ppo": _COURSE,
    "dpo": {"old", "new", "min_margin"},
    "dpo_rounds": {*_COURSE, "pairs.continuations"},
    "rejection": {*_COURSE, "iterations", "evaluate_every"},  # both are 1
    "iterated": _COURSE,
    "star": _COURSE,
    "self_repair": _COURSE,
    "mixture": {*_COURSE, "minibatches", "sft", "dpo", "kto"},
    "rft": {"examples", "tasks_per_iteration", "attempts", "seeds", "controls", "second_base"},
    "curriculum": {"gate.low", "gate.high", "gate.probe_share"},
}
"""Keys that decide something else: which tasks and evidence, or what is repeated. They have tests of their own."""
SETTINGS: Mapping[str, Callable[[Config], object]] = {
    "ppo": ppo.settings,
    "dpo": dpo.settings,
    "dpo_rounds": dpo_rounds.settings,
    "kto": kto.settings,
    "rejection": partial(imitation.settings, way="rejection"),
    "iterated": partial(imitation.settings, way="iterated"),
    "star": partial(imitation.settings, way="star"),
    "self_repair": partial(imitation.settings, way="self_repair"),
    "world_model": world_model.settings,
    "offline": offline.settings,
    "mixture": mixture.settings,
    "curriculum": lambda config: curriculum_settings(config.curriculum),
    "rft": rft.settings,
}


def _nested(key: str, value: object) -> dict[str, Any]:
    first, _, rest = key.partition(".")
    return {first: _nested(rest, value) if rest else value}


BASES: Mapping[str, Mapping[str, object]] = {
    "curriculum": {"policy": "levels"},
    "dpo_rounds": {"pairs.by": "turn", "pairs.monte_carlo_share": 0.5},
}
"""What a section's keys need to have an effect."""


def _config(section: str, key: str = "", value: object = None) -> Config:
    """``value``: None = the key's default, beside what the key needs."""
    base = {} if key == "pairs.by" else BASES.get(section, {})  # whole attempts have no critic
    asked: dict[str, Any] = {}
    for name, each in {**base, **({} if value is None else {key: value})}.items():
        outer, _, rest = name.partition(".")
        asked[outer] = {**asked.get(outer, {}), **_nested(rest, each)} if rest else each
    return parse_config({"agents": [NANO], section: asked})


def _leaves(section: Section, prefix: str = "") -> Iterator[str]:
    for name in type(section).model_fields:
        value = getattr(section, name)
        if isinstance(value, Section):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def test_each_command_has_a_lesson_and_each_lesson_a_command() -> None:
    assert tuple(WAYS) == tuple(LESSONS)
    assert set(LESSONS) > FROM_POOL


@pytest.mark.parametrize("section", CHANGES)
def test_every_key_of_a_section_is_told_here(section: str) -> None:
    keys = set(_leaves(getattr(_config(section), section)))
    assert keys == set(CHANGES[section]) | ELSEWHERE.get(section, set())


@pytest.mark.parametrize(("section", "key"), [(section, key) for section, keys in CHANGES.items() for key in keys])
def test_no_key_is_silent(section: str, key: str) -> None:
    config = _config(section, key, CHANGES[section][key])
    assert SETTINGS[section](config) != SETTINGS[section](_config(section, key))


@pytest.mark.parametrize(("key", "value"), [("low", 0.2), ("high", 0.5), ("probe_share", 0.3)])
def test_the_gates_keys_decide_where_there_is_a_gate(key: str, value: float) -> None:
    gated = {"agents": [NANO], "curriculum": {"policy": "uniform", "is_gated": True}}
    plain = curriculum_settings(parse_config(gated).curriculum)
    gated["curriculum"] = {"policy": "uniform", "is_gated": True, "gate": {key: value}}
    changed = curriculum_settings(parse_config(gated).curriculum)
    assert plain is not None and changed is not None and plain.gate is not None and changed.gate is not None
    assert getattr(changed.gate, key) == value
    assert changed != plain


def test_shares_of_levels_are_a_table_by_level() -> None:
    text = "[curriculum]\npolicy = 'levels'\n[curriculum.levels.final_mix]\n1 = 0.4\n9 = 0.6\n"
    found = curriculum_settings(parse_config({"agents": [NANO], **tomllib.loads(text)}).curriculum)
    assert found is not None and found.levels is not None and found.levels.final_mix == {1: 0.4, 9: 0.6}
    for mix, problem in (
        ({"hard": 1.0}, "curriculum.levels.final_mix"),
        ({"1": 0.4, "2": 0.4}, r"curriculum: levels.final_mix must have positive shares that add up to 1"),
    ):
        section = {"policy": "levels", "levels": {"final_mix": mix}}
        with pytest.raises(ConfigError, match=problem):
            curriculum_settings(parse_config({"agents": [NANO], "curriculum": section}).curriculum)


def test_no_curriculum_is_none_and_only_levels_have_levels() -> None:
    assert curriculum_settings(parse_config({"agents": [NANO]}).curriculum) is None
    uniform = curriculum_settings(parse_config({"agents": [NANO], "curriculum": {"policy": "uniform"}}).curriculum)
    assert uniform is not None and uniform.levels is None and uniform.gate is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("weight_decay", 0.5),
        ("max_grad_norm", 2.0),
        ("micro_batch_tokens", 99),
        ("precision", "bfloat16"),
        ("gradient_checkpointing", True),
    ],
)
def test_the_optimisers_keys_reach_every_way_of_learning(key: str, value: object) -> None:
    config = parse_config({"agents": [NANO], "optimiser": {key: value}})
    assert getattr(optimiser(config, 1e-4), key) == value
    for section in set(SETTINGS) - {"curriculum"}:
        assert SETTINGS[section](config) != SETTINGS[section](parse_config({"agents": [NANO]})), section


def test_a_rate_is_the_ways_own() -> None:
    config = parse_config({"agents": [NANO], "dpo": {"learning_rate": 0.5}})
    found = dpo.settings(config)
    assert isinstance(found, DpoSettings)
    assert (found.optimiser.learning_rate, kto.settings(config).optimiser.learning_rate) == (0.5, 1e-4)


COURSES: Mapping[str, Callable[[Context], Course]] = {
    "ppo": lambda context: ppo._course(context, {"sums": 1.0}, "x"),
    "dpo_rounds": lambda context: dpo_rounds._course(context, {"sums": 1.0}, "x"),
    "mixture": lambda context: mixture._course(context, {"sums": 1.0}, "x"),
    "rejection": lambda context: imitation.Imitation("rejection")._course(context, {"sums": 1.0}, "x"),
    "star": lambda context: imitation.Imitation("star")._course(context, {"sums": 1.0}, "x"),
}


@pytest.mark.parametrize("section", COURSES)
def test_practice_goes_as_its_section_says(desk: ModuleType, tmp_path: Path, section: str) -> None:
    asked = {"tasks_per_iteration": 5, "attempts": 3, "incumbent_share": 0.25}
    with desk.opened(tmp_path, desk.config(**{section: asked})) as context:
        course = COURSES[section](context)
        assert course.section is getattr(context.config, section)
    assert course.practice.attempts == 3
    assert (course.section.tasks_per_iteration, course.section.incumbent_share) == (5, 0.25)
    assert course.weights == {"sums": 1.0}


@pytest.mark.parametrize(
    ("pairs", "continuations", "gamma"),
    [
        ({"by": "turn", "gamma": 0.5}, 0, 0.5),
        ({"by": "turn", "valued_by": "state_values"}, 8, 1.0),
        ({"by": "turn", "valued_by": "state_values", "continuations": 3, "gamma": 0.5}, 3, 0.5),
    ],
)
def test_states_are_measured_where_actions_are_valued_by_them(
    desk: ModuleType, tmp_path: Path, pairs: dict[str, object], continuations: int, gamma: float
) -> None:
    with desk.opened(tmp_path, desk.config(dpo_rounds={"pairs": pairs})) as context:
        practice = COURSES["dpo_rounds"](context).practice
    assert (practice.continuations, practice.gamma) == (continuations, gamma)


def test_a_critic_is_there_where_it_has_a_share() -> None:
    def critic(pairs: dict[str, object]) -> object:
        found: Any = dpo_rounds.settings(parse_config({"agents": [NANO], "dpo_rounds": {"pairs": pairs}}))
        return found.critic

    assert critic({"by": "turn"}) is None
    assert critic({"by": "turn", "monte_carlo_share": 0.5}) == CriticSettings()
    assert critic({"by": "turn", "monte_carlo_share": 0.0, "gamma": 0.9}) == CriticSettings()


@pytest.mark.parametrize(("section", "weights"), [("sft", 0.0)])
def test_a_mixture_of_practice_alone_is_refused(section: str, weights: float) -> None:
    with pytest.raises(ConfigError, match=r"mixture\.sft, mixture\.dpo and mixture\.kto are all 0"):
        mixture.settings(parse_config({"agents": [NANO], "mixture": {section: weights}}))


@pytest.mark.parametrize(("given", "missing"), [("old", "new"), ("new", "old")])
def test_one_of_two_versions_is_refused(given: str, missing: str) -> None:
    with pytest.raises(ConfigError, match=rf"dpo\.{given} has no effect without dpo\.{missing}; set both"):
        dpo.settings(parse_config({"agents": [NANO], "dpo": {given: "nano@base"}}))


def test_problems_of_an_algorithm_name_their_section() -> None:
    short = {"iterations": 3, "evaluate_every": 3, "critic": {"alone_iterations": 3}}
    with pytest.raises(ConfigError) as caught:
        ppo.settings(parse_config({"agents": [NANO], "ppo": short}))
    assert all(problem.startswith("ppo: ") for problem in caught.value.problems)


def test_all_successes_are_kept_where_there_are_fewer_attempts_than_would_be_by_default() -> None:
    """Four are; what is asked for beyond the attempts is refused with the file (tests/test_config.py)."""
    found = imitation.settings(parse_config({"agents": [NANO], "iterated": {"attempts": 3}}), "iterated")
    assert found.selection.top == 3
    found = imitation.settings(parse_config({"agents": [NANO], "iterated": {"attempts": 3, "top": 2}}), "iterated")
    assert found.selection.top == 2


@pytest.mark.parametrize("algorithm", LESSONS)
def test_nobody_is_trained_where_the_loop_trains_nobody(desk: ModuleType, algorithm: str) -> None:
    with pytest.raises(ConfigError, match=r"sft\.enabled = false and grpo\.enabled = false say that no agent"):
        check(desk.config(), algorithm)


@pytest.mark.parametrize(
    ("algorithm", "sections", "problem"),
    [
        ("dpo", {"dpo": {"old": "a@1", "new": "a@1"}}, "dpo.old and dpo.new are both 'a@1'"),
        ("dpo", {"dpo": {"old": "a@1"}}, "dpo.old has no effect without dpo.new"),
        (
            "rft",
            {"rft": {"second_base": "nano-errands"}},
            "rft.second_base = 'nano-errands' is the model that is trained",
        ),
        ("ppo", {"ppo": {"iterations": 5, "critic": {"alone_iterations": 5}}}, "ppo: "),
        (
            "dpo-rounds",
            {"dpo_rounds": {"pairs": {"valued_by": "state_values"}}},
            "dpo_rounds: valued_by='state_values' would do nothing with by='trajectory'",
        ),
        (
            "dpo-rounds",
            {"dpo_rounds": {"pairs": {"monte_carlo_share": 0.5}}},
            "dpo_rounds: monte_carlo_share=0.5 would do nothing with by='trajectory'",
        ),
        (
            "dpo-rounds",
            {"dpo_rounds": {"pairs": {"by": "turn", "monte_carlo_share": 0.0, "valued_by": "state_values"}}},
            "dpo_rounds: valued_by='state_values' would do nothing with monte_carlo_share=0",
        ),
        ("mixture", {"mixture": {"sft": 0.0}}, "mixture.sft, mixture.dpo and mixture.kto are all 0"),
        ("mixture", {"grpo": {"algorithm": {"staleness": 1}}}, "a mixture practises in plain rounds"),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_opened(
    algorithm: str, sections: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        check(parse_config({"agents": [NANO], **sections}), algorithm)
    assert caught.value.problems[0].startswith(problem)


@pytest.mark.parametrize("algorithm", sorted(FROM_POOL))
def test_a_pool_that_is_needed_and_not_there_is_refused_and_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"pool\.path is empty.*upturn ingest"):
        check_evidence(parse_config({"agents": [NANO]}), algorithm)
    with pytest.raises(ConfigError, match=r"there is no file pool\.path = 'gone\.db' in .*upturn ingest"):
        check_evidence(parse_config({"agents": [NANO], "pool": {"path": "gone.db"}}), algorithm)
    check_evidence(parse_config({"agents": [NANO]}), "grpo")
    assert list(tmp_path.iterdir()) == []


def test_looking_works_on_a_copy_of_the_pool(desk: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    settings = desk.config(pool={"path": str(path)})
    with desk.opened(tmp_path / "run", settings) as context:
        context.finish()
        looked_at = with_copied_pool(settings, "sft", tmp_path)  # while another process holds it
    assert looked_at.pool.path == str(tmp_path / "copy.db")
    with Pool.open(path, read_only=True) as pool, Pool.open(looked_at.pool.path, read_only=True) as copy:
        assert list(copy.agent_versions()) == list(pool.agent_versions())
    assert with_copied_pool(settings, "grpo", tmp_path).pool.path == ""


TINY = {
    "agents": [{**NANO, "temperature": 1.0}],
    "run": {"threads": 1},
    "environment": {"name": "errands", "max_turns": 4, "max_tokens": 160, "max_action_tokens": 32},
    "tasks": {"heldout_count": 30, "families": ["mail_file"]},
    "iterated": {"iterations": 1, "tasks_per_iteration": 4, "attempts": 4, "epochs": 1, "threshold": 0.1},
}


def test_the_exams_models_are_gone_while_training_holds_its_own(
    desk: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def examined(context: Context, _name: str, version: AgentVersion) -> ExamResult:
        context.fleet.renderer(version)
        engines.append(len(context.fleet._engines))
        return ExamResult("exam", version.id, 1.0, ())

    def trained(context: Context, parent: AgentVersion, _before: ExamResult, _name: str) -> Learned:
        engines.append(len(context.fleet._engines))
        return Learned(parent)

    engines: list[int] = []
    monkeypatch.setattr("upturn.loop.trainers.train_command.examine", examined)
    monkeypatch.setattr(
        "upturn.loop.trainers.train_command.LESSONS", {"iterated": LESSONS["iterated"]._replace(train=trained)}
    )
    with desk.opened(tmp_path, parse_config(TINY)) as context:
        assert not teach(context, "iterated").ending
    assert engines == [1, 0]


def test_a_whole_run_makes_a_version_and_a_resumed_one_makes_it_again(desk: ModuleType, tmp_path: Path) -> None:
    """One round of three tasks in errands."""
    config = parse_config(TINY)
    with desk.opened(tmp_path / "run", config) as context:
        taught = teach(context, "iterated")
    with desk.opened(tmp_path / "run", config) as context:
        again = teach(context, "iterated")
    assert again == taught
    assert taught.candidate.parent == taught.incumbent.id == "nano@base"
    assert Path(taught.candidate.model).is_dir()
    assert taught.ending.startswith("Its one round was done. The weights ")
    assert [each.name for each in taught.results()] == ["success_before", "success_after", "gain", "validation"]
    assert taught.before.interval().n == taught.after.interval().n == 30
