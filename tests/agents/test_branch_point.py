"""Attempts go on from states inside other attempts: with the same answers the same way, with others another."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest

from upturn.agents import Attempt, BranchPoint, Job, Reply, Setting, ToolAgent, branch_points, run_rollouts
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
        self.place, self.moves, self.rng = 0, 0, Random()

    def reset(self, task: Task) -> tuple[Observation, Info]:
        self.place, self.moves, self.rng = 0, 0, Random(task.seed)
        return Observation(task.instruction), self._info()

    def step(self, action: Action) -> Step:
        sign = {"left": -1, "right": 1}.get(action.operation, 0)
        self.place += sign * self.rng.randint(1, 9)
        self.moves += abs(sign)
        is_over = action.operation == "finish"
        known = bool(sign) or is_over
        observation = Observation(str(self.place)) if known else Observation("what?", code="malformed")
        return Step(observation, float(self.place), is_over, False, self._info())

    def state(self) -> Mapping[str, JsonValue]:
        return {"place": self.place, "moves": self.moves}

    def snapshot(self) -> object:
        return (self.place, self.moves, self.rng.getstate())

    def restore(self, snapshot: object) -> None:
        assert isinstance(snapshot, tuple)
        self.place, self.moves, drawn = snapshot
        self.rng.setstate(drawn)

    def _info(self) -> Info:
        return Info({}, {}, state_hash=f"{self.moves}/{self.place}")


class ForgetfulWalk(Walk):
    """Cannot be copied."""

    def snapshot(self) -> object:
        raise NotImplementedError

    def restore(self, snapshot: object) -> None:
        raise AssertionError("nothing to restore")


class GreedyModel:
    """Answers by what it reads, and, where it is ``moody``, by the call's seed; log-probs tell the length read."""

    def __init__(self, *, moody: bool = False, last: int = 4) -> None:
        self.moody = moody
        self.last = last
        self.seeds: list[int] = []

    async def generate(self, request: GenerationRequest) -> Generation:
        await asyncio.sleep(0)
        self.seeds.append(request.seed)
        turns = request.prompt_ids.count(ord("["))
        choice = request.seed if self.moody else len(request.prompt_ids)
        text = "user.finish" if turns > self.last else ("w.left", "w.right", "nonsense")[choice % 3]
        ids = (*map(ord, text), END)[: request.max_tokens]
        return Generation(ids, (-float(len(request.prompt_ids)),) * len(ids), "stop", "greedy")

    def release(self, session: str) -> None:
        pass


def _setting(model: GreedyModel, agent: Agent | None = None) -> Setting:
    return Setting("run", agent or ToolAgent(LetterRenderer(), Limits(), "P"), "a@1", model, clock=lambda: 0.0)


def _played(
    setting: Setting, *begin: BranchPoint | None, world: type[Walk] = Walk, limits: Limits | None = None
) -> list[Trajectory]:
    used = setting if limits is None else replace(setting, limits=limits)
    jobs = [Job(Attempt(TASK, number, 0, beginning), used) for number, beginning in enumerate(begin)]
    return asyncio.run(run_rollouts(jobs, lambda _: world()))


def _suffix(whole: Trajectory, turn: int) -> list[tuple[tuple[int, ...], tuple[float, ...]]]:
    """ParsedOutput tokens and log-probs from a turn on, by row."""
    found = []
    for row in whole.rows:
        place = 0
        tokens: list[int] = []
        logprobs: list[float] = []
        for span in row.spans:
            length = span.stop - span.start
            if span.turn >= turn:
                tokens += row.token_ids[span.start : span.stop]
                logprobs += row.logprobs[place : place + length]
            place += length
        if tokens:
            found.append((tuple(tokens), tuple(logprobs)))
    return found


@pytest.mark.parametrize("world", [Walk, ForgetfulWalk])
def test_the_same_answers_give_the_same_turns_from_every_branch_point(world: type[Walk]) -> None:
    setting = _setting(GreedyModel())
    (whole,) = _played(setting, None, world=world)
    assert len(whole.turns) == 5
    assert any(turn.action is None for turn in whole.turns)
    states = branch_points(whole, TASK, world())
    assert [state.snapshot is None for state in states] == [world is ForgetfulWalk] * 5
    for turn, again in enumerate(_played(setting, *states, world=world)):
        assert again.turns == whole.turns
        assert (again.final_observation, again.final_state) == (whole.final_observation, whole.final_state)
        assert (again.outcome, again.error) == ("finished", "")
        # All tokens are there; only the new turns' are written here.
        (row,) = again.rows
        assert row.token_ids == whole.rows[0].token_ids
        assert {span.turn for span in row.spans} == set(range(turn, 5))
        assert _suffix(again, 0) == _suffix(whole, turn)
        weights = policy_rows(again, [1.0] * 5)[0]
        assert len(weights.positions) == len(row.logprobs) == again.usage.written_tokens
        assert again.usage.prompt_tokens + again.usage.written_tokens == len(row.token_ids)


def test_continuations_have_distinct_ids_and_seeds() -> None:
    model = GreedyModel(moody=True)
    setting = _setting(model)
    first, second = _played(setting, None, None)
    states = [state for each in (first, second) for state in branch_points(each, TASK, Walk())]
    model.seeds.clear()
    made = _played(setting, *states, *states)
    assert len({each.id for each in [first, second, *made]}) == 2 + len(made)
    assert len(set(model.seeds)) == len(model.seeds)
    assert {each.turns[-1].text for each in made} == {"user.finish"}
    assert len({tuple(turn.text for turn in each.turns) for each in made}) > 2
    assert [each.attempt for each in made] == list(range(len(made)))
    assert made == _played(setting, *states, *states)


