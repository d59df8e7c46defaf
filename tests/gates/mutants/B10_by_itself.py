"""Mutant: nobody looks for what is due."""

from __future__ import annotations

import pytest

from graphsvc.services.calibration import CalibrationUseCases

TESTS = "test_B10_shuffled"


def apply(patch: pytest.MonkeyPatch) -> None:
    async def recalibrate_due(self: CalibrationUseCases) -> int:
        return 0

    patch.setattr(CalibrationUseCases, "recalibrate_due", recalibrate_due)
