"""Mutant: the weights are turned round: the least becomes the most."""

from __future__ import annotations

import pytest

from graphsvc.ranking.value import PRIOR

TESTS = "test_B2_prior_weighs"


def apply(patch: pytest.MonkeyPatch) -> None:
    weights = dict(PRIOR.weights)
    turned = dict(zip(sorted(weights, key=weights.__getitem__), sorted(weights.values(), reverse=True), strict=True))
    object.__setattr__(PRIOR, "weights", turned)
