"""Phrasing files: their format and the errors for invalid ones."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from upturn.environments.office.generation.phrasing import parse_phrasings, phrasings_of
from upturn.errors import FileFormatError

VALID = """
[mail_number]
placeholders = ["name"]
train = ["what does {name} say?", "{name}, what is it?"]
heldout = [["tell me", "i want"], [" what {name} says"], ["", "!"]]
"""


def test_a_split_lists_phrasings_or_parts_in_every_combination() -> None:
    assert parse_phrasings(VALID, "reading.toml") == {
        "mail_number": {
            "train": ("what does {name} say?", "{name}, what is it?"),
            "heldout": (
                *("tell me what {name} says", "tell me what {name} says!"),
                *("i want what {name} says", "i want what {name} says!"),
            ),
        }
    }


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("train =", "training =", "unknown keys training; known: placeholders, train, heldout"),
        ("train =", "training =", "missing keys train"),
        ('["what does {name} say?", "{name}, what is it?"]', "[]", "train must be a list of one string or more"),
        ('["", "!"]', "[]", "heldout must be a list of one string or more, or a list of such lists"),
        ('["name"]', '"name"', "placeholders must be a list of one string or more; got 'name'"),
        ("what does {name} say?", "what is it?", "'what is it?' lacks the placeholder {name}"),
        ("what does {name} say?", "what {of} {name}?", "has an unknown placeholder {of}; known: name"),
        ("what does {name} say?", "what does {name say?", "'what does {name say?': expected '}'"),
        ("what does {name} say?", "{name}, what is it?", "'{name}, what is it?' occurs more than once"),
        ("[mail_number]", "mail_item = 1\n[mail_number]", "[mail_item]: must be a table, got 1"),
    ],
)
def test_an_invalid_file_is_refused_with_its_name_the_family_and_the_problem(
    old: str, new: str, problem: str
) -> None:
    with pytest.raises(FileFormatError, match=r"reading\.toml, \[mail_") as refused:
        parse_phrasings(VALID.replace(old, new), "reading.toml")
    assert problem in str(refused.value)


def test_all_problems_of_a_file_are_reported_together() -> None:
    text = VALID.replace("what does {name} say?", "what?") + VALID.replace("mail_number", "other").replace(
        "name", "who"
    )
    with pytest.raises(FileFormatError) as refused:
        parse_phrasings(text.replace("[other]", "[other]\nlevel = 1"), "reading.toml")
    assert [line.split(":")[0] for line in str(refused.value).splitlines()] == [
        "reading.toml, [mail_number]",
        "reading.toml, [other]",
    ]
    with pytest.raises(FileFormatError, match=r"reading\.toml: not TOML: "):
        parse_phrasings("[", "reading.toml")


def test_a_family_without_a_table_is_named() -> None:
    with pytest.raises(
        FileFormatError, match=r"reading\.toml: no table \[mail_odd\]; it has mail_number, mail_item"
    ):
        phrasings_of("upturn.environments.office.families.mail.reading", "mail_odd")


def test_no_phrasing_file_is_read_before_one_is_needed() -> None:
    program = (
        "import sys; from upturn.environments.office import FAMILIES; "
        "from upturn.environments.office.generation import phrasing; "
        "assert phrasing.read_phrasings.cache_info().currsize == 0; FAMILIES['mail_number'].templates; "
        "assert phrasing.read_phrasings.cache_info().currsize == 1"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_phrasing_file_is_package_data() -> None:
    root = Path(__file__).parents[4]
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    package = root / "src" / "upturn"
    patterns = settings["tool"]["setuptools"]["package-data"]["upturn"]
    packaged = {path for pattern in patterns for path in package.glob(pattern)}
    files = set((package / "environments" / "office" / "families").rglob("*.toml"))
    assert len(files) > 10
    assert files <= packaged
