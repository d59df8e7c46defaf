"""The demo's questions about this repository: for each, a file with the answer must be selected."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from graphsvc.app import ensure_local_key
from graphsvc.cli.demo import ask, load_questions, retrieval_cypher
from graphsvc.cli.ingest import ingest_git
from graphsvc.client import GraphsvcClient
from graphsvc.domain.candidates import Outcome
from tests.support.service import Service

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("question", load_questions(), ids=lambda question: question.text[:40])
def test_the_right_files_exist(question):
    assert question.files
    assert [name for name in question.files if not (ROOT / name).is_file()] == []


async def test_for_each_question_a_right_file_is_selected(service: Service, tmp_path: Path, graph_driver):
    api_key = await ensure_local_key(service.serving.stores, tmp_path)
    async with GraphsvcClient(service.target, api_key=api_key, timeout_s=120) as client:
        session_id = await ingest_git(client, ROOT, console=Console(quiet=True), share=True)
    answers = await ask(service.serving, session_id=session_id)
    assert len(answers) == 3
    for answered in answers:
        assert answered.retrieval.outcome is Outcome.SELECTED
        assert answered.selected_files, answered.question.text
        ledger = answered.retrieval.ledger
        assert 0 < ledger.tokens_spent <= ledger.retrieval_budget
    retrieval = answers[-1].retrieval
    drawn, _, _ = await graph_driver.execute_query(retrieval_cypher(retrieval.retrieval_id))
    assert len(drawn) == len(retrieval.units), "the statement for Neo4j Browser draws what was selected"
