"""Rollouts that pause between two tokens: what continues is what would have been sampled, by the newer weights."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from benchmarks.errands import ENVIRONMENT, MODEL
from upturn.agents import Job, PausedRollout, RolloutRequest, Setting, ToolAgent, run_rollouts, run_until
from upturn.agents.agent import ModelSession, Reply
from upturn.agents.paused import PausableRecorder, PausedCall, RolloutPausedError
from upturn.config import Limits, OptimiserSettings
from upturn.environments import tools_of
from upturn.environments.kit import resolve_kit
from upturn.models import Generation, GenerationRequest, ScriptedModel, load_local
from upturn.models.engine import LocalEngine, weights_hash
from upturn.records import (
    Observation,
    TokenRow,
    Trajectory,
    Turn,
    WrittenSpan,
    fields_json,
    from_fields,
)
from upturn.training.optimisation import Trainer
from upturn.training.row import policy_rows, written_by, written_count

KIT = resolve_kit(ENVIRONMENT)
LIMITS = Limits(max_turns=4, max_tokens=200, max_action_tokens=24)
TASKS = list(islice(KIT.tasks(seed=3, split="train", families=["mail_file", "cell_ask"]), 3))
LOCAL = load_local(MODEL)


class TwoCalls:
    """Calls the model twice in a turn: a thought is thrown away, and only the second call counts."""

    def __init__(self) -> None:
        self._agent = ToolAgent(LOCAL.renderer(tools_of(KIT)), LIMITS)

    async def act(self, turns: Sequence[Turn], observation: Observation, model: ModelSession) -> Reply:
        await self._agent.act(turns, observation, model)
        return await self._agent.act(turns, observation, model)


def engine_of(model: PreTrainedModel) -> LocalEngine:
    return LocalEngine(model, slots=16, max_length=200)


def jobs(model: LocalEngine, paused: Sequence[PausedRollout | Trajectory] | None = None) -> list[Job]:
    """All rollouts, or the paused ones."""
    setting = Setting("run/0", TwoCalls(), "nano@1", model, LIMITS, seed=11)
    starts = [RolloutRequest(task, number, index) for index, task in enumerate(TASKS) for number in range(3)]
    if paused is None:
        return [Job(start, setting) for start in starts]
    setting = replace(setting, key="run/1", seed=12)  # of another iteration
    return [
        Job(replace(start, paused=state), setting)
        for start, state in zip(starts, paused, strict=True)
        if isinstance(state, PausedRollout)
    ]


def run(chosen: Sequence[Job], count: int) -> list[Trajectory | PausedRollout]:
    """Until so many are finished; every paused one has been stored and read."""
    left = [count]

    def is_enough(_: Trajectory) -> bool:
        left[0] -= 1
        return left[0] <= 0

    results = asyncio.run(run_until(chosen, KIT.environment, is_enough=is_enough))
    return [
        from_fields(PausedRollout, fields_json(result)) if isinstance(result, PausedRollout) else result
        for result in results
    ]


def finish(
    engine: LocalEngine, results: list[Trajectory | PausedRollout], counts: Sequence[int] = ()
) -> list[Trajectory]:
    """Continues until all are finished; ``counts``: how many each continuation but the last waits for."""
    for count in (*counts, 99):
        continued = iter(run(jobs(engine, results), count))
        results = [next(continued) if isinstance(result, PausedRollout) else result for result in results]
    finished = [result for result in results if isinstance(result, Trajectory)]
    assert len(finished) == len(results)
    return finished


def assert_same(actual: Sequence[Trajectory], expected: Sequence[Trajectory]) -> None:
    """Log-probs within 1e-5, spans with other boundaries, all else equal."""
    for one, other in zip(actual, expected, strict=True):
        for row, twin in zip(one.rows, other.rows, strict=True):
            np.testing.assert_allclose(row.logprobs, twin.logprobs, atol=1e-5)
            assert [position for span in row.spans for position in range(span.start, span.stop)] == [
                position for span in twin.spans for position in range(span.start, span.stop)
            ]
        bare = [
            replace(
                item,
                rows=tuple(replace(row, logprobs=(), spans=()) for row in item.rows),
                usage=replace(item.usage, seconds=0.0),
            )
            for item in (one, other)
        ]
        assert bare[0] == bare[1]


def flattened(factor: float) -> PreTrainedModel:
    """Nano with smaller embeddings: it writes texts of very different length."""
    model = load_local(MODEL).model
    with torch.no_grad():
        next(iter(model.parameters())).mul_(factor)
    return model


@pytest.mark.parametrize("counts", [(1,), (1, 1, 1), (4, 1)])
def test_pauses_change_nothing_while_the_weights_do_not(counts: tuple[int, ...]) -> None:
    """Tokens equal with probability above 1 − 1e-3: rounding may decide on one of some 1,000."""
    engine = engine_of(flattened(0.5))
    expected = asyncio.run(run_rollouts(jobs(engine), KIT.environment))
    results = run(jobs(engine), counts[0])
    paused = [result for result in results if isinstance(result, PausedRollout)]
    assert 1 <= len(paused) <= 9 - counts[0]
    assert any(not call.is_complete for state in paused for call in state.calls), "within a call"
    assert any(call.is_complete for state in paused for call in state.calls), "between two calls of a turn"
    assert_same(finish(engine, results, counts[1:]), expected)


def test_every_span_has_the_log_probs_of_the_weights_that_it_names() -> None:
    """Recomputed by the trainer, within 1e-5; a trajectory that was not paused names no weights in its spans."""
    models = [flattened(0.5), flattened(0.52), flattened(0.47)]
    hashes = [weights_hash(model) for model in models]
    results = run(jobs(engine_of(models[0])), 2)
    results = [*results]
    continued = iter(run(jobs(engine_of(models[1]), results), 3))
    results = [next(continued) if isinstance(result, PausedRollout) else result for result in results]
    trajectories = finish(engine_of(models[2]), results)
    assert {version for item in trajectories for version in item.model_versions} == set(hashes)
    assert max(len(item.model_versions) for item in trajectories) == 3
    for item in trajectories:
        stamps = {span.model_version for row in item.rows for span in row.spans}
        assert [hashes.index(version) for version in item.model_versions] == sorted(
            map(hashes.index, item.model_versions)
        ), "the oldest first"
        assert stamps == {version for version in item.model_versions if version != item.model_version} | {""}
    for model, version in zip(models, hashes, strict=True):
        parts = [written_by(item, {version}) for item in trajectories]
        rows = [row for part in parts for row in policy_rows(part, [1.0] * len(part.turns))]
        assert len(rows) >= 2
        scored = Trainer(model, OptimiserSettings(learning_rate=1.0)).score(rows)
        for row, logprobs in zip(rows, scored, strict=True):
            assert row.old_logprobs is not None
            np.testing.assert_allclose(row.old_logprobs, logprobs, atol=1e-5)
    assert sum(written_count(written_by(item, {version})) for item in trajectories for version in hashes) == sum(
        map(written_count, trajectories)
    )


class Interrupted:
    """A model that writes two tokens, is interrupted, and writes three with other weights."""

    def __init__(self) -> None:
        self._generations = [
            Generation((5, 6), (-0.5, -0.6), "interrupted", "old", sampling_logprobs=(-0.1, -0.2)),
            Generation((7, 8, 9), (-0.7, -0.8, -0.9), "stop", "new", sampling_logprobs=(-0.3, -0.4, -0.5)),
        ]

    async def generate(self, request: GenerationRequest) -> Generation:
        assert request.drawn == len(request.prompt_ids) - 3
        return self._generations.pop(0)

    def release(self, session: str) -> None:
        pass


def test_a_message_that_two_versions_wrote_is_divided_at_its_calls() -> None:
    """The first call ends within the newer weights' tokens; every span names its weights and its turn."""
    request = GenerationRequest((), 0, (9,), 1.0, "session", (0, 0), seed=1)

    async def scenario() -> PausableRecorder:
        model, prompt = Interrupted(), (1, 2, 3)
        before = PausableRecorder(model, request)
        before.start_turn(0)
        with pytest.raises(RolloutPausedError):
            await before.generate(prompt, max_tokens=8, stop_ids=(9,))
        after = PausableRecorder(model, request)
        (call,) = before.unfinished_calls()
        after.restore(_paused(before.stamped_rows(), call))
        after.start_turn(0)
        output = await after.generate(prompt, max_tokens=8, stop_ids=(9,))
        assert output.token_ids == (5, 6, 7, 8, 9)
        assert output.sampling_logprobs == (-0.1, -0.2, -0.3, -0.4, -0.5)
        after.divide([Reply("first", None), Reply("second", None)], [3, 5])
        return after

    recorder = asyncio.run(scenario())
    assert recorder.dropped_calls == 1
    (row,) = recorder.rows(2)
    assert row.spans == (WrittenSpan(0, 3, 5, "old"), WrittenSpan(0, 5, 6), WrittenSpan(1, 6, 8))
    assert row.logprobs == (-0.5, -0.6, -0.7, -0.8, -0.9)
    assert row.sampling_logprobs == (-0.1, -0.2, -0.3, -0.4, -0.5)


