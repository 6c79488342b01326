"""The settings of GRPO, and their merging with a preset. No torch here."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from upturn.config import EnvironmentConfig, Keyed, Raw, dump_settings, merge_settings, parse_settings, settings
from upturn.errors import ConfigError
from upturn.training.algorithms.grpo.presets import PRESETS
from upturn.training.policy_settings import PartialSettings, PolicyGradientSettings, is_ratio_one
from upturn.training.run_settings import OnlineSettings, reshaping_problem
from upturn.training.teacher_settings import TeacherSettings, keyed_teacher, teacher_models

PresetName = Literal[
    "grpo",
    "dr_grpo",
    "rloo",
    "dapo",
    "gspo",
    "cispo",
    "sapo",
    "vespo",
    "reinforce_pp",
    "reinforce_pp_baseline",
    "gdpo",
    "lite_ppo",
    "scale_rl",
    "agent_recipe",
]


@settings
class GrpoSettings(OnlineSettings, PolicyGradientSettings):
    """Group-relative policy optimisation on fresh trajectories: several per task, compared with each other."""

    preset: PresetName | None = None
    """A named algorithm, whose settings this section can override (docs/training.md); omit for centred rewards,
    clip 0.2/0.28, mean over tokens, no KL."""
    staleness: Annotated[int, Field(ge=0, le=99)] = 0
    """Age in iterations of the weights that sample trajectories. More than 0: the next ones are sampled while the
    weights are updated, each on half of the threads; environments are then used from two threads. 0 = sampling and
    updates take turns."""
    teacher: TeacherSettings | None = None
    """A teacher whose advantages are added to those of the rewards; omit for rewards alone. Without rewards:
    ``upturn train distillation``."""
    partial: PartialSettings | None = None
    """Trajectories that take several iterations, so that long ones delay no iteration; omit to finish all of them
    in the iteration that starts them."""

    def problems(self) -> Iterator[str | None]:
        """Yields the problems of field combinations."""
        yield from super().problems()
        yield reshaping_problem(self.sampling, self.mismatch)
        sampling = self.dynamic_sampling
        if self.partial is not None:
            yield from self._partial_problems(self.partial)
        if self.staleness and sampling is not None:
            yield (
                f"staleness={self.staleness!r} samples with earlier weights, dynamic_sampling (max_rounds="
                f"{sampling.max_rounds!r}) with the present ones; set staleness = 0 or dynamic_sampling = false"
            )
        if self.teacher is not None and not self.teacher.model:
            yield "teacher.model is empty; name the teacher: a folder, a name, or 'nano'"
        if self.teacher is not None and sampling is not None:
            yield (
                f"teacher={self.teacher.model!r} gives every group a signal, and dynamic_sampling drops groups "
                "with equal rewards; leave one of them out (dynamic_sampling = false)"
            )
        if self.group_size < 2 and self._compares:
            yield (
                f"group_size={self.group_size!r} leaves advantage.estimator={self.advantage.estimator!r} nothing "
                "to compare, so that no trajectory would have a signal; set group_size = 2 or more, or take preset "
                "= 'reinforce_pp', or estimator = 'monte_carlo' or 'divergence' without turn_weight"
            )

    def local_models(self) -> Iterator[tuple[str, str]]:
        """Yields the teacher, and its tokenizer."""
        return teacher_models(self.teacher)

    def keyed(self) -> Iterator[tuple[str, Keyed]]:
        """Yields the teacher, which may name an API key."""
        return keyed_teacher(self.teacher)

    def _partial_problems(self, partial: PartialSettings) -> Iterator[str | None]:
        text = f"partial (extra_tasks={partial.extra_tasks!r})"
        if self.staleness:
            yield (
                f"{text} continues trajectories with the present weights, staleness={self.staleness!r} samples "
                "with earlier ones while they are trained: omit one of them"
            )
        if self.dynamic_sampling is not None:
            yield (
                f"{text} ends an iteration at its first finished tasks, dynamic_sampling (max_rounds="
                f"{self.dynamic_sampling.max_rounds!r}) samples further ones after them: omit one of them"
            )
        if self.advantage.measures:
            yield (
                f"{text} has no state values, which advantage.estimator={self.advantage.estimator!r} measures by "
                "continuations in the same iteration: omit one of them"
            )

    @property
    def _compares(self) -> bool:
        """True when an advantage depends on other trajectories of the task."""
        advantage = self.advantage
        measures_alone = advantage.measures and advantage.turn_weight is None
        return not (measures_alone or (advantage.estimator == "trajectory" and advantage.baseline == "none"))

    @classmethod
    def prepare(cls, raw: Raw, whole: Raw, /) -> Raw:
        """Returns the section merged over its preset; an omitted constant is the environment's longest
        trajectory."""
        name, user_objective = raw.get("preset"), _table(raw, "objective")
        base = PRESETS[name].values if isinstance(name, str) and name in PRESETS else {}
        merged = merge_settings(cls, base, raw)
        objective = dict(_table(merged, "objective"))
        if objective.get("aggregation") == "constant":
            limits = dump_settings(EnvironmentConfig()) | dict(_table(whole, "environment"))
            turns, tokens = limits["max_turns"], limits["max_action_tokens"]
            if user_objective.get("constant_tokens") is None and isinstance(turns, int) and isinstance(tokens, int):
                objective["constant_tokens"] = turns * tokens
        elif "aggregation" in user_objective and "constant_tokens" not in user_objective:
            objective.pop("constant_tokens", None)
        if base and is_ratio_one(
            merged.get("minibatches", 2), merged.get("passes", 1), merged.get("mismatch") or None
        ):
            for clip in ("clip_low", "clip_high"):  # those of the preset have no effect there
                if clip not in user_objective:
                    objective.pop(clip, None)
        return {**merged, "objective": objective} if objective else merged


def _table(raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = raw.get(name)
    return value if isinstance(value, Mapping) else {}


def preset(name: str) -> GrpoSettings:
    """Returns the settings of a named algorithm; raises ConfigError for an unknown name."""
    if name not in PRESETS:
        raise ConfigError([f"unknown preset {name!r}; known: {', '.join(PRESETS)}"])
    return parse_settings(GrpoSettings, GrpoSettings.prepare({"preset": name}, {}))
