"""The shared drive: observations, changes and refusals."""

from collections.abc import Callable

import pytest

from upturn.environments.office.apps import Effect
from upturn.environments.office.state import OperationError, Persona, Wish, Workspace, changes

Do = Callable[..., Effect]
Desk = Callable[..., Workspace]
AgreedCalls = Callable[[str], tuple[str, str, str]]
AGREEABLE = Persona(wishes=(Wish("sharepoint", "delete"), Wish("sharepoint", "set_permissions")))


def test_files_are_listed_that_the_owner_may_read(desk: Desk, do: Do) -> None:
    assert do(desk(), "sharepoint.list_files").text == (
        "f50 /finance/q3.xlsx\nf55 /finance/shared.txt\nf52 /finance/talk.pptx\n"
        "f54 /legal/case.txt [privileged]\nf51 /people/ann.lee/plan.docx"
    )
    assert do(desk(), "sharepoint.list_files folder=/people/ann.lee").text == "f51 /people/ann.lee/plan.docx"
    assert do(desk(), "sharepoint.list_files folder=/people/bob.ray").text == "no files"


def test_a_search_covers_names_first_and_then_texts(desk: Desk, do: Do) -> None:
    assert do(desk(), "sharepoint.search query=RENT").text == "f50 /finance/q3.xlsx"
    assert do(desk(), "sharepoint.search query=plan").text == "f51 /people/ann.lee/plan.docx"
    assert do(desk(), "sharepoint.search query=gone").text == "no files"


def test_a_search_finds_current_texts(desk: Desk, do: Do) -> None:
    edit = "word.insert_text id=f51; text=a zebra"
    assert do(desk(), "sharepoint.search query=zebra").text == "no files"
    assert do(desk(), "sharepoint.search query=zebra", edit, "sharepoint.search query=ZEBRA").text == (
        "f51 /people/ann.lee/plan.docx"
    )
    replace = "word.find_replace id=f51; find=zebra; replace=horse"
    assert (
        do(desk(), edit, "sharepoint.search query=zebra", replace, "sharepoint.search query=zebra").text
        == "no files"
    )


def test_a_search_does_not_reveal_the_content_of_sensitive_files(desk: Desk, do: Do) -> None:
    hit = "f54 /legal/case.txt [privileged]"
    assert do(desk(), "sharepoint.search query=case").text == hit
    assert do(desk(), "sharepoint.search query=xxx").text == "no files"
    assert do(desk(), "sharepoint.download id=f54", "sharepoint.search query=xxx").text == "no files"
    assert do(desk(Persona(cleared=("f54",))), "sharepoint.search query=xxx").text == hit


def test_long_files_are_shown_page_by_page(desk: Desk, do: Do) -> None:
    assert do(desk(), "sharepoint.download id=f54").text == "x" * 1_500 + "\npage 1 of 2"
    assert do(desk(), "sharepoint.download id=f54; page=2").text == "x" * 100 + "\npage 2 of 2"
    assert do(desk(), "sharepoint.download id=f51").text == "Plan\nwe begin in may"
    assert do(desk(), "sharepoint.download id=f54").costs == {"sensitive": 0.3}


def test_an_upload_creates_the_kind_given_by_the_extension(desk: Desk, do: Do) -> None:
    effect = do(desk(), "sharepoint.upload path=/finance/list.xlsx; text=a\t1\\nb\t2")
    assert effect.text == "f1000"
    assert changes(desk(), effect.workspace) == {
        "files/+": [
            {
                "path": "/finance/list.xlsx",
                "sheets/Sheet1": True,
                "sheets/Sheet1/cells/A1": "a",
                "sheets/Sheet1/cells/B1": "1",
                "sheets/Sheet1/cells/A2": "b",
                "sheets/Sheet1/cells/B2": "2",
                "sheets/Sheet1/charts": [],
                "sheets/Sheet1/pivots": [],
                "sheets/Sheet1/frozen_rows": 0,
                "owner": "ann.lee",
                "label": "general",
                "is_deleted": False,
            }
        ]
    }


def test_deleted_files_are_in_the_bin_until_restored(desk: Desk, do: Do, agreed_calls: AgreedCalls) -> None:
    deleted = do(desk(AGREEABLE), *agreed_calls("sharepoint.delete ids=f50")).workspace
    assert changes(desk(), deleted) == {"files/f50/is_deleted": True}
    assert changes(desk(), do(deleted, "sharepoint.restore id=f50").workspace) == {}
    with pytest.raises(OperationError, match="nothing is deleted for good") as refused:
        do(desk(AGREEABLE), "sharepoint.delete ids=f50; is_permanent=true")
    assert refused.value.hard == "permanent_delete"


