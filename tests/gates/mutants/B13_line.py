"""Mutant: the log line says nothing of the retrieval."""

from __future__ import annotations

import pytest

TESTS = "test_B13_the_log_line"


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("graphsvc.telemetry.record_retrieval", lambda **facts: None)
