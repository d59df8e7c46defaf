"""Mutant: a report of nothing makes every unit an ignored one."""

from __future__ import annotations

import pytest

TESTS = "test_B8_an_empty"


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("graphsvc.services.feedback._check_report", lambda report: None)