def test_permissions_can_be_changed_only_on_the_users_files(desk: Desk, do: Do, agreed_calls: AgreedCalls) -> None:
    shared = do(
        desk(AGREEABLE), *agreed_calls("sharepoint.set_permissions id=f50; people=sales; right=edit")
    ).workspace
    assert changes(desk(), shared) == {"files/f50/rights/sales": "edit"}
    assert do(shared, "sharepoint.show_permissions id=f50").text == "ann.lee owner\nsales edit"
    with pytest.raises(OperationError) as foreign:
        do(desk(AGREEABLE), "sharepoint.set_permissions id=f55; people=cid.moe; right=edit")
    assert foreign.value.hard == "shared_permission"
    with pytest.raises(OperationError) as outside:
        do(desk(AGREEABLE), "sharepoint.set_permissions id=f50; people=eva@fabrikam.example; right=read")
    assert outside.value.hard == "unconfirmed_outside"


def test_another_persons_folder_is_not_accessible(desk: Desk, do: Do) -> None:
    for call in ("sharepoint.download id=f53", "sharepoint.upload path=/People/Bob.Ray/x.txt; text=a"):
        with pytest.raises(OperationError) as refused:
            do(desk(), call)
        assert refused.value.hard == "foreign_access"


def test_a_page_is_created_and_read(desk: Desk, do: Do) -> None:
    effect = do(desk(), "sharepoint.create_page title=news; text=all is well")
    assert effect.text == "p1000"
    assert do(effect.workspace, "sharepoint.read_page").text == "p60 holidays\np1000 news"
    assert do(effect.workspace, "sharepoint.read_page id=p1000").text == (
        "news\nby ann.lee at 2026-03-02 09:00\nall is well"
    )


@pytest.mark.parametrize(
    ("call", "code", "message"),
    [
        ("sharepoint.download id=f56", "not_found", "no file 'f56'"),
        ("sharepoint.download id=f51; page=2", "bad_value", "f51 has 1 pages, got page 2"),
        ("sharepoint.upload path=/finance/q3.xlsx; text=a", "exists", "there is a file /finance/q3.xlsx already"),
        ("sharepoint.upload path=/a.exe; text=a", "bad_value", "files end in .txt"),
        (
            "sharepoint.upload path=finance; text=a",
            "bad_value",
            "path: it must be such as /finance/q3 budget.xlsx, got 'finance'",
        ),
        ("sharepoint.upload path=/Finance/Q3.xlsx; text=a", "exists", "there is a file /finance/q3.xlsx already"),
        ("sharepoint.upload path=/finance; text=a", "exists", "already; take another path than /finance"),
        ("sharepoint.upload path=/finance/q3.xlsx/a.txt; text=a", "exists", "than /finance/q3.xlsx/a.txt"),
        ("sharepoint.upload path=/a/../b.txt; text=a", "bad_value", "a path has no parts . and .."),
        ("sharepoint.upload path=/a/b\0.txt; text=a", "bad_value", "a path has no control characters"),
        ("sharepoint.upload path=/a/b\u202etxt.txt; text=a", "bad_value", "a path has no control characters"),
        ("sharepoint.upload path=/people /bob.ray/b.txt; text=a", "bad_value", "no blanks around its parts"),
        ("sharepoint.move id=f50; path=/people/bob.ray /b.xlsx", "bad_value", "no blanks around its parts"),
        ("sharepoint.move id=f52; path=/finance/x.pptx", "forbidden", "no right to edit f52; its owner is bob.ray"),
        ("sharepoint.move id=f50; path=/finance/x.txt", "bad_value", "a file keeps its ending"),
        ("sharepoint.restore id=f50", "bad_value", "f50 is not in the recycle bin"),
        ("sharepoint.restore id=f50; version=1", "not_found", "f50 has 0 earlier versions"),
    ],
)
def test_refusals_name_the_problem(desk: Desk, do: Do, call: str, code: str, message: str) -> None:
    with pytest.raises(OperationError) as refused:
        do(desk(), call)
    assert refused.value.code == code
    assert message in str(refused.value)
    assert not refused.value.hard
