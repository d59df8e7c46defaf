"""Mutant: a falling projection changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

TESTS = "test_B4_a_falling_projection"


def apply(patch: pytest.MonkeyPatch) -> None:
    def threshold_factor(*_: Any) -> float:
        return 1.0

    patch.setattr("graphsvc.services.retrievals.threshold_factor", threshold_factor)
