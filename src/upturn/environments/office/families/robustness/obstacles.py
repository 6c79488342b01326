"""Tasks that may lack something: a right, a file, a mail, or a clear reference.

The agent must find out: the same phrasings are used where nothing is missing.
"""

from collections import Counter

from upturn.environments.office.generation import (
    DOCUMENTS,
    NOTES,
    PHRASES,
    TOPICS,
    Draft,
    Family,
    Look,
    Obstacle,
    Scene,
    TaskFile,
    add_document,
    call,
    find_file,
    open_mail,
    with_agreement,
)
from upturn.environments.office.state import Document, Paragraph, Right

_MEANT = ("i mean {}", "{}", "it is {}", "{}, i should have said")
EVENTS = ("budget talk", "tour of the plant", "phone call", "vendor visit", "board lunch")


def _others_document(scene: Scene, right: Right, *, is_mine: bool = False) -> TaskFile:
    """A document that everybody has this right to, owned by the workspace's owner or another person."""
    owner = None if is_mine else scene.person()
    return add_document(scene, Paragraph(scene.rng.choice(NOTES)), owner=owner, rights={"everyone": right})


def _owned_by(owner: str, id_: str) -> Obstacle:
    """A missing right to a file; its owner is shown by its permissions, a listing, or a refused call."""
    return Obstacle("right", (Look("sharepoint", (id_,), (owner,)), Look("word", (id_,), (owner,))))


def _right_to_edit(scene: Scene) -> Draft:
    is_feasible = scene.rng.random() < 0.5
    document, text = _others_document(scene, "edit" if is_feasible else "read"), scene.rng.choice(NOTES)
    owner, id_ = document.file.owner, document.file.id
    look = (find_file(document.name), call("sharepoint.show_permissions", id=id_))
    slots = {"document": document.name, "text": f'"{text}"'}
    if not is_feasible:
        text = f"only {owner} may write there"
        return Draft.with_refusal(slots, owner, *look, text=text, obstacle=_owned_by(owner, id_))
    return Draft.with_finish(slots, *look, call("word.insert_text", id=id_, text=text))


def _right_to_share(scene: Scene) -> Draft:
    is_feasible = scene.rng.random() < 0.5
    document = _others_document(scene, "read", is_mine=is_feasible)
    owner, id_ = document.file.owner, document.file.id
    person = next(other for other in scene.people(2) if other != owner)
    look = (find_file(document.name), call("sharepoint.show_permissions", id=id_))
    slots = {"document": document.name, "name": person}
    if not is_feasible:
        text = f"the document is {owner}'s to share"
        return Draft.with_refusal(slots, owner, *look, text=text, obstacle=_owned_by(owner, id_))
    share = call("sharepoint.set_permissions", id=id_, people=[person], right="edit")
    return Draft.with_finish(slots, *look, *with_agreement(share))


def _file_wanted(scene: Scene) -> Draft:
    rng, sender, topic = scene.rng, scene.person(), scene.rng.choice(TOPICS)
    name, subject, is_feasible = rng.choice(DOCUMENTS), f"{topic} file", rng.random() < 0.5
    content = Document((Paragraph(name, "title"),))
    names = (name, f"{name} notes") if is_feasible else (f"{name} notes", f"draft of {name}")
    files = [scene.add_file(f"/shared/{file_name}.docx", content) for file_name in names]
    texts = ('could you send me "{}.docx"?', 'i need the file "{}.docx", please', '"{}.docx" is what i lack')
    mail = scene.add_mail(sender, f"{topic} wish", rng.choice(texts).format(name))
    send = call("outlook.send", to=[sender], subject=subject, body="attached", attachments=[files[0].id])
    look = (*open_mail(mail), find_file(f"{name}.docx"))
    slots = {"name": sender, "topic": f'"{topic} wish"', "subject": f'"{subject}"', "text": '"attached"'}
    if not is_feasible:
        looks = (Look("sharepoint", (name,)), Look("sharepoint", (), (files[0].id, files[1].id)))
        text, obstacle = f"there is no {name}.docx", Obstacle("missing", looks)
        return Draft.with_refusal(slots, f"{name}.docx", *look, text=text, obstacle=obstacle)
    return Draft.with_finish(slots, *look, *with_agreement(send))


