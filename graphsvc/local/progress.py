"""What the local stack says while it works: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn

_LINE_INTERVAL_S = 5.0
"""Seconds between two plain lines about the same fetch: a log stays readable."""


class StackProgress:
    """Progress that is not shown; base of those that show it. Methods may be called from several threads."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def say(self, message: str) -> None:
        """Tells one sentence about what happens now."""

    def fetch_started(self, jar_count: int, size_bytes: int) -> None:
        """A fetch of so many jars and bytes begins."""

    def fetch_advanced(self, jar_count: int, size_bytes: int) -> None:
        """So many more jars are verified and bytes have come (negative when an attempt is repeated)."""

    def fetch_ended(self) -> None:
        """The fetch is over, well or not."""

    def close(self) -> None:
        """Takes the bar off the terminal."""


class ConsoleProgress(StackProgress):
    """Progress on a console: a bar with bytes and jars on a terminal, else a line every few seconds.

    Args:
        console: where to write; standard error by default, so that standard output stays for results.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._jar_total = self._byte_total = self._jars = self._bytes = 0
        self._last_line = 0.0

    def say(self, message: str) -> None:
        """Prints the sentence."""
        self._console.print(message, highlight=False, markup=False, soft_wrap=True)

    def fetch_started(self, jar_count: int, size_bytes: int) -> None:
        """Shows the bar, or prints the first line."""
        self._jar_total, self._byte_total = jar_count, size_bytes
        self._jars = self._bytes = 0
        self._last_line = time.monotonic()
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn("Fetching Neo4j"),
                BarColumn(),
                DownloadColumn(),
                TransferSpeedColumn(),
                TextColumn("{task.fields[jars]}"),
                console=self._console,
                transient=True,
            )
            self._task = self._bar.add_task("fetch", total=size_bytes, jars=f"0/{jar_count} jars")
            self._bar.start()
        else:
            self.say(f"Fetching Neo4j: {jar_count} jars, {size_bytes / 1e6:.0f} MB")

    def fetch_advanced(self, jar_count: int, size_bytes: int) -> None:
        """Moves the bar, or prints a line when the last one is some seconds old."""
        self._jars += jar_count
        self._bytes += size_bytes
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._bytes, jars=f"{self._jars}/{self._jar_total} jars")
        elif time.monotonic() - self._last_line >= _LINE_INTERVAL_S:
            self._last_line = time.monotonic()
            self.say(
                f"  {self._bytes / 1e6:.0f} of {self._byte_total / 1e6:.0f} MB, {self._jars}/{self._jar_total} jars"
            )

    def fetch_ended(self) -> None:
        """Takes the bar away and prints how much was fetched."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        self.say(f"  {self._jars} of {self._jar_total} jars fetched and verified, {self._bytes / 1e6:.0f} MB")

    def close(self) -> None:
        """Takes the bar off the terminal."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
