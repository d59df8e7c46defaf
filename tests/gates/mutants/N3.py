"""Mutant: any content is taken."""

from __future__ import annotations

import pytest

TESTS = "test_N3_what_is_no_text"


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("graphsvc.services.contexts.check_content", lambda text, field: None)
