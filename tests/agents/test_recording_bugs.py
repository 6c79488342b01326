"""Regression tests for silent recording bugs of other projects, each reproduced in small.

The common invariant: the trained tokens are exactly the prompt that the model got and the tokens that it sampled.
"""

import asyncio
from collections.abc import Mapping, Sequence

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from upturn.agents import (
    Agent,
    Job,
    Reply,
    RolloutRequest,
    Setting,
    ToolAgent,
    fork_counts,
    rendered_rows,
    run_rollouts,
)
from upturn.agents.agent import ModelSession
from upturn.agents.context import GrowingPrompt
from upturn.config import Limits
from upturn.environments.environment import Info, Step
from upturn.errors import RecordError
from upturn.models import (
    SPECIAL_TOKENS,
    CompactRenderer,
    Generation,
    GenerationRequest,
    ParsedOutput,
    ScriptedModel,
    read_call,
)
from upturn.models.call import write_call
from upturn.pool.ingestion.formats.conversation import parse_turns
from upturn.records import Action, JsonValue, Observation, Task, Trajectory, Turn
from upturn.training import policy_rows

END = "\x03"
"""A model's end token; chat templates add a line break after it, which no model writes."""


def ids(text: str) -> tuple[int, ...]:
    return tuple(map(ord, text))


def text_of(token_ids: Sequence[int]) -> str:
    return "".join(map(chr, token_ids))


class ChatRenderer:
    """A chat template with one token a letter and a line break between two turns."""

    stop_ids = ids(END)

    def open(self, observation: Observation, prompt: str) -> tuple[int, ...]:
        return ids(f"<user>{prompt}{observation.text}{END}\n<assistant>")

    def extend(self, observation: Observation) -> tuple[int, ...]:
        return ids(f"\n<tool>{observation.text}{END}\n<assistant>")

    def write(self, action: Action) -> tuple[int, ...]:
        return ids(write_call(action) + END)

    def read(self, token_ids: Sequence[int]) -> ParsedOutput:
        text = text_of(token_ids).removesuffix(END)
        return ParsedOutput(text, read_call(text.rpartition("</think>")[2]))


class Counter:
    """``c.add`` counts; ``user.finish`` ends."""

    def __init__(self) -> None:
        self.count = 0

    def reset(self, task: Task) -> tuple[Observation, Info]:
        return Observation(task.instruction), Info({}, {})

    def step(self, action: Action) -> Step:
        self.count += 1
        return Step(Observation(f"now {self.count}"), 1.0, action.operation == "finish", False, Info({}, {}))

    def state(self) -> Mapping[str, JsonValue]:
        return {"count": self.count}

    def snapshot(self) -> object:
        return self.count

    def restore(self, snapshot: object) -> None:
        assert isinstance(snapshot, int)
        self.count = snapshot


class RecordedRollout:
    """The trajectory of one rollout, and the requests to its model."""

    def __init__(self, texts: Sequence[str], agent: Agent) -> None:
        self.model = ScriptedModel(list(texts), ids)
        setting = Setting("run", agent, "a@1", self.model, limits=Limits(), clock=lambda: 0.0)
        jobs = [Job(RolloutRequest(Task("t", "go", "count", "counter"), 0, 0), setting)]
        (self.trajectory,) = asyncio.run(run_rollouts(jobs, lambda _: Counter()))

    @property
    def prompts(self) -> list[tuple[int, ...]]:
        return [request.prompt_ids for request in self.model.requests]

    @property
    def contexts(self) -> list[tuple[int, ...]]:
        """The tokens before each written span in the row that trains it."""
        return [row.token_ids[: span.start] for row in self.trajectory.rows for span in row.spans]


def test_the_separator_between_turns_is_trained_as_served() -> None:
    """verl PR 6921: the line break after each closed turn was dropped, so training drifted turn by turn."""
    rollout = RecordedRollout(["c.add", "c.add", "user.finish"], ToolAgent(ChatRenderer(), Limits(), "Hi. "))
    expected = (
        f"<user>Hi. go{END}\n<assistant>c.add{END}"
        f"\n<tool>now 1{END}\n<assistant>c.add{END}"
        f"\n<tool>now 2{END}\n<assistant>user.finish{END}"
    )
    (row,) = rollout.trajectory.rows
    assert text_of(row.token_ids) == expected
    assert rollout.contexts == rollout.prompts
    assert fork_counts([rollout.trajectory]) == {}
    # Rendered from the records, for supervised training, the tokens are the same.
    (rendered,) = rendered_rows(rollout.trajectory, ChatRenderer(), GrowingPrompt(ChatRenderer(), "Hi. "))
    assert (rendered.token_ids, rendered.spans) == (row.token_ids, row.spans)


def test_results_of_parallel_calls_stay_in_their_message() -> None:
    """slime issue 2263: two consecutive tool results were rendered as two user turns."""
    call = {"function": {"name": "look", "arguments": "{}"}}
    turns, _ = parse_turns(
        [
            {"role": "user", "content": "compare a and b"},
            {"role": "assistant", "content": None, "tool_calls": [call, call]},
            {"role": "tool", "content": "contents of a"},
            {"role": "tool", "content": "contents of b"},
            {"role": "assistant", "content": "done"},
        ]
    )
    assert [(turn.observation.text, turn.call) for turn in turns] == [
        ("compare a and b", 0),
        ("contents of a", 1),
        ("contents of b", 0),
    ]
    trajectory = Trajectory("x", "t", "a@1", turns, Observation(""), "finished", "rendered")
    with pytest.raises(RecordError, match="writes one call per message, got 2"):
        rendered_rows(trajectory, compact_renderer())
    # a template that holds several calls: tests/models/test_several_calls.py


