"""Mutant: the predictor takes no notice of edge_type_match."""

from __future__ import annotations

import pytest

from tests.gates.mutants._parts import silence_feature

TESTS = "test_B2_edge_type_match"


def apply(patch: pytest.MonkeyPatch) -> None:
    silence_feature(patch, "edge_type_match")
