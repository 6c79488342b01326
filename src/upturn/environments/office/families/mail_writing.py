"""Tasks in which mails are written: answers, mails passed on, new ones and drafts."""

from dataclasses import replace

from upturn.environments.office.generation import (
    AMOUNTS,
    CORRECTIONS,
    FINISH,
    REMARKS,
    Draft,
    Family,
    Scene,
    add_lookalikes,
    add_thread,
    agreed,
    call,
    digits,
    letter,
    near,
    phrase,
    refusal,
    topics,
)
from upturn.environments.office.state import Mail, PlainText

_SUBJECTS = ("short note", "for you", "a word on this", "next step", "to keep in mind", "as you asked", "one point")


def _mail(scene: Scene) -> Mail:
    """From somebody about something, with others that look like it."""
    mail = scene.add_mail(scene.people(1)[0], topics(scene.rng, 1)[0], letter(scene.rng, REMARKS))
    add_lookalikes(scene, mail, REMARKS)
    return mail


def _reply(scene: Scene) -> Draft:
    mail, text = _mail(scene), phrase(scene.rng)
    return Draft(
        {"name": mail.sender, "topic": mail.subject, "phrase": f'"{text}"'},
        (
            call("outlook.search", sender=mail.sender, subject=mail.subject),
            *agreed(call("outlook.reply", id=mail.id, body=text)),
            FINISH,
        ),
    )


def _reply_all(scene: Scene) -> Draft:
    mail, text = _mail(scene), phrase(scene.rng)
    others = [each for each in scene.people(4) if each != mail.sender][:3]
    some = scene.rng.randint(1, 2)
    scene.add(replace(mail, to=tuple(sorted((*mail.to, *others[:some]))), cc=tuple(sorted(others[some:]))))
    return Draft(
        {"name": mail.sender, "topic": mail.subject, "phrase": f'"{text}"'},
        (
            call("outlook.search", sender=mail.sender, subject=mail.subject),
            *agreed(call("outlook.reply", id=mail.id, body=text, to_all=True)),
            FINISH,
        ),
    )


def _forward(scene: Scene) -> Draft:
    mail, text = _mail(scene), phrase(scene.rng)
    other = next(each for each in scene.people(2) if each != mail.sender)
    return Draft(
        {"name": mail.sender, "topic": mail.subject, "other": other, "phrase": f'"{text}"'},
        (
            call("outlook.search", sender=mail.sender, subject=mail.subject),
            *agreed(call("outlook.forward", id=mail.id, to=other, body=text)),
            FINISH,
        ),
    )


def _forward_if(scene: Scene) -> Draft:
    """Half of the time the mail is by somebody else, who has to be named then."""
    named, other, third = scene.people(3)
    topic, is_feasible = topics(scene.rng, 1)[0], scene.rng.random() < 0.5
    sender = named if is_feasible else third
    mail = scene.add_mail(sender, topic, letter(scene.rng, AMOUNTS, digits(scene.rng)))
    scene.add_mail(named, near(scene.rng, topic), letter(scene.rng, AMOUNTS, digits(scene.rng)))
    slots = {"name": named, "topic": topic, "other": other}
    look = call("outlook.search", subject=topic)
    if not is_feasible:
        return Draft(slots, (look, refusal(sender)), answer=sender, is_feasible=False)
    return Draft(slots, (look, *agreed(call("outlook.forward", id=mail.id, to=other)), FINISH))


def _send_number(scene: Scene) -> Draft:
    sender, other = scene.people(2)
    topic, number, subject = topics(scene.rng, 1)[0], digits(scene.rng), scene.rng.choice(_SUBJECTS)
    mail = scene.add_mail(sender, topic, letter(scene.rng, AMOUNTS, number))
    add_lookalikes(scene, mail, AMOUNTS)
    return Draft(
        {"name": sender, "topic": topic, "other": other, "subject": f'"{subject}"'},
        (
            call("outlook.search", sender=sender, subject=topic),
            call("outlook.read", id=mail.id),
            *agreed(call("outlook.send", to=other, subject=subject, body=number)),
            FINISH,
        ),
    )


def _draft(scene: Scene) -> Draft:
    sender, other = scene.people(2)
    topic, subject, text = topics(scene.rng, 1)[0], scene.rng.choice(_SUBJECTS), phrase(scene.rng)
    scene.add_mail(sender, topic, letter(scene.rng, REMARKS))
    scene.add_mail(other, near(scene.rng, topic), letter(scene.rng, REMARKS))
    return Draft(
        {"topic": topic, "subject": f'"{subject}"', "phrase": f'"{text}"'},
        (
            call("outlook.search", subject=topic),
            call("outlook.draft", to=sender, subject=subject, body=text),
            FINISH,
        ),
    )


