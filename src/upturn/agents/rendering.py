"""Token rows for attempts that no model of ours wrote: rules, people, foreign models. For supervised training."""

from dataclasses import replace

from upturn.models import Renderer, next_prompt
from upturn.records import TokenRow, Trajectory, Turn, WrittenSpan


def rendered_rows(trajectory: Trajectory, renderer: Renderer, prompt: str = "") -> tuple[TokenRow, ...]:
    """The tokens that a model would have seen and written, without log-probs; one row where prefixes are kept.

    Where the renderer shows earlier turns differently later on, a row starts anew, as it would in a rollout. Turns
    without a readable action end the last row: there is nothing in them to learn from. Empty when the first turn
    has none. Raises RecordError for an action that the renderer cannot write.
    """
    rows: list[TokenRow] = []
    row = TokenRow((), (), ())
    before: list[Turn] = []
    for number, turn in enumerate(trajectory.turns):
        if turn.action is None:
            break
        seen = next_prompt(renderer, row.token_ids, before, observation=turn.observation, prompt=prompt)
        if seen[: len(row.token_ids)] != row.token_ids:
            rows.append(row)
            row = TokenRow((), (), (), "history_changed")
        token_ids = seen + renderer.write(turn.action)
        span = WrittenSpan(number, len(seen), len(token_ids))
        row = TokenRow(token_ids, (*row.spans, span), (), row.fork_cause)
        before.append(replace(turn, text=""))  # its text is not what this renderer writes
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
