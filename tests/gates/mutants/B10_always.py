"""Mutant: whatever was fitted is used, learned from a poisoned batch or not."""

from __future__ import annotations

import pytest

from tests.gates.mutants._parts import decide_adoption

TESTS = "test_B10_a_poisoned"


def apply(patch: pytest.MonkeyPatch) -> None:
    decide_adoption(patch, adopted=True)
