"""Mutant: ties are broken by chance."""

from __future__ import annotations

import random

import pytest

from graphsvc.ranking.selection import _Run

TESTS = "test_consistency_same_graph"


def apply(patch: pytest.MonkeyPatch) -> None:
    def by_ratio(self: _Run) -> list[str]:
        return sorted(self._candidates, key=lambda unit_id: (-round(self.ratio(unit_id), 4), random.random()))

    patch.setattr(_Run, "by_ratio", by_ratio)
