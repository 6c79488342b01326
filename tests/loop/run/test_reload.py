"""A changed configuration file: what changes, or all reasons why it is refused."""

from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from upturn.errors import ConfigError
from upturn.loop.run import apply_agents, config_changes, reload_config


def test_agents_and_routing_can_change(desk: ModuleType) -> None:
    old = desk.config(("solver", "adder"))
    assert config_changes(old, desk.config(("solver", "adder"))).is_empty
    new = desk.config(("solver", "refuser"), {"solver": 3}, routing={"policy": "uniform"})
    changes = config_changes(old, new)
    assert [agent.name for agent in changes.added] == ["refuser"]
    assert changes.removed == ("adder",)
    assert [(agent.name, agent.load_cap) for agent in changes.changed] == [("solver", 3)]
    assert changes.is_policy_changed
    assert (changes.settings, changes.config) == ((), new)


def test_all_changes_that_need_a_new_start_are_named(desk: ModuleType) -> None:
    new = desk.config(("solver", "refuser"), tasks={"count": 7}, run={"seed": 5})
    with pytest.raises(ConfigError) as error:
        config_changes(desk.config(("solver",)), new)
    assert list(error.value.problems) == [
        "run.seed was 0 and is now 5, which takes effect with a new start only; restore it, or restart",
        "tasks.count was 96 and is now 7, which takes effect with a new start only; restore it, or restart",
    ]


def test_a_wrong_file_is_refused_as_a_whole(desk: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "upturn.toml"
    file.write_text('[routing]\nfloor = 3\n[[agents]]\nname = "A B"\nkind = "callable"\nimport_path = "x:y"\n')
    with pytest.raises(ConfigError) as error:
        reload_config(desk.config(("solver",)), file, {})
    assert len(error.value.problems) == 3


def test_changes_apply_between_decisions(desk: ModuleType, tmp_path: Path) -> None:
    old, new = desk.config(("solver", "adder")), desk.config(("solver", "refuser"), {"solver": 3})
    with desk.opened(tmp_path / "run", old) as context:
        versions = apply_agents(config_changes(old, new), context.pool, context.in_service)
        assert [version.id for version in versions] == ["refuser@base", "solver@base"]
        served = context.service.serve(context.next_tasks(40))
        assert Counter(item.decision.chosen for item in served) == {"solver@base": 3, "refuser@base": 37}
