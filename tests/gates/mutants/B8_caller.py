"""Mutant: units that the caller names are not heeded."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from graphsvc.server import convert

TESTS = "test_B8_the_caller_may"


def apply(patch: pytest.MonkeyPatch) -> None:
    real = convert.outcome_report

    def outcome_report(request: Any) -> Any:
        return dataclasses.replace(real(request), cited_unit_ids=(), decisive_unit_ids=())

    patch.setattr(convert, "outcome_report", outcome_report)
