"""Rollouts whose messages hold several calls: one turn each, adjacent tokens, and everything that reads turns."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

import pytest
from transformers import PreTrainedTokenizerFast

from upturn.agents import (
    Job,
    RolloutRequest,
    Setting,
    ToolAgent,
    branch_points,
    full_trajectory,
    rendered_rows,
    run_rollouts,
)
from upturn.agents.branch_point import BranchPoint
from upturn.agents.context import Budget, GrowingPrompt
from upturn.agents.rendering import matches_tokenizer
from upturn.config import Limits
from upturn.environments import Info, Step, malformed_text, one_step, tools_of
from upturn.errors import RecordError
from upturn.models import ChatRenderer, RenderedObservations, ScriptedModel
from upturn.records import Action, JsonValue, Observation, Task, Tool, Trajectory, from_json, to_json
from upturn.training import policy_rows, supervised_rows
from upturn.training.advantages.tree import shared_histories
from upturn.training.data import extract_transitions

Tokenizers = Callable[..., PreTrainedTokenizerFast]

TASK = Task("t", "count to three", "counting", "counter")
TOOLS = (
    Tool("c", "add", "Adds.", {"n": {"type": "integer"}}, ("n",)),
    Tool("", "stop-it", "Ends the task."),
)
FAMILIES = ("qwen2_5", "qwen3", "mistral", "ministral", "lfm2_5", "glm4_6", "deepseek_v3_1", "qwen3_coder")


class Counter:
    """``c.add`` adds; ``stop-it`` ends the task."""

    def reset(self, task: Task) -> tuple[Observation, Info]:
        self.total = 0
        return Observation(task.instruction), self._info()

    def step(self, action: Action) -> Step:
        if action.name == "stop-it":
            return Step(Observation("bye"), 1.0, True, False, self._info())
        if action.name != "c.add":
            return Step(Observation(malformed_text(action, "what?"), "malformed"), 0.0, False, False, self._info())
        self.total += int(str(action.parameters["n"]))
        return Step(Observation(f"total {self.total}"), 0.5, False, False, self._info())

    def state(self) -> Mapping[str, JsonValue]:
        return {"total": self.total}

    def snapshot(self) -> object:
        return self.total

    def restore(self, snapshot: object) -> None:
        assert isinstance(snapshot, int)
        self.total = snapshot

    def _info(self) -> Info:
        return Info({}, {}, state_hash=str(self.total))


def add(number: int) -> Action:
    return Action("c", "add", {"n": number})


STOP = Action("", "stop-it")


def text_of(renderer: ChatRenderer, *actions: Action) -> str:
    """The text of one message with the calls."""
    ids = [token for part in renderer.write_all(actions) for token in part]
    return renderer.template.decode(ids[:-1])


def scripted(renderer: ChatRenderer, *texts: str) -> ScriptedModel:
    return ScriptedModel(texts, renderer.template.encode)


def play(
    renderer: ChatRenderer,
    model: ScriptedModel,
    *,
    start: BranchPoint | None = None,
    limits: Limits | None = None,
    context: Budget | None = None,
) -> Trajectory:
    limits = Limits(max_tokens=4000, max_action_tokens=400) if limits is None else limits
    agent = ToolAgent(renderer, limits, "", context=context)
    setting = Setting("run", agent, "a@1", model, limits, clock=lambda: 0.0)
    (trajectory,) = asyncio.run(
        run_rollouts([Job(RolloutRequest(TASK, 0, 0, start), setting)], lambda _: Counter())
    )
    assert trajectory.error == ""
    return trajectory


@pytest.fixture
def rendering(chat_tokenizer: Tokenizers) -> Callable[[str], ChatRenderer]:
    return lambda family: ChatRenderer(chat_tokenizer(family), TOOLS)


Rendering = Callable[[str], ChatRenderer]


@pytest.mark.parametrize("family", FAMILIES)
def test_calls_of_a_message_are_turns_with_adjacent_tokens(rendering: Rendering, family: str) -> None:
    renderer = rendering(family)
    model = scripted(renderer, text_of(renderer, add(1), add(2), add(3)), text_of(renderer, STOP))
    trajectory = play(renderer, model)
    assert trajectory.outcome == "finished" and trajectory.dropped_calls == 0
    assert [turn.action and turn.action.name for turn in trajectory.turns] == ["c.add"] * 3 + ["stop-it"]
    assert [turn.call for turn in trajectory.turns] == [0, 1, 2, 0]
    assert [turn.observation.text for turn in trajectory.turns] == [
        "count to three", "total 1", "total 3", "total 6",
    ]  # fmt: skip
    assert len(model.requests) == 2  # one call of the model for three turns
    (row,) = trajectory.rows
    first, second, third, fourth = row.spans
    assert (first.stop, second.stop) == (second.start, third.start)
    message = row.token_ids[first.start : third.stop]
    assert message == (*renderer.template.encode(text_of(renderer, add(1), add(2), add(3))), renderer.stop_ids[0])
    assert row.token_ids[: fourth.start] == model.requests[1].prompt_ids
    shown = renderer.read(row.token_ids[third.stop : fourth.start]).text
    assert shown.index("total 1") < shown.index("total 3") < shown.index("total 6")
    assert len(row.logprobs) == sum(span.stop - span.start for span in row.spans)
    (trained,) = policy_rows(trajectory, (1.0, 2.0, 3.0, 4.0))
    lengths = [span.stop - span.start for span in row.spans]
    assert trained.weights.tolist() == [weight for weight, length in enumerate(lengths, 1) for _ in range(length)]
    assert matches_tokenizer(trajectory, renderer)
    assert from_json(Trajectory, to_json(trajectory)) == trajectory


def test_a_call_that_ends_the_task_drops_the_rest_and_counts_it(rendering: Rendering) -> None:
    renderer = rendering("qwen2_5")
    trajectory = play(renderer, scripted(renderer, text_of(renderer, add(1), STOP, add(2), add(3))))
    assert [turn.action and turn.action.name for turn in trajectory.turns] == ["c.add", "stop-it"]
    assert (trajectory.outcome, trajectory.dropped_calls) == ("finished", 2)
    (row,) = trajectory.rows
    assert [span.turn for span in row.spans] == [0, 1]
    (trained,) = policy_rows(trajectory, (1.0, 1.0))
    assert len(trained.positions) == len(row.logprobs) < len(row.token_ids) - row.spans[0].start
    limited = play(
        renderer,
        scripted(renderer, text_of(renderer, add(1), add(2))),
        limits=Limits(max_turns=1, max_action_tokens=99),
    )
    assert (limited.outcome, len(limited.turns), limited.dropped_calls) == ("step_limit", 1, 1)


def test_repairs_and_refusals_are_recorded_and_answered(rendering: Rendering) -> None:
    renderer = rendering("qwen2_5")
    call, stop = text_of(renderer, add(1)), text_of(renderer, STOP)
    fenced = "```json\n" + call.removeprefix("<tool_call>\n").removesuffix("\n</tool_call>") + "\n```"
    twice = call.replace('"n": 1', '"n": 1, "n": 2')
    texts = (fenced, twice, "Hello.", f"{call} Done.", stop)
    trajectory = play(renderer, scripted(renderer, *texts))
    assert [turn.repairs for turn in trajectory.turns] == [("fenced", "unmarked"), (), (), ("text_after",), ()]
    assert [turn.refusal for turn in trajectory.turns] == [
        "", "duplicate_key: 'n' occurs twice", "no_call: the message calls no function", "", "",
    ]  # fmt: skip
    assert [result.text for result in trajectory.results] == [
        "total 1",
        "no call was made: duplicate_key: 'n' occurs twice",
        "no call was made: no_call: the message calls no function",
        "total 2",
        "bye",
    ]
    strict = play(renderer, scripted(renderer, *texts), limits=Limits(call_repairs="refuse", max_action_tokens=99))
    assert [turn.action is None for turn in strict.turns] == [True, True, True, True, False]
    assert strict.turns[0].refusal == "repaired: the call is written almost right: fenced, unmarked"
    assert strict.turns[1].observation.text == f"no call was made: {strict.turns[0].refusal}"


@pytest.mark.parametrize("family", ["qwen2_5", "mistral", "gemma4"])
def test_a_continuation_from_inside_a_message_makes_its_other_calls(rendering: Rendering, family: str) -> None:
    renderer = rendering(family)
    texts = (text_of(renderer, add(1), add(2), add(3)), text_of(renderer, add(4), STOP))
    original = play(renderer, scripted(renderer, *texts))
    points = branch_points(original, TASK, Counter())
    assert [len(point.pending) for point in points] == [0, 2, 1, 0, 1]
    for index, point in enumerate(points):
        later = texts[1:] if index else texts
        model = scripted(renderer, *later)
        continued = play(renderer, model, start=point)
        assert continued.turns == original.turns and continued.outcome == "finished"
        whole = full_trajectory(continued, point)
        written = sorted({span.turn for row in whole.rows for span in row.spans})
        assert written == list(range(len(original.turns)))
        prompts = [request.prompt_ids for request in model.requests]
        original_model = scripted(renderer, *texts)
        play(renderer, original_model)
        assert prompts == [request.prompt_ids for request in original_model.requests][len(texts) - len(prompts) :]


def test_demonstrations_with_several_calls_are_rendered_as_one_message(rendering: Rendering) -> None:
    renderer = rendering("qwen2_5")
    model = scripted(renderer, text_of(renderer, add(1), add(2)), text_of(renderer, STOP))
    sampled = play(renderer, model)
    rows = rendered_rows(sampled, renderer, GrowingPrompt(renderer))
    assert [(row.token_ids, row.spans) for row in rows] == [(row.token_ids, row.spans) for row in sampled.rows]
    assert len(supervised_rows([sampled])[0].positions) == len(sampled.rows[0].logprobs)
    single = rendering("llama3_1")
    with pytest.raises(RecordError, match="2 calls cannot be one message"):
        rendered_rows(sampled, single, GrowingPrompt(single))


def test_world_models_leave_shared_messages_out(rendering: Rendering) -> None:
    renderer = rendering("qwen2_5")
    texts = (text_of(renderer, add(1), add(2)), text_of(renderer, add(3)), text_of(renderer, STOP, add(1)))
    trajectory = play(renderer, scripted(renderer, *texts))
    found = extract_transitions([trajectory], RenderedObservations(renderer))
    assert found.excluded == {"shared": 3}  # the last message's end does not follow its first call
    assert [transition.text for transition in found.transitions] == ["total 6"]


def test_turns_of_a_message_have_the_tokens_before_them_as_history(rendering: Rendering) -> None:
    from upturn.training.advantage import ScoredGroup, ScoredTrajectory

    renderer = rendering("qwen2_5")
    members = []
    for last in (2, 3):
        texts = (text_of(renderer, add(1), add(last)), text_of(renderer, STOP))
        trajectory = play(renderer, scripted(renderer, *texts))
        members.append(ScoredTrajectory(trajectory, (0.0, 0.0, 1.0)))
    first, second = shared_histories(ScoredGroup(TASK, tuple(members)))
    assert [left == right for left, right in zip(first, second, strict=True)] == [True, True, False]


def test_a_budget_keeps_or_drops_calls_of_a_message_by_themselves(rendering: Rendering) -> None:
    renderer = rendering("qwen2_5")
    opening = len(renderer.open(Observation(TASK.instruction), ""))
    texts = [text_of(renderer, add(number), add(1), add(1)) for number in range(1, 5)]
    model = scripted(renderer, *texts, text_of(renderer, STOP))
    budget = Budget(opening + 330, 2, 60, summary_tokens=30, low_mark=0.6)
    limits = Limits(max_turns=40, max_tokens=4000, max_action_tokens=140)
    trajectory = play(renderer, model, limits=limits, context=budget)
    assert trajectory.outcome == "finished" and len(trajectory.turns) == 13
    assert len(trajectory.rows) > 1  # the history was rewritten
    for request in model.requests[1:]:
        shown = renderer.template.decode(request.prompt_ids)
        assert shown.count("<tool_call>\n{") - 1 == shown.count("<tool_response>\n"), shown
        assert len(request.prompt_ids) + 140 <= budget.tokens


def test_a_renderer_of_one_call_is_used_as_before() -> None:
    class One:
        """Only what a Renderer needs."""

        stop_ids = (0,)

        def read(self, token_ids: Sequence[int]) -> tuple[str, Action | None]:
            return "x", STOP

    from upturn.models import read_parts

    (part,) = read_parts(One(), (1, 2, 0))  # type: ignore[arg-type]
    assert (part.stop, part.output, part.repairs, part.refusal) == (3, ("x", STOP), (), "")


def test_a_plain_answer_ends_a_one_step_task_whose_tool_takes_it(chat_tokenizer: Tokenizers) -> None:
    answer = Tool("user", "answer", "Answers.", {"text": {"type": "string"}}, ("text",), text_parameter="text")
    kit = one_step(
        "sums",
        lambda rng: (f"What is {(number := rng.randint(1, 9))} + 1?", {"text": str(number + 1)}),
        lambda action, expected: action.name == "user.answer" and action.parameters.get("text") == expected["text"],
        tools=(answer,),
    )
    task = next(iter(kit.tasks(seed=0, split="train", families=["sums"])))
    right = str(int(task.instruction.split()[2]) + 1)
    for tools, verdict, outcome in ((tools_of(kit), "success", "finished"), ((), "failure", "step_limit")):
        renderer = ChatRenderer(chat_tokenizer("qwen2_5"), tools)
        limits = Limits(max_turns=2)
        setting = Setting("run", ToolAgent(renderer, limits), "a@1", scripted(renderer, right), limits)
        (trajectory,) = asyncio.run(run_rollouts([Job(RolloutRequest(task, 0, 0), setting)], kit.environment))
        assert trajectory.outcome == outcome
        assert kit.verifier.verify(task, trajectory).verdict == verdict
    assert trajectory.final_observation.text == "no call was made: no_call: the message calls no function"
