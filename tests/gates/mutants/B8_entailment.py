"""Mutant: the plug-in is never believed."""

from __future__ import annotations

import pytest

TESTS = "test_B8_entailment"


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("graphsvc.services.feedback.ENTAILMENT_THRESHOLD", 1.0)
