"""``python -m benchmarks privacy``: the documents are what they say, and the detectors hold their bars on them."""

import json

import typer
from typer.testing import CliRunner

from benchmarks.commands.privacy import bench_privacy
from benchmarks.privacy.documents import TEMPLATES, make_documents
from benchmarks.privacy.measurement import measure_recall
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


def test_detectors_hold_the_bars() -> None:
    app = typer.Typer()
    app.command()(bench_privacy)
    result = CliRunner().invoke(app, ["--quick", "--json"], catch_exceptions=False)
    printed = json.loads(result.stdout)
    assert result.exit_code == 0, printed["missed"]
    held = {entry["name"]: entry["holds"] for entry in printed["results"] if entry.get("bar")}
    assert held == {"found": True, "untouched documents": True, "untouched pages": True}
