"""Mutant: structure weighs next to nothing."""

from __future__ import annotations

import pytest

from graphsvc.ranking.value import PRIOR, Feature

TESTS = "test_B9_"


def apply(patch: pytest.MonkeyPatch) -> None:
    light = {Feature.GRAPH_DISTANCE: 0.1, Feature.EDGE_TYPE_MATCH: 0.1}
    object.__setattr__(PRIOR, "weights", {**PRIOR.weights, **light})
