"""Tasks stay what they are: wording, world, oracle, goal and what the apps show follow from family and seed alone.

A change of a digest is a change of every result that was measured on the office.
"""

import hashlib
from collections.abc import Iterable
from itertools import islice
from typing import get_args

import pytest

from upturn.environments.office.kit import OfficeKit
from upturn.environments.office.tasks import FAMILIES, compose, make_task, task_stream
from upturn.models import read_call
from upturn.records import Split

QUICK, COUNT = 350, 1_000
"""Numbers of tasks of a split; each family occurs twice, and six times or more."""
TASKS = {
    ("train", QUICK): "d70c43cbb10b8a0b25dd890134d2965ee5e5b9a21b298d41f5ded1c6f727f406",
    ("heldout", QUICK): "721a7f7900338de53a9b5d79ddfb35d09a9b389b774e36fea6677d74e717400e",
    ("train", COUNT): "daa4875ccf7e99296095ff8b0e70509c67f5506d25bc7e0344377c422517e1d3",
    ("heldout", COUNT): "4b17123bbf9a6cdfa68851d7c5b33a60d9434dbf56f4d3e6a8023836d16ad903",
}
TEMPLATES = "6ba42a24eeb6b3ef2a3cbcdfc5b8fa60c58264713a06b9a1327b4a27741d9593"
TOOLS = "931060a9e2414bb192c9df9b483cdfe3e5570ad5205e2ac45929acad91ac4e58"
OBSERVATIONS = "2db9d35ddd3f1e29c5e925d38d25e0af668c712211e277dc90b50c7f4ddc5dcc"


NO_EPISODE = ", episode=None"
"""A field that tasks got after the digests were taken."""
NO_TEXT_PARAMETER = ", text_parameter=''"
"""The same for tools."""


def digest_of(parts: Iterable[object]) -> str:
    """Returns the SHA-256 of the parts' ``repr``, one per line; bytes are used as they are."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part if isinstance(part, bytes) else repr(part).encode())
        digest.update(b"\n")
    return digest.hexdigest()


@pytest.mark.parametrize("count", [QUICK, pytest.param(COUNT, marks=pytest.mark.slow)])
@pytest.mark.parametrize("split", get_args(Split))
def test_the_first_tasks_of_a_split_stay_the_same(split: Split, count: int) -> None:
    def parts() -> Iterable[object]:
        for task in islice(task_stream([*FAMILIES], seed=0, split=split), count):
            scenario = compose(task)
            workspace = scenario.workspace
            content = (task, scenario.draft, scenario.goal, workspace.owner, workspace.started_at, workspace.seed)
            yield repr(content).replace(NO_EPISODE, "").encode()
            yield from scenario.parts()

    assert digest_of(parts()) == TASKS[split, count]


def test_all_templates_and_their_order_stay_the_same() -> None:
    listed = [(family.name, [*family.templates], [*family.heldout]) for family in FAMILIES.values()]
    assert digest_of(listed) == TEMPLATES


def test_tool_descriptions_stay_the_same() -> None:
    assert digest_of(repr(tool).replace(NO_TEXT_PARAMETER, "").encode() for tool in OfficeKit().tools) == TOOLS


def test_observations_of_the_oracle_stay_the_same() -> None:
    kit = OfficeKit()

    def observations() -> Iterable[str]:
        for family in FAMILIES:
            task = make_task(family, 0)
            environment = kit.environment(task)
            yield environment.reset(task)[0].text
            for line in kit.hint(task).splitlines():
                action = read_call(line)
                assert action is not None
                yield environment.step(action).observation.text

    assert digest_of(observations()) == OBSERVATIONS
