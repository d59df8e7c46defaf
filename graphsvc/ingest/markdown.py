"""A folder of Markdown as observations: one unit a document, one a section, and the links between documents."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from graphsvc.domain.units import ContextUnitKind
from graphsvc.ingest.git import Source, read_folder
from graphsvc.ingest.plan import KnownUnit, Plan, plan_source

SUFFIXES = (".md", ".markdown")


def read_documents(path: Path) -> Source:
    """The Markdown files under ``path``.

    Raises:
        InvalidArgument: INGEST_FAILED, not a directory.
    """
    return read_folder(path, suffixes=SUFFIXES)


def plan_documents(source: Source, known: Mapping[str, KnownUnit], *, now: datetime) -> Plan:
    """The units and edges of the documents; a changed document's new version supersedes the old one.

    Args: as plan_source.
    """
    return plan_source(source, known, now=now, kind=ContextUnitKind.OBSERVATION)
