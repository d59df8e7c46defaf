"""The hot tier: content in this process's memory, bounded by bytes.

Source: product.md, Content; gate T1.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping

from graphsvc.ports import ContentKey

ENTRY_OVERHEAD_BYTES = 512
"""What Python spends on a key, its three strings and the table entry besides the content, rounded up."""


class HotTier:
    """The most recently used contents; used from the event loop only.

    Args:
        capacity_bytes: contents and their overhead together stay at or under it; 0: nothing is kept.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity_bytes = capacity_bytes
        self._contents: OrderedDict[ContentKey, bytes] = OrderedDict()
        self._size_bytes = 0
        self._epoch = 0

    @property
    def size_bytes(self) -> int:
        """Bytes held, overhead included."""
        return self._size_bytes

    @property
    def epoch(self) -> int:
        """Number of removals so far: what was read before one must not be kept after it."""
        return self._epoch

    def __len__(self) -> int:
        return len(self._contents)

    def get(self, key: ContentKey) -> bytes | None:
        """The content, now the most recently used one, or None."""
        content = self._contents.get(key)
        if content is not None:
            self._contents.move_to_end(key)
        return content

    def keep(self, contents: Mapping[ContentKey, bytes], epoch: int) -> None:
        """Keeps contents, the least recently used ones making room.

        Args:
            contents: by key; one that is larger than the whole capacity is not kept.
            epoch: :attr:`epoch` from before they were read or written; if anything was removed since, nothing is
                kept, so that a deleted content cannot come back from a read that had begun earlier.
        """
        if epoch != self._epoch:
            return
        for key, content in contents.items():
            size = len(content) + ENTRY_OVERHEAD_BYTES
            if size > self._capacity_bytes:
                continue
            self._drop(key)
            self._contents[key] = content
            self._size_bytes += size
            while self._size_bytes > self._capacity_bytes:
                _, evicted = self._contents.popitem(last=False)
                self._size_bytes -= len(evicted) + ENTRY_OVERHEAD_BYTES

    def discard(self, keys: Iterable[ContentKey]) -> None:
        """Removes contents; those that are not there are no fault."""
        self._epoch += 1
        for key in keys:
            self._drop(key)

    def _drop(self, key: ContentKey) -> None:
        content = self._contents.pop(key, None)
        if content is not None:
            self._size_bytes -= len(content) + ENTRY_OVERHEAD_BYTES
