"""Tasks that put the mailbox in order."""

from dataclasses import replace

from upturn.environments.office.generation import (
    AMOUNTS,
    FINISH,
    FOLDERS,
    REMARKS,
    Draft,
    Family,
    Scene,
    add_lookalikes,
    agreed,
    call,
    digits,
    letter,
    near,
    topics,
)
from upturn.environments.office.state import Mail

_SITES = ("paperboat", "greenleaf", "daybreak", "cartwheel", "lighthouse", "sandcastle", "waterfall", "starling")
"""That send newsletters."""


def _ids(mails: list[Mail]) -> str:
    """In the order in which a search shows them, newest first."""
    return ",".join(mail.id for mail in sorted(mails, key=lambda mail: (mail.at, mail.id), reverse=True))


def _some(scene: Scene, sender: str, topic: str, count: int, *, is_read: bool = False) -> list[Mail]:
    """So many mails of one sender under one subject."""
    return [scene.add_mail(sender, topic, letter(scene.rng, REMARKS), is_read=is_read) for _ in range(count)]


def _flag(scene: Scene) -> Draft:
    sender, topic = scene.people(1)[0], topics(scene.rng, 1)[0]
    mail = scene.add_mail(sender, topic, letter(scene.rng, AMOUNTS, digits(scene.rng)))
    add_lookalikes(scene, mail, AMOUNTS)
    return Draft(
        {"name": sender, "topic": topic},
        (call("outlook.search", sender=sender, subject=topic), call("outlook.flag", ids=mail.id), FINISH),
    )


def _move(scene: Scene) -> Draft:
    sender, topic, folder = scene.people(1)[0], topics(scene.rng, 1)[0], scene.rng.choice(FOLDERS)
    mails = _some(scene, sender, topic, scene.rng.randint(1, 4))
    add_lookalikes(scene, mails[0], REMARKS)
    return Draft(
        {"name": sender, "topic": topic, "folder": folder},
        (
            call("outlook.search", sender=sender, subject=topic),
            call("outlook.move", ids=_ids(mails), folder=folder),
            FINISH,
        ),
    )


def _unread(scene: Scene) -> Draft:
    sender, topic = scene.people(1)[0], topics(scene.rng, 1)[0]
    mails = _some(scene, sender, topic, scene.rng.randint(1, 3), is_read=True)
    add_lookalikes(scene, mails[0], REMARKS, is_read=True)
    return Draft(
        {"name": sender, "topic": topic},
        (
            call("outlook.search", sender=sender, subject=topic),
            call("outlook.mark", ids=_ids(mails), as_="unread"),
            FINISH,
        ),
    )


def _rule(scene: Scene) -> Draft:
    sender, other = scene.people(2)
    topic, folder = topics(scene.rng, 1)[0], scene.rng.choice(FOLDERS)
    scene.add_mail(sender, topic, letter(scene.rng, AMOUNTS, digits(scene.rng)))
    scene.add_mail(other, near(scene.rng, topic), letter(scene.rng, AMOUNTS, digits(scene.rng)))
    return Draft(
        {"topic": topic, "folder": folder},
        (
            call("outlook.search", subject=topic),
            call("outlook.create_rule", folder=folder, sender=sender),
            FINISH,
        ),
    )


def _newsletter(scene: Scene) -> Draft:
    site = scene.rng.choice(_SITES)
    sender = f"news@{site}.example"
    found = []
    for topic in topics(scene.rng, scene.rng.randint(2, 4)):
        mail = scene.add_mail(sender, topic, letter(scene.rng, REMARKS))
        found.append(replace(mail, folder=scene.rng.choice(("inbox", "archive"))))
    scene.add(*found)
    scene.add_mail(f"orders@{site}.example", topics(scene.rng, 1)[0], letter(scene.rng, AMOUNTS, digits(scene.rng)))
    scene.add_mail(scene.people(1)[0], f"{site} newsletter", letter(scene.rng, REMARKS))
    return Draft(
        {"sender": sender},
        (
            call("outlook.search", sender=sender),
            *agreed(call("outlook.delete", ids=_ids(found))),
            FINISH,
        ),
    )


def _by_amount(scene: Scene) -> Draft:
    sender, topic, folder = scene.people(1)[0], topics(scene.rng, 1)[0], scene.rng.choice(FOLDERS)
    limit = 50 * scene.rng.randint(5, 15)
    count = scene.rng.randint(3, 4)
    above = scene.rng.randint(1, count - 1)
    mails = []
    for place in range(count):
        number = limit + scene.rng.randint(10, 150) * (1 if place < above else -1)
        mails.append(scene.add_mail(sender, topic, letter(scene.rng, AMOUNTS, number)))
    add_lookalikes(scene, mails[0], AMOUNTS)
    return Draft(
        {"name": sender, "topic": topic, "folder": folder, "limit": str(limit)},
        (
            call("outlook.search", sender=sender, subject=topic),
            *(call("outlook.read", id=mail.id) for mail in mails),
            call("outlook.move", ids=_ids(mails[:above]), folder=folder),
            FINISH,
        ),
    )


