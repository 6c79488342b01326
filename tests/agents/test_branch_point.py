"""Rollouts continue from states inside other trajectories, identically where the model gives the same output."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest

from upturn.agents import BranchPoint, Job, Reply, RolloutRequest, Setting, ToolAgent, branch_points, run_rollouts
from upturn.agents.agent import Agent, ModelSession
from upturn.agents.branch_point import full_trajectory
from upturn.config import Limits
from upturn.environments.environment import Info, Step
from upturn.errors import WorldError
from upturn.models import Generation, GenerationRequest, ParsedOutput, read_call
from upturn.records import Action, JsonValue, Observation, Task, Trajectory, Turn
from upturn.training.row import policy_rows, written_count

END = 0
TASK = Task("t1", "go", "walk", "walk", seed=5)


class LetterRenderer:
    """One token a letter; 0 ends an action."""

    stop_ids = (END,)

    def open(self, observation: Observation, prompt: str) -> tuple[int, ...]:
        return tuple(map(ord, f"{prompt}[{observation.text}]"))

    def extend(self, observation: Observation) -> tuple[int, ...]:
        return tuple(map(ord, f"[{observation.text}]"))

    def write(self, action: Action) -> tuple[int, ...]:
        return (*map(ord, f"{action.target}.{action.operation}"), END)

    def read(self, token_ids: Sequence[int]) -> ParsedOutput:
        text = "".join(chr(token) for token in token_ids if token != END)
        return ParsedOutput(text, read_call(text))


class Walk:
    """``w.left`` and ``w.right`` move, further each time by a seeded amount; ``user.finish`` ends."""

    def __init__(self) -> None:
        self.position, self.moves, self.rng = 0, 0, Random()

    def reset(self, task: Task) -> tuple[Observation, Info]:
        self.position, self.moves, self.rng = 0, 0, Random(task.seed)
        return Observation(task.instruction), self._info()

    def step(self, action: Action) -> Step:
        sign = {"left": -1, "right": 1}.get(action.operation, 0)
        self.position += sign * self.rng.randint(1, 9)
        self.moves += abs(sign)
        is_over = action.operation == "finish"
        is_known = bool(sign) or is_over
        observation = Observation(str(self.position)) if is_known else Observation("what?", code="malformed")
        return Step(observation, float(self.position), is_over, False, self._info())

    def state(self) -> Mapping[str, JsonValue]:
        return {"place": self.position, "moves": self.moves}

    def snapshot(self) -> object:
        return (self.position, self.moves, self.rng.getstate())

    def restore(self, snapshot: object) -> None:
        assert isinstance(snapshot, tuple)
        self.position, self.moves, rng_state = snapshot
        self.rng.setstate(rng_state)

    def _info(self) -> Info:
        return Info({}, {}, state_hash=f"{self.moves}/{self.position}")


class ForgetfulWalk(Walk):
    """Cannot be copied."""

    def snapshot(self) -> object:
        raise NotImplementedError

    def restore(self, snapshot: object) -> None:
        raise AssertionError("nothing to restore")


class GreedyModel:
    """Its output depends on the prompt's length, or on the seed if ``is_random``; a log-prob is −length."""

    def __init__(self, *, is_random: bool = False, last: int = 4) -> None:
        self.is_random = is_random
        self.last = last
        self.seeds: list[int] = []

    async def generate(self, request: GenerationRequest) -> Generation:
        await asyncio.sleep(0)
        self.seeds.append(request.seed)
        turns = request.prompt_ids.count(ord("["))
        choice = request.seed if self.is_random else len(request.prompt_ids)
        text = "user.finish" if turns > self.last else ("w.left", "w.right", "nonsense")[choice % 3]
        ids = (*map(ord, text), END)[: request.max_tokens]
        return Generation(ids, (-float(len(request.prompt_ids)),) * len(ids), "stop", "greedy")

    def release(self, session: str) -> None:
        pass


def _setting(model: GreedyModel, agent: Agent | None = None) -> Setting:
    return Setting("run", agent or ToolAgent(LetterRenderer(), Limits(), "P"), "a@1", model, clock=lambda: 0.0)


