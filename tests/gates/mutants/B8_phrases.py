"""Mutant: one key phrase is enough."""

from __future__ import annotations

import pytest

TESTS = "test_B8_two_of_three"


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("graphsvc.ranking.references.KEY_PHRASES_NEEDED", 1)
