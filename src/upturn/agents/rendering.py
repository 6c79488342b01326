"""Token rows for attempts that no model of ours wrote: rules, people, foreign models. For supervised training."""

from upturn.models import Renderer
from upturn.records import TokenRow, Trajectory, WrittenSpan


def rendered_rows(trajectory: Trajectory, renderer: Renderer, prompt: str = "") -> tuple[TokenRow, ...]:
    """One row with the tokens that a model would have seen and written, without log-probs.

    Turns without a readable action end the row before them: there is nothing in them to learn from. Empty when the
    first turn has none. Raises RecordError for an action that the renderer cannot write.
    """
    token_ids: list[int] = []
    spans: list[WrittenSpan] = []
    for number, turn in enumerate(trajectory.turns):
        if turn.action is None:
            break
        seen = renderer.extend(turn.observation) if number else renderer.open(turn.observation, prompt)
        token_ids += seen
        written = renderer.write(turn.action)
        spans.append(WrittenSpan(number, len(token_ids), len(token_ids) + len(written)))
        token_ids += written
    return (TokenRow(tuple(token_ids), tuple(spans), ()),) if spans else ()
