"""Mutant: few candidates are ranked too."""

from __future__ import annotations

import pytest

TESTS = "test_B3_under_ten"


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("graphsvc.ranking.selection.UNRANKED_COUNT", 0)
