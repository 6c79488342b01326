"""The office's state: mails, events, files, chats, people, and what the user was told.

Immutable values and the workspace that holds them, plus diffs between two states. Not here: what changes them
(``apps``) and formulas (``formulas``). Start with ``workspace``.
"""

from upturn.environments.office.state.address import (
    MAX_COLUMNS,
    MAX_ROWS,
    Area,
    Place,
    area_of,
    between,
    column_letters,
    column_number,
    place_of,
)
from upturn.environments.office.state.cell import (
    ERRORS,
    CellError,
    Value,
    cell_text,
    is_formula,
    shown,
    tidy,
    typed,
    written_number,
)
from upturn.environments.office.state.chat import Channel, Chat, Post
from upturn.environments.office.state.clock import day_of, later, minutes_between, moment, named_day, written
from upturn.environments.office.state.deck import THEMES, Deck, Layout, Shape, ShapeKind, Slide, Theme
from upturn.environments.office.state.document import Block, Document, Grid, Paragraph, ParagraphStyle
from upturn.environments.office.state.event import Attendee, Event, Response
from upturn.environments.office.state.file import Content, File, Page, PlainText, Right, Version, file_text
from upturn.environments.office.state.label import LABELS, SENSITIVE, Label
from upturn.environments.office.state.mail import Mail, MailFlag, Rule
from upturn.environments.office.state.operation_error import OperationError
from upturn.environments.office.state.person import COMPANY, Group, Person, is_address, is_outside, person_of
from upturn.environments.office.state.recipients import outsiders, principals
from upturn.environments.office.state.simulated_user import PATIENCE, Message, MessageKind, Persona, Wish
from upturn.environments.office.state.table import Table
from upturn.environments.office.state.workbook import Aggregate, Book, CellFormat, Chart, ChartKind, Pivot, Sheet
from upturn.environments.office.state.workspace import (
    TABLES,
    Item,
    Workspace,
    changes,
    fingerprint,
    has_same_items,
    is_alike,
    state_hash,
)

__all__ = [
    "COMPANY",
    "ERRORS",
    "LABELS",
    "MAX_COLUMNS",
    "MAX_ROWS",
    "PATIENCE",
    "SENSITIVE",
    "TABLES",
    "THEMES",
    "Aggregate",
    "Area",
    "Attendee",
    "Block",
    "Book",
    "CellError",
    "CellFormat",
    "Channel",
    "Chart",
    "ChartKind",
    "Chat",
    "Content",
    "Deck",
    "Document",
    "Event",
    "File",
    "Grid",
    "Group",
    "Item",
    "Label",
    "Layout",
    "Mail",
    "MailFlag",
    "Message",
    "MessageKind",
    "OperationError",
    "Page",
    "Paragraph",
    "ParagraphStyle",
    "Person",
    "Persona",
    "Pivot",
    "Place",
    "PlainText",
    "Post",
    "Response",
    "Right",
    "Rule",
    "Shape",
    "ShapeKind",
    "Sheet",
    "Slide",
    "Table",
    "Theme",
    "Value",
    "Version",
    "Wish",
    "Workspace",
    "area_of",
    "between",
    "cell_text",
    "changes",
    "column_letters",
    "column_number",
    "day_of",
    "file_text",
    "fingerprint",
    "has_same_items",
    "is_address",
    "is_alike",
    "is_formula",
    "is_outside",
    "later",
    "minutes_between",
    "moment",
    "named_day",
    "outsiders",
    "person_of",
    "place_of",
    "principals",
    "shown",
    "state_hash",
    "tidy",
    "typed",
    "written",
    "written_number",
]
