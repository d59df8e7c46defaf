"""What a session's retrievals remember: deferrals in a row (gate B11) and the log's round trip."""

from __future__ import annotations

import pytest

from graphsvc.domain.budget import Budget
from graphsvc.ports import RetrievalStep, SessionHistory
from graphsvc.ranking.selection import Thresholds, select
from graphsvc.ranking.value import PRIOR, RankingContext
from graphsvc.services.retrieval_log import candidates_from_json, candidates_to_json, newly_lowered
from tests.support.candidates import NOW, make_candidate


def step(number: int, deferred: str = "", selected: str = "") -> RetrievalStep:
    return RetrievalStep(number, frozenset(deferred), frozenset(selected))


def lowered(number: int, deferred: str, *steps: RetrievalStep, before: str = "") -> str:
    """What is lowered, given the earlier retrievals, the newest first."""
    history = SessionHistory(steps=steps, lowered=frozenset(before))
    return "".join(newly_lowered(tuple(deferred), number, history))


def test_B11_five_steps_in_a_row() -> None:
    four = [step(n, "ab") for n in (4, 3, 2, 1)]
    assert lowered(5, "abc", *four) == "ab"
    assert lowered(5, "abc", *four[:3]) == ""
    assert lowered(5, "abc", *four, before="a") == "b"
    assert lowered(6, "a", step(5, "b"), *four) == "", "a step in which it was no candidate breaks the row"


def test_B11_retrievals_of_one_step_are_one_step() -> None:
    assert lowered(2, "a", *(step(n, "a") for n in (2, 2, 2, 1, 1, 1))) == ""
    assert lowered(5, "a", step(5, "a"), *(step(n, "a") for n in (4, 3, 3, 2, 1))) == "a"


def test_B11_a_retrieval_without_a_step_is_a_step_of_its_own() -> None:
    assert lowered(0, "a", *(step(0, "a") for _ in range(4))) == "a"


@pytest.mark.parametrize("number", [0, 5])
def test_B11_a_delivery_breaks_the_row(number: int) -> None:
    assert lowered(number, "a", step(4, "a"), step(3, selected="a"), step(2, "a"), step(1, "a")) == ""


def test_B11_delivered_and_deferred_in_one_step_is_delivered() -> None:
    assert lowered(5, "a", step(5, selected="a"), *(step(n, "a") for n in (4, 3, 2, 1))) == ""
    assert lowered(5, "a", step(4, "a"), step(4, selected="a"), *(step(n, "a") for n in (3, 2, 1))) == ""
    assert lowered(5, "a", step(4, selected="a"), step(4, "a"), *(step(n, "a") for n in (3, 2, 1))) == ""


@pytest.mark.parametrize("budget", [300, 100], ids=["valued", "not valued"])
def test_B3_the_log_gives_back_what_was_decided(budget: int) -> None:
    candidates = [
        make_candidate("gone", superseded_by="new"),
        *(make_candidate(f"u{n:02}", hops=n % 4 or None, topic_score=n / 20, lead="") for n in range(20)),
    ]
    selection = select(
        candidates,
        {one.entry.unit_id: 50 for one in candidates},
        Budget.of_retrieval(budget),
        predictor=PRIOR,
        thresholds=Thresholds(),
        context=RankingContext(now=NOW, query="Name"),
    )
    read = candidates_from_json(candidates_to_json(selection.ranked))
    assert [one.valuation for one in read] == [one.valuation for one in selection.ranked]
    assert [(one.rank, one.cost, one.disposition, one.detail) for one in read] == [
        (one.rank, one.cost, one.disposition, one.detail) for one in selection.ranked
    ]
    assert any(one.valuation.contributions for one in read) == (budget == 300)
