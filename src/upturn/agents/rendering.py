"""Token rows for trajectories not sampled from a local model: rules, people, endpoints. For supervised training."""

from collections.abc import Callable
from dataclasses import replace

from upturn.agents.context import GrowingPrompt, PromptBuilder
from upturn.agents.recorder import LimitReachedError
from upturn.errors import RecordError
from upturn.models import Renderer, first_message, write_parts
from upturn.records import TokenRow, Trajectory, Turn, WrittenSpan


def rendered_rows(
    trajectory: Trajectory, renderer: Renderer, prompts: PromptBuilder | None = None
) -> tuple[TokenRow, ...]:
    """The tokens that a model would have read and written, without log-probs; one row where prefixes are kept.

    ``prompts``: the prompt builder of the model's agent; None = growing prompts without a system prompt. Where
    earlier turns render differently later on, a new row starts, as in a rollout. A turn without a parsed action,
    or without room in the context budget, ends the last row. Empty when that is the first turn. Raises RecordError
    for an action that the renderer cannot write.
    """
    prompts = GrowingPrompt(renderer) if prompts is None else prompts
    rows: list[TokenRow] = []
    row = TokenRow((), (), ())
    before: list[Turn] = []
    number = 0
    while number < len(trajectory.turns):
        message = first_message(trajectory.turns[number:])
        turn, actions = message[0], [turn.action for turn in message if turn.action is not None]
        if len(actions) < len(message):
            break
        try:
            prompt_ids, fork_cause = prompts.next(row.token_ids, before, turn.observation)
        except LimitReachedError:
            break
        if prompt_ids[: len(row.token_ids)] != row.token_ids:
            rows.append(row)
            row = TokenRow((), (), (), fork_cause or "history_changed")
        token_ids, spans = prompt_ids, row.spans
        for part, written in zip(message, write_parts(renderer, actions), strict=True):
            spans = (*spans, WrittenSpan(number, len(token_ids), len(token_ids) + len(written)))
            token_ids += written
            # the recorded text may come from another renderer
            before.append(replace(part, text=renderer.read(written).text))
            number += 1
        row = TokenRow(token_ids, spans, (), row.fork_cause)
    return (*rows, row) if row.spans else ()


def matches_tokenizer(trajectory: Trajectory, renderer: Renderer) -> bool:
    """Whether the rows' ids decode with this renderer to the recorded texts: another tokenizer has other ids.

    Compares the first output in each row. True when there are no rows.
    """
    return all(
        renderer.read(row.token_ids[span.start : span.stop]).text == trajectory.turns[span.turn].text
        for row in trajectory.rows
        for span in row.spans[:1]
        if span.turn < len(trajectory.turns)
    )


def render_trajectory(
    trajectory: Trajectory,
    renderer: Renderer,
    prompts: PromptBuilder | None = None,
    *,
    rows_of: Callable[[Trajectory], tuple[TokenRow, ...]] | None = None,
) -> Trajectory:
    """The trajectory with token rows: its own if they are tokens of this renderer, else rendered from its actions.

    A sample of a model with another tokenizer then counts as rendered: its log-probs are of other tokens. There are
    no rows, and nothing to train on, where the renderer cannot write an action or an action could not be read.
    ``rows_of``: writes the rows in place of ``rendered_rows``; None = that does.
    """
    if trajectory.rows and matches_tokenizer(trajectory, renderer):
        return trajectory
    try:
        rows = rendered_rows(trajectory, renderer, prompts) if rows_of is None else rows_of(trajectory)
    except RecordError:  # one foreign tool name must not end training on all other trajectories
        rows = ()
    return replace(trajectory, rows=rows, origin="rendered", temperature=None, model_version="")
