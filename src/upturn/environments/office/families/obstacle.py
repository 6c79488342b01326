"""Tasks in which something is missing: a right, a file, a mail, or a word that would make them clear.

Whether they can be done, or are clear, is to be found out: the same words are said where nothing is missing.
"""

from collections import Counter

from upturn.environments.office.families.cross_app import found
from upturn.environments.office.generation import (
    DOCUMENTS,
    FINISH,
    NOTES,
    PHRASES,
    TOPICS,
    Draft,
    Family,
    Scene,
    TaskFile,
    add_document,
    agreed,
    call,
    joined,
    refusal,
)
from upturn.environments.office.state import Document, Paragraph, Right

_MEANT = ("i mean {}", "{}", "it is {}", "{}, i should have said")
EVENTS = ("budget talk", "tour of the plant", "phone call", "vendor visit", "board lunch")


def _others_document(scene: Scene, right: Right, *, is_mine: bool = False) -> TaskFile:
    """A document that everybody has this right to; somebody else's, or the owner's."""
    owner = None if is_mine else scene.people(1)[0]
    return add_document(scene, Paragraph(scene.rng.choice(NOTES)), owner=owner, rights={"everyone": right})


def _right_to_edit(scene: Scene) -> Draft:
    is_feasible = scene.rng.random() < 0.5
    document, text = _others_document(scene, "edit" if is_feasible else "read"), scene.rng.choice(NOTES)
    owner, id_ = document.file.owner, document.file.id
    look = (found(document.name), call("sharepoint.show_permissions", id=id_))
    done = (call("word.insert_text", id=id_, text=text), FINISH)
    return Draft(
        {"document": document.name, "text": f'"{text}"'},
        (*look, *(done if is_feasible else (refusal(f"only {owner} may write there"),))),
        answer=None if is_feasible else owner,
        is_feasible=is_feasible,
    )


def _right_to_share(scene: Scene) -> Draft:
    is_feasible = scene.rng.random() < 0.5
    document = _others_document(scene, "read", is_mine=is_feasible)
    owner, id_ = document.file.owner, document.file.id
    person = next(each for each in scene.people(2) if each != owner)
    look = (found(document.name), call("sharepoint.show_permissions", id=id_))
    done = (*agreed(call("sharepoint.set_permissions", id=id_, people=[person], right="edit")), FINISH)
    return Draft(
        {"document": document.name, "name": person},
        (*look, *(done if is_feasible else (refusal(f"the document is {owner}'s to share"),))),
        answer=None if is_feasible else owner,
        is_feasible=is_feasible,
    )


def _file_wanted(scene: Scene) -> Draft:
    rng, sender, topic = scene.rng, scene.people(1)[0], scene.rng.choice(TOPICS)
    name, subject, is_feasible = rng.choice(DOCUMENTS), f"{topic} file", rng.random() < 0.5
    content = Document((Paragraph(name, "title"),))
    names = (name, f"{name} notes") if is_feasible else (f"{name} notes", f"draft of {name}")
    files = [scene.add_file(f"/shared/{each}.docx", content) for each in names]
    texts = ('could you send me "{}.docx"?', 'i need the file "{}.docx", please', '"{}.docx" is what i lack')
    mail = scene.add_mail(sender, f"{topic} wish", rng.choice(texts).format(name))
    send = call("outlook.send", to=[sender], subject=subject, body="attached", attachments=[files[0].id])
    look = (
        call("outlook.search", sender=sender, subject=f"{topic} wish"),
        call("outlook.read", id=mail.id),
        found(f"{name}.docx"),
    )
    done = (*agreed(send), FINISH)
    return Draft(
        {"name": sender, "topic": f'"{topic} wish"', "subject": f'"{subject}"', "text": '"attached"'},
        (*look, *(done if is_feasible else (refusal(f"there is no {name}.docx"),))),
        answer=None if is_feasible else f"{name}.docx",
        is_feasible=is_feasible,
    )


