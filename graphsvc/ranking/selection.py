"""Cost-benefit selection under a hard budget: which candidates go in, and what became of every other.

Pure and deterministic: the clock comes in, the order of the input has no effect, ties go by unit_id.
Source: gates B3, B5, B6, B7, B12; seed selection-budgeted-retrieval, Cost-Benefit Ranking, Implementation Rules.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from graphsvc.domain.budget import Budget, Ledger
from graphsvc.domain.candidates import Candidate, Disposition, Outcome, RankedCandidate, Valuation
from graphsvc.ranking.value import Predictor, RankingContext

__all__ = ["RankingContext", "Selection", "Thresholds", "select"]

CANDIDATES_PER_RANKING_TOKEN = 20
"""Price of ranking: one token for so many candidates, begun ones whole. Identifying, valuing and logging a candidate
costs the service 0.25 to 0.5 ms (tests/bench), a model writes about 100 tokens a second. So 200 candidates are charged
10 tokens, 5 % of the least budget."""
MAX_RANKING_PERCENT = 5
"""Share of the retrieval budget that ranking may be charged (gate B12)."""
UNRANKED_COUNT = 10
"""Fewer candidates than this that all fit need no ranking (gate B3)."""
PREFILTER_COUNT = 100
"""More candidates than this are pre-filtered (gate B12)."""
PREFILTER_HOPS = 3
"""The pre-filter keeps what is nearer than this ..."""
PREFILTER_TOPIC_SCORE = 0.1
"""... or matches the topic at least this well; alone, neither gives the rest a value above MIN_VALUE_PROBABILITY."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Settings of the selection.

    Attributes:
        min_retrieval_budget: tokens under which nothing is retrieved.
        min_value_threshold: value per token that the best candidate must exceed, else nothing is retrieved.
        min_value_probability: value under which a single unit is left out, where there is a choice to make.
    """

    min_retrieval_budget: int = 200
    min_value_threshold: float = 1e-5
    min_value_probability: float = 0.005

    def times(self, factor: float) -> Thresholds:
        """The same with both value thresholds multiplied: where tokens run short, less goes in."""
        return replace(
            self,
            min_value_threshold=self.min_value_threshold * factor,
            min_value_probability=min(1.0, self.min_value_probability * factor),
        )


@dataclass(frozen=True, slots=True)
class Selection:
    """What a retrieval decided.

    Attributes:
        ranked: every candidate once, by rank.
        detail: the outcome in a sentence.
    """

    ranked: tuple[RankedCandidate, ...]
    ledger: Ledger
    outcome: Outcome
    detail: str

    @property
    def payload_order(self) -> tuple[RankedCandidate, ...]:
        """The selected candidates, the most valuable first, ties by unit_id; what belongs together side by side.

        A group stands where its most valuable member would; in it the turn order holds, so a call precedes its result,
        and what others cannot be read without comes first.
        """
        chosen = {
            ranked.candidate.entry.unit_id: ranked
            for ranked in self.ranked
            if ranked.disposition is Disposition.SELECTED
        }
        groups = _groups({unit_id: ranked.candidate.companion_ids for unit_id, ranked in chosen.items()})
        needed = Counter(unit_id for ranked in chosen.values() for unit_id in ranked.candidate.companion_ids)

        def within(unit_id: str) -> tuple[int, int, datetime, str]:
            entry = chosen[unit_id].candidate.entry
            return (-needed[unit_id], entry.task_step, entry.created_time, unit_id)

        def between(group: Sequence[str]) -> tuple[float, str]:
            return (-max(chosen[unit_id].valuation.value for unit_id in group), min(group))

        return tuple(chosen[unit_id] for group in sorted(groups, key=between) for unit_id in sorted(group, key=within))


def select(
    candidates: Sequence[Candidate],
    costs: Mapping[str, int],
    budget: Budget,
    *,
    predictor: Predictor,
    thresholds: Thresholds,
    context: RankingContext,
    empty_outcome: Outcome = Outcome.NOTHING_MATCHED,
    envelope_cost: int = 0,
    withheld: frozenset[str] = frozenset(),
) -> Selection:
    """The candidates worth their tokens, within the budget for any input.

    Superseded candidates are set aside first. Of the rest, fewer than 10 that all fit go in whole: value is predicted,
    for the order in the payload and the threshold, but there is no choice to make, so nothing is charged and no single
    unit is left out for being improbable. (A superseded unit or a second copy is not context that was left out, so
    these stay out even then; and when not even the best is worth its tokens, nothing goes in.) Otherwise candidates go
    in by value / cost; one that does not fit is skipped and the next tried. A candidate goes in with what it cannot be
    read without, as one item, or not at all: then the values and the costs of what is not yet in add up.

    Args:
        candidates: each unit once.
        costs: tokens of each candidate's block as rendered, above 0, by unit_id.
        budget: the retrieval's.
        predictor: what values are predicted with.
        thresholds: the settings.
        context: time, model, reference rates.
        empty_outcome: the outcome when there is no current candidate.
        envelope_cost: tokens of the payload besides its blocks, paid once when anything goes in.
        withheld: candidates that must not go in, since what they cannot be read without is rejected.
    """
    run = _Run(candidates, costs, budget, predictor)
    if budget.retrieval_budget < max(1, thresholds.min_retrieval_budget):
        run.settle(run.open_ids(), Disposition.DEFERRED, "nothing was retrieved: insufficient budget")
        return run.selection(
            Outcome.BUDGET_TOO_SMALL,
            f"retrieval skipped: insufficient budget ({budget.retrieval_budget} tokens, "
            f"at least {max(1, thresholds.min_retrieval_budget)} are needed)",
        )
    for candidate in candidates:
        if candidate.superseded_by:
            run.settle([candidate.entry.unit_id], Disposition.SUPERSEDED, f"superseded by {candidate.superseded_by}")
        elif candidate.entry.unit_id in withheld:
            run.settle([candidate.entry.unit_id], Disposition.BLOCKED, "what it cannot be read without is rejected")
    run.settle_incomplete()
    remaining = set(run.open_ids())
    current = [candidate for candidate in candidates if candidate.entry.unit_id in remaining]
    if not current and withheld:
        return run.selection(Outcome.ALL_BLOCKED, "all blocked: what the matches cannot be read without is rejected")
    if not current:
        detail = "every match is superseded" if candidates else _EMPTY_DETAILS.get(empty_outcome, "nothing matched")
        return run.selection(empty_outcome, detail)

    available = budget.retrieval_budget - envelope_cost
    unranked = len(current) < UNRANKED_COUNT and _cost_of_all(current, costs) <= available
    valued = current if unranked else _affordable(current, budget.retrieval_budget)
    if not unranked:
        run.charge = -(-len(valued) // CANDIDATES_PER_RANKING_TOKEN)
        available -= run.charge
    run.value(valued, context)
    kept = {candidate.entry.unit_id for candidate in valued}
    run.settle(
        (unit_id for unit_id in run.open_ids() if unit_id not in kept),
        Disposition.DEFERRED,
        "left for a later step: beyond what ranking may cost, and far from the anchors and the topic",
    )
    if not kept:
        return run.selection(Outcome.NOTHING_FITS, "the budget is too small for the candidates and for ranking them")
    order = [unit_id for unit_id in run.by_ratio() if unit_id in kept]
    if not any(run.ratio(unit_id) > thresholds.min_value_threshold for unit_id in order):
        run.settle(order, Disposition.DEFERRED, "nothing was retrieved: no candidate is worth its tokens")
        return run.selection(
            Outcome.BELOW_THRESHOLD,
            "retrieval skipped: no candidates above value threshold "
            f"(best {max((run.ratio(i) for i in order), default=0.0):.3g} a token, "
            f"must exceed {thresholds.min_value_threshold:.3g})",
        )
    run.fill(order, available, 0.0 if unranked else thresholds.min_value_probability)
    return run.finish(envelope_cost, unranked=unranked)


_EMPTY_DETAILS = {
    Outcome.NOTHING_MATCHED: "nothing matched",
    Outcome.NOTHING_PERMITTED: "nothing permitted: this session has no unit and no policy shares any",
    Outcome.ALL_BLOCKED: "all blocked: every match is rejected for this query",
}


class _Run:
    """One selection under way: what is known of each candidate and what became of it."""

    def __init__(
        self, candidates: Sequence[Candidate], costs: Mapping[str, int], budget: Budget, predictor: Predictor
    ) -> None:
        self._candidates = {c.entry.unit_id: c for c in sorted(candidates, key=lambda c: c.entry.unit_id)}
        self._costs = costs
        self._budget = budget
        self._predictor = predictor
        self._valuations: dict[str, Valuation] = {}
        self._settled: dict[str, tuple[Disposition, str]] = {}
        self._items: dict[str, list[str]] = {}
        """Of each candidate, as it was before anything went in: ranks do not move while items go in."""
        self._spent = 0
        self.charge = 0

    def open_ids(self) -> list[str]:
        """Ids of candidates about which nothing is settled, in order."""
        return [unit_id for unit_id in self._candidates if unit_id not in self._settled]

    def settle(self, unit_ids: Iterable[str], disposition: Disposition, detail: str) -> None:
        for unit_id in list(unit_ids):
            self._settled[unit_id] = (disposition, detail)

    def settle_incomplete(self) -> None:
        """Leaves out who needs a companion that is left out, until no such candidate is left."""
        incomplete = True
        while incomplete:
            incomplete = {
                unit_id: left_out
                for unit_id in self.open_ids()
                if (left_out := next((i for i in self._candidates[unit_id].companion_ids if i in self._settled), ""))
            }
            for unit_id, left_out in incomplete.items():
                disposition, _ = self._settled[left_out]
                self.settle([unit_id], disposition, f"goes with {left_out}, which is {disposition.value}")

    def value(self, candidates: Sequence[Candidate], context: RankingContext) -> None:
        valuations = self._predictor.valuations(candidates, self._costs, context)
        self._valuations = {c.entry.unit_id: v for c, v in zip(candidates, valuations, strict=True)}

    def item(self, unit_id: str) -> list[str]:
        """The candidate and all it cannot be read without, what is in already aside; itself first."""
        members = [unit_id]
        for member in members:
            members.extend(i for i in self._candidates[member].companion_ids if i not in members)
        return [member for member in members if not self._is_selected(member)]

    def ratio(self, unit_id: str) -> float:
        """Value per token of the candidate's item; 0 for a candidate that was not valued."""
        if unit_id not in self._valuations:
            return 0.0
        item = self._items.setdefault(unit_id, self.item(unit_id))
        value = sum(self._valuations[member].value for member in item if member in self._valuations)
        cost = sum(self._costs[member] for member in item)
        return value / cost if cost else 0.0

    def by_ratio(self) -> list[str]:
        return sorted(self._candidates, key=lambda unit_id: (-self.ratio(unit_id), unit_id))

    def fill(self, order: Sequence[str], available: int, min_value: float) -> None:
        """Takes items in order while they fit; the first of equal contents stands for all of them."""
        first_of: dict[str, str] = {}
        for unit_id in order:
            if self._is_selected(unit_id):
                continue
            digest = self._candidates[unit_id].entry.content_sha256 or unit_id
            item = self.item(unit_id)
            cost = sum(self._costs[member] for member in item)
            value = max(self._valuations[member].value for member in item if member in self._valuations)
            with_others = f" with {', '.join(item[1:])}" if len(item) > 1 else ""
            first = first_of.setdefault(digest, unit_id)
            if first != unit_id and not with_others:
                self.settle([unit_id], Disposition.DUPLICATE, f"same content as {first}")
            elif value < min_value:
                self.settle([unit_id], Disposition.BELOW_VALUE, f"value {value:.3g} is under {min_value:.3g}")
            elif cost > available - self._spent:
                self.settle(
                    [unit_id],
                    Disposition.OVER_BUDGET,
                    f"costs {cost} tokens{with_others}, {max(0, available - self._spent)} are left",
                )
            else:
                self._spent += cost
                for member in item:
                    first_of.setdefault(self._candidates[member].entry.content_sha256 or member, member)
                self.settle(item, Disposition.SELECTED, f"value {value:.3g} for {cost} tokens{with_others}")

    def _is_selected(self, unit_id: str) -> bool:
        return self._settled.get(unit_id, (None,))[0] is Disposition.SELECTED

    def finish(self, envelope_cost: int, *, unranked: bool) -> Selection:
        dispositions = [disposition for disposition, _ in self._settled.values()]
        count = dispositions.count(Disposition.SELECTED)
        if count:
            self._spent += envelope_cost
            few = "; few candidates that all fit, so none was left out by rank" if unranked else ""
            return self.selection(Outcome.SELECTED, f"{count} of {len(dispositions)} candidates selected{few}")
        if Disposition.OVER_BUDGET in dispositions:
            return self.selection(
                Outcome.NOTHING_FITS,
                f"every candidate worth its tokens is larger than the budget of {self._budget.retrieval_budget}",
            )
        return self.selection(
            Outcome.BELOW_THRESHOLD,
            "retrieval skipped: no candidates above value threshold (each is too improbable to be referenced)",
        )

    def selection(self, outcome: Outcome, detail: str) -> Selection:
        ranked = tuple(
            RankedCandidate(
                candidate=self._candidates[unit_id],
                valuation=self._valuations.get(unit_id, Valuation(0.0, self._predictor.intercept, ())),
                cost=self._costs[unit_id],
                rank=rank,
                disposition=self._settled[unit_id][0],
                detail=self._settled[unit_id][1],
            )
            for rank, unit_id in enumerate(self.by_ratio(), start=1)
        )
        selected = sum(r.disposition is Disposition.SELECTED for r in ranked)
        ledger = Ledger(self._budget, self._spent, self.charge, selected, len(ranked) - selected)
        return Selection(ranked, ledger, outcome, detail)


