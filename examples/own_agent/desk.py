import re

from upturn.environments import one_step

PEOPLE, FOLDERS = ("ann", "bob", "cid", "dan", "eve", "fay", "gus"), ("archive", "finance", "projects")
TRAIN = "file everything from {} under {}", "move all of {}'s mails to {}", "put what {} sent into {}"
HELDOUT = "store all mails from {} in {}", "take everything by {} to {}"


def make(rng, split):  # samples a task and its expected answer
    right = {"from": rng.choice(PEOPLE), "folder": rng.choice(FOLDERS)}
    return rng.choice(TRAIN if split == "train" else HELDOUT).format(*right.values()), right


def check(action, right):  # grades the action
    return action.operation == "file_all" and action.parameters == right


def rule(instruction, turns, observation):  # your agent: it knows one of the three wordings
    found = re.match(r"file everything from (\w+) under (\w+)", instruction)
    return "desk.file_all from={}; folder={}".format(*found.groups()) if found else "user.refuse"


kit = one_step("desk", make, check)
