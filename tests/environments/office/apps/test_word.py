"""Text documents: observations, changes and refusals."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from upturn.environments.office.apps import Effect
from upturn.environments.office.state import OperationError, Persona, Workspace, changes
from upturn.environments.office.state.document import Document, Grid, Paragraph
from upturn.environments.office.state.file import Content

Do = Callable[..., Effect]
Desk = Callable[..., Workspace]


EDITS = (
    "insert_text id=f51; text=why",
    "insert_table id=f51; rows=a | b",
    "format_section id=f51; first=1; is_bold=true",
    "find_replace id=f51; find=may; replace=june",
    "delete_paragraphs id=f51; first=1",
)


def content(workspace: Workspace) -> Content:
    return workspace.files["f51"].content


def test_paragraphs_are_shown_with_number_and_style(desk: Desk, do: Do) -> None:
    assert do(desk(), "word.read_paragraphs id=f51").text == "1 (title) Plan\n2 (body) we begin in may"


def test_matching_table_rows_are_shown_with_the_header(desk: Desk, do: Do) -> None:
    table = do(desk(), "word.insert_table id=f51; rows=who | when\\nann | may\\nbob | june").workspace
    for words, shown in (
        ("MAY", "2 (body) we begin in may\n3 table: who | when / ann | may"),
        ("when", "3 table: who | when"),
        ("plan", "1 (title) Plan"),
        ("july", "no such text"),
    ):
        assert do(table, f"word.read_paragraphs id=f51; text={words}").text == shown


def test_text_is_inserted_at_the_requested_position(desk: Desk, do: Do) -> None:
    inserted = do(desk(), "word.insert_text id=f51; text=Why; at=2; style=heading1")
    assert inserted.text == "paragraph 2"
    assert content(do(inserted.workspace, "word.insert_text id=f51; text=the end").workspace) == Document(
        (
            Paragraph("Plan", "title"),
            Paragraph("Why", "heading1"),
            Paragraph("we begin in may"),
            Paragraph("the end"),
        )
    )


def test_a_change_returns_the_whole_text_and_keeps_the_previous_version(desk: Desk, do: Do) -> None:
    changed = do(desk(), "word.find_replace id=f51; find=may; replace=june").workspace
    blocks = [
        {"text": "Plan", "style": "title", "is_bold": False, "is_italic": False},
        {"text": "we begin in june", "style": "body", "is_bold": False, "is_italic": False},
    ]
    assert changes(desk(), changed) == {"files/f51/content": {"blocks": blocks}}
    assert do(changed, "sharepoint.versions id=f51").text == (
        "1 2026-02-10 10:00 ann.lee\nnow 2026-03-02 09:00 ann.lee"
    )
    assert changes(desk(), do(changed, "sharepoint.restore id=f51; version=1").workspace) == {}


def test_paragraphs_are_formatted(desk: Desk, do: Do) -> None:
    done = do(desk(), "word.format_section id=f51; first=1; last=2; is_bold=true").workspace
    assert content(done) == Document(
        (Paragraph("Plan", "title", is_bold=True), Paragraph("we begin in may", is_bold=True))
    )


def test_tables_are_searched_and_replaced_in_too(desk: Desk, do: Do) -> None:
    table = do(desk(), "word.insert_table id=f51; rows=who | when\\nann | may; at=1")
    assert table.text == "paragraph 1"
    replaced = do(table.workspace, "word.find_replace id=f51; find=may; replace=june")
    assert replaced.text == "replaced 2"
    blocks = content(replaced.workspace)
    assert isinstance(blocks, Document)
    assert blocks.blocks[0] == Grid((("who", "when"), ("ann", "june")))
    assert do(replaced.workspace, "word.read_paragraphs id=f51").text.startswith("1 table: who | when / ann | june")


def test_paragraphs_are_removed(desk: Desk, do: Do) -> None:
    assert content(do(desk(), "word.delete_paragraphs id=f51; first=1").workspace) == Document(
        (Paragraph("we begin in may"),)
    )


@pytest.mark.parametrize(
    ("call", "code", "message"),
    [
        ("word.read_paragraphs id=f50", "bad_value", "q3.xlsx is no document"),
        ("word.read_paragraphs id=f99", "not_found", "no file 'f99'"),
        ("word.insert_text id=f51; text=a; at=4", "bad_value", "f51 has 2 paragraphs, got at=4"),
        ("word.insert_text id=f51; text=a; at=0", "bad_value", "at: Input should be greater than or equal to 1"),
        ("word.insert_text id=f51; text=a; style=loud", "bad_value", "style: Input should be 'title'"),
        ("word.format_section id=f51; first=1", "missing_parameter", "give style, is_bold or is_italic"),
        ("word.format_section id=f51; first=2; last=1; is_bold=true", "bad_value", "paragraphs 1 to 2, got 2 to 1"),
        ("word.find_replace id=f51; find=July; replace=x", "not_found", "does not contain 'July'"),
        ("word.insert_table id=f51; rows=a | b\\nc", "bad_value", "rows of [1, 2]"),
        (f"word.find_replace id=f51; find=e; replace={'e' * 9_000}", "bad_value", "at most 10000"),
    ],
)
def test_refusals_name_the_problem(desk: Desk, do: Do, call: str, code: str, message: str) -> None:
    with pytest.raises(OperationError) as refused:
        do(desk(), call)
    assert refused.value.code == code
    assert message in str(refused.value)


@pytest.mark.parametrize("words", ["may", "june"])
def test_replacing_without_the_right_reveals_nothing(desk: Desk, do: Do, words: str) -> None:
    theirs = desk().with_items(
        replace(desk().files["f51"], owner="bob.ray", path="/a.docx", rights={"ann.lee": "read"})
    )
    with pytest.raises(OperationError, match="no right to edit f51") as refused:
        do(theirs, f"word.find_replace id=f51; find={words}; replace=x")
    assert refused.value.code == "forbidden"


@pytest.mark.parametrize("call", ["read_paragraphs id=f51", *EDITS])
def test_every_access_to_sensitive_content_costs(desk: Desk, do: Do, call: str) -> None:
    secret = desk().with_items(replace(desk().files["f51"], label="privileged"))
    assert do(desk(), f"word.{call}").costs == {}
    assert do(secret, f"word.{call}").costs == {"sensitive": 0.3}
    cleared = replace(secret, persona=Persona(cleared=("f51",)))
    assert do(cleared, f"word.{call}").costs == {}
