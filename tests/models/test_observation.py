"""Observations as model output: they have the rollout's tokens and parse back, for different renderers."""

import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from benchmarks.errands import MODEL
from upturn.errors import ModelError
from upturn.models import SPECIAL_TOKENS, CompactRenderer, ParsedOutput
from upturn.models.chat_template import ChatRenderer
from upturn.models.observation import RenderedObservations
from upturn.records import Action, Observation


@cache
def compact() -> CompactRenderer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL_TOKENS])
    return CompactRenderer(tokenizer)


@cache
def observations() -> RenderedObservations:
    return RenderedObservations(compact())


TASK, ACT, OBSERVATION, END = range(256, 260)


def test_a_compact_observation_is_between_its_token_and_the_act_token() -> None:
    assert observations().prefix == (OBSERVATION,)
    assert observations().stop_ids == (ACT,)


@given(st.text(max_size=40))
def test_written_observations_equal_the_rollouts_tokens_and_parse_back(text: str) -> None:
    observation = Observation(text)
    written = observations().write(observation)
    assert (*observations().prefix, *written) == compact().extend(observation)
    assert observations().read(written) == compact().read(written[:-1]).text.strip()
    if "<|" not in text:
        assert observations().read(written) == text.strip()


def test_error_observations_read_as_agents_read_them() -> None:
    assert observations().read(observations().write(Observation("no mail m9", "not_found"))) == "error not_found"


@pytest.mark.parametrize("special", [TASK, OBSERVATION, END, ACT])
def test_a_truncated_prediction_or_one_with_special_tokens_is_none(special: int) -> None:
    written = observations().write(Observation("ok"))
    assert observations().read(written[:-1]) is None
    assert observations().read(()) is None
    assert observations().read((written[0], special, *written[1:])) is None


def test_the_shipped_tokenizer_writes_observations() -> None:
    tokenizer = Tokenizer.from_file(str(Path(MODEL) / "tokenizer.json"))
    writer = RenderedObservations(CompactRenderer(tokenizer))
    assert writer.prefix == (tokenizer.token_to_id("<|obs|>"),)
    assert writer.stop_ids == (tokenizer.token_to_id("<|act|>"),)
    text = "budget Mon 9-10 with anna,ben"
    assert writer.read(writer.write(Observation(text))) == text


class _LetterChat:
    """A chat template in letters: ``#tool:text%#me:``, where ``%`` ends every message and is in no text."""

    stop_ids = (ord("%"),)

    def __init__(self, end: str = "%", *, is_lossy: bool = False) -> None:
        self._end = end
        self._is_lossy = is_lossy

    def open(self, observation: Observation, prompt: str) -> tuple[int, ...]:
        return (*map(ord, f"#sys:{prompt}%#user:{observation.text}%#me:"),)

    def extend(self, observation: Observation) -> tuple[int, ...]:
        kind = "%fault%" if observation.is_error else "tool"
        text = observation.text.replace("%", "")
        return (*map(ord, f"#{kind}:{text}{self._end}#me:"),)

    def write(self, action: Action) -> tuple[int, ...]:
        return (*map(ord, f"{action.target}.{action.operation}%"),)

    def read(self, token_ids: Sequence[int]) -> ParsedOutput:
        text = "".join(map(chr, token_ids))
        return ParsedOutput(text[::-1] if self._is_lossy else text, None)


def test_the_constant_frame_of_a_text_is_written_but_not_compared() -> None:
    writer = RenderedObservations(_LetterChat())
    assert (writer.prefix, writer.stop_ids) == ((), (ord("%"),))
    written = writer.write(Observation("deleted: #m27"))
    assert "".join(map(chr, written)) == "#tool:deleted: #m27%"
    assert writer.read(written) == "deleted: #m27"
    assert writer.read((*map(ord, "deleted%"),)) is None
    assert writer.read((*map(ord, "#tool:a%b%"),)) is None


@pytest.mark.parametrize("family", ["qwen2_5", "qwen3", "llama3_1", "mistral"])
def test_chat_templates_of_real_families_write_observations(
    chat_tokenizer: Callable[..., PreTrainedTokenizerFast], family: str
) -> None:
    """Their tokenizers may merge the end of a text with the template's text after it; such tokens stay whole."""
    renderer = ChatRenderer(chat_tokenizer(family))
    writer = RenderedObservations(renderer)
    for text in ("moved", "m12 hal: launch *\nm13 bo: x", "{'a': [1, 'x'], 'b': 'é'}", "user\n[tool]"):
        written = writer.write(Observation(text))
        expected = (*writer.prefix, *written)
        assert renderer.extend(Observation(text))[: len(expected)] == expected
        assert writer.read(written) in {text, json.dumps(text, ensure_ascii=False)[1:-1]}, "Llama's writes JSON"


def test_unsuitable_renderers_are_refused_with_the_remedy() -> None:
    with pytest.raises(ModelError, match="without a structural token after their text"):
        RenderedObservations(_LetterChat(end="e"))
    with pytest.raises(ModelError, match="parses the observation 'moved m27 to archive' back as 'evihcra"):
        RenderedObservations(_LetterChat(is_lossy=True))
    with pytest.raises(ModelError, match=r"renders the observation 'gone' \(code 'not_found'\) with the structure"):
        RenderedObservations(_LetterChat()).write(Observation("gone", "not_found"))
