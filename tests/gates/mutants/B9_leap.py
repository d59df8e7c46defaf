"""Mutant: feedback counts as if nothing were known before."""

from __future__ import annotations

import pytest

from graphsvc.ranking import calibration
from tests.gates.mutants._parts import fit_here

TESTS = "test_B9_history"


def apply(patch: pytest.MonkeyPatch) -> None:
    fit_here(patch)
    patch.setattr(calibration, "WEIGHT_DEVIATION", 50.0)
    patch.setattr(calibration, "RATE_PSEUDO_COUNT", 0.01)