def _waiting_person(scene: Scene) -> Draft:
    rng, is_feasible = scene.rng, scene.rng.random() < 0.5
    sender, waiting, *others = scene.people(4)
    topic, phrase = rng.choice(TOPICS), rng.choice(PHRASES)
    texts = ("{} is still waiting for you, {} is not", "i spoke to {}, who waits for your answer; {} has one")
    mail = scene.add_mail(sender, f"{topic} reminder", rng.choice(texts).format(waiting, others[0]))
    questions = [scene.add_mail(other, f"{topic} question", "what do you say?") for other in others]
    look = (*open_mail(mail), call("outlook.search", sender=waiting, subject=f"{topic} question"))
    slots = {"name": sender, "reminder": f'"{topic} reminder"', "topic": f'"{topic} question"'}
    slots["phrase"] = f'"{phrase}"'
    if not is_feasible:
        scene.add_mail(waiting, f"{topic} pictures", "see below")
        text = f"there is no such mail by {waiting}"
        looks = (Look("outlook", (waiting,)), Look("outlook", (), tuple(mail.id for mail in questions)))
        return Draft.with_refusal(slots, waiting, *look, text=text, obstacle=Obstacle("missing", looks))
    question = scene.add_mail(waiting, f"{topic} question", "what do you say?")
    return Draft.with_finish(slots, *look, *with_agreement(call("outlook.reply", id=question.id, body=phrase)))


def _one_of_a_name(scene: Scene) -> Draft:
    rng, topic, phrase = scene.rng, scene.rng.choice(TOPICS), scene.rng.choice(PHRASES)
    people = scene.people(len(scene.workspace.people) - 1)
    counts = Counter(person.split(".")[0] for person in people)
    first = rng.choice([name for name, count in counts.items() if count > 1])
    one, other = [person for person in people if person.startswith(f"{first}.")][:2]
    is_clear = rng.random() < 0.4
    mail = scene.add_mail(one, f"{topic} question", "what do you say?")
    scene.add_mail(other, f"{topic} {'answer' if is_clear else 'question'}", "and what do you say?")
    scene.add_mail(
        next(person for person in people if not person.startswith(f"{first}.")), f"{topic} question", "and you?"
    )
    return Draft.with_finish(
        {"first": first, "topic": f'"{topic} question"', "phrase": f'"{phrase}"'},
        call("outlook.search", subject=f"{topic} question"),
        *(() if is_clear else (call("user.ask", text=f"which {first} do you mean?"),)),
        *with_agreement(call("outlook.reply", id=mail.id, body=phrase)),
        clarification="" if is_clear else rng.choice(_MEANT).format(one),
    )


def _one_of_two_events(scene: Scene) -> Draft:
    rng, title, day = scene.rng, scene.rng.choice(EVENTS), scene.day()
    hours = rng.sample(range(9, 17), 2)
    is_clear = rng.random() < 0.4
    titles = (title, next(event for event in EVENTS if event != title) if is_clear else title)
    events = [
        scene.add_event(event_title, f"{day} {hour:02d}:00", people=scene.people(2))
        for event_title, hour in zip(titles, hours, strict=True)
    ]
    return Draft.with_finish(
        {"title": f'"{title}"', "day": day},
        call("calendar.list", day=day, title=title),
        *(() if is_clear else (call("user.ask", text="there are two of them: which one?"),)),
        *with_agreement(call("calendar.cancel", id=events[0].id)),
        clarification="" if is_clear else rng.choice(_MEANT).format(events[0].start[11:]),
    )


FAMILIES = (
    Family("document_right_missing", 2, ("sharepoint", "word"), _right_to_edit),
    Family("share_right_missing", 2, ("sharepoint",), _right_to_share),
    Family("wanted_file_missing", 3, ("outlook", "sharepoint"), _file_wanted),
    Family("awaited_mail_missing", 3, ("outlook",), _waiting_person),
    Family("one_of_a_name", 2, ("outlook",), _one_of_a_name),
    Family("one_of_two_events", 2, ("calendar",), _one_of_two_events),
)
