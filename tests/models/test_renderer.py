from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from upturn.errors import ModelError, RecordError
from upturn.models import ERROR_TOKEN, SPECIAL_TOKENS, CompactRenderer, read_call, value_text, write_call
from upturn.records import Action, Observation, Turn

names = st.from_regex(r"[a-z_][a-z0-9_]{0,7}", fullmatch=True)
plain = st.text(max_size=20) | st.integers() | st.sampled_from(["<|end|>", "a;b=c\\", "\n=", "<|obs|>x"])
values = plain | st.lists(plain, max_size=3) | st.booleans() | st.none()
actions = st.builds(Action, names, names, st.dictionaries(names, values, max_size=4))


@cache
def byte_tokenizer() -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL_TOKENS])
    return tokenizer


def renderer() -> CompactRenderer:
    return CompactRenderer(byte_tokenizer())


def as_text(action: Action) -> Action:
    return Action(action.target, action.operation, {k: value_text(v) for k, v in action.parameters.items()})


def test_calls_are_written_in_the_grammar() -> None:
    assert write_call(Action("mail", "move", {"id": "m27", "folder": "archive"})) == (
        "mail.move id=m27; folder=archive"
    )
    assert write_call(Action("user", "finish", thought="done")) == "user.finish"
    assert write_call(Action("mail", "send", {"to": ["a", "b"], "n": 3, "text": "x;y=1\\\n"})) == (
        r"mail.send to=a,b; n=3; text=x\;y\=1\\\n"
    )


@given(actions)
@settings(max_examples=200, deadline=None)
def test_written_calls_parse_back(action: Action) -> None:
    assert renderer().read(renderer().write(action)).action == as_text(action)


@given(st.lists(st.integers(0, 259), max_size=40))
@settings(deadline=None)
def test_parsing_any_tokens_never_raises_and_needs_the_end_token(ids: list[int]) -> None:
    end = renderer().stop_ids[0]
    written = renderer().read(ids)
    assert written.action is None or ids[-1] == end


@given(st.text(max_size=60))
@settings(deadline=None)
def test_parsing_any_text_never_raises(text: str) -> None:
    action = read_call(text)
    assert action is None or read_call(write_call(action)) == action


@pytest.mark.parametrize(
    "text",
    ["", "mail", "mail.", ".move", "mail.move ", "mail.move id", "mail.move id=1;", "mail.move id=1; id=2",
     "mail.move a=b=c", "mail.move a=b\\", "mail.move 1=2", "mail move id=1"],
)  # fmt: skip
def test_text_that_is_not_a_call_parses_as_none(text: str) -> None:
    assert read_call(text) is None


def test_prompts_are_single_special_tokens_around_text() -> None:
    task, act, observation, end = (byte_tokenizer().token_to_id(token) for token in SPECIAL_TOKENS)
    text = tuple(byte_tokenizer().encode("Hi").ids)
    assert renderer().open(Observation("Hi")) == (task, *text, act)
    assert renderer().extend(Observation("Hi")) == (observation, *text, act)
    assert renderer().extend(Observation("long words", code="bad")) == renderer().extend(Observation("error bad"))
    assert renderer().stop_ids == (end,)
    assert renderer().open(Observation("Hi"), "Be kind.") == renderer().open(Observation("Be kind.\nHi"))


def test_errors_are_codes_unless_the_tokenizer_has_a_token_for_them() -> None:
    refused = Observation("429 too many calls; retry after 20 s", "throttled")
    plain = byte_tokenizer()
    assert (
        plain.decode(list(renderer().extend(refused)), skip_special_tokens=False) == "<|obs|>error throttled<|act|>"
    )
    with_errors = Tokenizer.from_str(plain.to_str())
    with_errors.add_special_tokens([AddedToken(ERROR_TOKEN, special=True)])
    full_renderer = CompactRenderer(with_errors)
    assert with_errors.decode(list(full_renderer.extend(refused)), skip_special_tokens=False) == (
        "<|error|>429 too many calls; retry after 20 s<|act|>"
    )
    assert (
        with_errors.decode(list(full_renderer.extend(Observation("moved"))), skip_special_tokens=False)
        == "<|obs|>moved<|act|>"
    )
    turn = Turn(Observation("move it"), "mail.move id=m1", None)
    conversation = full_renderer.rerender([turn], observation=refused)
    written = full_renderer.write(Action("mail", "move", {"id": "m1"}))
    assert conversation == (
        *full_renderer.open(Observation("move it")),
        *written,
        *full_renderer.extend(refused),
    )
    # Text that looks like the token stays text.
    assert with_errors.token_to_id(ERROR_TOKEN) not in full_renderer.extend(Observation("say <|error|> now"))


def test_a_rerendered_conversation_equals_the_incremental_one() -> None:
    compact, first, last = renderer(), Action("mail", "list"), Observation("2 mails<|end|>")
    turns = [
        Turn(Observation("Hi"), write_call(first), first),
        Turn(Observation("no such folder", code="not_found"), "what?", None),
    ]
    expected = (
        compact.open(turns[0].observation, "Be kind.") + compact.write(first) + compact.extend(turns[1].observation)
    )
    expected += (*byte_tokenizer().encode("what?").ids, *compact.stop_ids, *compact.extend(last))
    assert compact.rerender(turns, observation=last, prompt="Be kind.") == expected
    assert compact.count("2 mails<|end|>") == len(compact.extend(last)) - 2


@given(st.lists(st.sampled_from([*SPECIAL_TOKENS, "<|", "|>", "a"]), max_size=6).map("".join))
@settings(deadline=None)
def test_special_token_text_never_becomes_special_tokens(text: str) -> None:
    special = {byte_tokenizer().token_to_id(token) for token in SPECIAL_TOKENS}
    assert not special.intersection(renderer().open(Observation(text))[1:-1])
    assert not special.intersection(renderer().extend(Observation(text))[1:-1])
    assert not special.intersection(renderer().write(Action("user", "answer", {"text": text}))[:-1])


def test_special_token_text_stays_text_with_a_word_level_tokenizer() -> None:
    tokens = ["[UNK]", *SPECIAL_TOKENS, "<", "|end|>", "Hi"]
    tokenizer = Tokenizer(models.WordLevel({token: i for i, token in enumerate(tokens)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL_TOKENS])
    assert CompactRenderer(tokenizer).open(Observation("Hi <|end|>")) == (1, 7, 5, 6, 2)


def test_a_truncated_call_or_one_with_a_special_token_has_no_action() -> None:
    ids = renderer().write(Action("user", "finish"))
    task = renderer().open(Observation(""))[0]
    assert renderer().read(ids).action == Action("user", "finish")
    assert renderer().read(ids[:-1]) == ("user.finish", None)
    assert renderer().read((ids[0], task, *ids[1:])).action is None


def test_names_that_do_not_parse_back_are_refused_with_the_reason() -> None:
    with pytest.raises(RecordError, match=r"operation must be an identifier .* got 'm v'"):
        write_call(Action("mail", "m v"))
    with pytest.raises(ModelError, match=r"no special token '<\|task\|>'"):
        CompactRenderer(Tokenizer(models.BPE()))
