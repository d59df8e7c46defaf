"""Mutant: no streak of deferrals lowers anything."""

from __future__ import annotations

import pytest

TESTS = "test_B11_five_deferrals"


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("graphsvc.services.retrieval_log.LOWERED_AFTER", 1_000)
