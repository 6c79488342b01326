"""Presentations: observations, changes and refusals."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from upturn.environments.office.apps import Effect
from upturn.environments.office.state import OperationError, Workspace
from upturn.environments.office.state.deck import Deck, Shape, Slide
from upturn.environments.office.state.file import File, PlainText

Do = Callable[..., Effect]
Desk = Callable[..., Workspace]


@pytest.fixture
def stage(desk: Desk) -> Workspace:
    """Returns Ann's workspace with a presentation and a picture of hers."""
    office = desk()
    talk = replace(office.files["f52"], id="f57", path="/people/ann.lee/talk.pptx", owner="ann.lee")
    picture = File("f58", "/people/ann.lee/cat.png", PlainText("a cat"), "ann.lee", "ann.lee", "2026-02-10 10:00")
    return office.with_items(talk, picture)


def deck(workspace: Workspace) -> Deck:
    result = workspace.files["f57"].content
    assert isinstance(result, Deck)
    return result


def test_slides_are_added_at_the_requested_position(stage: Workspace, do: Do) -> None:
    added = do(stage, "powerpoint.add_slide id=f57; title=Week 42; content=deadline moved\\nbudget approved; at=1")
    assert added.text == "slide 1"
    assert deck(added.workspace).slides == (
        Slide("title_content", "Week 42", ("deadline moved", "budget approved")),
        Slide(title="Start"),
    )
    assert do(added.workspace, "powerpoint.read_slides id=f57").text == (
        "theme plain\n1 (title_content) Week 42\n  - deadline moved\n  - budget approved\n2 (title_content) Start"
    )


def test_text_layout_and_theme_are_set(stage: Workspace, do: Do) -> None:
    done = do(
        stage,
        "powerpoint.set_text id=f57; slide=1; content=one\\ntwo",
        "powerpoint.set_layout id=f57; slide=1; layout=two_content",
        "powerpoint.apply_theme id=f57; theme=forest",
    ).workspace
    assert deck(done) == Deck((Slide("two_content", "Start", ("one", "two")),), "forest")
    assert len(done.files["f57"].versions) == 3


def test_shapes_and_pictures_are_added_to_slides(stage: Workspace, do: Do) -> None:
    done = do(
        stage,
        "powerpoint.insert_shape id=f57; slide=1; kind=arrow; text=up",
        "powerpoint.add_image id=f57; slide=1; image=f58",
    )
    assert done.text == "shape 2"
    assert deck(done.workspace).slides[0].shapes == (Shape("arrow", "up"), Shape("image", "a cat", "f58"))


def test_a_slide_is_removed(stage: Workspace, do: Do) -> None:
    assert deck(do(stage, "powerpoint.delete_slide id=f57; slide=1").workspace).slides == ()


@pytest.mark.parametrize(
    ("call", "code", "message"),
    [
        ("powerpoint.add_slide id=f52; title=a", "forbidden", "no right to edit f52"),
        ("powerpoint.add_slide id=f51; title=a", "bad_value", "plan.docx is no presentation"),
        ("powerpoint.add_slide id=f57; title=a; at=3", "bad_value", "f57 has 1 slides, got at=3"),
        ("powerpoint.set_text id=f57; slide=2; title=a", "not_found", "f57 has 1 slides, got 2"),
        ("powerpoint.set_text id=f57; slide=1", "missing_parameter", "give title, content or both"),
        ("powerpoint.insert_shape id=f57; slide=1; kind=image", "bad_value", "powerpoint.add_image"),
        ("powerpoint.add_image id=f57; slide=1; image=f50", "bad_value", "q3.xlsx is no picture"),
        ("powerpoint.apply_theme id=f57; theme=loud", "bad_value", "theme: Input should be 'plain'"),
    ],
)
def test_refusals_name_the_problem(stage: Workspace, do: Do, call: str, code: str, message: str) -> None:
    with pytest.raises(OperationError) as refused:
        do(stage, call)
    assert refused.value.code == code
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "call",
    [
        *("read_slides id=f57", "add_slide id=f57; title=a", "set_text id=f57; slide=1; title=a"),
        *("set_layout id=f57; slide=1; layout=blank", "insert_shape id=f57; slide=1; kind=arrow; text=a"),
        *(
            "add_image id=f57; slide=1; image=f58",
            "apply_theme id=f57; theme=slate",
            "delete_slide id=f57; slide=1",
        ),
    ],
)
def test_every_access_to_sensitive_content_costs(stage: Workspace, do: Do, call: str) -> None:
    secret = stage.with_items(replace(stage.files["f57"], label="privileged"))
    assert do(stage, f"powerpoint.{call}").costs == {}
    assert do(secret, f"powerpoint.{call}").costs == {"sensitive": 0.3}


def test_a_sensitive_picture_costs_what_opening_it_does(stage: Workspace, do: Do) -> None:
    secret = stage.with_items(replace(stage.files["f58"], label="privileged"))
    assert do(secret, "powerpoint.add_image id=f57; slide=1; image=f58").costs == {"sensitive": 0.3}
