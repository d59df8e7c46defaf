"""Mutant: A vendor's request body is taken as content."""

from __future__ import annotations

import pytest

TESTS = "test_N4_a_vendors_body"


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("graphsvc.domain.content.is_json_document", lambda text: False)
