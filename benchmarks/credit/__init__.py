"""Accuracy of turn-credit estimators, and how fast a policy learns with each of them."""

from benchmarks.credit.bench import PARTS, CreditBench, measure, quick_bench
from benchmarks.credit.errands_setup import ErrandsSettings, ErrandsSetup, written_tokens
from benchmarks.credit.plots import save_plots

__all__ = [
    "PARTS",
    "CreditBench",
    "ErrandsSettings",
    "ErrandsSetup",
    "measure",
    "quick_bench",
    "save_plots",
    "written_tokens",
]
