"""Mutant: no citation is found."""

from __future__ import annotations

import pytest

TESTS = "test_B8_a_citation"


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("graphsvc.ranking.references._token_places", lambda text, unit_id: iter(()))