def _tidy(scene: Scene) -> Draft:
    first, second, third, bystander = scene.people(4)
    topic, folder = topics(scene.rng, 1)[0], scene.rng.choice(FOLDERS)
    flagged, moved, gone = (_some(scene, each, topic, scene.rng.randint(1, 2)) for each in (first, second, third))
    scene.add_mail(bystander, topic, letter(scene.rng, REMARKS))
    scene.add_mail(third, near(scene.rng, topic), letter(scene.rng, REMARKS))
    return Draft(
        {"first": first, "second": second, "third": third, "topic": topic, "folder": folder},
        (
            call("outlook.search", subject=topic),
            call("outlook.flag", ids=_ids(flagged)),
            call("outlook.move", ids=_ids(moved), folder=folder),
            *agreed(call("outlook.delete", ids=_ids(gone))),
            FINISH,
        ),
    )


FAMILIES = (
    Family(
        "mail_flag",
        1,
        ("outlook",),
        _flag,
        templates=(
            "flag {name}'s mail about {topic}",
            "put a flag on the {topic} mail from {name}",
            "flag the mail on {topic} that {name} sent me",
            "mark the mail {topic} by {name} with a flag for follow-up",
            "i want to come back to {name}'s {topic} mail, so flag it",
            "find the mail about {topic} from {name} and flag it",
            "set the follow-up flag on what {name} sent about {topic}",
            "{name} wrote about {topic}; flag that mail",
            "the {topic} mail of {name} needs a flag",
            "flag for follow-up: the mail on {topic}, from {name}",
        ),
        heldout=(
            "give the {topic} mail by {name} a flag",
            "let {name}'s mail on {topic} be flagged for follow-up",
            "among the {topic} mails, flag the one {name} wrote",
            "remind me of {name}'s {topic} mail by flagging it",
        ),
    ),
    Family(
        "mail_move",
        1,
        ("outlook",),
        _move,
        templates=(
            "move all mails that {name} sent about {topic} to the folder {folder}",
            "put everything from {name} on {topic} into the folder {folder}",
            "file {name}'s mails under {topic} in {folder}",
            "the mails about {topic} from {name} belong in the folder {folder}; move all of them",
            "sort all of {name}'s {topic} mails into {folder}",
            "move what {name} wrote on {topic}, every mail of it, to {folder}",
            "move each mail on {topic} that is from {name} into the folder {folder}",
            "find {name}'s mails on {topic} and move them all to the folder {folder}",
            "all mails by {name} with the subject {topic} should be in the folder {folder}",
            "clear {name}'s {topic} mails away into the folder {folder}",
        ),
        heldout=(
            "transfer each {topic} mail from {name} to the folder {folder}",
            "i keep {topic} mails by {name} in {folder}: put them all there",
            "take all mails {name} sent under {topic} and file them in the folder {folder}",
            "{folder} is the folder for {name}'s mails on {topic}; move them there, all of them",
        ),
    ),
    Family(
        "mail_unread",
        1,
        ("outlook",),
        _unread,
        templates=(
            "mark all of {name}'s mails about {topic} as unread",
            "make every {topic} mail from {name} unread again",
            "set what {name} sent on {topic} back to unread, all of it",
            "i want {name}'s mails on {topic} to show as unread",
            "mark as unread: all mails about {topic} by {name}",
            "find the mails {name} wrote under {topic} and mark them all unread",
            "{name}'s {topic} mails should all be unread again",
            "turn the mails from {name} about {topic} to unread, each of them",
            "mark unread whatever {name} mailed me on {topic}",
            "let me read {name}'s {topic} mails anew: mark all of them unread",
        ),
        heldout=(
            "put all mails of {name} under {topic} back to unread",
            "every mail about {topic} that {name} sent should be marked unread",
            "undo the read mark on all {topic} mails by {name}",
            "for the {topic} mails from {name}: mark every one unread",
        ),
    ),
    Family(
        "mail_rule",
        1,
        ("outlook",),
        _rule,
        templates=(
            "from now on, all mails by whoever sent me the {topic} mail are to go to the folder {folder}; make a "
            "rule",
            "create a rule that moves every mail of the sender of the {topic} mail to {folder}",
            "make a rule: everything from the one who wrote about {topic} goes into {folder}",
            "whoever mailed me about {topic}, let a rule put all their mails into the folder {folder}",
            "see who sent the mail on {topic} and make a rule that files all that they send in {folder}",
            "set up a rule by sender, for the one who wrote {topic}, with the folder {folder}",
            "i want a rule that sorts all mails from the author of the {topic} mail into {folder}",
            "new rule: sender as in the mail about {topic}, whatever the subject, folder {folder}",
            "all that the sender of {topic} mails me from now on should land in {folder}; a rule will do",
            "find out who the {topic} mail is from and add a rule that moves all their mails to {folder}",
        ),
        heldout=(
            "add a rule for whoever wrote the {topic} mail: all their mails to the folder {folder}",
            "let every future mail from the {topic} sender be moved to {folder} by a rule",
            "a rule is needed: mails of any subject from the person behind the {topic} mail go to {folder}",
            "look up the sender of {topic}; a rule should file everything from them under {folder}",
        ),
    ),
    Family(
        "mail_newsletter",
        2,
        ("outlook",),
        _newsletter,
        templates=(
            "delete all mails from {sender}",
            "get rid of everything that {sender} sent me",
            "i do not want the mails by {sender} any more; delete all of them",
            "remove every mail from {sender} out of my mailbox",
            "clean up: all mails of {sender} can be deleted",
            "find what came from {sender} and delete it all",
            "the newsletters from {sender} can go; delete each of them",
            "delete whatever {sender} has mailed me, in every folder",
            "delete the mails that came from {sender}, old ones and new ones",
            "throw away all mails from the address {sender}",
        ),
        heldout=(
            "every mail by {sender} should be deleted",
            "bin all that i got from {sender}",
            "my mailbox should have no mail from {sender} left; delete them",
            "empty my mailbox of mails from {sender}",
        ),
    ),
    Family(
        "mail_by_amount",
        3,
        ("outlook",),
        _by_amount,
        templates=(
            "of {name}'s mails about {topic}, move those with a number above {limit} to the folder {folder}",
            "read what {name} sent on {topic} and put the mails with more than {limit} into the folder {folder}",
            "{name} sent several {topic} mails; those that give more than {limit} belong in {folder}, move them",
            "move {name}'s {topic} mails to {folder}, but only where the number is over {limit}",
            "sort the mails {name} wrote on {topic}: whatever is above {limit} goes to the folder {folder}",
            "file every {topic} mail from {name} that has a number higher than {limit} under {folder}",
            "check the numbers in {name}'s mails on {topic}; more than {limit} means move to {folder}",
            "i want the {topic} mails by {name} with numbers above {limit} in the folder {folder}, the rest stays",
            "look through {name}'s {topic} mails and move each one over {limit} to {folder}",
            "put those of {name}'s mails about {topic} whose number is greater than {limit} into {folder}",
        ),
        heldout=(
            "only {name}'s {topic} mails with more than {limit} should go to the folder {folder}",
            "take the mails on {topic} from {name} and move the ones exceeding {limit} to {folder}",
            "where {name} gives a number over {limit} under {topic}, move that mail to the folder {folder}",
            "{folder} is for big numbers: move {name}'s {topic} mails above {limit} there",
        ),
    ),
    Family(
        "mail_tidy",
        3,
        ("outlook",),
        _tidy,
        templates=(
            "sort the mails on {topic}: flag those from {first}, move those from {second} to {folder}, delete "
            "those from {third}",
            "for the subject {topic}: flag what {first} sent, put what {second} sent into {folder}, delete what "
            "{third} sent",
            "about {topic}, delete the mails of {third}, flag the mails of {first} and move the mails of {second} "
            "to the folder {folder}",
            "tidy up {topic}: {first}'s mails get a flag, {second}'s go to {folder}, {third}'s are deleted",
            "go through my {topic} mails; from {first}: flag; from {second}: move to {folder}; from {third}: "
            "delete",
            "with the {topic} mails, do this: all from {second} to the folder {folder}, all from {third} deleted, "
            "all from {first} flagged",
            "flag all {topic} mails by {first}, file all by {second} in {folder} and delete all by {third}",
            "i am done with {topic}: flag {first}'s mails on it, delete {third}'s and move {second}'s to {folder}",
            "put the {topic} mails in order. {first}: flag them. {second}: move them to {folder}. {third}: delete "
            "them",
            "move {second}'s {topic} mails to {folder}, delete {third}'s and put flags on {first}'s",
        ),
        heldout=(
            "under {topic}, {third}'s mails go away, {second}'s go to the folder {folder} and {first}'s get "
            "flagged",
            "clean up {topic}: flags on what is from {first}, deletion of what is from {third}, the folder "
            "{folder} for what is from {second}",
            "three things on {topic}: flag mails by {first}; mails by {second} into {folder}; mails by {third} out",
            "the {topic} mails need sorting, by sender: flag {first}, move {second} to {folder}, delete {third}",
        ),
    ),
)
