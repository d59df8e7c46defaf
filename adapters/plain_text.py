"""The plain-text adapter: blocks one after the other, for a runtime that injects text by itself.

Source: seed selection-budgeted-retrieval, Retrieve & Inject; gate B1.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphsvc.domain.rendering import render_block, render_header
from graphsvc.ports import Block, Rendering, TokenCounter


class PlainTextAdapter:
    """Implements ports.VendorAdapter: a unit costs its header and its stored token count; there is no envelope."""

    name = "plain_text"

    def block_overhead(self, unit_id: str, encoding: str, counter: TokenCounter) -> int:
        """Tokens of the citation line with its line end."""
        return counter.count(render_header(unit_id), encoding)

    def envelope_overhead(self, encoding: str, counter: TokenCounter) -> int:
        """0: there is no envelope."""
        return 0

    def render(self, blocks: Sequence[Block], encoding: str, counter: TokenCounter) -> Rendering:
        """The blocks in the given order, counted as one text; no blocks are an empty text of 0 tokens."""
        text = "".join(render_block(block.unit_id, block.content) for block in blocks)
        return Rendering(
            text=text, token_count=counter.count(text, encoding), encoding=encoding, unit_count=len(blocks)
        )
