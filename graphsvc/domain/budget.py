"""Token budgets and the ledger of one retrieval (gates B4, B5, B12, B13).

Source: seed selection-budgeted-retrieval, Budget Allocation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from graphsvc.domain.errors import ErrorReason, InvalidArgument

MIN_REASONING_RESERVE_RATIO = 0.40
MAX_TOKENS = 10_000_000
MAX_THRESHOLD_FACTOR = 10.0
"""A session that is out of tokens still gets what is all but certain to be used."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How many tokens a retrieval may inject. All counts are tokens.

    Attributes:
        total_step_budget: what the step may use; None when the caller gave the retrieval budget itself.
        threshold_factor: what both value thresholds are multiplied with, 1 to 10: above 1 when the session's remaining
            tokens, spread over its remaining steps, are fewer than this step uses.
    """

    retrieval_budget: int
    total_step_budget: int | None = None
    harness_overhead: int = 0
    reasoning_reserve: int = 0
    threshold_factor: float = 1.0

    @classmethod
    def of_step(
        cls, total_step_budget: int, harness_overhead: int, reserve_ratio: float, threshold_factor: float = 1.0
    ) -> Budget:
        """The budget left of a step's total after the harness and the reasoning reserve; at least 0.

        Args:
            total_step_budget: tokens of the step, 1 to 10,000,000.
            harness_overhead: tokens of what the caller sends besides, 0 or more.
            reserve_ratio: share kept for reasoning, 0.40 or more.
            threshold_factor: from :func:`threshold_factor`.

        Raises:
            InvalidArgument: FIELD_INVALID for a number out of range.
        """
        if not 1 <= total_step_budget <= MAX_TOKENS:
            raise InvalidArgument(
                ErrorReason.FIELD_INVALID,
                f"total_step_budget must be 1 to {MAX_TOKENS} tokens",
                field="budget.total_step_budget",
            )
        if harness_overhead < 0:
            raise InvalidArgument(
                ErrorReason.FIELD_INVALID, "harness_overhead must be 0 or more tokens", field="budget.harness_overhead"
            )
        if not MIN_REASONING_RESERVE_RATIO <= reserve_ratio < 1:
            raise InvalidArgument(
                ErrorReason.FIELD_INVALID,
                f"reasoning_reserve_ratio must be {MIN_REASONING_RESERVE_RATIO} or more and under 1",
                field="budget.reasoning_reserve_ratio",
            )
        reserve = math.ceil(total_step_budget * reserve_ratio)
        return cls(
            retrieval_budget=max(0, total_step_budget - harness_overhead - reserve),
            total_step_budget=total_step_budget,
            harness_overhead=harness_overhead,
            reasoning_reserve=reserve,
            threshold_factor=threshold_factor,
        )

    @classmethod
    def of_retrieval(cls, retrieval_budget: int) -> Budget:
        """The budget the caller gives as such, 0 to 10,000,000 tokens (0: nothing is retrieved)."""
        if not 0 <= retrieval_budget <= MAX_TOKENS:
            raise InvalidArgument(
                ErrorReason.FIELD_INVALID,
                f"retrieval_budget must be 0 to {MAX_TOKENS} tokens",
                field="budget.retrieval_budget",
            )
        return cls(retrieval_budget=retrieval_budget)


def threshold_factor(
    total_step_budget: int, session_tokens_remaining: int, expected_steps: int, task_step: int
) -> float:
    """How much dearer a token is than planned, 1 to 10: this step's budget over the projection for each step to come.

    Args:
        total_step_budget: tokens of this step.
        session_tokens_remaining: tokens the session has left, this step's included, 0 or more.
        expected_steps: steps the session is expected to take in all, 1 or more.
        task_step: steps taken before this one; past the expectation, one is left.
    """
    projected = session_tokens_remaining / max(1, expected_steps - task_step)
    if projected * MAX_THRESHOLD_FACTOR <= total_step_budget:
        return MAX_THRESHOLD_FACTOR
    return max(1.0, total_step_budget / projected)


@dataclass(frozen=True, slots=True)
class Ledger:
    """Where the tokens went. budget_remaining = retrieval_budget - ranking_charge - tokens_spent, never negative."""

    budget: Budget
    tokens_spent: int
    ranking_charge: int
    candidates_selected: int
    candidates_deferred: int

    @property
    def budget_remaining(self) -> int:
        """Tokens of the retrieval budget neither injected nor charged."""
        return self.budget.retrieval_budget - self.ranking_charge - self.tokens_spent
