"""The text of HTML mails, in one linear pass.

``html.parser`` takes quadratic time and more for unclosed tags and comments: 63 s for 50 kB of ``<a``. Here what is
unclosed ends the text, as browsers do with comments and attributes.
"""

import re
from collections.abc import Iterator
from html import unescape

_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)")
_END = re.compile(r"[>\"']")
_BLOCKS = frozenset({"p", "br", "div", "tr", "li", "h1", "h2", "h3"})
_HIDDEN = frozenset({"script", "style", "head"})
_RAW = {name: re.compile(f"</{name}", re.IGNORECASE) for name in ("script", "style")}
"""Where elements end whose content is no HTML."""


def html_text(html: str) -> str:
    """The visible text, with a line for each block."""
    lines = [line.strip() for line in "".join(_visible(html)).split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _visible(html: str) -> Iterator[str]:
    """Text with collapsed whitespace, and a line end at the start of each block."""
    at = hidden = 0
    while at < len(html):
        start = html.find("<", at)
        start = len(html) if start < 0 else start
        tag = _TAG.match(html, start)
        is_markup = tag is not None or html.startswith(("<!", "<?"), start)
        text_end = start if is_markup else start + 1
        if not hidden and text_end > at:
            yield re.sub(r"\s+", " ", unescape(html[at:text_end]))
        at = text_end
        if tag is None:
            at = _after_declaration(html, start) if is_markup else at
            continue
        name = tag[2].lower()
        at = _after_tag(html, tag.end())
        if name in _HIDDEN:
            hidden = max(0, hidden - 1) if tag[1] else hidden + 1
        if not tag[1] and name in _BLOCKS:
            yield "\n"
        if not tag[1] and name in _RAW:
            end = _RAW[name].search(html, at)
            at = len(html) if end is None else end.start()


def _after_declaration(html: str, start: int) -> int:
    """The index after the comment or declaration; the end of the text if it is not closed."""
    closing = "-->" if html.startswith("<!--", start) else ">"
    end = html.find(closing, start + 2)
    return len(html) if end < 0 else end + len(closing)


def _after_tag(html: str, at: int) -> int:
    """The index after the ``>`` outside of quotes; the end of the text if there is none."""
    while match := _END.search(html, at):
        if match[0] == ">":
            return match.end()
        end = html.find(match[0], match.end())
        if end < 0:
            break
        at = end + 1
    return len(html)
