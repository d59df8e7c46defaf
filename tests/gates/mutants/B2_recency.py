"""Mutant: the predictor takes no notice of recency."""

from __future__ import annotations

import pytest

from tests.gates.mutants._parts import silence_feature

TESTS = "test_B2_recency"


def apply(patch: pytest.MonkeyPatch) -> None:
    silence_feature(patch, "recency")
