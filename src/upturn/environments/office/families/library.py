"""Tasks in the shared library: files that move, are copied, go, or become what they were, and pages of its site."""

from dataclasses import replace

from upturn.environments.office.families.cross_app import found, posted
from upturn.environments.office.generation import (
    CITIES,
    DECKS,
    DOCUMENTS,
    FINISH,
    FOLDERS,
    NOTES,
    Draft,
    Family,
    Scene,
    add_deck,
    add_document,
    agreed,
    call,
    digits,
    joined,
    new_channels,
    phrase,
    sayings,
    topics,
)
from upturn.environments.office.state import Content, Deck, Document, Paragraph, PlainText, Slide, Version

_TEXTS = ("door codes", "phone list", "packing list", "opening hours", "shift notes", "seat plan")
"""Names of plain texts."""


def _folder(scene: Scene) -> str:
    """One that base profiles do not have."""
    return f"/{scene.rng.choice(FOLDERS)}/{scene.rng.choice(CITIES)}"


def _file_moved(scene: Scene) -> Draft:
    rng = scene.rng
    what = add_deck(scene) if rng.random() < 0.5 else add_document(scene, Paragraph(rng.choice(NOTES)))
    folder = _folder(scene)
    return Draft(
        {"file": what.name, "folder": folder},
        (
            found(what.name),
            call("sharepoint.move", id=what.file.id, path=f"{folder}/{what.file.name}"),
            FINISH,
        ),
    )


def _page_created(scene: Scene) -> Draft:
    title, topic = topics(scene.rng, 2)
    text = sayings(scene.rng, [topic])[0]
    return Draft(
        {"title": f'"{title}"', "text": f'"{text}"'},
        (call("sharepoint.create_page", title=title, text=text), FINISH),
    )


def _text_copied(scene: Scene) -> Draft:
    rng = scene.rng
    name, new = rng.sample(_TEXTS, 2)
    files = [
        scene.add_file(path, PlainText(f"{note}\nthe code is {digits(rng)}"))
        for path, note in zip((f"/team/{name}.txt", f"/archive/old {name}.txt"), rng.sample(NOTES, 2), strict=True)
    ]
    path, content = f"{_folder(scene)}/{new}.txt", files[0].content
    assert isinstance(content, PlainText)
    return Draft(
        {"file": f'"{name}.txt"', "path": f'"{path}"'},
        (
            found(name),
            call("sharepoint.download", id=files[0].id),
            call("sharepoint.upload", path=path, text=content.text),
            FINISH,
        ),
    )


def _file_version(scene: Scene) -> Draft:
    """One of four earlier ones: somebody wrote one of them, somebody else two."""
    rng = scene.rng
    document = add_document(scene, Paragraph(rng.choice(NOTES)), rights={"everyone": "edit"})
    one, twice, once = scene.people(3)
    authors = rng.sample([one, twice, twice, once], 4)
    days = sorted(rng.sample(range(2, 20), 4))
    texts = sayings(rng, topics(rng, 4))
    versions = tuple(
        Version(Document((Paragraph(document.name, "title"), Paragraph(text))), by, f"2026-02-{day:02d} 11:20")
        for text, by, day in zip(texts, authors, days, strict=True)
    )
    scene.add(replace(document.file, versions=versions))
    return Draft(
        {"document": document.name, "name": one},
        (
            found(document.name),
            call("sharepoint.versions", id=document.file.id),
            call("sharepoint.restore", id=document.file.id, version=authors.index(one) + 1),
            FINISH,
        ),
    )


def _folder_tidied(scene: Scene) -> Draft:
    """Two of five files go, whose names other files elsewhere have too."""
    rng, folder, channel, text = scene.rng, _folder(scene), new_channels(scene)[0], phrase(scene.rng)
    (sender, other), subject = scene.people(2), topics(rng, 1)[0]
    names = rng.sample((*DOCUMENTS, *DECKS), 5)
    files = [scene.add_file(f"{folder}/{_file_name(name)}", _content(name)) for name in names]
    for name in names[:3]:
        scene.add_file(f"/archive/{_file_name(name)}", _content(name))
    texts = (
        "the {} and the {} in {where} are of no use any more; we need the {}",
        "two things can go from {where}: the {} and the {}. keep the {}",
        "in {where}, i am done with the {} and the {}, but not with the {}",
    )
    mail = scene.add_mail(sender, subject, rng.choice(texts).format(*names[:3], where=folder))
    scene.add_mail(other, subject, f"has the {names[2]} in {folder} not had its day?")
    return Draft(
        {
            **{"name": sender, "subject": f'"{subject}"', "folder": folder},
            **{"team": channel.team, "phrase": f'"{text}"'},
        },
        (
            call("outlook.search", sender=sender, subject=subject),
            call("outlook.read", id=mail.id),
            call("sharepoint.list_files", folder=folder),
            *agreed(call("sharepoint.delete", ids=[each.id for each in files[:2]])),
            call("teams.list_channels", name=channel.team),
            *posted(channel, text),
            FINISH,
        ),
    )


