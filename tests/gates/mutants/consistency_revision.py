"""Mutant: reads do not wait for the revision asked for."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from graphsvc.server.requests import RequestReader

TESTS = "test_consistency_reads_carry"


def apply(patch: pytest.MonkeyPatch) -> None:
    real = RequestReader.read_options

    def read_options(self: RequestReader, consistency: Any) -> Any:
        return dataclasses.replace(real(self, consistency), bookmarks=())

    patch.setattr(RequestReader, "read_options", read_options)
