"""Mutant: the predictor in use stays, however much better the fitted one is."""

from __future__ import annotations

import pytest

from tests.gates.mutants._parts import decide_adoption

TESTS = "test_B10_a_drifted"


def apply(patch: pytest.MonkeyPatch) -> None:
    decide_adoption(patch, adopted=False)