def _groups(companions: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """The units in groups, so that each stands with its companions."""
    group_of = {unit_id: [unit_id] for unit_id in companions}
    for unit_id, needed in companions.items():
        for other in needed:
            if other in group_of and group_of[other] is not group_of[unit_id]:
                group_of[unit_id].extend(group_of[other])
                for moved in group_of[other]:
                    group_of[moved] = group_of[unit_id]
    return list({id(group): group for group in group_of.values()}.values())


def _cost_of_all(candidates: Sequence[Candidate], costs: Mapping[str, int]) -> int:
    """Tokens of all of them, equal contents once (at the dearest id, since any of them may be the one that goes in)."""
    dearest: dict[str, int] = {}
    for candidate in candidates:
        digest = candidate.entry.content_sha256 or candidate.entry.unit_id
        dearest[digest] = max(dearest.get(digest, 0), costs[candidate.entry.unit_id])
    return sum(dearest.values())


def _affordable(candidates: Sequence[Candidate], retrieval_budget: int) -> list[Candidate]:
    """The candidates that are ranked: all, unless they are many or their ranking would cost too much.

    Then those that are near or on topic (all, where none is), the best of them by a cheap score as far as the charge
    allows.
    """
    most = retrieval_budget * MAX_RANKING_PERCENT // 100 * CANDIDATES_PER_RANKING_TOKEN
    kept = list(candidates)
    if len(kept) > min(PREFILTER_COUNT, most):
        near = [c for c in kept if _hops(c) < PREFILTER_HOPS or c.topic_score >= PREFILTER_TOPIC_SCORE or _linked(c)]
        kept = near or kept
    if len(kept) > most:
        kept = sorted(kept, key=lambda c: (-(c.topic_score + 2.0 ** -_hops(c) + _linked(c) / 4), c.entry.unit_id))[
            :most
        ]
    return kept


def _linked(candidate: Candidate) -> bool:
    """Whether it stands one edge or a turn or two from one of the best topic hits."""
    return bool(candidate.neighbourhood.links or candidate.neighbourhood.turns)


def _hops(candidate: Candidate) -> float:
    return candidate.path.hop_count if candidate.path else math.inf
