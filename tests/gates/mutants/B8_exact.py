"""Mutant: an id is found inside longer tokens."""

from __future__ import annotations

import pytest

TESTS = "test_B8_id_matching"


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("graphsvc.ranking.references._ends_token", lambda text, at, step: True)