def _file_name(name: str) -> str:
    return f"{name}.{'docx' if name in DOCUMENTS else 'pptx'}"


def _content(name: str) -> Content:
    return Document((Paragraph(name, "title"),)) if name in DOCUMENTS else Deck((Slide("title", name),))


FAMILIES = (
    Family(
        "file_moved",
        1,
        ("sharepoint",),
        _file_moved,
        templates=(
            "move the {file} to the folder {folder}",
            "put the {file} into the folder {folder}",
            "the {file} belongs in {folder}, move it there",
            "file the {file} under {folder}, its name stays",
            "the {file} lies in the wrong folder: it should be in {folder}",
            "take the {file} to {folder}",
            "{folder} is the right folder for the {file}, so move it",
            "let the {file} lie in {folder} from now on",
            "find the {file} and move it to {folder}",
            "transfer the {file} to the folder {folder}, same name",
        ),
        heldout=(
            "the new home of the {file} is {folder}",
            "people look for the {file} in {folder}: make sure that it is there, not where it is now",
            "shift the {file} over to {folder}",
            "could you get the {file} into the folder {folder}?",
        ),
    ),
    Family(
        "page_created",
        1,
        ("sharepoint",),
        _page_created,
        templates=(
            "make a page {title} on the site that says {text}",
            "create a page of the site, title {title}, text {text}",
            "the site needs a page called {title} with the text {text}",
            "add a page to the site: {title}, and as its text {text}",
            "put a new page {title} on the site; it should read {text}",
            "write {text} on a new page of the site under the title {title}",
            "a page {title} is missing on the site, its text is {text}",
            "let everybody read {text} on a new page {title} of the site",
            "set up the page {title} on our site, saying {text}",
            "open a page on the site for {title} and write {text} on it",
        ),
        heldout=(
            "our site should have one more page, {title}, that tells people {text}",
            "publish {text} on the site as a page with the title {title}",
            "new page for the site, please: {title}, with {text} as all that it says",
            "under the name {title}, the site gets a page with {text}",
        ),
    ),
    Family(
        "text_copied",
        2,
        ("sharepoint",),
        _text_copied,
        templates=joined(
            (
                "make a new file {path} with the text of {file}",
                "copy the text of the file {file} to a new file {path}",
                "what {file} says should also stand in a new file {path}",
                "upload a second file {path} with what is written in {file}",
                "we need the text of {file} once more, as {path}",
            ),
            ("", ", word for word"),
        ),
        heldout=joined(
            ("let a new file {path} say what {file} says", "duplicate {file}: the copy is to be {path}"),
            ("", ", with every line"),
        ),
    ),
    Family(
        "file_version",
        2,
        ("sharepoint",),
        _file_version,
        templates=(
            "bring back the version of the {document} that {name} wrote",
            "restore the {document} to what {name} made of it",
            "the {document} was better when {name} wrote it: go back to that version",
            "take the {document} back to the version by {name}",
            "undo what happened to the {document} after {name}: restore that version",
            "the version of the {document} by {name} is the one we want, get it back",
            "let the {document} be again what it was when {name} had changed it",
            "go through the versions of the {document} and restore the one by {name}",
            "somebody spoiled the {document}; make it what {name} left",
            "return the {document} to the state in which {name} saved it",
        ),
        heldout=(
            "i liked the {document} as {name} had it, put it back to that",
            "of all versions of the {document}, the one from {name} has to come back",
            "roll the {document} back to when {name} was the last to write it",
            "whatever came after the {document} by {name} should be gone: back to that one",
        ),
    ),
    Family(
        "folder_tidied",
        4,
        ("outlook", "sharepoint", "teams"),
        _folder_tidied,
        templates=joined(
            (
                "{name} mailed under {subject} which two files in {folder} can go",
                "the mail {subject} from {name} names two files of the folder {folder} that nobody needs",
                "read {name}'s mail {subject} on the folder {folder}",
                "two files in {folder} are to go, see the mail {subject} by {name}",
            ),
            (
                ": delete them, then post {phrase} in the {team} channel",
                "; delete the two, and tell the {team} channel {phrase}",
                ". those two should be deleted, and the {team} channel should get the message {phrase}",
            ),
        ),
        heldout=joined(
            (
                "tidy the folder {folder} as {name} suggests in the mail {subject}",
                "{name} is done with two files of {folder}, by the mail {subject}",
            ),
            (
                ": away with the two files, and {phrase} as a post to the {team} channel",
                "; delete what {name} does not need, after that write {phrase} into the {team} channel",
            ),
        ),
    ),
)
