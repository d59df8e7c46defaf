"""Mutant: a better Brier score is enough, and chance gives one: it tells how many units are referenced."""

from __future__ import annotations

import pytest

from graphsvc.ranking import calibration
from tests.gates.mutants._parts import fit_here

TESTS = "test_B10_shuffled"


def apply(patch: pytest.MonkeyPatch) -> None:
    fit_here(patch)
    patch.setattr(calibration, "AUC_DEVIATIONS", -100.0)
    patch.setattr(calibration, "AUC_TOLERANCE", 1.0)
