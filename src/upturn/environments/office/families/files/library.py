"""Tasks in the shared library: moving, copying, deleting and restoring files, and pages of the site."""

from dataclasses import replace

from upturn.environments.office.generation import (
    CITIES,
    DECKS,
    DOCUMENTS,
    FOLDERS,
    NOTES,
    Draft,
    Family,
    Scene,
    add_deck,
    add_document,
    call,
    find_file,
    new_channels,
    open_mail,
    post,
    two_folders,
    with_agreement,
)
from upturn.environments.office.state import Content, Deck, Document, Paragraph, PlainText, Slide, Version

_TEXTS = ("door codes", "phone list", "packing list", "opening hours", "shift notes", "seat plan")
"""Names of plain texts."""


def _folders(scene: Scene, count: int = 1) -> list[str]:
    """``count`` folders that no base profile has."""
    return [f"/{folder}/{scene.rng.choice(CITIES)}" for folder in scene.rng.sample(FOLDERS, count)]


def _file_moved(scene: Scene) -> Draft:
    rng = scene.rng
    file = add_deck(scene) if rng.random() < 0.5 else add_document(scene, Paragraph(rng.choice(NOTES)))
    (folder,) = _folders(scene)
    return Draft.with_finish(
        {"file": file.name, "folder": folder},
        find_file(file.name),
        call("sharepoint.move", id=file.file.id, path=f"{folder}/{file.file.name}"),
    )


def _page_created(scene: Scene) -> Draft:
    title, topic = scene.words.topics(2)
    text = scene.words.sentences([topic])[0]
    return Draft.with_finish(
        {"title": f'"{title}"', "text": f'"{text}"'}, call("sharepoint.create_page", title=title, text=text)
    )


def _text_copied(scene: Scene) -> Draft:
    rng = scene.rng
    (name, new), (folder, further) = rng.sample(_TEXTS, 2), two_folders(scene)
    paths = (f"/{folder}/{name}.txt", f"/{further}/old {name}.txt")
    files = [
        scene.add_file(path, PlainText(f"{note}\nthe code is {scene.words.digits()}"))
        for path, note in zip(paths, rng.sample(NOTES, 2), strict=True)
    ]
    path, content = f"{_folders(scene)[0]}/{new}.txt", files[0].content
    assert isinstance(content, PlainText)
    return Draft.with_finish(
        {"file": f'"{name}.txt"', "path": f'"{path}"'},
        find_file(name),
        call("sharepoint.download", id=files[0].id),
        call("sharepoint.upload", path=path, text=content.text),
    )


def _file_version(scene: Scene) -> Draft:
    """Restores one of four versions, the only one by its author; another author wrote two."""
    rng = scene.rng
    document = add_document(scene, Paragraph(rng.choice(NOTES)), rights={"everyone": "edit"})
    author, other_author, third_author = scene.people(3)
    authors = rng.sample([author, other_author, other_author, third_author], 4)
    days = sorted(rng.sample(range(2, 20), 4))
    texts = scene.words.sentences(scene.words.topics(4))
    versions = tuple(
        Version(Document((Paragraph(document.name, "title"), Paragraph(text))), by, f"2026-02-{day:02d} 11:20")
        for text, by, day in zip(texts, authors, days, strict=True)
    )
    scene.add(replace(document.file, versions=versions))
    return Draft.with_finish(
        {"document": document.name, "name": author},
        find_file(document.name),
        call("sharepoint.versions", id=document.file.id),
        call("sharepoint.restore", id=document.file.id, version=authors.index(author) + 1),
    )


def _folder_tidied(scene: Scene) -> Draft:
    """Deletes two of five files; files elsewhere have the same names."""
    rng, channel, text = scene.rng, new_channels(scene)[0], scene.words.phrase()
    folder, further = _folders(scene, 2)
    (sender, other), subject = scene.people(2), scene.words.topic()
    names = rng.sample((*DOCUMENTS, *DECKS), 5)
    files = [scene.add_file(f"{folder}/{_file_name(name)}", _content(name)) for name in names]
    for name in names[:3]:
        scene.add_file(f"{further}/{_file_name(name)}", _content(name))
    texts = (
        "the {} and the {} in {where} are of no use any more; we need the {}",
        "two things can go from {where}: the {} and the {}. keep the {}",
        "in {where}, i am done with the {} and the {}, but not with the {}",
    )
    mail = scene.add_mail(sender, subject, rng.choice(texts).format(*names[:3], where=folder))
    scene.add_mail(other, subject, f"has the {names[2]} in {folder} not had its day?")
    return Draft.with_finish(
        {
            **{"name": sender, "subject": f'"{subject}"', "folder": folder},
            **{"team": channel.team, "phrase": f'"{text}"'},
        },
        *open_mail(mail),
        call("sharepoint.list_files", folder=folder),
        *with_agreement(call("sharepoint.delete", ids=[file.id for file in files[:2]])),
        call("teams.list_channels", name=channel.team),
        *post(channel, text),
    )


def _file_name(name: str) -> str:
    return f"{name}.{'docx' if name in DOCUMENTS else 'pptx'}"


def _content(name: str) -> Content:
    return Document((Paragraph(name, "title"),)) if name in DOCUMENTS else Deck((Slide("title", name),))


FAMILIES = (
    Family("file_moved", 1, ("sharepoint",), _file_moved),
    Family("page_created", 1, ("sharepoint",), _page_created),
    Family("text_copied", 2, ("sharepoint",), _text_copied),
    Family("file_version", 2, ("sharepoint",), _file_version),
    Family("folder_tidied", 4, ("outlook", "sharepoint", "teams"), _folder_tidied),
)