def compact_renderer() -> CompactRenderer:
    return CompactRenderer(byte_tokenizer())


def byte_tokenizer(*merges: tuple[str, str]) -> Tokenizer:
    """One token a byte, and one for each merge."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: index for index, piece in enumerate([*alphabet, *("".join(pair) for pair in merges)])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=list(merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL_TOKENS])
    return tokenizer


class Spelling:
    """A model that samples ``c.add`` letter by letter, where its tokenizer would encode fewer tokens."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.spelled = tuple(tokenizer.encode(letter, add_special_tokens=False).ids[0] for letter in "c.add")
        self.requests: list[GenerationRequest] = []

    async def generate(self, request: GenerationRequest) -> Generation:
        self.requests.append(request)
        written = (*self.spelled, request.stop_ids[0])
        return Generation(written, tuple(-0.1 * (index + 1) for index in range(len(written))), "stop", "m")

    def release(self, session: str) -> None:
        """Nothing is held."""


def test_non_canonical_tokens_are_trained_as_sampled() -> None:
    """TRL issue 5144: tokenizing a sampled text again made it shorter than the mask over it."""
    tokenizer = byte_tokenizer(("a", "d"), ("ad", "d"))
    assert len(tokenizer.encode("c.add", add_special_tokens=False).ids) == 3
    model, limits = Spelling(tokenizer), Limits(max_turns=3)
    agent = ToolAgent(CompactRenderer(tokenizer), limits)
    setting = Setting("run", agent, "a@1", model, limits=limits, clock=lambda: 0.0)
    jobs = [Job(RolloutRequest(Task("t", "add", "count", "counter"), 0, 0), setting)]
    (trajectory,) = asyncio.run(run_rollouts(jobs, lambda _: Counter()))
    assert [turn.text for turn in trajectory.turns] == ["c.add"] * 3
    (row,) = trajectory.rows
    for span, request in zip(row.spans, model.requests, strict=True):
        assert row.token_ids[span.start : span.stop] == (*model.spelled, request.stop_ids[0])
        assert row.token_ids[: span.start] == request.prompt_ids
    (trained,) = policy_rows(trajectory, (1.0, 1.0, 1.0))
    assert len(trained.positions) == len(row.logprobs) == 3 * 6
    assert trained.old_logprobs is not None
    assert trained.token_ids[trained.positions].tolist() == 3 * [*model.spelled, model.requests[0].stop_ids[0]]


class Tidying(ChatRenderer):
    """Parses a call from the output and returns cleaned text, as tool parsers do."""

    def read(self, token_ids: Sequence[int]) -> ParsedOutput:
        text = text_of(token_ids).removesuffix(END).replace("<call>", "").replace("</call>", "").strip()
        return ParsedOutput(text, read_call(text))


def test_parsing_a_call_does_not_change_its_tokens() -> None:
    """agent-lightning issue 326: with a tool parser, control tokens came back as other ids; training collapsed."""
    sampled = ["<call> c.add </call>", "<call>user.finish</call>\n"]
    rollout = RecordedRollout(sampled, ToolAgent(Tidying(), Limits()))
    assert [turn.text for turn in rollout.trajectory.turns] == ["c.add", "user.finish"]
    (row,) = rollout.trajectory.rows
    assert [text_of(row.token_ids[span.start : span.stop]) for span in row.spans] == [
        text + END for text in sampled
    ]
    assert rollout.contexts == rollout.prompts


class ThoughtStripping:
    """Thinks before it acts, and removes earlier thoughts from the prompt, as chat templates do."""

    async def act(self, turns: Sequence[Turn], observation: Observation, model: ModelSession) -> Reply:
        renderer = ChatRenderer()
        observations = [*(turn.observation for turn in turns), observation]
        prompt = list(renderer.open(observations[0], ""))
        for turn, result in zip(turns, observations[1:], strict=True):
            prompt += [*ids(turn.text.rpartition("</think>")[2] + END), *renderer.extend(result)]
        generation = await model.generate(prompt, max_tokens=99, stop_ids=renderer.stop_ids)
        return Reply(*renderer.read(generation.token_ids))


def test_hidden_thoughts_are_hidden_in_training_too() -> None:
    """verl issue 5576: thoughts were stripped in sampling but not in training. rLLM issue 352: where a prompt did
    not extend the one before, the mask of the whole answer became 0."""
    texts = [f"<think>{word}</think>c.add" for word in ("one", "two")] + ["<think>three</think>user.finish"]
    rollout = RecordedRollout(texts, ThoughtStripping())
    assert rollout.contexts == rollout.prompts  # each turn is trained in exactly its sampling context
    assert fork_counts([rollout.trajectory]) == {"history_changed": 2}
    last = text_of(rollout.trajectory.rows[2].token_ids)
    assert "three" in last and "one" not in last and "two" not in last
    written = [
        text_of(row.token_ids[span.start : span.stop]) for row in rollout.trajectory.rows for span in row.spans
    ]
    assert written == [text + END for text in texts]  # nothing is lost
    training_rows = policy_rows(rollout.trajectory, (1.0, 2.0, 3.0))
    assert [row.weights.tolist() for row in training_rows] == [
        [weight] * len(text + END) for weight, text in zip((1.0, 2.0, 3.0), texts, strict=True)
    ]
