"""Mutant: errors carry no details."""

from __future__ import annotations

import pytest

from graphsvc.domain.errors import GraphsvcError
from graphsvc.server import status

TESTS = "test_consistency_every_kind_of_error_has_its_details"


def apply(patch: pytest.MonkeyPatch) -> None:
    real = status.to_status

    def to_status(error: GraphsvcError, request_id: str) -> object:
        made = real(error, request_id)
        del made.details[:]
        return made

    patch.setattr(status, "to_status", to_status)
