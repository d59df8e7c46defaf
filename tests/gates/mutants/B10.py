"""Mutant: every retrieval is followed by a recalibration."""

from __future__ import annotations

from typing import Any

import pytest

from graphsvc.services.calibration import CalibrationUseCases

TESTS = "test_B10_recalibration_is_in_batch"


def apply(patch: pytest.MonkeyPatch) -> None:
    def is_due(self: CalibrationUseCases, found: Any) -> bool:
        return found is not None

    patch.setattr(CalibrationUseCases, "is_due", is_due)
