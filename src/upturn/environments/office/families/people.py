"""Tasks on who is who: people by their role, whoever is available, delegates, and who follows whom."""

from collections import Counter
from dataclasses import replace

from upturn.environments.office.apps import presence
from upturn.environments.office.families.cross_app import found
from upturn.environments.office.generation import (
    FINISH,
    Draft,
    Family,
    Scene,
    add_contacts,
    agreed,
    call,
    in_chat,
    joined,
    near,
    phrase,
    topics,
)
from upturn.environments.office.state import Person


def _sole_holders(scene: Scene) -> list[Person]:
    """Two people, not the owner, whose title nobody else has in their department, in any order."""
    people = scene.workspace.people.values()
    counts = Counter((each.title, each.department) for each in people)
    sole = [
        each for each in people if counts[each.title, each.department] == 1 and each.id != scene.workspace.owner
    ]
    return scene.rng.sample(sole, 2)


def _mail_on_behalf(scene: Scene) -> Draft:
    """Somebody else has made the owner a delegate, too."""
    principal, other = _sole_holders(scene)
    scene.add(*(replace(each, delegates=(scene.workspace.owner,)) for each in (principal, other)))
    receiver = next(each for each in scene.people(3) if each not in (principal.id, other.id))
    subject, text = topics(scene.rng, 1)[0], phrase(scene.rng)
    send = call("outlook.send", to=[receiver], subject=subject, body=text, on_behalf_of=principal.id)
    return Draft(
        {
            **{"title": principal.title, "department": principal.department},
            **{"name": receiver, "subject": f'"{subject}"', "phrase": f'"{text}"'},
        },
        (
            call("outlook.find_people", department=principal.department, title=principal.title),
            *agreed(send),
            FINISH,
        ),
    )


def _available_messaged(scene: Scene) -> Draft:
    """One of three is available, wherever in the mail they stand."""
    rng, (sender, other, *people) = scene.rng, scene.people(39)
    available, *rest = sorted(people, key=lambda each: presence(scene.workspace, each) != "available")
    three = rng.sample([available, *rest[-2:]], 3)
    topic, text = topics(rng, 1)[0], phrase(rng)
    texts = (
        "{}, {} or {} can help you with it",
        "this is for {}, {} or {} to say",
        "{}, {} and {} all know enough; one of them will do",
    )
    mail = scene.add_mail(sender, topic, rng.choice(texts).format(*three))
    for who, subject in ((other, topic), (sender, near(rng, topic))):
        scene.add_mail(who, subject, rng.choice(texts).format(*rng.sample(people, 3)))
    return Draft(
        {"name": sender, "subject": f'"{topic}"', "phrase": f'"{text}"'},
        (
            call("outlook.search", sender=sender, subject=topic),
            call("outlook.read", id=mail.id),
            call("teams.show_presence", people=[*three]),
            *agreed(call("teams.send_message", to=available, text=text)),
            FINISH,
        ),
        also=in_chat(scene, available, text),
    )


def _successor_entered(scene: Scene) -> Draft:
    rng, (successor, other_role) = scene.rng, _sole_holders(scene)
    old, sender, other = [each for each in scene.people(5) if each not in (successor.id, other_role.id)][:3]
    topic, text = topics(rng, 1)[0], phrase(rng)
    document = add_contacts(scene, old, successor.id)
    texts = (
        "from now on the {title} of {department} does what {old} did",
        "{old} is leaving us; the {title} of {department} follows",
        "all that {old} had is with the {title} of {department} now",
    )

    def said(role: Person) -> str:
        return rng.choice(texts).format(title=role.title, department=role.department, old=old)

    mail = scene.add_mail(sender, topic, said(successor))
    scene.add_mail(other, topic, f"i have heard that {said(other_role)}")
    return Draft(
        {
            **{"name": sender, "subject": f'"{topic}"', "document": document.name},
            "phrase": f'"{text}"',
        },
        (
            call("outlook.search", sender=sender, subject=topic),
            call("outlook.read", id=mail.id),
            call("outlook.find_people", department=successor.department, title=successor.title),
            found(document.name),
            call("word.find_replace", id=document.file.id, find=old, replace=successor.id),
            *agreed(call("teams.send_message", to=successor.id, text=text)),
            FINISH,
        ),
        also=in_chat(scene, successor.id, text),
    )


FAMILIES = (
    Family(
        "mail_on_behalf",
        2,
        ("outlook",),
        _mail_on_behalf,
        templates=joined(
            (
                "the {title} of {department} has made me a delegate: send {name} a mail on their behalf",
                "i am a delegate of the {title} of {department}, on whose behalf {name} should get a mail",
                "mail {name} on behalf of the {title} of {department}, who made me a delegate",
                "on behalf of the {title} of {department}, whose delegate i am, write to {name} by mail",
            ),
            (
                ", subject {subject}, text {phrase}",
                ": {phrase}, under the subject {subject}",
                ". its subject is {subject} and it says {phrase}",
            ),
        ),
        heldout=joined(
            (
                "{name} is to hear by mail from the {title} of {department}, for whom i may send as a delegate",
                "as delegate of the {title} of {department}, send a mail in their name to {name}",
            ),
            (" ({subject}): {phrase}", "; it is called {subject} and reads {phrase}"),
        ),
    ),
    Family(
        "available_messaged",
        3,
        ("outlook", "teams"),
        _available_messaged,
        templates=joined(
            (
                "{name} names three people in the mail {subject}",
                "in the mail {subject}, {name} says which three people could help",
                "see {name}'s mail {subject} for three people",
                "there are three people in {name}'s {subject} mail",
            ),
            (
                ": write {phrase} in teams to the one who is available now",
                "; whoever of them is available right now gets the message {phrase} in teams",
                ". find out who of them is available at the moment and send that one {phrase} in teams",
            ),
        ),
        heldout=joined(
            (
                "of the three people in the mail {subject} by {name}, only one is available now",
                "{name} wrote me three names under {subject}, one of them is online and free",
            ),
            (": teams message to that one, {phrase}", "; that person should read {phrase} in teams"),
        ),
    ),
    Family(
        "successor_entered",
        4,
        ("outlook", "sharepoint", "word", "teams"),
        _successor_entered,
        templates=joined(
            (
                "{name} mailed under {subject} who follows whom",
                "by {name}'s mail {subject} somebody takes over from somebody",
                "the mail {subject} from {name} says who is followed by whom",
                "see {name}'s {subject} mail on who comes after whom",
            ),
            (
                ": put the new one's id in place of the old one's throughout the {document}, then send the new "
                "one {phrase} in teams",
                "; in the {document}, replace the id of the one who goes by that of the successor, and send the "
                "successor {phrase} in teams",
                ". wherever the {document} has the id of the old one, it must be the successor's, who also gets "
                "{phrase} as a message in teams",
            ),
        ),
        heldout=joined(
            (
                "somebody has a successor, as {name} tells in the mail {subject}",
                "read under {subject} what {name} has to say about a successor",
            ),
            (
                ": bring the {document} up to date, id for id, and greet the successor in teams with {phrase}",
                "; the {document} should name the successor by id instead, everywhere, and the successor should "
                "read {phrase} in teams",
            ),
        ),
    ),
)
