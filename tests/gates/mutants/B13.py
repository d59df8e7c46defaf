"""Mutant: the log has no relationships to units."""

from __future__ import annotations

import pytest

TESTS = "test_B13_every_retrieval"


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("graphsvc.services.retrievals.logged_selections", lambda ranked: ())
