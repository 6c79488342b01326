"""``python -m benchmarks privacy``: what the privacy detectors find, what they leave alone, and how fast."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchmarks.commands.options import AsJson, Quick, emit_and_exit
from upturn.records import JsonValue, Result

if TYPE_CHECKING:
    from benchmarks.privacy.measurement import Recall

_ROOT = Path(__file__).resolve().parents[2]


def bench_privacy(
    *,
    documents: Annotated[int, typer.Option(min=40, help="Generated documents.")] = 20_000,
    seed: Annotated[int, typer.Option(help="Seed of the documents.")] = 0,
    tau_bench: Annotated[Path | None, typer.Option(help="File of τ-bench results, for other words.")] = None,
    presidio: Annotated[
        bool,
        typer.Option("--presidio", help="Measure Presidio's pattern recognisers too; needs presidio-analyzer."),
    ] = False,
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """Measure the privacy detectors on generated documents, the project's own pages and recorded conversations."""
    from benchmarks.privacy.documents import make_documents
    from benchmarks.privacy.measurement import (
        Detect,
        measure_recall,
        measure_untouched,
        names_of_texts,
        texts_of_folder,
        texts_of_tau_bench,
    )
    from upturn.pool.privacy import findings

    detectors: dict[str, Detect] = {"": findings}
    if presidio:
        from benchmarks.privacy.presidio import presidio_detector

        detectors["presidio "] = presidio_detector()
    made = make_documents(1_000 if quick else documents, seed)
    results: list[Result] = []
    details: dict[str, JsonValue] = {"documents": len(made), "seed": seed}
    results += _measured_names(len(made) // 2, seed, details)
    for name, detect in detectors.items():
        recall = measure_recall(made, detect)
        total = sum(count for kind, count in recall.whole.items() if not kind.startswith("form:"))
        found = sum(count for kind, count in recall.found.items() if not kind.startswith("form:"))
        bar, is_ours = ">= 0.995", not name
        results.append(
            Result(
                f"{name}found",
                found / total,
                "share",
                n=total,
                bar=bar if is_ours else None,
                holds=found / total >= 0.995 if is_ours else None,
            )
        )
        for kind, count in sorted(recall.whole.items()):
            results.append(Result(f"{name}found {kind}", recall.found[kind] / count, "share", n=count))
        corpora = {"pages": texts_of_folder(_ROOT / "docs")}
        if tau_bench is not None:
            corpora["conversations"] = texts_of_tau_bench(tau_bench)
        results.append(_untouched(f"{name}untouched documents", recall.untouched, recall.words, has_bar=is_ours))
        for corpus, texts in corpora.items():
            rest = measure_untouched(texts, detect, names_of_texts(texts))
            results.append(_untouched(f"{name}untouched {corpus}", rest.untouched, rest.words, has_bar=is_ours))
            results.append(Result(f"{name}speed {corpus}", rest.megabytes / rest.seconds, "MB/s of processor time"))
        details[f"{name}missed"] = [f"{kind}: {text}" for kind, text in recall.missed[:20]]
    emit_and_exit("privacy", results, details, as_json=as_json)


_NAME_BARS = {"person": 0.92, "address": 0.85}


def _measured_names(count: int, seed: int, details: dict[str, JsonValue]) -> list[Result]:
    """Returns the results of the detectors, and of a list of names, on documents with names."""
    from benchmarks.privacy.measurement import measure_recall
    from benchmarks.privacy.name_documents import make_name_documents
    from benchmarks.privacy.name_list import name_list_detector
    from upturn.pool.privacy import findings

    documents = make_name_documents(count, seed)
    results: list[Result] = []
    for name, detect in {"": findings, "name list ": name_list_detector()}.items():
        measured = measure_recall(documents, detect)
        results += _name_results(name, measured, has_bars=not name)
        details[f"{name}missed names"] = [f"{kind}: {text}" for kind, text in measured.missed[:20]]
    return results


def _name_results(name: str, measured: "Recall", *, has_bars: bool) -> list[Result]:
    """Returns the shares of names that are found, and of other words that are left alone."""
    results: list[Result] = []
    for kind in ("person", "address", "organisation"):
        share, bar = measured.found[kind] / measured.whole[kind], _NAME_BARS.get(kind) if has_bars else None
        is_held = None if bar is None else share >= bar
        bar_text = None if bar is None else f">= {bar}"
        results.append(
            Result(f"{name}found {kind}", share, "share", n=measured.whole[kind], bar=bar_text, holds=is_held)
        )
    results.append(_untouched(f"{name}untouched names", measured.untouched, measured.words, has_bar=has_bars))
    return results


def _untouched(name: str, untouched: int, words: int, *, has_bar: bool) -> Result:
    share = untouched / words
    return Result(
        name,
        share,
        "share of words",
        n=words,
        bar=">= 0.99" if has_bar else None,
        holds=share >= 0.99 if has_bar else None,
    )
