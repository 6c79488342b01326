"""How well estimators of credit find the turn that earned a reward, and how fast a policy learns from each."""

from benchmarks.credit.bench import PARTS, CreditBench, measure, quick_bench
from benchmarks.credit.errands_setup import Errands, ErrandsSettings, reward_of
from benchmarks.credit.plots import save_pictures

__all__ = [
    "PARTS",
    "CreditBench",
    "Errands",
    "ErrandsSettings",
    "measure",
    "quick_bench",
    "reward_of",
    "save_pictures",
]
