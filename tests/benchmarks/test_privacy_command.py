"""``python -m benchmarks privacy``: the documents are what they say, and the detectors hold their bars on them."""

import json
import re

import typer
from typer.testing import CliRunner

from benchmarks.commands.privacy import bench_privacy
from benchmarks.privacy.documents import NAMES, TEMPLATES, make_documents
from benchmarks.privacy.measurement import measure_recall, measure_untouched, names_of_texts
from benchmarks.privacy.name_documents import make_name_documents
from benchmarks.privacy.name_list import name_list_detector
from benchmarks.privacy.people import all_names
from upturn.loop.tagger import all_names as trained_names
from upturn.pool.privacy import Finding


def test_documents_name_their_identifiers() -> None:
    documents = make_documents(len(TEMPLATES), seed=3)
    assert documents == make_documents(len(TEMPLATES), seed=3)
    (kind, start, stop), *_ = documents[0].identifiers
    assert kind == "email"
    assert documents[0].text[:start].endswith("opened by ")
    assert documents[0].text[stop:].startswith(" on 2024")


def test_recall_counts_whole_identifiers_and_other_words() -> None:
    documents = make_documents(1, seed=3)  # one address among 13 other words
    _, start, stop = documents[0].identifiers[0]
    missing = measure_recall(documents, lambda _: [Finding("email", start + 1, stop)])
    assert (missing.found["email"], missing.whole["email"]) == (0, 1)
    all_of_it = measure_recall(documents, lambda text: [Finding("email", 0, len(text))])
    assert (all_of_it.found["email"], all_of_it.untouched, all_of_it.words) == (1, 0, 13)


def test_names_of_the_evaluation_are_not_those_of_the_training() -> None:
    trained = {part.casefold() for name in trained_names("train") for part in re.split(r"[ '’-]", name)}
    assert not {name.casefold() for name in all_names()} & trained
    assert len(all_names()) > 500


def test_documents_with_names_name_them() -> None:
    documents = make_name_documents(70, seed=1)
    assert documents == make_name_documents(70, seed=1)
    kind, start, stop = documents[0].identifiers[0]
    assert (kind, documents[0].form) == ("person", NAMES)
    assert (
        documents[0].text
        == f"Morning all, {documents[0].text[start:stop]} is off sick{documents[0].text[stop + 12 :]}"
    )
    texts = ['{"first_name": "Mia", "address1": "9 Elm Way"} id is mia_novak_1234']
    names = names_of_texts(texts)
    assert names == {"mia", "novak", "elm", "way"}
    assert measure_untouched(["Mia: Elm yes mia_novak_1234."], lambda _: (), names).words == 1


def test_name_list_finds_its_names_alone() -> None:
    text = "Maria met maria and Zzyzx"
    assert [text[start:stop] for _, start, stop in name_list_detector()(text)] == ["Maria"]


def test_detectors_hold_the_bars() -> None:
    app = typer.Typer()
    app.command()(bench_privacy)
    result = CliRunner().invoke(app, ["--quick", "--json"], catch_exceptions=False)
    printed = json.loads(result.stdout)
    held = {entry["name"]: entry["holds"] for entry in printed["results"] if entry.get("bar")}
    assert set(held) - {"found", "untouched documents", "untouched pages", "untouched names"} == {
        "found person",  # the bars of both are above what the tagger reaches (docs/privacy.md)
        "found address",
    }
    assert all(held[name] for name in held if "person" not in name and "address" not in name), printed["missed"]
    shares = {entry["name"]: entry["value"] for entry in printed["results"]}
    assert shares["found person"] > 0.6, printed["missed names"]
    assert shares["found address"] > 0.6
