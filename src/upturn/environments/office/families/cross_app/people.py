"""Tasks about people: by role, by presence, delegates and successors."""

from collections import Counter
from dataclasses import replace

from upturn.environments.office.apps import presence
from upturn.environments.office.generation import (
    Draft,
    Family,
    Scene,
    add_contacts,
    call,
    find_file,
    open_mail,
    send_by_chat_id,
    with_agreement,
)
from upturn.environments.office.state import Person


def _sole_holders(scene: Scene) -> list[Person]:
    """Two people with unique titles in their departments, not the owner, in random order."""
    people = scene.workspace.people.values()
    counts = Counter((person.title, person.department) for person in people)
    sole = [
        person
        for person in people
        if counts[person.title, person.department] == 1 and person.id != scene.workspace.owner
    ]
    return scene.rng.sample(sole, 2)


def _mail_on_behalf(scene: Scene) -> Draft:
    """The owner is also a delegate of somebody else."""
    principal, other = _sole_holders(scene)
    scene.add(*(replace(person, delegates=(scene.workspace.owner,)) for person in (principal, other)))
    receiver = next(person for person in scene.people(3) if person not in (principal.id, other.id))
    subject, text = scene.words.topic(), scene.words.phrase()
    send = call("outlook.send", to=[receiver], subject=subject, body=text, on_behalf_of=principal.id)
    return Draft.with_finish(
        {
            **{"title": principal.title, "department": principal.department},
            **{"name": receiver, "subject": f'"{subject}"', "phrase": f'"{text}"'},
        },
        call("outlook.find_people", department=principal.department, title=principal.title),
        *with_agreement(send),
    )


def _available_messaged(scene: Scene) -> Draft:
    """One of the three people in the mail is available, at any position."""
    rng, (sender, other, *people) = scene.rng, scene.people(39)
    available, *rest = sorted(people, key=lambda person: presence(scene.workspace, person) != "available")
    three = rng.sample([available, *rest[-2:]], 3)
    topic, text = scene.words.topic(), scene.words.phrase()
    texts = (
        "{}, {} or {} can help you with it",
        "this is for {}, {} or {} to say",
        "{}, {} and {} all know enough; one of them will do",
    )
    mail = scene.add_mail(sender, topic, rng.choice(texts).format(*three))
    for other_sender, subject in ((other, topic), (sender, scene.words.similar(topic))):
        scene.add_mail(other_sender, subject, rng.choice(texts).format(*rng.sample(people, 3)))
    return Draft.with_finish(
        {"name": sender, "subject": f'"{topic}"', "phrase": f'"{text}"'},
        *open_mail(mail),
        call("teams.show_presence", people=[*three]),
        *with_agreement(call("teams.send_message", to=available, text=text)),
        also=send_by_chat_id(scene, available, text),
    )


def _successor_entered(scene: Scene) -> Draft:
    rng, (successor, other_role) = scene.rng, _sole_holders(scene)
    old, sender, other = [person for person in scene.people(5) if person not in (successor.id, other_role.id)][:3]
    topic, text = scene.words.topic(), scene.words.phrase()
    document = add_contacts(scene, old, successor.id)
    texts = (
        "from now on the {title} of {department} does what {old} did",
        "{old} is leaving us; the {title} of {department} follows",
        "all that {old} had is with the {title} of {department} now",
    )

    def announcement(role: Person) -> str:
        return rng.choice(texts).format(title=role.title, department=role.department, old=old)

    mail = scene.add_mail(sender, topic, announcement(successor))
    scene.add_mail(other, topic, f"i have heard that {announcement(other_role)}")
    return Draft.with_finish(
        {"name": sender, "subject": f'"{topic}"', "document": document.name, "phrase": f'"{text}"'},
        *open_mail(mail),
        call("outlook.find_people", department=successor.department, title=successor.title),
        find_file(document.name),
        call("word.find_replace", id=document.file.id, find=old, replace=successor.id),
        *with_agreement(call("teams.send_message", to=successor.id, text=text)),
        also=send_by_chat_id(scene, successor.id, text),
    )


FAMILIES = (
    Family("mail_on_behalf", 2, ("outlook",), _mail_on_behalf),
    Family("available_messaged", 3, ("outlook", "teams"), _available_messaged),
    Family("successor_entered", 4, ("outlook", "sharepoint", "word", "teams"), _successor_entered),
)