def _play(
    setting: Setting, *starts: BranchPoint | None, environment: type[Walk] = Walk, limits: Limits | None = None
) -> list[Trajectory]:
    setting = setting if limits is None else replace(setting, limits=limits)
    jobs = [Job(RolloutRequest(TASK, number, 0, start), setting) for number, start in enumerate(starts)]
    return asyncio.run(run_rollouts(jobs, lambda _: environment()))


def _suffix(whole: Trajectory, turn: int) -> list[tuple[tuple[int, ...], tuple[float, ...]]]:
    """Sampled tokens and log-probs from a turn on, by row."""
    suffixes = []
    for row in whole.rows:
        offset = 0
        tokens: list[int] = []
        logprobs: list[float] = []
        for span in row.spans:
            length = span.stop - span.start
            if span.turn >= turn:
                tokens += row.token_ids[span.start : span.stop]
                logprobs += row.logprobs[offset : offset + length]
            offset += length
        if tokens:
            suffixes.append((tuple(tokens), tuple(logprobs)))
    return suffixes


@pytest.mark.parametrize("environment", [Walk, ForgetfulWalk])
def test_the_same_answers_give_the_same_turns_from_every_branch_point(environment: type[Walk]) -> None:
    setting = _setting(GreedyModel())
    (whole,) = _play(setting, None, environment=environment)
    assert len(whole.turns) == 5
    assert any(turn.action is None for turn in whole.turns)
    states = branch_points(whole, TASK, environment())
    assert [state.snapshot is None for state in states] == [environment is ForgetfulWalk] * 5
    for turn, continuation in enumerate(_play(setting, *states, environment=environment)):
        assert continuation.turns == whole.turns
        assert (continuation.final_observation, continuation.final_state) == (
            whole.final_observation,
            whole.final_state,
        )
        assert (continuation.outcome, continuation.error) == ("finished", "")
        # The row has all tokens; only those of the new turns count as written.
        (row,) = continuation.rows
        assert row.token_ids == whole.rows[0].token_ids
        assert {span.turn for span in row.spans} == set(range(turn, 5))
        assert _suffix(continuation, 0) == _suffix(whole, turn)
        weights = policy_rows(continuation, [1.0] * 5)[0]
        assert len(weights.positions) == len(row.logprobs) == continuation.usage.written_tokens
        assert continuation.usage.prompt_tokens + continuation.usage.written_tokens == len(row.token_ids)


def test_continuations_have_distinct_ids_and_seeds() -> None:
    model = GreedyModel(is_random=True)
    setting = _setting(model)
    first, second = _play(setting, None, None)
    states = [state for trajectory in (first, second) for state in branch_points(trajectory, TASK, Walk())]
    model.seeds.clear()
    continuations = _play(setting, *states, *states)
    assert len({trajectory.id for trajectory in [first, second, *continuations]}) == 2 + len(continuations)
    assert len(set(model.seeds)) == len(model.seeds)
    assert {trajectory.turns[-1].text for trajectory in continuations} == {"user.finish"}
    assert len({tuple(turn.text for turn in trajectory.turns) for trajectory in continuations}) > 2
    assert [trajectory.attempt for trajectory in continuations] == list(range(len(continuations)))
    assert continuations == _play(setting, *states, *states)


def test_limits_include_the_turns_before_the_branch_point() -> None:
    setting = _setting(GreedyModel())
    (whole,) = _play(setting, None)
    states = branch_points(whole, TASK, Walk())
    (short,) = _play(setting, states[2], limits=Limits(max_turns=3))
    assert (short.outcome, short.turns) == ("step_limit", whole.turns[:3])
    (shorter,) = _play(setting, states[2], limits=Limits(max_turns=2))
    assert (shorter.outcome, shorter.turns, shorter.rows) == ("step_limit", whole.turns[:2], ())
    tokens = len(states[2].history)
    (full,) = _play(setting, states[2], limits=Limits(max_tokens=tokens))
    assert (full.outcome, full.turns) == ("token_limit", whole.turns[:2])


