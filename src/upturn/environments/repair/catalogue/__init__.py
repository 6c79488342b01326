"""The packages that tasks are made of: their functions, and the inputs of these.

Start with ``samples`` (``Package``); one module for each package of the folder ``packages``. Packages of held-out
tasks are in no training task.
"""

from collections.abc import Mapping, Sequence

from upturn.environments.repair.catalogue import (
    codes,
    days,
    figures,
    formulae,
    graphs,
    grids,
    intervals,
    ledger,
    likeness,
    lookup,
    matrix,
    money,
    roman,
    stock,
    textkit,
    workload,
)
from upturn.environments.repair.catalogue.samples import Draw, Package
from upturn.records import Split

PACKAGES: Mapping[Split, Sequence[Package]] = {
    "train": tuple(
        module.PACKAGE
        for module in (
            textkit,
            intervals,
            ledger,
            matrix,
            roman,
            workload,
            lookup,
            days,
            codes,
            graphs,
            figures,
            stock,
        )
    ),
    "heldout": tuple(module.PACKAGE for module in (grids, formulae, likeness, money)),
}
"""By split."""

__all__ = ["PACKAGES", "Draw", "Package"]
