"""Export of a tenant's trajectories in a format of training."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import BinaryIO

from upturn.dialects import Json
from upturn.errors import ConfigError
from upturn.pool.exports.choice import Choice
from upturn.pool.exports.formats import FORMATS, WRITERS
from upturn.pool.exports.source import ChatSource
from upturn.records import Split


class TrainingExport:
    """The rows of one format; single use.

    A format of answers to imitate has only successes, unless the source's choice names verdicts, a score or a
    snapshot.
    """

    def __init__(self, source: ChatSource, format_name: str, *, split: Split = "train") -> None:
        """Raises ConfigError for an unknown format, and for held-out tasks in a format of answers."""
        if format_name not in FORMATS:
            raise ConfigError([f"unknown format {format_name!r}; known: {', '.join(FORMATS)}"])
        self._format, self._split = FORMATS[format_name], split
        if split == "heldout" and not self._format.has_heldout:
            allowed = ", ".join(name for name, known in FORMATS.items() if known.has_heldout)
            raise ConfigError(
                [f"held-out tasks are never trained on, so {format_name!r} cannot have them; only {allowed} can"]
            )
        self._source = source
        self.omitted = source.omitted
        """Number of trajectories, tasks or pairs without a row, by cause."""
        choice = source.choice
        choice.check()
        if self._format.has_successes_only and _is_open(choice):
            all_selected = len(source.pool.selected(choice.selection, tenant=source.tenant))
            source.choice = choice._replace(selection=replace(choice.selection, verdicts=("success",)))
            successes = len(source.pool.selected(source.choice.selection, tenant=source.tenant))
            self.omitted["not_successful"] = all_selected - successes
        self.rows = 0

    def write(self, file: BinaryIO, ending: str, on_row: Callable[[], object] = lambda: None) -> None:
        """Writes the rows to a file of the kind of ``ending``: ``.jsonl`` or ``.parquet``.

        Raises ConfigError for another ending, and for Parquet without pyarrow.
        """
        if ending not in WRITERS:
            raise ConfigError([f"unknown kind of file {ending!r}; known: {', '.join(WRITERS)}"])

        def counted() -> Iterator[Json]:
            for row in self._format.rows(self._source, self._split):
                self.rows += 1
                on_row()
                yield row

        WRITERS[ending](counted(), self._format.columns, file)


def _is_open(choice: Choice) -> bool:
    """Whether the choice says nothing about success."""
    selection = choice.selection
    return choice.snapshot is None and not selection.verdicts and selection.min_score is None
