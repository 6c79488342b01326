import asyncio
from dataclasses import replace

import pytest

from upturn.errors import ModelError
from upturn.models import Generation, GenerationRequest, ScriptedModel

REQUEST = GenerationRequest((1,), 5, (0,), 1.0, "s", (0, 0), 0)


def codes(text: str) -> list[int]:
    return [ord(letter) for letter in text]


def generate(model: ScriptedModel, request: GenerationRequest = REQUEST) -> Generation:
    return asyncio.run(model.generate(request))


def test_each_session_starts_the_script_and_repeats_the_last_text() -> None:
    model = ScriptedModel(["a", "b"], codes)
    assert [generate(model).token_ids for _ in range(3)] == [(97, 0), (98, 0), (98, 0)]
    assert generate(model, replace(REQUEST, session="other")).token_ids == (97, 0)
    model.release("s")
    assert generate(model) == Generation((97, 0), (0.0, 0.0), "stop", "scripted")
    assert len(model.requests) == 5


def test_a_long_text_is_truncated_and_an_exception_is_raised() -> None:
    model = ScriptedModel(["abcde", ModelError("gone")], codes)
    assert generate(model) == Generation((97, 98, 99, 100, 101), (0.0,) * 5, "length", "scripted")
    with pytest.raises(ModelError, match="gone"):
        generate(model)
    with pytest.raises(ValueError, match="at least one text"):
        ScriptedModel([], codes)
