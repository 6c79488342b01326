"""The text of HTML mails."""

import time
from html import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn.environments.office.files.html_text import html_text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>Hello&nbsp;there,\n  Ann</p><div>caf\u00e9<br>bye</div>", "Hello there, Ann\ncaf\u00e9\nbye"),
        ("<html><head><title>no</title><style>p {}</style></head><body>yes</body></html>", "yes"),
        ("a<script>if (1 < 2) { x = '</p>' }</script>b<STYLE>p {}</STYLE>c", "abc"),
        ("a<!-- <p>no</p> -->b<!DOCTYPE html>c<?xml x?>d", "abcd"),
        ('<img alt="a > b" title=\'"\'>1 < 2 &amp; 3 &lt; 4 <3', "1 < 2 & 3 < 4 <3"),
        ("<ul><li>one<li>two</ul><table><tr><td>1</td><td>2</td></tr></table>", "one\ntwo\n12"),
        ("<P>one</P>\n<p></p><p></p><p></p><p>two", "one\n\ntwo"),
        ("a<!-- unclosed <p>b", "a"),
        ("a<a href='unclosed>b</a>", "a"),
        ("a<script>b", "a"),
        ("", ""),
    ],
)
def test_visible_text_is_kept_with_a_line_for_each_block(html: str, text: str) -> None:
    assert html_text(html) == text


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=80))
def test_escaped_text_is_read_back_with_its_whitespace_collapsed(text: str) -> None:
    assert html_text(f"<p>{escape(text)}</p>") == " ".join(text.split())


@pytest.mark.parametrize(
    "part", ["<!--", "</", "<a ", "<!", "<?", "&", "<script>", "<a b='", '<a b="x', "<p>", "<"]
)
def test_the_time_is_linear_for_unclosed_markup(part: str) -> None:
    """The library's parser takes between ten seconds and hours for this; a linear pass takes 0.1 s."""
    begun = time.perf_counter()
    html_text(part * (500_000 // len(part)))
    assert time.perf_counter() - begun < 10
