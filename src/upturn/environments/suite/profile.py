"""Base profiles: offices as they are before a task is set in them. Each is made once and shared."""

from functools import cache
from random import Random

from upturn.environments.workspace import Table, Workspace
from upturn.environments.workspace.mail import Mail
from upturn.environments.workspace.person import Group, Person

FIRST = (
    "ann",
    "bob",
    "cid",
    "dana",
    "eve",
    "fay",
    "gus",
    "hal",
    "ida",
    "jon",
    "kim",
    "leo",
    "mia",
    "ned",
    "ola",
    "pam",
)
LAST = ("lee", "ray", "moe", "fox", "kay", "orr", "day", "may", "poe", "rae", "sol", "tan")
DEPARTMENTS = ("sales", "finance", "design", "support")
TOPICS = (
    "budget",
    "travel",
    "offer",
    "invoice",
    "launch",
    "menu",
    "survey",
    "poster",
    "contract",
    "visit",
    "report",
)
_CHATTER = ("hope you are well", "more on this soon", "let me know", "as discussed", "have a look", "talk later")
MAILS = 500


@cache
def profile(number: int) -> Workspace:
    """The workspace of base profile ``number``, on Monday, 2 March 2026, at nine."""
    rng = Random(f"suite/profile/1/{number}")
    ids = sorted({f"{rng.choice(FIRST)}.{rng.choice(LAST)}" for _ in range(40)})
    people = {id_: Person(id_, id_.replace(".", " ").title(), department=rng.choice(DEPARTMENTS)) for id_ in ids}
    owner = rng.choice(ids)
    groups = {
        name: Group(name, name.title(), tuple(id_ for id_ in ids if people[id_].department == name))
        for name in DEPARTMENTS
    }
    others = [id_ for id_ in ids if id_ != owner]
    mails = {
        f"m{at}": Mail(
            id=f"m{at}",
            folder="archive",
            sender=rng.choice(others),
            to=(owner,),
            subject=f"{rng.choice(TOPICS)} {rng.randint(2, 99)}",
            body=rng.choice(_CHATTER),
            at=f"2026-02-{rng.randint(1, 22):02d} {rng.randint(8, 17):02d}:{rng.randint(10, 59)}",
            is_read=True,
        )
        for at in range(1_100, 1_100 + MAILS)
    }
    return Workspace(owner, "2026-03-02 09:00", Table(people), Table(groups), Table(mails))