def test_full_trajectory_includes_the_tokens_before_the_branch_point() -> None:
    for agent, last in ((None, 4), (Aside(), 99)):
        setting = _setting(GreedyModel(last=last), agent)
        (whole,) = _play(setting, None)
        states = branch_points(whole, TASK, Walk())
        for state, continuation in zip(states, _play(setting, *states), strict=True):
            full = full_trajectory(continuation, state)
            assert written_count(full) == written_count(whole)
            assert written_count(continuation) == written_count(whole) - sum(
                span.stop - span.start for row in state.rows for span in row.spans
            )
            assert sorted(sum((row.logprobs for row in full.rows), ())) == sorted(
                sum((row.logprobs for row in whole.rows), ())
            )


class Aside:
    """Thinks in a separate context before each action, and drops its history in the third turn."""

    async def act(self, turns: Sequence[Turn], observation: Observation, model: ModelSession) -> Reply:
        thought = await model.generate((*map(ord, "think"), len(turns) + 1), max_tokens=9, stop_ids=(END,))
        assert thought.token_ids
        prefix = () if len(turns) == 2 else self._acting(turns)
        prompt = (*prefix, *map(ord, f"[{observation.text}]"))
        written = await model.generate(prompt, max_tokens=20, stop_ids=(END,))
        text = "".join(map(chr, written.token_ids[:-1]))
        return Reply(
            "user.finish" if len(turns) == 3 else text,
            Action("user", "finish") if len(turns) == 3 else read_call(text),
        )

    @staticmethod
    def _acting(turns: Sequence[Turn]) -> tuple[int, ...]:
        """The tokens that it read and wrote since it last dropped its history."""
        since = turns[2:] if len(turns) > 2 else turns
        return tuple(ord(letter) for turn in since for letter in f"[{turn.observation.text}]{turn.text}\0")


def test_continuations_keep_all_rows_before_the_branch_point() -> None:
    setting = _setting(GreedyModel(last=99), Aside())
    (whole,) = _play(setting, None)
    causes = [row.fork_cause for row in whole.rows]
    assert len(whole.rows) > 4
    for turn, continuation in enumerate(_play(setting, *branch_points(whole, TASK, Walk()))):
        assert continuation.turns == whole.turns
        written = [row for row in whole.rows if any(span.turn >= turn for span in row.spans)]
        assert [row.token_ids for row in continuation.rows] == [row.token_ids for row in written]
        assert _suffix(continuation, 0) == _suffix(whole, turn)
        if turn:
            assert [row.fork_cause for row in continuation.rows] == causes[len(causes) - len(written) :]


def test_a_nondeterministic_environment_is_a_world_error() -> None:
    class Fickle(Walk):
        def reset(self, task: Task) -> tuple[Observation, Info]:
            return super().reset(replace(task, seed=self.luck))

        luck = 1

    (whole,) = _play(_setting(GreedyModel()), None, environment=Fickle)
    Fickle.luck = 2
    with pytest.raises(
        WorldError, match=r"is not deterministic: replaying trajectory .*, its observation is .* instead of"
    ):
        branch_points(whole, TASK, Fickle())


def test_a_failing_snapshot_is_a_world_error_with_the_remedy() -> None:
    class Unfrozen(Walk):
        def snapshot(self) -> object:
            raise TypeError("cannot pickle a socket")

    (whole,) = _play(_setting(GreedyModel()), None)
    with pytest.raises(WorldError) as caught:
        branch_points(whole, TASK, Unfrozen())
    message = str(caught.value)
    assert "Unfrozen" in message
    assert "TypeError: cannot pickle a socket" in message
    assert "return a frozen copy of the state, or raise NotImplementedError" in message
    assert isinstance(caught.value.__cause__, TypeError)


def test_an_unreachable_branch_point_is_the_rollouts_outcome() -> None:
    setting = _setting(GreedyModel())
    (whole,) = _play(setting, None, environment=ForgetfulWalk)
    moved = next(state for state in branch_points(whole, TASK, ForgetfulWalk()) if state.state_hash != "0/0")
    lost, fine = _play(setting, replace(moved, state_hash="elsewhere"), moved, environment=ForgetfulWalk)
    assert (lost.outcome, fine.outcome) == ("environment_error", "finished")
    assert "its state hash is" in lost.error
