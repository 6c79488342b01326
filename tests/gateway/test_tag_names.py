"""The tags that a client names in a header or in a request's metadata."""

from typing import Any

import pytest

from upturn.dialects import RequestError
from upturn.gateway.episode_name import tag_names


def test_tags_are_read_from_header_and_body() -> None:
    assert tag_names({}, {}) == ()
    assert tag_names({"x-upturn-tags": "vip, march ,,vip"}, {"tags": "late"}) == ("vip", "march", "late")
    assert tag_names({}, {"tags": ["a b", "c,d"]}) == ("a b", "c", "d")
    assert tag_names({"x-upturn-tags": ""}, {"tags": None}) == ()


@pytest.mark.parametrize(
    ("headers", "metadata", "message"),
    [
        ({"x-upturn-tags": "x" * 65}, {}, "a tag in the header x-upturn-tags must have 1 to 64 printable"),
        ({}, {"tags": [1]}, "a tag in metadata.tags must have 1 to 64 printable characters"),
        ({}, {"tags": {"a": 1}}, "a tag in metadata.tags must have"),
        ({}, {"tags": "a\tb"}, "a tag in metadata.tags must have"),
        ({"x-upturn-tags": ",".join(map(str, range(33)))}, {}, "a call has at most 32 tags, got 33"),
    ],
)
def test_unusable_tags_are_refused(headers: dict[str, str], metadata: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        tag_names(headers, metadata)
