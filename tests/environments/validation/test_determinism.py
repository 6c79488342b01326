"""Equal behaviour in another process with any hash seed."""

import sys
from pathlib import Path

import pytest

from benchmarks.errands import ENVIRONMENT
from upturn.environments import resolve_kit
from upturn.environments.validation.determinism import digests, digests_in_subprocess
from upturn.errors import WorldError

BOWL = """
from upturn.environments import one_step
FRUIT = {f"fruit{number}" for number in range(20)}
def steady(rng):
    fruit = sorted(FRUIT)
    return f"which of {fruit}? number {rng.randrange(10**6)}", {"answer": fruit[0]}
def hashed(rng):
    fruit = list(FRUIT)
    return f"which of {fruit}? number {rng.randrange(10**6)}", {"answer": fruit[0]}
def kit():
    makes = {"steady": steady, "hashed": hashed}
    return one_step("bowl", makes, lambda action, right: action.parameters.get("text") == right["answer"])
"""


def test_dependence_on_the_hash_seed_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bowl_for_test.py").write_text(BOWL)
    monkeypatch.syspath_prepend(str(tmp_path))
    kit = resolve_kit("bowl_for_test:kit")
    families = list(kit.families)
    here = digests(kit, families, 1)
    assert here == digests(kit, families, 1)
    elsewhere = digests_in_subprocess("bowl_for_test:kit", families, 1)
    assert here["steady"] == elsewhere["steady"]
    assert here["hashed"] != elsewhere["hashed"], "twenty words hardly ever have one order under two seeds"
    assert digests(kit, ["steady"], 2)["steady"] != here["steady"]


def test_a_failing_subprocess_is_a_world_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(WorldError, match=rf"^'{ENVIRONMENT}' could not be checked in another process: "):
        digests_in_subprocess(ENVIRONMENT, ["mail_file"], 1)
