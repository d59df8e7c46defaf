"""Mutant: filling stops at the first item that does not fit, as the source does."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from graphsvc.domain.candidates import Disposition
from graphsvc.ranking.selection import _Run

TESTS = "test_B7_an_item_that_does_not_fit"


def apply(patch: pytest.MonkeyPatch) -> None:
    real = _Run.fill

    def fill(self: _Run, order: Sequence[str], available: int, min_value: float) -> None:
        stopped = False
        for unit_id in order:
            if stopped:
                self.settle([unit_id], Disposition.OVER_BUDGET, "after one that does not fit")
                continue
            real(self, [unit_id], available, min_value)
            stopped = self._settled[unit_id][0] is Disposition.OVER_BUDGET

    patch.setattr(_Run, "fill", fill)