def _waiting_person(scene: Scene) -> Draft:
    rng, is_feasible = scene.rng, scene.rng.random() < 0.5
    sender, waiting, *others = scene.people(4)
    topic, phrase = rng.choice(TOPICS), rng.choice(PHRASES)
    texts = ("{} is still waiting for you, {} is not", "i spoke to {}, who waits for your answer; {} has one")
    mail = scene.add_mail(sender, f"{topic} reminder", rng.choice(texts).format(waiting, others[0]))
    question = {each: scene.add_mail(each, f"{topic} question", "what do you say?") for each in others}
    if is_feasible:
        question[waiting] = scene.add_mail(waiting, f"{topic} question", "what do you say?")
    else:
        scene.add_mail(waiting, f"{topic} pictures", "see below")
    look = (
        call("outlook.search", sender=sender, subject=f"{topic} reminder"),
        call("outlook.read", id=mail.id),
        call("outlook.search", sender=waiting, subject=f"{topic} question"),
    )
    done = (*agreed(call("outlook.reply", id=question[waiting].id, body=phrase)), FINISH) if is_feasible else ()
    return Draft(
        {
            "name": sender,
            "reminder": f'"{topic} reminder"',
            "topic": f'"{topic} question"',
            "phrase": f'"{phrase}"',
        },
        (*look, *(done or (refusal(f"there is no such mail by {waiting}"),))),
        answer=None if is_feasible else waiting,
        is_feasible=is_feasible,
    )


def _one_of_a_name(scene: Scene) -> Draft:
    rng, topic, phrase = scene.rng, scene.rng.choice(TOPICS), scene.rng.choice(PHRASES)
    people = scene.people(len(scene.workspace.people) - 1)
    counts = Counter(each.split(".")[0] for each in people)
    first = rng.choice([name for name, count in counts.items() if count > 1])
    one, other = [each for each in people if each.startswith(f"{first}.")][:2]
    is_clear = rng.random() < 0.4
    mail = scene.add_mail(one, f"{topic} question", "what do you say?")
    scene.add_mail(other, f"{topic} {'answer' if is_clear else 'question'}", "and what do you say?")
    scene.add_mail(
        next(each for each in people if not each.startswith(f"{first}.")), f"{topic} question", "and you?"
    )
    return Draft(
        {"first": first, "topic": f'"{topic} question"', "phrase": f'"{phrase}"'},
        (
            call("outlook.search", subject=f"{topic} question"),
            *(() if is_clear else (call("user.ask", text=f"which {first} do you mean?"),)),
            *agreed(call("outlook.reply", id=mail.id, body=phrase)),
            FINISH,
        ),
        clarification="" if is_clear else rng.choice(_MEANT).format(one),
    )


def _one_of_two_events(scene: Scene) -> Draft:
    rng, title, day = scene.rng, scene.rng.choice(EVENTS), scene.day()
    hours = rng.sample(range(9, 17), 2)
    is_clear = rng.random() < 0.4
    titles = (title, next(each for each in EVENTS if each != title) if is_clear else title)
    events = [
        scene.add_event(each, f"{day} {hour:02d}:00", people=scene.people(2))
        for each, hour in zip(titles, hours, strict=True)
    ]
    return Draft(
        {"title": f'"{title}"', "day": day},
        (
            call("calendar.list", day=day, title=title),
            *(() if is_clear else (call("user.ask", text="there are two of them: which one?"),)),
            *agreed(call("calendar.cancel", id=events[0].id)),
            FINISH,
        ),
        clarification="" if is_clear else rng.choice(_MEANT).format(events[0].start[11:]),
    )


