"""Mutant: a report that came before is taken for another."""

from __future__ import annotations

import uuid

import pytest

from graphsvc.domain.outcomes import OutcomeReport

TESTS = "test_B8_the_same_report"


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OutcomeReport, "fingerprint", property(lambda self: uuid.uuid4().hex))
