"""The report as one self-contained HTML page: pictures and style are inline.

Text of agents, users and environments is data: the templates escape everything but the figures drawn here. The page
is a pure function of its content, so a saved ``report.json`` gives the same page.
"""

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from upturn.errors import RecordError
from upturn.records import from_json, to_json
from upturn.report import number, picture, sentence
from upturn.report.content import ReportContent

if TYPE_CHECKING:
    from jinja2 import Environment

_MAX_CHARACTERS = 2_000
"""Maximum length of one text in a transcript: real observations would make pages of megabytes."""

_UNPRINTABLE = {
    code: "\ufffd" for code in [*range(32), *range(127, 160), 0xFFFE, 0xFFFF] if chr(code) not in "\t\n"
}
"""Characters that HTML forbids, or that are invisible."""


def render(content: ReportContent) -> str:
    """The whole page as HTML5 text."""
    template = environment().get_template("report.html")
    pictures = picture.draw(content)
    return template.render(content=content, pictures={item.name: item for item in pictures})


def write_report(content: ReportContent, path: Path) -> None:
    """Writes the page to ``path`` atomically; the folder must exist."""
    write_atomically(path, render(content))


def write_content(content: ReportContent, path: Path) -> None:
    """Saves the content of the page (``report.json``) atomically."""
    write_atomically(path, to_json(content) + "\n")


def read_content(path: Path) -> ReportContent:
    """The content saved by ``write_content``; raises RecordError if the file is missing or invalid."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise RecordError(f"cannot read a report from {str(path)!r}: {exc}; name a report.json") from exc
    return from_json(ReportContent, text)


def environment() -> "Environment":
    """The templates with their filters and sentences; everything is escaped but drawings."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("upturn.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    templates.filters |= {
        "percent": number.percent,
        "points": number.points,
        "number": number.number,
        "duration": number.duration,
        "percent_estimate": number.percent_estimate,
        "percent_interval": number.percent_interval,
        "points_estimate": number.points_estimate,
        "points_interval": number.points_interval,
        "number_interval": number.number_interval,
        "clip": _clip,
        "drawing": _drawing,
    }
    templates.globals["sentence"] = sentence
    return templates


def _printable(value: object) -> object:
    """Plain text without characters that HTML forbids; other values unchanged."""
    return value.translate(_UNPRINTABLE) if type(value) is str else value


def _clip(text: str) -> str:
    """At most ``_MAX_CHARACTERS``, and the number of omitted characters."""
    if len(text) <= _MAX_CHARACTERS:
        return text
    return f"{text[:_MAX_CHARACTERS]} … ({len(text) - _MAX_CHARACTERS:,} more characters)"


def _drawing(svg: str) -> str:
    """The SVG, not escaped: matplotlib has escaped its text."""
    from markupsafe import Markup

    return Markup(svg.translate(_UNPRINTABLE))


def write_atomically(path: Path, text: str) -> None:
    """Writes the file, either all of it or nothing; its folder must exist."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