FAMILIES = (
    Family(
        "document_right_missing",
        2,
        ("sharepoint", "word"),
        _right_to_edit,
        templates=(
            "add the paragraph {text} at the end of the {document}",
            "append the paragraph {text} to the {document}",
            "the {document} needs a last paragraph: {text}",
            "write {text} as a new paragraph at the end of the {document}",
            "put {text} into the {document}, as its last paragraph",
            "end the {document} with the paragraph {text}",
            "the {document} should say {text} in a paragraph at the end",
            "please extend the {document} by a paragraph {text}, at the end",
            "insert {text} after the last paragraph of the {document}",
            "in the {document}, add {text} at the very end as a paragraph",
        ),
        heldout=(
            "let the {document} close with a paragraph {text}",
            "one more paragraph for the {document}, at its end: {text}",
            "after everything else in the {document}, there should be a paragraph {text}",
            "the paragraph {text} is missing at the end of the {document}, add it",
        ),
    ),
    Family(
        "share_right_missing",
        2,
        ("sharepoint",),
        _right_to_share,
        templates=(
            "let {name} edit the {document}",
            "give {name} the right to edit the {document}",
            "{name} should be able to edit the {document}",
            "share the {document} with {name}, who is to edit it",
            "make {name} an editor of the {document}",
            "allow {name} to edit the {document}",
            "{name} needs edit rights on the {document}",
            "set the permissions of the {document} so that {name} can edit it",
            "grant {name} editing of the {document}",
            "{name} will work on the {document}: give edit rights",
        ),
        heldout=(
            "open the {document} to {name} for editing",
            "the {document} is for {name} to edit too, set that",
            "see to it that {name} has the edit right on the {document}",
            "edit rights for {name} on the {document}",
        ),
    ),
    Family(
        "wanted_file_missing",
        3,
        ("outlook", "sharepoint"),
        _file_wanted,
        templates=joined(
            (
                "{name} asks for a file in the {topic} mail",
                "in the {topic} mail {name} wants a file",
                "see which file {name} needs, in the {topic} mail",
                "{name}'s {topic} mail asks for a file",
            ),
            (
                ": send exactly that file as an attachment, subject {subject}, text {text}",
                "; mail it to {name} as an attachment, under {subject}, saying {text}",
                ". attach that very file to a new mail to {name}, subject {subject}, body {text}",
            ),
        ),
        heldout=joined(
            (
                "send {name} the file that the {topic} mail asks for",
                "{name} would like a file, see the {topic} mail; send it",
            ),
            (
                " attached to a mail {subject} that says {text}",
                ", as an attachment, subject {subject} and body {text}",
            ),
        ),
    ),
    Family(
        "awaited_mail_missing",
        3,
        ("outlook",),
        _waiting_person,
        templates=joined(
            (
                "{name}'s {reminder} mail says who is waiting for my answer",
                "by {name}'s mail {reminder}, somebody waits for an answer of mine",
                "in the {reminder} mail {name} tells me who still needs an answer",
                "look in {name}'s {reminder} mail for who waits to hear from me",
            ),
            (
                "; reply {phrase} to that person's {topic} mail",
                ": answer the {topic} mail of that person with {phrase}",
                ". find the {topic} mail by them and reply {phrase}",
            ),
        ),
        heldout=joined(
            (
                "somebody waits for me, {name} names them in the {reminder} mail",
                "who still waits for me is in the {reminder} mail by {name}",
            ),
            (
                ": to the {topic} mail of that person, reply {phrase}",
                "; their {topic} mail gets the reply {phrase}",
            ),
        ),
    ),
    Family(
        "one_of_a_name",
        2,
        ("outlook",),
        _one_of_a_name,
        templates=(
            "reply {phrase} to {first}'s {topic} mail",
            "answer {first}'s {topic} mail with {phrase}",
            "write {phrase} back to {first} on the {topic} mail",
            "{first} sent the {topic} mail: reply {phrase}",
            "respond {phrase} to the {topic} mail from {first}",
            "the {topic} mail by {first} needs a reply: {phrase}",
            "please let {first} know {phrase}, as a reply to the {topic} mail",
            "tell {first} {phrase}, in reply to the {topic} mail",
            "say {phrase} to {first} as an answer to the {topic} mail",
            "i have the {topic} mail from {first}; my reply is {phrase}",
        ),
        heldout=(
            "{first} waits for a reply to the {topic} mail: {phrase}",
            "send {phrase} as the answer to the {topic} mail of {first}",
            "{first}'s mail, the {topic} one: reply with {phrase}",
            "my answer to the {topic} mail by {first} is {phrase}, send it",
        ),
    ),
    Family(
        "one_of_two_events",
        2,
        ("calendar",),
        _one_of_two_events,
        templates=(
            "cancel the {title} on {day}",
            "call off the {title} on {day}",
            "the {title} on {day} is off, cancel it",
            "on {day}, cancel the {title}",
            "please cancel {title}, {day}",
            "we do not need the {title} on {day}: cancel it",
            "the {title} of {day} has to be cancelled",
            "cancel my {title} on {day}",
            "remove the {title} on {day} by cancelling it",
            "i cannot make the {title} on {day}, cancel it",
        ),
        heldout=(
            "no {title} on {day}: cancel that event",
            "let the {title} on {day} be cancelled",
            "{day}: the {title} will not take place, cancel it",
            "the {title} i planned for {day} should be cancelled",
        ),
    ),
)
