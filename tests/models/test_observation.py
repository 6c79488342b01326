"""Observations written by a model: the tokens of a rollout, read back, for any renderer that brackets its texts."""

from collections.abc import Sequence
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from upturn.errors import ModelError
from upturn.models import SPECIAL_TOKENS, CompactRenderer, Written
from upturn.models.nano import NANO_FOLDER
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


def test_a_compact_observation_begins_with_its_token_and_ends_where_the_agent_acts() -> None:
    assert observations().beginning == (OBSERVATION,)
    assert observations().stop_ids == (ACT,)


@given(st.text(max_size=40))
def test_what_is_written_is_what_a_rollout_goes_on_with_and_is_read_back(text: str) -> None:
    observation = Observation(text)
    written = observations().write(observation)
    assert (*observations().beginning, *written) == compact().extend(observation)
    assert observations().read(written) == compact().read(written[:-1]).text.strip()
    if "<|" not in text:
        assert observations().read(written) == text.strip()


def test_refused_actions_read_as_agents_read_them() -> None:
    assert observations().read(observations().write(Observation("no mail m9", "not_found"))) == "error not_found"


@pytest.mark.parametrize("special", [TASK, OBSERVATION, END, ACT])
def test_a_prediction_that_does_not_end_or_holds_special_tokens_is_none(special: int) -> None:
    written = observations().write(Observation("ok"))
    assert observations().read(written[:-1]) is None
    assert observations().read(()) is None
    assert observations().read((written[0], special, *written[1:])) is None


def test_the_shipped_tokenizer_writes_observations() -> None:
    tokenizer = Tokenizer.from_file(str(NANO_FOLDER / "tokenizer.json"))
    own = RenderedObservations(CompactRenderer(tokenizer))
    assert own.beginning == (tokenizer.token_to_id("<|obs|>"),)
    assert own.stop_ids == (tokenizer.token_to_id("<|act|>"),)
    text = "budget Mon 9-10 with anna,ben"
    assert own.read(own.write(Observation(text))) == text


class _Chat:
    """A chat template in letters: ``#tool:text%#me:``, where ``%`` ends every message."""

    stop_ids = (ord("%"),)

    def __init__(self, end: str = "%", *, is_lossy: bool = False) -> None:
        self._end = end
        self._is_lossy = is_lossy

    def open(self, observation: Observation, prompt: str) -> tuple[int, ...]:
        return (*map(ord, f"#sys:{prompt}%#user:{observation.text}%#me:"),)

    def extend(self, observation: Observation) -> tuple[int, ...]:
        kind = "fault" if observation.is_error else "tool"
        return (*map(ord, f"#{kind}:{observation.text}{self._end}#me:"),)

    def write(self, action: Action) -> tuple[int, ...]:
        return (*map(ord, f"{action.target}.{action.operation}%"),)

    def read(self, token_ids: Sequence[int]) -> Written:
        text = "".join(map(chr, token_ids))
        return Written(text.upper() if self._is_lossy else text, None)


def test_a_chat_template_is_found_out_too() -> None:
    own = RenderedObservations(_Chat())
    assert own.beginning == tuple(map(ord, "#tool:"))
    assert own.stop_ids == (ord("%"),)
    assert own.read(own.write(Observation("deleted: m27"))) == "deleted: m27"
    assert own.read((*map(ord, "a#b%"),)) == "a#b"
    assert own.read((*map(ord, "a%b%"),)) is None


def test_renderers_that_cannot_let_a_model_write_observations_are_refused_with_the_cure() -> None:
    with pytest.raises(
        ModelError, match="do not begin with one of their own: a model that writes an observation could not"
    ):
        RenderedObservations(_Chat(end="e"))
    with pytest.raises(ModelError, match="reads the observation 'moved m27 to archive' back as 'MOVED M27 TO ARCH"):
        RenderedObservations(_Chat(is_lossy=True))
    with pytest.raises(ModelError, match=r"renders the observation 'gone' \(code 'not_found'\) unlike others"):
        RenderedObservations(_Chat()).write(Observation("gone", "not_found"))
