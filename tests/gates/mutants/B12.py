"""Mutant: ranking may cost any share of the budget."""

from __future__ import annotations

import pytest

TESTS = "test_B12_ranking_is_charged"


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("graphsvc.ranking.selection.MAX_RANKING_PERCENT", 100)
