"""The contract checker, with renderers that each violate the contract in one way."""

from collections.abc import Callable, Sequence

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from benchmarks.errands import MODEL
from upturn.models import SPECIAL_TOKENS, CompactRenderer, ParsedOutput, RendererReport, check_renderer
from upturn.models.shipped import load_local
from upturn.records import Action, Observation, Turn


def byte_tokenizer() -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL_TOKENS])
    return tokenizer


class ValidRenderer(CompactRenderer):
    """Satisfies the contract."""

    def __init__(self) -> None:
        super().__init__(byte_tokenizer())


def test_our_renderers_pass_the_check() -> None:
    expected = RendererReport((), 0, 0)
    assert check_renderer(ValidRenderer()) == expected
    report = check_renderer(CompactRenderer(load_local(MODEL).tokenizer))
    assert report == expected and report.is_satisfied


class Endless(ValidRenderer):
    stop_ids = ()


class Counting(ValidRenderer):
    """Counts its calls."""

    calls = 0

    def extend(self, observation: Observation) -> tuple[int, ...]:
        self.calls += 1
        return super().extend(Observation(f"{self.calls} {observation.text}", observation.code))


class Promptless(ValidRenderer):
    def open(self, observation: Observation, prompt: str = "") -> tuple[int, ...]:
        return super().open(observation)


class Codeless(ValidRenderer):
    def extend(self, observation: Observation) -> tuple[int, ...]:
        return super().extend(Observation(observation.text))


class Lossy(ValidRenderer):
    def write(self, action: Action) -> tuple[int, ...]:
        parameters = {
            key: str(value).encode("ascii", "replace").decode() for key, value in action.parameters.items()
        }
        return super().write(Action(action.target, action.operation, parameters))


class Stopless(ValidRenderer):
    def write(self, action: Action) -> tuple[int, ...]:
        return super().write(action)[:-1]


class Eager(ValidRenderer):
    """Parses truncated output as if it were complete."""

    def read(self, token_ids: Sequence[int]) -> ParsedOutput:
        complete = (
            tuple(token_ids) if token_ids and token_ids[-1] in self.stop_ids else (*token_ids, *self.stop_ids)
        )
        return super().read(complete)


class Raising(ValidRenderer):
    def read(self, token_ids: Sequence[int]) -> ParsedOutput:
        written = super().read(token_ids)
        if written.action is None and written.text.startswith("mail."):
            raise ValueError("no such call")
        return written


class Trusting(ValidRenderer):
    """Encodes special tokens in texts as special tokens."""

    def _encode(self, text: str) -> list[int]:
        self._tokenizer.encode_special_tokens = False
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids


class Dropping(ValidRenderer):
    """Claims to keep prefixes, but renders only the latest observation."""

    def keeps_prefix(self, prompt: str) -> bool:
        return True

    def next_prompt(
        self, history: tuple[int, ...], turns: Sequence[Turn], *, observation: Observation, prompt: str
    ) -> tuple[int, ...]:
        return self.open(observation, prompt)


class HonestDropping(Dropping):
    def keeps_prefix(self, prompt: str) -> bool:
        return False


class Forgetting(ValidRenderer):
    """Rerenders a conversation without its messages."""

    def rerender(self, turns: Sequence[Turn], *, observation: Observation, prompt: str = "") -> tuple[int, ...]:
        return self.open(turns[0].observation, prompt) + self.extend(observation)


class Wordless(ValidRenderer):
    def count(self, text: str) -> int:
        return 1


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (Forgetting, "rerender() does not contain 'there are 5 boats'"),
        (Wordless, "count() must return a text's number of tokens, got 1 for a word and 1 for 99"),
        (Trusting, "the text '<|end|>' in a rerendered conversation became a special token: id"),
        (Endless, "stop_ids must name at least one token"),
        (Counting, "extend() gave different ids the second time"),
        (Promptless, "open() with a system prompt does not contain 'Speak of nothing green'"),
        (Codeless, "extend() of an error does not contain 'no_boat'"),
        (Lossy, "was written as 'user.answer text=?n?code"),
        (Stopless, "must end in its only stop id, found at []"),
        (Eager, "parses as an action without its stop id: truncated output must not"),
        (Raising, "reading could not be checked: it raised ValueError: no such call"),
        (Trusting, "the text '<|end|>' in an observation became a special token: id"),
        (Trusting, "the text '<|act|>' in a system prompt became a special token: id"),
        (Dropping, "it claims to keep prefixes, but 2 of 2 later prompts do not extend the one before"),
    ],
)
def test_each_violation_is_named(make: Callable[[], ValidRenderer], problem: str) -> None:
    report = check_renderer(make())
    assert not report.is_satisfied
    assert any(problem in text for text in report.problems), report.problems


def test_forked_rows_are_counted_but_no_violation() -> None:
    assert check_renderer(HonestDropping()) == RendererReport((), 2, 2)


def test_custom_actions_and_special_texts_are_checked() -> None:
    unusual = Action("mail", "move", {"id": "\x00"})
    assert check_renderer(ValidRenderer(), actions=[unusual], special_texts=["<|end|>"]).is_satisfied
    report = check_renderer(Lossy(), actions=[Action("mail", "move", {"id": "é"})])
    assert len(report.problems) == 1
