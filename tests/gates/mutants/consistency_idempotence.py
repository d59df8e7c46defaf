"""Mutant: A request carried out before is carried out again."""

from __future__ import annotations

import dataclasses
import uuid
from typing import Any

import pytest

from graphsvc.server.requests import RequestReader

TESTS = "test_consistency_the_same_request"


def apply(patch: pytest.MonkeyPatch) -> None:
    real = RequestReader.write

    def write(self: RequestReader, request: Any, request_id: str) -> Any:
        return dataclasses.replace(real(self, request, request_id), request_id=uuid.uuid4().hex)

    patch.setattr(RequestReader, "write", write)
