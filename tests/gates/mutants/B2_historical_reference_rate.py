"""Mutant: the predictor takes no notice of historical_reference_rate."""

from __future__ import annotations

import pytest

from tests.gates.mutants._parts import silence_feature

TESTS = "test_B2_historical"


def apply(patch: pytest.MonkeyPatch) -> None:
    silence_feature(patch, "historical_reference_rate")
