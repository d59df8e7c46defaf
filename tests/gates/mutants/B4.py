"""Mutant: the reserve may be as small as the caller likes."""

from __future__ import annotations

import pytest

TESTS = "test_B4_reserve_is_never"


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("graphsvc.domain.budget.MIN_REASONING_RESERVE_RATIO", 0.0)
