"""Mutant: ranking is by value alone."""

from __future__ import annotations

import pytest

from graphsvc.ranking.selection import _Run

TESTS = "test_B3_ranking_is_by_value_over_cost"


def apply(patch: pytest.MonkeyPatch) -> None:
    real = _Run.ratio
    patch.setattr(_Run, "ratio", lambda self, unit_id: real(self, unit_id) * self._costs[unit_id])
