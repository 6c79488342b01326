"""Which episodes are the same task: those of one tenant that begin with the same prompt.

The prompt is everything that the client sent before the first answer, system prompt included, in Unicode's composed
form (NFC) and with each run of white space as one blank. Nothing else is ignored: whether a date or an id in it
matters is unknown here. The family, the agent version and what the client said later are no part of the task.
"""

import unicodedata
from dataclasses import replace
from hashlib import blake2b

from upturn.pool.reader import Experience
from upturn.records import Trajectory

_BYTES = 16


def prompt_task_id(tenant: str, prompt: str) -> str:
    """Returns the id of the task of all episodes of the tenant that begin with this prompt."""
    canonical = " ".join(unicodedata.normalize("NFC", prompt).split())
    key = f"{tenant}\0{canonical}".encode(errors="surrogatepass")
    return f"prompt:{blake2b(key, digest_size=_BYTES).hexdigest()}"


def as_prompt_task(experience: Experience) -> Experience:
    """Returns an episode's data point with the task of its prompt; the stored task is that of the episode alone."""
    first = first_prompt(experience.trajectory)
    task_id = prompt_task_id(experience.task.tenant, first)
    evaluation = experience.evaluation
    return Experience(
        replace(experience.task, id=task_id, instruction=first, episode=None),
        replace(experience.trajectory, task_id=task_id),
        None if evaluation is None else replace(evaluation, task_id=task_id),
    )


def first_prompt(trajectory: Trajectory) -> str:
    """Returns what the client sent before the first answer; empty = nothing was answered."""
    return trajectory.turns[0].observation.text if trajectory.turns else ""
