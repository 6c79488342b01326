"""Memory for keys and values: rows of columns that grow on demand, not allocated for the worst case.

Letters: R rows, K key-value heads, C columns, D head size, W columns that are read, N tokens that are written.
"""

import torch
from torch import Tensor

_STEP = 64
"""Minimum number of columns added at once; growing copies the contents."""


class Store:
    """One tensor ``(2, R, K, C, D)`` a layer: keys, then values. Unwritten entries are 0."""

    def __init__(self, layers: int, heads: int, size: int, *, like: Tensor) -> None:
        """``size``: head size. Type and device are those of ``like``."""
        self._heads = heads
        self._layers = [like.new_zeros((2, 0, heads, 0, size)) for _ in range(layers)]
        self._offsets_H: Tensor = torch.empty(0)
        self._measure()

    @property
    def rows(self) -> int:
        """Allocated rows."""
        return self._layers[0].shape[1]

    @property
    def columns(self) -> int:
        """Allocated columns of each row."""
        return self._layers[0].shape[3]

    def reserve(self, rows: int, columns: int) -> bool:
        """Ensures room for that many rows and columns; grows by half at least, so that growing stays rare.

        True = the contents were moved to other memory.
        """
        if rows <= self.rows and columns <= self.columns:
            return False
        rows = max(rows, self.rows + self.rows // 2) if rows > self.rows else self.rows
        if columns > self.columns:
            columns = -(-max(columns, self.columns + self.columns // 2) // _STEP) * _STEP
        else:
            columns = self.columns
        for index, old in enumerate(self._layers):
            new = old.new_zeros((2, rows, self._heads, columns, old.shape[4]))
            new[:, : old.shape[1], :, : old.shape[3]] = old
            self._layers[index] = new
        self._measure()
        return True

    def indices(self, rows_N: Tensor, columns_N: Tensor) -> Tensor:
        """``(N, 2K)``: flat indices of each token's keys, then values; for ``write``, the same in every layer."""
        firsts_N = rows_N * (self._heads * self.columns) + columns_N
        return firsts_N[:, None] + self._offsets_H

    def write(self, layer: int, indices: Tensor, heads: Tensor) -> None:
        """``heads``: ``(N, 2K, D)``, each token's keys, then its values."""
        stored = self._layers[layer]
        stored.view(-1, stored.shape[4])[indices] = heads

    def read(self, layer: int, rows: slice | Tensor, columns: int) -> tuple[Tensor, Tensor]:
        """Keys and values ``(R, K, W, D)`` of the rows; a slice of rows is not copied."""
        stored = self._layers[layer]
        if isinstance(rows, slice):
            selected = stored[:, rows, :, :columns]
        else:
            selected = stored[:, :, :, :columns].index_select(1, rows)
        return selected[0], selected[1]

    def columns_of(self, layer: int, row: int, start: int, stop: int) -> Tensor:
        """``(2, K, stop - start, D)``, not copied."""
        return self._layers[layer][:, row, :, start:stop]

    def copy_rows(self, source: int, targets: Tensor, columns: int) -> None:
        """Copies the first columns of a row to others."""
        for stored in self._layers:
            stored[:, targets, :, :columns] = stored[:, source : source + 1, :, :columns]

    def swap_rows(self, first: Tensor, second: Tensor, columns: int) -> None:
        """Swaps the first columns of pairs of rows; no row occurs in two pairs."""
        rows, partners = torch.cat([first, second]), torch.cat([second, first])
        for stored in self._layers:
            stored[:, rows, :, :columns] = stored[:, partners, :, :columns]

    def forget(self) -> None:
        """Overwrites everything with 0: masked values must be finite."""
        for stored in self._layers:
            stored.zero_()

    @property
    def layers(self) -> range:
        """Indices of the layers."""
        return range(len(self._layers))

    def _measure(self) -> None:
        stored = self._layers[0]
        heads = torch.arange(2 * self._heads, device=stored.device)
        value, head = heads // self._heads, heads % self._heads
        self._offsets_H = (value * self.rows * self._heads + head) * self.columns