def _send_draft(scene: Scene) -> Draft:
    """Two drafts under one subject, to two people; searches do not show to whom, so that one has to be read,
    after which it is known of both."""
    people, topic = scene.people(2), topics(scene.rng, 1)[0]
    drafts = []
    for person, subject in ((people[0], topic), (people[1], topic), (people[0], near(scene.rng, topic))):
        mail = scene.add_mail(
            scene.workspace.owner, subject, letter(scene.rng, REMARKS), is_read=True, folder="drafts"
        )
        drafts.append(replace(mail, to=(person,)))
    scene.add(*drafts)
    newest = max(drafts[:2], key=lambda mail: (mail.at, mail.id))
    return Draft(
        {"name": people[0], "topic": topic},
        (
            call("outlook.search", subject=topic, folder="drafts"),
            call("outlook.read", id=newest.id),
            *agreed(call("outlook.send", draft=drafts[0].id)),
            FINISH,
        ),
    )


def _attachment(scene: Scene) -> Draft:
    """The mail names a file by its name; the drive has one of that name's beginning too."""
    sender, topic = scene.people(1)[0], topics(scene.rng, 1)[0]
    name = f"{topics(scene.rng, 1)[0]}.txt"
    asks = (f'could you send me "{name}"?', f'i need the file "{name}"', f'please mail "{name}" to me')
    mail = scene.add_mail(sender, topic, letter(scene.rng, asks))
    add_lookalikes(scene, mail, REMARKS)
    folder, further = scene.rng.sample(("/sales", "/design", "/support", "/finance"), 2)
    wanted = scene.add_file(f"{folder}/{name}", PlainText(letter(scene.rng, AMOUNTS, digits(scene.rng))))
    alike = near(scene.rng, name.removesuffix(".txt"))
    for other in (f"{folder}/{alike}.txt", f"{further}/old {name}"):
        scene.add_file(other, PlainText(letter(scene.rng, AMOUNTS, digits(scene.rng))))
    subject, text = scene.rng.choice(_SUBJECTS), phrase(scene.rng)
    return Draft(
        {"name": sender, "topic": topic, "subject": f'"{subject}"', "phrase": f'"{text}"'},
        (
            call("outlook.search", sender=sender, subject=topic),
            call("outlook.read", id=mail.id),
            call("sharepoint.search", query=name),
            *agreed(call("outlook.send", to=sender, subject=subject, body=text, attachments=wanted.id)),
            FINISH,
        ),
    )


def _answer_question(scene: Scene) -> Draft:
    asker, *people = scene.people(4)
    (topic, about), number = topics(scene.rng, 2), digits(scene.rng)
    asks = (
        f"which number do we have for the {about} by now?",
        f"what is the latest number on the {about}?",
        f"i lost the mails on the {about}; what number is it now?",
    )
    question = scene.add_mail(asker, topic, letter(scene.rng, asks))
    add_lookalikes(scene, question, REMARKS)
    turns = [
        (people[0], letter(scene.rng, AMOUNTS, digits(scene.rng))),
        (people[1], letter(scene.rng, CORRECTIONS, number)),
        *((people[2], letter(scene.rng, REMARKS)) for _ in range(scene.rng.randint(0, 2))),
    ]
    mails = add_thread(scene, about, turns)
    scene.add_mail(people[0], near(scene.rng, about), letter(scene.rng, CORRECTIONS, digits(scene.rng)))
    return Draft(
        {"name": asker, "topic": topic},
        (
            call("outlook.search", sender=asker, subject=topic),
            call("outlook.read", id=question.id),
            call("outlook.search", subject=about),
            *(call("outlook.read", id=mail.id) for mail in reversed(mails[1:])),
            *agreed(call("outlook.reply", id=question.id, body=number)),
            FINISH,
        ),
    )


def _reply_each(scene: Scene) -> Draft:
    """To two that were not read yet; one that was, and one on something near, get no answer."""
    people, topic, text = scene.people(4), topics(scene.rng, 1)[0], phrase(scene.rng)
    mails = [scene.add_mail(each, topic, letter(scene.rng, REMARKS)) for each in people[:2]]
    scene.add_mail(people[2], topic, letter(scene.rng, REMARKS), is_read=True)
    scene.add_mail(people[3], near(scene.rng, topic), letter(scene.rng, REMARKS))
    replies = [call("outlook.reply", id=mail.id, body=text) for mail in mails]
    return Draft(
        {"topic": topic, "phrase": f'"{text}"'},
        (
            call("outlook.search", subject=topic, is_unread=True),
            *(step for reply in replies for step in agreed(reply)),
            FINISH,
        ),
    )


