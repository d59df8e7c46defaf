"""Mutant: A value is a score without limits."""

from __future__ import annotations

import pytest

TESTS = "test_B2_value_is_a_probability"


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("graphsvc.ranking.value._sigmoid", lambda logit: logit + 20.0)
