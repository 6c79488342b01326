from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from upturn.agents import rendered_rows
from upturn.agents.context import GrowingPrompt
from upturn.models import SPECIAL_TOKENS, CompactRenderer
from upturn.records import Action, Observation, Trajectory, Turn


def renderer() -> CompactRenderer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL_TOKENS])
    return CompactRenderer(tokenizer)


def trajectory(*turns: Turn) -> Trajectory:
    return Trajectory(
        id="x",
        task_id="t",
        agent_version="rules@1",
        turns=turns,
        final_observation=Observation("done"),
        outcome="finished",
        origin="rendered",
    )


MOVE = Action("mail", "move", {"id": "m1"})
FINISH = Action("user", "finish")
FIRST, SECOND = Observation("Move m1."), Observation("nothing there", code="not_found")


def test_a_rendered_row_holds_the_tokens_a_model_would_read_and_write() -> None:
    compact = renderer()
    (row,) = rendered_rows(trajectory(Turn(FIRST, "", MOVE), Turn(SECOND, "", FINISH)), compact)
    expected = (*compact.open(FIRST), *compact.write(MOVE), *compact.extend(SECOND), *compact.write(FINISH))
    assert row.token_ids == expected
    written = [row.token_ids[span.start : span.stop] for span in row.spans]
    assert [compact.read(ids).action for ids in written] == [MOVE, FINISH]
    assert [span.turn for span in row.spans] == [0, 1]
    assert row.logprobs == ()


def test_rendered_rows_end_before_the_first_unparsed_turn() -> None:
    compact = renderer()
    unparsed = trajectory(Turn(FIRST, "", MOVE), Turn(SECOND, "what", None))
    (row,) = rendered_rows(unparsed, compact, GrowingPrompt(compact, "Be kind."))
    assert row.token_ids == (*compact.open(FIRST, "Be kind."), *compact.write(MOVE))
    assert rendered_rows(trajectory(Turn(FIRST, "what", None)), compact) == ()
