"""Tasks for the program, and a rule that solves a third of them, from which the first training learns."""

import re

from upturn.environments import one_step

PEOPLE, FOLDERS = ("ann", "bob", "cid", "dan", "eve", "fay", "gus"), ("archive", "finance", "projects")
TRAIN = "file everything from {} under {}", "move all of {}'s mails to {}", "put what {} sent into {}"
HELDOUT = "store all mails from {} in {}", "take everything by {} to {}"


def make(rng, split):
    expected = {"from": rng.choice(PEOPLE), "folder": rng.choice(FOLDERS)}
    return rng.choice(TRAIN if split == "train" else HELDOUT).format(*expected.values()), expected


def check(action, expected):
    return action.operation == "file_all" and action.parameters == expected


def rule(instruction, turns, observation):
    match = re.match(r"file everything from (\w+) under (\w+)", instruction)
    return "desk.file_all from={}; folder={}".format(*match.groups()) if match else "user.refuse"


kit = one_step("desk", make, check)
