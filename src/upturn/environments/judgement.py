"""Asking a verifier: what it says, or that it said nothing."""

import hashlib

from upturn.environments.environment import Verifier
from upturn.errors import described
from upturn.records import Evaluation, GateResult, Task, Trajectory, fields_json, from_fields


def judge(verifier: Verifier, task: Task, trajectory: Trajectory) -> Evaluation:
    """The verifier's evaluation, as it will be read back.

    A verifier that breaks, or whose answer no record can hold, gives a ``missing`` one that says why.
    """
    try:
        return from_fields(Evaluation, fields_json(verifier.verify(task, trajectory)))
    except Exception as exc:  # noqa: BLE001 — a broken judge is recorded as missing, its siblings go on
        digest = hashlib.blake2b(f"{verifier.name}/{trajectory.id}".encode(), digest_size=8).hexdigest()
        gate = GateResult("judged", False, described(exc))
        return Evaluation(f"v-{digest}", task.id, trajectory.id, verifier.name, "missing", (gate,), {}, {}, None)
