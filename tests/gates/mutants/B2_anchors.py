"""Mutant: topic hits never become anchors."""

from __future__ import annotations

import pytest

TESTS = "test_B2_best_topic_hits"


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("graphsvc.services.strategies.TOPIC_ANCHORS", 0)
