"""Comparison of results that untrusted code has reported."""

import pytest

from upturn.environments.repair.hidden import is_same
from upturn.environments.repair.source import Result


@pytest.mark.parametrize(
    ("reported", "expected", "is_right"),
    [
        ("1", "1", True),
        ("1", "2", False),
        ("True", "1", False),
        ("1.0", "1", False),
        ("0.30000000000000004", "0.3", True),
        ("0.31", "0.3", False),
        ("[1, (2, 'a')]", "[1, (2, 'a')]", True),
        ("[1, [2, 'a']]", "[1, (2, 'a')]", False),
        ("{'b': 1, 'a': 2}", "{'a': 2, 'b': 1}", True),
        ("{'a': 1}", "{'a': 1, 'b': 1}", False),
        ("None", "None", True),
        ("<object>", "None", False),
        ("__import__('os').getcwd()", "1", False),
        ("(" * 5_000, "1", False),
    ],
)
def test_values_are_compared_as_plain_literals(reported: str, expected: str, is_right: bool) -> None:
    assert is_same(Result(reported), Result(expected)) is is_right


def test_an_exception_is_no_value() -> None:
    assert not is_same(Result(None, "ValueError"), Result("1"))
    assert is_same(Result(None, "ValueError"), Result(None, "ValueError"))
    assert not is_same(Result(None, "ValueError"), Result(None, "TypeError"))
