"""Token rows for attempts that no model of ours wrote: rules, people, foreign models. For supervised training."""

from dataclasses import replace

from upturn.agents.context import GrowingPrompt, Prompts
from upturn.agents.recorder import LimitReachedError
from upturn.models import Renderer
from upturn.records import TokenRow, Trajectory, Turn, WrittenSpan


def rendered_rows(
    trajectory: Trajectory, renderer: Renderer, prompts: Prompts | None = None
) -> tuple[TokenRow, ...]:
    """The tokens that a model would have seen and written, without log-probs; one row where prefixes are kept.

    ``prompts``: how the model's agent makes its prompts; None = they only grow, and there is no system prompt.
    Where earlier turns are shown differently later on, a row starts anew, as it would in a rollout. A turn without
    a readable action ends the last row, as does one that has no room in a context's budget: there is nothing to
    learn from it. Empty when that is the first turn. Raises RecordError for an action that the renderer cannot
    write.
    """
    prompts = GrowingPrompt(renderer) if prompts is None else prompts
    rows: list[TokenRow] = []
    row = TokenRow((), (), ())
    before: list[Turn] = []
    for number, turn in enumerate(trajectory.turns):
        if turn.action is None:
            break
        try:
            seen, fork_cause = prompts.next(row.token_ids, before, turn.observation)
        except LimitReachedError:
            break
        if seen[: len(row.token_ids)] != row.token_ids:
            rows.append(row)
            row = TokenRow((), (), (), fork_cause or "history_changed")
        written = renderer.write(turn.action)
        token_ids = seen + written
        span = WrittenSpan(number, len(seen), len(token_ids))
        row = TokenRow(token_ids, (*row.spans, span), (), row.fork_cause)
        before.append(replace(turn, text=renderer.read(written).text))  # another renderer may have written its own
    return (*rows, row) if row.spans else ()


def has_tokens_of(trajectory: Trajectory, renderer: Renderer) -> bool:
    """Whether the rows read, with this renderer, as what was written: models with other tokenizers leave other ids.

    Looks at what was written first in each row. True when there are no rows.
    """
    return all(
        renderer.read(row.token_ids[span.start : span.stop]).text == trajectory.turns[span.turn].text
        for row in trajectory.rows
        for span in row.spans[:1]
        if span.turn < len(trajectory.turns)
    )
