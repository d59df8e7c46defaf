"""Mutant: what is filled may be half as large again as the budget."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from graphsvc.ranking.selection import _Run

TESTS = "test_B7_budget_is_never_exceeded"


def apply(patch: pytest.MonkeyPatch) -> None:
    real = _Run.fill

    def fill(self: _Run, order: Sequence[str], available: int, min_value: float) -> None:
        real(self, order, available + available // 2, min_value)

    patch.setattr(_Run, "fill", fill)
