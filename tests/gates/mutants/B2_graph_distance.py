"""Mutant: the predictor takes no notice of graph_distance."""

from __future__ import annotations

import pytest

from tests.gates.mutants._parts import silence_feature

TESTS = "test_B2_graph_distance"


def apply(patch: pytest.MonkeyPatch) -> None:
    silence_feature(patch, "graph_distance")
