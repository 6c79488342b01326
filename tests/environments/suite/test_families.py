"""What holds for every family: a name and words of its own, and instructions that do not tell the answer."""

import re
from importlib import import_module
from itertools import chain
from pkgutil import iter_modules

import pytest

from upturn.environments import suite
from upturn.environments.suite.family import Family, joined
from upturn.environments.suite.tasks import FAMILIES, compose, make_task

WORD = re.compile(r"[\w.]*\w")


def test_every_family_of_every_file_is_known_under_a_name_of_its_own() -> None:
    names = [each.name for each in iter_modules(suite.__path__) if each.name.endswith("_tasks")]
    modules = [import_module(f"{suite.__name__}.{name}") for name in names]
    families: list[Family] = list(chain.from_iterable(module.FAMILIES for module in modules))
    assert sorted(each.name for each in families) == sorted(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_no_words_of_training_are_held_out(family: Family) -> None:
    assert len({*family.templates, *family.heldout}) == len(family.templates) + len(family.heldout)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_the_user_must_be_told_is_not_what_they_said(family: str) -> None:
    for number in range(5):
        task = make_task(family, number)
        draft = compose(task).draft
        asked, told = (" ".join(WORD.findall(text.lower())) for text in (task.instruction, draft.answer or "?"))
        assert not told or f" {told} " not in f" {asked} "


def test_parts_are_said_in_every_way() -> None:
    assert joined(("a", "b"), (" c", " d"), ("!",)) == ("a c!", "a d!", "b c!", "b d!")
