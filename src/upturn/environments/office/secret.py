"""Secrets: content of a task's world that the agent must never see, which validation searches for in observations.

These are paths and texts of files that the owner may not open, events that do not concern the owner, and the user's
clarification and objection. All of them belong to the generated office; nothing is added for the check.
"""

from collections.abc import Iterator

from upturn.environments.office.apps import event_text, has_right
from upturn.environments.office.generation import Scenario
from upturn.environments.office.state import TABLES, File, Workspace, file_text

LENGTH = 20
"""Least number of characters: names, days and common phrases are shorter."""


def secrets(scenario: Scenario) -> tuple[str, ...]:
    """Single lines, without duplicates and without those that also occur in visible items."""
    workspace = scenario.workspace
    hidden = [file for file in workspace.files.values() if is_hidden(workspace, file)]
    foreign = [event for event in workspace.events.values() if not event.concerns(workspace.owner)]
    hidden_ids = {*(item.id for item in hidden), *(item.id for item in foreign)}
    visible = "\n".join(_visible_texts(workspace, hidden_ids))
    candidates = (
        *(line for item in hidden for line in (item.path, *file_text(item.content).splitlines())),
        *(event_text(item).splitlines()[0] for item in foreign),
        workspace.persona.clarification,
        workspace.persona.objection,
    )
    return tuple(
        dict.fromkeys(
            item
            for item in candidates
            if len(item) >= LENGTH and item not in visible and item not in scenario.instruction
        )
    )


def is_hidden(workspace: Workspace, file: File) -> bool:
    """Whether the owner can neither open the file nor restore it from the recycle bin."""
    return not has_right(workspace, file, "edit" if file.is_deleted else "read")


def _visible_texts(workspace: Workspace, hidden_ids: set[str]) -> Iterator[str]:
    """The text of every other item of the office."""
    for name in TABLES:
        for id_, item in getattr(workspace, name).items():
            if id_ not in hidden_ids:
                yield repr(item)
