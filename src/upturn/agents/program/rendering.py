"""Token rows for programs whose calls another model answered, for supervised training.

Each recorded call is rendered as the program sent it, and its answer as the model to be trained would have written
it. What holds for rendered trajectories holds here: no policy gradient accepts them.
"""

from dataclasses import replace

from upturn.agents.program.captured_call import captured_calls
from upturn.dialects import Message, ModelRequest, RequestError, Text
from upturn.errors import RecordError
from upturn.models.upstreams import Script
from upturn.records import TokenRow, Trajectory, WrittenSpan


def program_rows(trajectory: Trajectory, script: Script) -> tuple[TokenRow, ...]:
    """The tokens that a model would have read and written in the calls of the program's own model.

    A call that the model cannot read or write ends the rows; empty = it is the first one, or no call is recorded.
    """
    script = script.fresh()
    rows: list[TokenRow] = []
    for number, calls in enumerate(captured_calls(trajectory)):
        for call in calls:
            if not call.is_own or call.answer is None or call.failure:
                continue
            if call.is_cut:
                return tuple(rows)
            request = ModelRequest(call.model, call.messages, call.tools or ())
            try:
                prompt = script.prompt(request)
                written = answer_ids(script, request, call.answer)
            except (RequestError, RecordError):
                return tuple(rows)
            if not written:
                return tuple(rows)
            script.remember(prompt, written, request)
            start = len(prompt.token_ids)
            row = TokenRow((*prompt.token_ids, *written), (WrittenSpan(number, start, start + len(written)),), ())
            _add(rows, row, prompt.fork_cause)
    return tuple(rows)


def answer_ids(script: Script, request: ModelRequest, answer: Message) -> tuple[int, ...]:
    """The ids of the answer and its end token, as the script writes it in a conversation; empty = it cannot."""
    before = script.fresh().prompt(request).token_ids
    more = ModelRequest(request.model, (*request.messages, answer, Message("user", (Text("?"),))), request.tools)
    whole = script.fresh().prompt(more).token_ids
    if whole[: len(before)] != before:
        return ()
    rest = whole[len(before) :]
    end = next((index for index, token in enumerate(rest) if token in script.stop_ids), None)
    return () if end is None else rest[: end + 1]


def is_program(trajectory: Trajectory) -> bool:
    """Whether the turns have recorded calls of a program."""
    try:
        return any(captured_calls(trajectory))
    except RecordError:  # the message of an endpoint
        return False


def _add(rows: list[TokenRow], row: TokenRow, cause: str | None) -> None:
    """Adds a row with one span: to the longest row that its prompt extends, or as a new one."""
    prompt = row.token_ids[: row.spans[0].start]
    extended = [known for known in rows if prompt[: len(known.token_ids)] == known.token_ids]
    if extended:
        longest = max(extended, key=lambda known: len(known.token_ids))
        rows[rows.index(longest)] = replace(row, spans=(*longest.spans, *row.spans), fork_cause=longest.fork_cause)
    else:
        rows.append(replace(row, fork_cause=(cause or "history_changed") if rows else None))
