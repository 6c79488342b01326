import numpy as np
import torch

from upturn.models import GenerationRequest
from upturn.models.engine.batch import Finished, LiveRows, Read, group_by_length, prefill_block


def request(*, seed: int = 0, stop_ids: tuple[int, ...] = (), temperature: float = 0.0) -> GenerationRequest:
    return GenerationRequest((1,), 5, stop_ids, temperature, "s", (0, 0), seed)


def certain(*tokens: int) -> torch.Tensor:
    """Logits over ten tokens with nearly all probability on one a row."""
    return torch.nn.functional.one_hot(torch.tensor(tokens), 10).float() * 50


def finished(reads: list[Read]) -> list[Finished]:
    return [slot for read in reads for slot in read.finished]


def test_slots_write_until_a_stop_token_or_their_budget() -> None:
    rows = LiveRows(4, 20)
    rows.start(3, request(stop_ids=(7, 8)), 5)
    rows.start(1, request(), 2)
    assert rows.decoding().tolist() == []
    assert finished(rows.write(np.array([1, 3]), certain(4, 5))) == []
    assert rows.decoding().tolist() == [1, 3]
    assert rows.last_ids(np.array([3, 1])).tolist() == [5, 4]
    assert finished(rows.write(np.array([1, 3]), certain(6, 8))) == [Finished(1, False), Finished(3, True)]
    assert rows.decoding().tolist() == []
    assert (rows.written(1).token_ids, rows.written(3).token_ids) == ((4, 6), (5, 8))
    assert max(abs(logprob) for logprob in rows.written(3).logprobs) < 1e-6


def test_restarting_a_slot_clears_its_output_and_stop_tokens() -> None:
    rows = LiveRows(1, 20)
    rows.start(0, request(stop_ids=(7, 8, 9)), 5)
    rows.write(np.array([0]), certain(9))
    rows.start(0, request(), 5)
    assert finished(rows.write(np.array([0]), certain(9))) == []
    assert rows.written(0).token_ids == (9,)
    rows.stop(0)
    assert rows.decoding().tolist() == []


def test_groups_split_before_padding_doubles_the_work_or_the_pass_limit() -> None:
    assert group_by_length([3, 90, 4, 91, 5], int, 4096) == [[3, 4, 5], [90, 91]]
    assert group_by_length([1, 60, 2, 62], int, 4096) == [[1, 2, 60, 62]]  # 248 padded tokens: one pass is cheaper
    assert group_by_length([100, 100, 100], int, 250) == [[100, 100], [100]]
    assert group_by_length([500, 1], int, 250) == [[1], [500]]
    assert group_by_length([], int, 250) == []


def test_a_prefill_block_holds_the_uncached_prompt_tokens() -> None:
    prompts = [np.arange(10, 15), np.arange(20, 23)]
    block = prefill_block(np.array([4, 2]), np.array([3, 0]), prompts)
    assert (block.counts.tolist(), block.ids.tolist()) == ([2, 3], [13, 14, 20, 21, 22])