FAMILIES = (
    Family(
        "mail_reply",
        2,
        ("outlook",),
        _reply,
        templates=(
            "reply {phrase} to {name}'s {topic} mail",
            "answer {name}'s mail about the {topic} with {phrase}",
            "write {phrase} back to {name} on the {topic}",
            "{name} mailed me about the {topic}: reply {phrase}",
            "respond {phrase} to the {topic} mail from {name}",
            "reply to what {name} sent on the {topic}; the text is {phrase}",
            "the {topic} mail by {name} needs a reply: {phrase}",
            "let {name} know {phrase}, as a reply to the {topic} mail",
            "find the {topic} mail of {name} and answer it with just {phrase}",
            "my answer to {name} under {topic} is {phrase}; send it as a reply",
        ),
        heldout=(
            "send {name} the answer {phrase} to the {topic} mail",
            "{name} is waiting for a word on the {topic}: reply {phrase}",
            "reply to the {topic} mail of {name} by {phrase}",
            "under {topic}, {name} should get the reply {phrase} from me",
        ),
    ),
    Family(
        "mail_reply_all",
        2,
        ("outlook",),
        _reply_all,
        templates=(
            "reply {phrase} to all on {name}'s {topic} mail",
            "answer everybody on the {topic} mail from {name} with {phrase}",
            "reply to {name}'s mail about {topic} with {phrase}, so that all who got it see the answer",
            "reply all to the {topic} mail by {name}: {phrase}",
            "let {name} and all the others on the {topic} mail know {phrase}, as a reply",
            "{name} mailed several of us about {topic}; reply {phrase} to all of them",
            "send the answer {phrase} to everyone on {name}'s mail about {topic}",
            "use reply to all on the mail {topic} from {name} and write {phrase}",
            "everybody who got {name}'s {topic} mail should get my reply {phrase}",
            "respond with {phrase} to the {topic} mail of {name}, to all of its readers",
        ),
        heldout=(
            "write {phrase} back to the whole round of {name}'s {topic} mail",
            "on the {topic} mail from {name}, reply {phrase} to everybody and not to {name} alone",
            "my reply to all on {name}'s mail {topic} is {phrase}",
            "answer the {topic} mail by {name} with {phrase} and include everyone who got it",
        ),
    ),
    Family(
        "mail_forward",
        2,
        ("outlook",),
        _forward,
        templates=(
            "forward {name}'s mail about {topic} to {other} with the words {phrase}",
            "pass the {topic} mail from {name} on to {other} and write {phrase} above it",
            "send {name}'s {topic} mail on to {other}; add {phrase}",
            "forward to {other} what {name} sent on {topic}, with {phrase} on top",
            "{other} should see the mail about {topic} from {name}: forward it with {phrase}",
            "find the mail {topic} by {name} and forward it to {other}, saying {phrase}",
            "forward the {topic} mail that {name} wrote, to {other}, with the note {phrase}",
            "let {other} have {name}'s {topic} mail, forwarded with {phrase}",
            "with the note {phrase}, forward {name}'s mail on {topic} to {other}",
            "the {topic} mail of {name} goes on to {other}, with {phrase} written above",
        ),
        heldout=(
            "give {other} a forward of {name}'s {topic} mail and put {phrase} above",
            "add {phrase} to {name}'s {topic} mail and forward it to {other}",
            "get {name}'s mail on {topic} to {other} by forwarding it, with {phrase}",
            "to {other}: forward the {topic} mail from {name}, note {phrase}",
        ),
    ),
    Family(
        "mail_forward_if",
        2,
        ("outlook",),
        _forward_if,
        templates=(
            "forward the {topic} mail to {other} if it is from {name}; if not, refuse with just the id of its "
            "sender",
            "if {name} sent the mail about {topic}, forward it to {other} as it is; otherwise refuse, giving only "
            "the sender's id",
            "the {topic} mail goes to {other}, but only when {name} wrote it; if somebody else did, refuse with "
            "that id alone",
            "forward {name}'s {topic} mail to {other} with no words of mine; should it be from another person, "
            "refuse and give only that id",
            "check that the mail on {topic} is by {name} and forward it to {other}; if it is not, leave it and "
            "refuse with the id of who sent it",
            "pass the mail about {topic} on to {other}, without a note; refuse with only the sender's id if that "
            "is not {name}",
            "i think {name} mailed me about {topic}: forward that to {other}; if i am wrong, refuse with the "
            "right id and nothing else",
            "send the {topic} mail on to {other} in case it came from {name}; else refuse with the id it came from",
            "forward the mail with the subject {topic} to {other}, provided {name} is its sender; if not, refuse "
            "by naming the sender's id only",
            "to {other}, forward what {name} wrote about {topic}; if somebody else wrote it, refuse with just "
            "that id",
        ),
        heldout=(
            "see whether the {topic} mail is from {name}: if so, forward it to {other}; if not, refuse with "
            "nothing but the sender's id",
            "forward {topic} to {other} as long as {name} sent it, else refuse and say only who did, by id",
            "{other} needs the {topic} mail by {name}, forwarded plainly; if its sender is another, refuse with "
            "that id only",
            "unless somebody other than {name} sent it, forward the {topic} mail to {other}; in that case refuse "
            "with the id of the sender only",
        ),
    ),
    Family(
        "mail_send_number",
        2,
        ("outlook",),
        _send_number,
        templates=(
            "send {other} a mail with the subject {subject} and just the number from {name}'s {topic} mail",
            "mail {other} the number that {name} gives in the {topic} mail; subject {subject}, no other text",
            "look up the number in {name}'s mail on {topic} and send it alone to {other} under {subject}",
            "{other} needs the number from {name}'s {topic} mail: send just that, with the subject {subject}",
            "write a new mail to {other}, subject {subject}, text only the number {name} sent about {topic}",
            "take the number out of the {topic} mail by {name} and mail it to {other} as {subject}, nothing else "
            "in the text",
            "send a mail called {subject} to {other}; its text is the number that is in {name}'s mail {topic}",
            "let {other} have the number of {name}'s {topic} mail, in a new mail with the subject {subject} and "
            "no other words",
            "under the subject {subject}, mail {other} only the number {name} mentions in {topic}",
            "find the number in the mail about {topic} from {name}, then mail {other} the bare number, subject "
            "{subject}",
        ),
        heldout=(
            "a new mail to {other}, please: subject {subject}, text the number in {name}'s {topic} mail and no "
            "more",
            "get {other} the number {name} wrote under {topic}; mail it bare, with the subject {subject}",
            "what number does {name} give in {topic}? mail it, just the number, to {other} as {subject}",
            "with {subject} as the subject, send {other} nothing but the number from the {topic} mail of {name}",
        ),
    ),
    Family(
        "mail_draft",
        1,
        ("outlook",),
        _draft,
        templates=(
            "draft a mail to whoever sent me the {topic} mail: subject {subject}, text {phrase}; do not send it",
            "write a draft with the subject {subject} and the text {phrase} to the sender of the {topic} mail",
            "prepare, but do not send, a new mail to the one who wrote about {topic}: {subject} as subject, "
            "{phrase} as text",
            "see who the mail on {topic} is from and leave a draft for them, subject {subject}, text {phrase}",
            "i want a draft to the author of {topic}, with the subject {subject} and {phrase} in it",
            "make a draft called {subject}, saying {phrase}, to the person behind the {topic} mail",
            "whoever mailed me about {topic} is to get {phrase} under {subject} later; only draft it",
            "draft to the sender of {topic}, subject {subject}, and write just {phrase}",
            "put a mail with subject {subject} and text {phrase} into my drafts, to whoever sent {topic}",
            "find out who wrote me on {topic} and draft them a new mail: subject {subject}, text {phrase}",
        ),
        heldout=(
            "save a draft for the sender of the {topic} mail; it is called {subject} and says {phrase}",
            "a draft to the writer of {topic}: subject {subject}, text {phrase}, not sent yet",
            "set up an unsent mail to the one who mailed about {topic}, with {subject} above and {phrase} inside",
            "let there be a draft, subject {subject} and text {phrase}, for the person who sent {topic}",
        ),
    ),
    Family(
        "mail_send_draft",
        2,
        ("outlook",),
        _send_draft,
        templates=(
            "send the draft about {topic} that is for {name}",
            "in my drafts is a mail to {name} on {topic}; send it as it is",
            "the {topic} draft to {name} can go out",
            "send off my draft to {name} with the subject {topic}",
            "find the draft for {name} on {topic} and send it unchanged",
            "i finished the mail to {name} about {topic} in the drafts; send that one",
            "out of my drafts, send the one on {topic} that goes to {name}",
            "send {name} the mail on {topic} that i have in my drafts",
            "my draft about {topic}, the one addressed to {name}, is ready: send it",
            "send what i drafted to {name} under {topic}",
        ),
        heldout=(
            "let the draft to {name} about {topic} be sent",
            "of the {topic} drafts, the one for {name} is to be sent now",
            "get my {topic} mail to {name} out of the drafts and on its way",
            "{name} should get the {topic} mail that waits in my drafts",
        ),
    ),
    Family(
        "mail_attachment",
        3,
        ("outlook", "sharepoint"),
        _attachment,
        templates=(
            "{name} asks for a file in the {topic} mail; send it in a new mail with the subject {subject} and the "
            "text {phrase}",
            "see which file {name} wants in the {topic} mail and mail it to {name}: subject {subject}, text "
            "{phrase}",
            "send {name} the file that the {topic} mail asks for, attached to a new mail {subject} saying {phrase}",
            "find the file {name} asked for under {topic} on the drive and send it to {name} as an attachment, "
            "with subject {subject} and text {phrase}",
            "a new mail to {name} is needed, subject {subject}, text {phrase}, with the file from the {topic} "
            "mail's request attached",
            "{name} wants a file, by the mail about {topic}; attach that file to a new mail {subject} to {name} "
            "with the words {phrase}",
            "read {name}'s mail on {topic}, get the file it names and send it back in a new mail: subject "
            "{subject}, text {phrase}",
            "mail {name} the file requested in {topic}; the subject of the new mail is {subject}, the text "
            "{phrase}",
            "do what {name}'s {topic} mail asks: send the file, in a new mail titled {subject} with the text "
            "{phrase}",
            "with the subject {subject} and the text {phrase}, send {name} a new mail that has the file asked for "
            "in {topic} attached",
        ),
        heldout=(
            "the file that {name} is missing, as the {topic} mail says, should go to {name} in a new mail: "
            "subject {subject}, text {phrase}",
            "look up what file {name} requests in {topic} and attach it to a new mail to {name} called {subject}, "
            "text {phrase}",
            "get {name} the file from the {topic} request; new mail, subject {subject}, text {phrase}",
            "{name} mailed about {topic} because of a file: send it, attached to {subject} with {phrase} as text",
        ),
    ),
    Family(
        "mail_answer_question",
        3,
        ("outlook",),
        _answer_question,
        templates=(
            "{name} asks for a number in the {topic} mail; find the newest one in my mail and reply with just that",
            "answer {name}'s question in the {topic} mail by a reply with only the number; the last one given "
            "counts",
            "look up in my mail what {name} wants to know under {topic} and reply with the bare number, the latest",
            "reply to {name}'s {topic} mail with the number that is asked for, as it was last corrected, and "
            "nothing else",
            "in {topic}, {name} wants a number that stands in my mail; reply with the number as it is now, no "
            "words",
            "{name} needs an answer to the {topic} mail: the number asked for, the most recent, and only that",
            "see what number {name} asks about in the {topic} mail, find its last value in my mail and reply just "
            "that number",
            "read the question in {name}'s {topic} mail and reply with the latest number my mail has on it, alone",
            "give {name} the number asked for under {topic}, as a reply; take the newest one and write nothing "
            "more",
            "the {topic} mail from {name} is a question; the answer is the last number in my mail on that, reply "
            "with it only",
        ),
        heldout=(
            "reply to the question {name} has in {topic} with the number that now holds, digits only",
            "{name} would like to know a number, see {topic}; find the valid one in my mail and send it as the "
            "whole reply",
            "answer {topic} from {name}: just the number asked for, in its latest state by my mail",
            "what {name} asks in the {topic} mail was settled by mail; reply with that last number and no other "
            "text",
        ),
    ),
    Family(
        "mail_reply_each",
        3,
        ("outlook",),
        _reply_each,
        templates=(
            "reply {phrase} to every unread mail about {topic}",
            "answer each mail on {topic} that i have not read with {phrase}",
            "all unread mails under {topic} get the reply {phrase}, one by one",
            "find the unread {topic} mails and reply {phrase} to each of them",
            "whoever sent me a {topic} mail that is still unread should get the reply {phrase}",
            "for each unread mail with the subject {topic}, send the reply {phrase}",
            "i did not read some mails about {topic}; reply {phrase} to those, every one",
            "send {phrase} as a reply to all the unread mails on {topic}, to each separately",
            "go through what is unread about {topic} and answer every mail of it with {phrase}",
            "the mails on {topic} that are unread all need my reply {phrase}",
        ),
        heldout=(
            "each unread mail on {topic} is to be answered {phrase}",
            "reply to the unread ones among the {topic} mails, all of them, with {phrase}",
            "let every sender of an unread {topic} mail have {phrase} as my reply",
            "where a mail about {topic} is unread, reply {phrase} to it",
        ),
    ),
)