def test_limits_include_the_turns_before_the_branch_point() -> None:
    setting = _setting(GreedyModel())
    (whole,) = _played(setting, None)
    states = branch_points(whole, TASK, Walk())
    (short,) = _played(setting, states[2], limits=Limits(max_turns=3))
    assert (short.outcome, short.turns) == ("step_limit", whole.turns[:3])
    (shorter,) = _played(setting, states[2], limits=Limits(max_turns=2))
    assert (shorter.outcome, shorter.turns, shorter.rows) == ("step_limit", whole.turns[:2], ())
    tokens = len(states[2].history)
    (full,) = _played(setting, states[2], limits=Limits(max_tokens=tokens))
    assert (full.outcome, full.turns) == ("token_limit", whole.turns[:2])


def test_full_trajectory_includes_the_tokens_before_the_branch_point() -> None:
    for agent, last in ((None, 4), (Aside(), 99)):
        setting = _setting(GreedyModel(last=last), agent)
        (attempt,) = _played(setting, None)
        states = branch_points(attempt, TASK, Walk())
        for state, again in zip(states, _played(setting, *states), strict=True):
            found = full_trajectory(again, state)
            assert written_count(found) == written_count(attempt)
            assert written_count(again) == written_count(attempt) - sum(
                span.stop - span.start for row in state.rows for span in row.spans
            )
            assert sorted(sum((row.logprobs for row in found.rows), ())) == sorted(
                sum((row.logprobs for row in attempt.rows), ())
            )


class Aside:
    """Thinks in a context of its own before each action, and forgets its history in the third turn."""

    async def act(self, turns: Sequence[Turn], observation: Observation, model: ModelSession) -> Reply:
        thought = await model.generate((*map(ord, "think"), len(turns) + 1), max_tokens=9, stop_ids=(END,))
        assert thought.token_ids
        kept = () if len(turns) == 2 else self._acting(turns)
        prompt = (*kept, *map(ord, f"[{observation.text}]"))
        written = await model.generate(prompt, max_tokens=20, stop_ids=(END,))
        text = "".join(map(chr, written.token_ids[:-1]))
        return Reply(
            "user.finish" if len(turns) == 3 else text,
            Action("user", "finish") if len(turns) == 3 else read_call(text),
        )

    @staticmethod
    def _acting(turns: Sequence[Turn]) -> tuple[int, ...]:
        """Its own record of what it read and wrote since it last forgot."""
        since = turns[2:] if len(turns) > 2 else turns
        return tuple(ord(letter) for turn in since for letter in f"[{turn.observation.text}]{turn.text}\0")


def test_continuations_keep_all_rows_before_the_branch_point() -> None:
    setting = _setting(GreedyModel(last=99), Aside())
    (whole,) = _played(setting, None)
    causes = [row.fork_cause for row in whole.rows]
    assert len(whole.rows) > 4
    for turn, again in enumerate(_played(setting, *branch_points(whole, TASK, Walk()))):
        assert again.turns == whole.turns
        written = [row for row in whole.rows if any(span.turn >= turn for span in row.spans)]
        assert [row.token_ids for row in again.rows] == [row.token_ids for row in written]
        assert _suffix(again, 0) == _suffix(whole, turn)
        if turn:
            assert [row.fork_cause for row in again.rows] == causes[len(causes) - len(written) :]


def test_a_nondeterministic_environment_is_a_world_error() -> None:
    class Fickle(Walk):
        def reset(self, task: Task) -> tuple[Observation, Info]:
            return super().reset(replace(task, seed=self.luck))

        luck = 1

    (whole,) = _played(_setting(GreedyModel()), None, world=Fickle)
    Fickle.luck = 2
    with pytest.raises(
        WorldError, match=r"is not deterministic: replaying trajectory .*, its observation is .* instead of"
    ):
        branch_points(whole, TASK, Fickle())


def test_a_failing_snapshot_is_a_world_error_with_the_remedy() -> None:
    class Unfrozen(Walk):
        def snapshot(self) -> object:
            raise TypeError("cannot pickle a socket")

    (whole,) = _played(_setting(GreedyModel()), None)
    with pytest.raises(WorldError) as caught:
        branch_points(whole, TASK, Unfrozen())
    message = str(caught.value)
    assert "Unfrozen" in message
    assert "TypeError: cannot pickle a socket" in message
    assert "return a frozen copy of the state, or raise NotImplementedError" in message
    assert isinstance(caught.value.__cause__, TypeError)


def test_an_unreachable_branch_point_is_the_rollouts_outcome() -> None:
    setting = _setting(GreedyModel())
    (whole,) = _played(setting, None, world=ForgetfulWalk)
    moved = next(state for state in branch_points(whole, TASK, ForgetfulWalk()) if state.state_hash != "0/0")
    lost, fine = _played(setting, replace(moved, state_hash="elsewhere"), moved, world=ForgetfulWalk)
    assert (lost.outcome, fine.outcome) == ("environment_error", "finished")
    assert "its state hash is" in lost.error
