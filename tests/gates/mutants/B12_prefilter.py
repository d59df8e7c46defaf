"""Mutant: however many candidates there are, all are ranked."""

from __future__ import annotations

import pytest

TESTS = "test_B12_above_a_hundred"


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("graphsvc.ranking.selection.PREFILTER_COUNT", 10**9)