def _paused(rows: tuple[TokenRow, ...], call: PausedCall) -> PausedRollout:
    """Before its first turn was finished."""
    return PausedRollout(
        "id", TASKS[0], 0, 1, (), Observation(""), "", None, rows, (), 0, (call,), 0.0, call.model_version
    )


def test_an_agent_that_calls_differently_after_a_pause_ends_as_a_model_error() -> None:
    engine = engine_of(flattened(0.5))
    paused = next(result for result in run(jobs(engine), 1) if isinstance(result, PausedRollout) and result.calls)
    call = replace(paused.calls[0], prompt_ids=(5, *paused.calls[0].prompt_ids))
    (job,) = (job for job in jobs(engine) if (job.request.task, job.request.number) == (paused.task, paused.number))
    changed = replace(job.request, paused=replace(paused, calls=(call,)))
    (trajectory,) = run([Job(changed, job.setting)], 1)
    assert isinstance(trajectory, Trajectory) and trajectory.outcome == "model_error"
    assert "the agent calls its model differently after a pause" in trajectory.error


def test_a_model_that_cannot_be_interrupted_is_named() -> None:
    setting = Setting("run/0", TwoCalls(), "nano@1", ScriptedModel(["?"], lambda _: (5,)), LIMITS)
    chosen = [Job(RolloutRequest(TASKS[0], 0, 0), setting)]
    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(run_until(chosen, KIT.environment, is_enough=lambda _: True))
    assert "a ScriptedModel cannot be interrupted" in str(caught.value.exceptions[0])
