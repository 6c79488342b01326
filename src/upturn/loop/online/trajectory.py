"""The trajectory of an episode of model calls.

A message of the model becomes one turn, or one turn per tool call in it. What the client sent since the model's
previous message is the observation before it. Calls that continue one another form a row; the rows of an episode
are in the order of their first calls. Not covered: what the client did with an answer after the last call.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from upturn.agents import call_action, seen_text, thought_of, written_text
from upturn.dialects import Conversation, ModelAnswer, Text, ToolCall, message_text
from upturn.records import (
    MODEL_CALL,
    Action,
    Call,
    CallContent,
    ModelUsage,
    Observation,
    Task,
    TokenRow,
    Trajectory,
    Turn,
    Usage,
    WrittenSpan,
    episode_task_id,
    fields_json,
    from_fields,
)


class RecordedCall(NamedTuple):
    """A stored call with what was said in it."""

    call: Call
    content: CallContent


class EpisodeRecords(NamedTuple):
    """The records of a sealed episode."""

    task: Task
    trajectory: Trajectory


def episode_records(calls: Sequence[RecordedCall], *, family: str) -> EpisodeRecords:
    """Returns task and trajectory of an episode; ``calls`` are in the order of their storage, at least one.

    Only answered calls have turns. The trajectory is ``sampled`` if every answered call was captured completely, so
    that its tokens may be trained on; otherwise ``rendered``, without rows. It has a temperature if all of them
    were drawn alike.
    """
    first = calls[0]
    answered = list(filter(is_answered, calls))
    last = answered[-1] if answered else first
    task = Task(
        id=episode_task_id(first.call.tenant, first.call.episode),
        instruction=_instruction(first.content),
        family=family,
        environment=MODEL_CALL,
        tenant=first.call.tenant,
        episode=first.call.episode,
    )
    turns, starts = _turns(answered)
    is_captured = bool(answered) and all(
        member.call.is_capture_complete and member.content.tokens for member in answered
    )
    used = _usage([member.call for member in calls])
    is_alike = is_captured and all(
        (member.call.temperature, member.call.sampling) == (last.call.temperature, last.call.sampling)
        for member in answered
    )
    trajectory = Trajectory(
        id=f"{task.id}/0",
        task_id=task.id,
        agent_version=last.call.agent_version,
        turns=tuple(turns),
        final_observation=Observation(""),
        outcome="finished" if last.call.status == "answered" else "model_error",
        origin="sampled" if is_captured else "rendered",
        rows=tuple(_rows(answered, starts, is_alike=is_alike)) if is_captured else (),
        temperature=last.call.temperature if is_alike else None,
        sampling=last.call.sampling if is_alike else {},
        usage=Usage(used.prompt_tokens, used.written_tokens, sum(member.call.seconds for member in calls)),
        error="" if last.call.status == "answered" else last.call.error,
        cached_tokens=used.cached_tokens,
        cache_write_tokens=used.cache_write_tokens,
        cache_write_1h_tokens=used.cache_write_1h_tokens,
        is_usage_estimated=used.is_estimated,
    )
    return EpisodeRecords(task, trajectory)


def with_rendered_rows(
    trajectory: Trajectory, calls: Sequence[RecordedCall], rows: Mapping[str, TokenRow]
) -> Trajectory:
    """Returns an episode's trajectory with tokens that its calls' texts were rendered to; it has no log-probs.

    ``calls`` are those that it was made of, and ``rows`` the tokens of prompt and answer of each answered one.
    """
    answered = [
        member._replace(content=replace(member.content, tokens=fields_json(rows[member.call.id])))
        for member in calls
        if member.call.id in rows
    ]
    _, starts = _turns(answered)
    return replace(
        trajectory,
        origin="rendered",
        rows=tuple(_rows(answered, starts, is_alike=True)),
        temperature=None,
        sampling={},
        model_version="",
    )


def is_answered(member: RecordedCall) -> bool:
    """Whether the call has turns in its episode's trajectory."""
    return member.call.status == "answered" and bool(member.content.answer)


def _usage(calls: Iterable[Call]) -> ModelUsage:
    """Returns what calls used together."""
    total = ModelUsage()
    for call in calls:
        total = total.plus(
            ModelUsage(
                call.input_tokens,
                call.output_tokens,
                call.cached_input_tokens,
                call.cache_write_tokens,
                call.cache_write_1h_tokens,
                call.is_usage_estimated,
            )
        )
    return total


def _instruction(content: CallContent) -> str:
    messages = from_fields(Conversation, content.messages).messages
    return next((message_text(message) for message in messages if message.role == "user"), "")


def _turns(calls: Sequence[RecordedCall]) -> tuple[list[Turn], Mapping[str, int]]:
    """Returns the turns, and the index of the first turn of each call by its id."""
    turns: list[Turn] = []
    starts: dict[str, int] = {}
    for member in calls:
        starts[member.call.id] = len(turns)
        answer = from_fields(ModelAnswer, member.content.answer)
        observation = Observation(seen_text(from_fields(Conversation, member.content.messages).messages))
        thought = thought_of(answer.parts)
        text = "".join(part.text for part in answer.parts if isinstance(part, Text))
        tool_calls = [part for part in answer.parts if isinstance(part, ToolCall)]
        used = _usage([member.call])
        usage = None if used == ModelUsage() else used
        if not tool_calls:
            turns.append(Turn(observation, text, Action("user", "answer", {}, thought), usage=usage))
        for number, tool_call in enumerate(tool_calls):
            action = call_action(tool_call, thought if number == 0 else "")
            turns.append(
                Turn(
                    observation if number == 0 else Observation(""),
                    written_text(answer.parts) if number == 0 else "",
                    action,
                    call=number,
                    refusal="" if action is not None else "arguments: they are not a JSON object",
                    usage=usage if number == 0 else None,
                )
            )
    return turns, starts


def _rows(calls: Sequence[RecordedCall], starts: Mapping[str, int], *, is_alike: bool) -> list[TokenRow]:
    """Returns one row for each chain of calls; a call whose tokens do not extend its chain begins a new row.

    ``is_alike``: all were drawn in the same way.
    """
    rows: list[TokenRow] = []
    row_of: dict[str, int] = {}
    for member in calls:
        call, row = member.call, from_fields(TokenRow, member.content.tokens)
        spans = tuple(WrittenSpan(starts[call.id], span.start, span.stop, span.model_version) for span in row.spans)
        drawn = row.sampling_logprobs
        if not drawn and not is_alike and call.temperature == 1 and not call.sampling:
            drawn = row.logprobs
        row = TokenRow(row.token_ids, spans, row.logprobs, call.fork_cause or None, drawn)
        index = row_of.get(call.extends or "")
        if index is not None and row.token_ids[: len(rows[index].token_ids)] == rows[index].token_ids:
            earlier = rows[index]
            rows[index] = TokenRow(
                row.token_ids,
                (*earlier.spans, *row.spans),
                (*earlier.logprobs, *row.logprobs),
                earlier.fork_cause,
                (*earlier.sampling_logprobs, *row.sampling_logprobs),
            )
        else:
            cause = row.fork_cause or ("template" if call.extends else "new_conversation")
            index = len(rows)
            rows.append(
                TokenRow(row.token_ids, row.spans, row.logprobs, None if not rows else cause, row.sampling_logprobs)
            )
        row_of[call.id] = index
    # a row of calls some of which do not say how their tokens were drawn does not say it
    return [
        row if len(row.sampling_logprobs) in (0, len(row.logprobs)) else replace(row, sampling_logprobs=())
        for row in rows
    ]
