"""Mutant: contents stand in the payload as they are, citation lines too."""

from __future__ import annotations

import pytest

TESTS = "test_B7_no_content_can_pose"


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("graphsvc.domain.rendering._neutralise", lambda text: text)
