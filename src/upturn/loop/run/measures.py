"""The components that ``[[rewards.measures]]`` adds to a verifier's evaluations."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from hashlib import blake2b
from importlib import import_module

from upturn.config import Config, MeasureSettings, RewardConfig
from upturn.environments import Verifier, verify_all
from upturn.errors import ConfigError
from upturn.records import Evaluation, Task, Trajectory
from upturn.rewards import evaluation_id, measured


def with_measures(verifier: Verifier, config: Config) -> Verifier:
    """The verifier, with the configured components, if any. Raises ConfigError for functions that do not exist."""
    measures = config.rewards.measures
    problems = [problem for measure in measures for problem in _function_problems(measure)]
    if problems:
        raise ConfigError(problems)
    return MeasuredVerifier(verifier, config.rewards) if measures else verifier


class MeasuredVerifier:
    """A verifier's evaluations with further components; a ``BatchVerifier``.

    Gates, verdict and score stay the verifier's. Its name contains name and version of the rewards and a hash of
    the measures, so an evaluation says what gave its components.
    """

    def __init__(self, verifier: Verifier, rewards: RewardConfig) -> None:
        measures = {measure.name: asdict(measure) for measure in rewards.measures}
        digest = blake2b(json.dumps(measures, sort_keys=True).encode(), digest_size=4).hexdigest()
        self.name = f"{verifier.name}+{rewards.name}/{rewards.version}@{digest}"
        self._verifier = verifier
        self._measures = rewards.measures

    def verify(self, task: Task, trajectory: Trajectory) -> Evaluation:
        """The evaluation of one trajectory. Raises what the verifier raises."""
        return self._measure(trajectory, self._verifier.verify(task, trajectory))

    def verify_all(self, finished: Sequence[tuple[Task, Trajectory]]) -> list[Evaluation]:
        """The evaluations, in order; a component that could not be computed is None."""
        evaluations = verify_all(self._verifier, finished)
        return [
            self._measure(trajectory, evaluation)
            for (_, trajectory), evaluation in zip(finished, evaluations, strict=True)
        ]

    def _measure(self, trajectory: Trajectory, evaluation: Evaluation) -> Evaluation:
        """A missing evaluation gets no components. The verifier's win over those of equal name."""
        components = {
            measure.name: measured(measure, trajectory, evaluation)
            for measure in self._measures
            if evaluation.verdict != "missing"
        }
        return replace(
            evaluation,
            id=evaluation_id(self.name, evaluation.trajectory_id),
            evaluator=self.name,
            rewards={**components, **evaluation.rewards},
        )


def _function_problems(measure: MeasureSettings) -> Iterator[str]:
    if measure.kind != "function":
        return
    path = measure.function
    module, _, attribute = path.partition(":")
    try:
        function = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as exc:
        yield f"rewards.measures: the function {path!r} of {measure.name!r} cannot be imported: {exc}"
        return
    if not callable(function):
        kind = type(function).__name__
        yield f"rewards.measures: {path!r} of {measure.name!r} is a {kind}; it must be a function"
