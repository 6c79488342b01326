"""The settings of on-policy distillation. No torch here."""

from collections.abc import Iterator

from upturn.config import Count, Keyed, report_unused, settings
from upturn.training.advantages import AdvantageSettings
from upturn.training.policy_settings import PolicyGradientSettings
from upturn.training.run_settings import OnlineSettings
from upturn.training.teacher_settings import TeacherSettings, keyed_teacher, teacher_models


@settings
class DistillationSettings(OnlineSettings, PolicyGradientSettings):
    """``upturn train distillation``: on-policy distillation. The model samples trajectories, and a teacher's
    log-probs of its tokens are the only training signal (Thinking Machines, "On-Policy Distillation", 2025)."""

    group_size: Count = 4
    """Trajectories per task; they are not compared with each other."""
    minibatches: Count = 1
    """Optimiser steps that one pass over an iteration's groups is split into."""
    teacher: TeacherSettings = TeacherSettings()
    """The teacher; ``teacher.model`` must be set."""

    def problems(self) -> Iterator[str | None]:
        """Yields the problems of field combinations."""
        yield from super().problems()
        cure = "with distillation, which has no rewards; leave it out, or train grpo with grpo.teacher"
        yield report_unused(self.advantage != AdvantageSettings(), "advantage", cure)
        yield report_unused(self.dynamic_sampling is not None, "dynamic_sampling", cure)

    def local_models(self) -> Iterator[tuple[str, str]]:
        """Yields the teacher, or its tokenizer."""
        return teacher_models(self.teacher)

    def keyed(self) -> Iterator[tuple[str, Keyed]]:
        """Yields the teacher, which may name an API key."""
        return keyed_teacher(self.teacher)
