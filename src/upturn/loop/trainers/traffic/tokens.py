"""Whether an episode's tokens are those of a model's tokenizer."""

from upturn.models import GLUE, Renderer
from upturn.records import Trajectory, Turn


def has_tokens_of(trajectory: Trajectory, renderer: Renderer) -> bool:
    """Whether the first output in each row reads with this renderer as its turn does; False without rows.

    White space is ignored: an answer's text has none at its ends. Of a message with calls the names are compared,
    since the gateway stores calls as data.
    """
    rows = [row for row in trajectory.rows if row.spans]
    return bool(rows) and all(
        _reads_as(renderer.read(row.token_ids[span.start : span.stop]).text, trajectory.turns[span.turn])
        for row in rows
        for span in row.spans[:1]
    )


def _reads_as(output: str, turn: Turn) -> bool:
    if turn.action is not None and turn.action.target == "":
        return turn.action.operation in output
    return turn.action is None or _letters(turn.text) in _letters(output)


def _letters(text: str) -> str:
    return "".join(text.replace(GLUE, "").split())
