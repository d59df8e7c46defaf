"""The warm tier: content in one LMDB environment, and beside it, in the same transactions, the outbox for S3.

Three sub-databases. ``content``: key, see :func:`_encode_key`; value, stored time and the content. ``outbox``: sequence
(counted up, so first in is first listed) to what is to be done in S3. ``outbox_by_key``: key to the
sequence of its entry, so that a key never has more than one: a later operation takes the place of an earlier one.

Every write is one synced transaction. Writes that wait for the same disk share one (group commit).
Source: product.md, Content.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import hashlib
import os
import struct
import threading
from collections import deque
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from pathlib import Path
from typing import Any, Generic, TypeVar

import lmdb

from graphsvc.domain.errors import ErrorReason, FailedPrecondition, InvalidArgument, ResourceExhausted
from graphsvc.ports import ContentKey, StoredContent

T = TypeVar("T")

FORMAT_VERSION = b"1"
THREADS = 4
"""One writes, the others read; LMDB reads are short."""
GROUP_BYTES = 64 * 2**20
"""Content that one transaction takes in from several waiting puts; a single put may be larger."""
RESERVE_BYTES = 32 * 2**20
"""Map beyond the maximum that only removals use: LMDB needs free pages to remove, else a full map would stay full."""

_libc = ctypes.CDLL(None)
_MADV_DONTNEED = 4
"""From sys/mman.h; of a file's shared map it drops nothing but the page table's entries."""
_STORED = struct.Struct(">Q")
_SEQUENCE = struct.Struct(">Q")
_ENTRY = struct.Struct(">BQQQ")
_TOTALS = struct.Struct(">QQ")
_NO_TOTALS = _TOTALS.pack(0, 0)
_DIGEST_BYTES = 32
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""LMDB says EIO when the disk takes a part of a write only, which is how most disks become full."""


class Operation(IntEnum):
    """What an outbox entry asks of S3."""

    PUT = 1
    DELETE = 2


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """One thing to be done in S3.

    Attributes:
        sequence: names the entry; a later operation on the same key has another one.
        enqueued_time: when it was asked for.
        stored_before: a delete spares an object that S3 stored at or after this time; None: it spares none.
    """

    sequence: bytes
    operation: Operation
    key: ContentKey
    enqueued_time: datetime
    stored_before: datetime | None


@dataclass(frozen=True, slots=True)
class Backlog:
    """What S3 does not have yet.

    Attributes:
        pending_count: entries, puts and deletes.
        pending_bytes: content of the puts among them.
        oldest_age_s: seconds the first of them has waited; 0 when there is none.
    """

    pending_count: int
    pending_bytes: int
    oldest_age_s: float


@dataclass(frozen=True, slots=True)
class WarmRead:
    """What a read found.

    Attributes:
        contents: those whose digest holds.
        corrupt: keys whose content does not match its digest.
        deleted: keys that are not here and whose removal from S3 is pending: S3 must not be asked.
    """

    contents: dict[ContentKey, bytes]
    corrupt: frozenset[ContentKey]
    deleted: frozenset[ContentKey]


class WarmTier:
    """One LMDB environment, shared by every thread of the process and by other processes.

    Args:
        path: directory; made if absent.
        map_bytes: first size of the map.
        map_max_bytes: size up to which a full map doubles.
    """

    def __init__(self, path: Path, *, map_bytes: int, map_max_bytes: int) -> None:
        self._path = path
        self._map_bytes = map_bytes
        self._map_max_bytes = map_max_bytes
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="graphsvc-warm")
        self._gate = _Gate()
        self._queue: deque[_Write[Any]] = deque()
        self._flusher: asyncio.Task[None] | None = None
        self.read_count = 0
        """Reads asked for, each one transaction."""
        self.write_count = 0
        """Writes asked for."""
        self.commit_count = 0
        """Synced transactions they took."""

    async def open(self) -> None:
        """Opens the environment.

        Raises:
            FailedPrecondition: SCHEMA_MISMATCH, another version of graphsvc wrote it.
        """
        await self._in_thread(self._open)

    async def aclose(self) -> None:
        """Returns when what was asked for is written and the environment is closed."""
        if self._flusher is not None:
            await self._flusher
        await self._in_thread(self._close)
        self._executor.shutdown()

    async def put(self, contents: Mapping[ContentKey, bytes], now: datetime) -> None:
        """Returns when every content and its outbox entry are synced to disk; all or none.

        Raises:
            ResourceExhausted: STORAGE_FULL; nothing was written.
        """
        encoded = [(_encode_key(key), content) for key, content in contents.items()]
        stored = _STORED.pack(_micros(now))

        def work(changes: _Changes) -> None:
            for key, content in encoded:
                changes.put_content(key, stored + content)
                changes.enqueue(Operation.PUT, key, now, size_bytes=len(content))

        await self._write(work, size_bytes=sum(map(len, contents.values())))

    async def delete(self, keys: Sequence[ContentKey], now: datetime, stored_before: datetime | None = None) -> int:
        """How many were removed, or were not here, each with an entry that removes it from S3.

        Args:
            keys: what to remove.
            now: the time of the request.
            stored_before: spare what was put at or after this time; None: spare nothing.
        """
        encoded = [_encode_key(key) for key in keys]

        def work(changes: _Changes) -> int:
            removed = 0
            for key in encoded:
                stored_time = changes.stored_time(key)
                if stored_before is not None and stored_time is not None and stored_time >= stored_before:
                    continue
                changes.delete_content(key)
                changes.enqueue(Operation.DELETE, key, now, stored_before=stored_before)
                removed += 1
            return removed

        return await self._write(work, frees=True)

    async def repair(self, key: ContentKey, content: bytes) -> None:
        """Puts the right content in the place of a damaged one, if that is still there."""
        encoded = _encode_key(key)

        def work(changes: _Changes) -> None:
            stored_time = changes.stored_time(encoded)
            if stored_time is not None:
                changes.put_content(encoded, _STORED.pack(_micros(stored_time)) + content)

        await self._write(work, size_bytes=len(content))

    async def acknowledge(self, entries: Sequence[OutboxEntry]) -> None:
        """Removes entries that S3 has carried out; one that a later operation has replaced is left alone."""

        def work(changes: _Changes) -> None:
            for entry in entries:
                changes.dequeue(entry.sequence)

        await self._write(work, frees=True)

    async def read(self, keys: Sequence[ContentKey]) -> WarmRead:
        """The contents that are here, read in one transaction, digests checked."""
        encoded = [(key, _encode_key(key)) for key in keys]

        def work(view: _View) -> tuple[dict[ContentKey, bytes], set[ContentKey]]:
            found: dict[ContentKey, bytes] = {}
            deleted: set[ContentKey] = set()
            for key, raw in encoded:
                content = view.content(raw)
                if content is not None:
                    found[key] = content
                elif view.pending_operation(raw) is Operation.DELETE:
                    deleted.add(key)
            return found, deleted

        def checked() -> WarmRead:
            # digests after the transaction: a reader that lasts keeps LMDB from using freed pages again
            found, deleted = self._run_read(work)
            corrupt = frozenset(key for key, content in found.items() if not matches_digest(key, content))
            for key in corrupt:
                del found[key]
            return WarmRead(found, corrupt, frozenset(deleted))

        self.read_count += 1
        return await self._in_thread(checked)

    async def list_keys(self, after: ContentKey | None, limit: int) -> tuple[StoredContent, ...]:
        """Keys and stored times in key order, after the given one, at most ``limit``."""
        start = None if after is None else _encode_key(after)
        return await self._read(lambda view: view.stored(start, limit))

    async def list_outbox(self, limit: int, skip: Collection[bytes] = ()) -> tuple[OutboxEntry, ...]:
        """Outbox entries, the oldest first, at most ``limit``, without those whose sequence is in ``skip``."""
        return await self._read(lambda view: view.entries(limit, skip))

    async def has_pending_puts(self, keys: Sequence[ContentKey]) -> bool:
        """Whether S3 still lacks one of these."""
        encoded = [_encode_key(key) for key in keys]
        return await self._read(lambda view: any(view.pending_operation(key) is Operation.PUT for key in encoded))

    async def backlog(self, now: datetime) -> Backlog:
        """What the outbox holds."""
        return await self._read(lambda view: view.backlog(now))

    async def _write(self, work: Callable[[_Changes], T], *, size_bytes: int = 0, frees: bool = False) -> T:
        self.write_count += 1
        write = _Write(work, size_bytes, frees, asyncio.get_running_loop().create_future())
        self._queue.append(write)
        if self._flusher is None or self._flusher.done():
            self._flusher = asyncio.create_task(self._flush(), name="graphsvc-warm-commit")
        return await write.done

    async def _flush(self) -> None:
        """Commits what is waiting, again and again: what arrives during one sync goes into the next transaction."""
        while self._queue:
            group = [self._queue.popleft()]
            size = group[0].size_bytes
            while self._queue and size + self._queue[0].size_bytes <= GROUP_BYTES:
                size += self._queue[0].size_bytes
                group.append(self._queue.popleft())
            outcomes = await self._in_thread(lambda group=group: self._commit(group))
            for write, outcome in zip(group, outcomes, strict=True):
                if write.done.done():  # its caller was cancelled
                    continue
                if isinstance(outcome, BaseException):
                    write.done.set_exception(outcome)
                else:
                    write.done.set_result(outcome)

    def _commit(self, group: Sequence[_Write[Any]]) -> list[Any]:
        """What each write gave, or the exception it failed with, in order."""
        try:
            return self._transact(group)
        except Exception as error:
            if len(group) == 1:
                return [error]
        # One of them does not fit: each for itself, so that it takes no other down.
        return [self._commit([write])[0] for write in group]

    def _transact(self, group: Sequence[_Write[Any]]) -> list[Any]:
        ceiling = self._map_max_bytes + (RESERVE_BYTES if all(write.frees for write in group) else 0)
        turned_over = False
        while True:
            if self._map_size() > ceiling:  # removals had to use the reserve: it is not for puts
                self._set_map_size(ceiling)
            try:
                with self._gate.shared(), self._environment.begin(write=True) as transaction:
                    self.commit_count += 1
                    changes = _Changes(transaction, self._tables)
                    outcomes = [write.work(changes) for write in group]
                    changes.finish()
                self._release_map()
                return outcomes
            except lmdb.MapResizedError:
                self._set_map_size(0)
            except lmdb.MapFullError as error:
                # readers that were killed hold pages that could be used again
                if self._environment.reader_check():
                    continue
                if self._map_size() < ceiling:
                    self._set_map_size(min(2 * self._map_size(), ceiling))
                elif not turned_over:
                    turned_over = True
                    self._turn_over()
                else:
                    raise _storage_full(
                        "the LMDB map is full: delete units, or raise GRAPHSVC_LMDB_MAP_MAX_MB"
                    ) from error
            except lmdb.Error as error:
                if error.code in _FULL:
                    raise _storage_full(
                        "the disk of the LMDB directory is full, or fails: make room, or replace it"
                    ) from error
                raise

    def _turn_over(self) -> None:
        """Commits a transaction of no meaning: pages are free only from the second transaction after their removal."""
        self._set_map_size(self._map_max_bytes + RESERVE_BYTES)
        with (
            contextlib.suppress(lmdb.MapFullError),
            self._gate.shared(),
            self._environment.begin(write=True, db=self._tables.meta) as transaction,
        ):
            transaction.put(b"turn", str(transaction.id()).encode())

    async def _read(self, work: Callable[[_View], T]) -> T:
        self.read_count += 1
        return await self._in_thread(lambda: self._run_read(work))

    def _run_read(self, work: Callable[[_View], T]) -> T:
        while True:
            try:
                with self._gate.shared(), self._environment.begin(buffers=True) as transaction:
                    found = work(_View(transaction, self._tables))
                self._release_map()
                return found
            except lmdb.MapResizedError:
                self._set_map_size(0)

    def _map_size(self) -> int:
        with self._gate.shared():
            return self._environment.info()["map_size"]

    def _set_map_size(self, size: int) -> None:
        """Changes the size of the map; 0: what another process has grown it to."""
        with self._gate.alone():
            self._map = None  # what lies at its address from now on is not ours to let go of
            self._environment.set_mapsize(size)
            self._map = _find_map(self._path / "data.mdb")

    def _close(self) -> None:
        with self._gate.alone():
            self._map = None
            self._environment.close()

    def _release_map(self) -> None:
        """Lets go of the map's pages: one that is used again comes from the page cache, in a microsecond.

        Otherwise every page that was ever touched, and its neighbours, count as memory of this process.
        """
        with self._gate.shared():  # the address is the map's as long as its size does not change
            if self._map is not None:
                _libc.madvise(ctypes.c_void_p(self._map.start), ctypes.c_size_t(len(self._map)), _MADV_DONTNEED)

    def _open(self) -> None:
        self._path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._environment = lmdb.open(
            str(self._path), map_size=self._map_bytes, max_dbs=4, max_spare_txns=THREADS, mode=0o600, readahead=False
        )
        self._map = _find_map(self._path / "data.mdb")
        self._environment.reader_check()
        with self._environment.begin(write=True) as transaction:
            self._tables = _Tables(
                content=self._environment.open_db(b"content", transaction),
                outbox=self._environment.open_db(b"outbox", transaction),
                outbox_by_key=self._environment.open_db(b"outbox_by_key", transaction),
                meta=self._environment.open_db(b"meta", transaction),
            )
            transaction.put(b"format", FORMAT_VERSION, overwrite=False, db=self._tables.meta)
            written = transaction.get(b"format", db=self._tables.meta)
        if written != FORMAT_VERSION:
            self._environment.close()
            raise FailedPrecondition(
                ErrorReason.SCHEMA_MISMATCH,
                "another version of graphsvc wrote the LMDB directory: use that version, or set GRAPHSVC_LMDB_PATH",
            )
        # LMDB syncs its files; that the directory names them must reach the disk too
        descriptor = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)


@dataclass(slots=True)
class _Write(Generic[T]):
    work: Callable[[_Changes], T]
    size_bytes: int
    frees: bool
    done: asyncio.Future[T]


@dataclass(frozen=True, slots=True)
class _Tables:
    content: lmdb._Database
    outbox: lmdb._Database
    outbox_by_key: lmdb._Database
    meta: lmdb._Database


class _View:
    """A read transaction."""

    def __init__(self, transaction: lmdb.Transaction[memoryview], tables: _Tables) -> None:
        self._transaction = transaction
        self._tables = tables

    def content(self, key: bytes) -> bytes | None:
        value = self._transaction.get(key, db=self._tables.content)
        return None if value is None else bytes(value[_STORED.size :])

    def stored(self, after: bytes | None, limit: int) -> tuple[StoredContent, ...]:
        found: list[StoredContent] = []
        with self._transaction.cursor(db=self._tables.content) as cursor:
            more = cursor.first() if after is None else cursor.set_range(after)
            if more and after is not None and bytes(cursor.key()) == after:
                more = cursor.next()
            while more and len(found) < limit:
                stored = _time(_STORED.unpack_from(cursor.value())[0])
                found.append(StoredContent(_decode_key(bytes(cursor.key())), stored))
                more = cursor.next()
        return tuple(found)

    def pending_operation(self, key: bytes) -> Operation | None:
        sequence = self._transaction.get(key, db=self._tables.outbox_by_key)
        if sequence is None:
            return None
        value = self._transaction.get(sequence, db=self._tables.outbox)
        return None if value is None else Operation(value[0])

    def entries(self, limit: int, skip: Collection[bytes]) -> tuple[OutboxEntry, ...]:
        found: list[OutboxEntry] = []
        with self._transaction.cursor(db=self._tables.outbox) as cursor:
            more = cursor.first()
            while more and len(found) < limit:
                sequence = bytes(cursor.key())
                if sequence not in skip:
                    found.append(_decode_entry(sequence, bytes(cursor.value())))
                more = cursor.next()
        return tuple(found)

    def backlog(self, now: datetime) -> Backlog:
        oldest = self.entries(1, ())
        if not oldest:
            return Backlog(0, 0, 0.0)
        return Backlog(
            self._transaction.stat(self._tables.outbox)["entries"],
            _TOTALS.unpack(self._transaction.get(b"outbox", memoryview(_NO_TOTALS), db=self._tables.meta))[1],
            max(0.0, (now - oldest[0].enqueued_time).total_seconds()),
        )


class _Changes:
    """A write transaction; keeps the three tables of the outbox in step."""

    def __init__(self, transaction: lmdb.Transaction[bytes], tables: _Tables) -> None:
        self._transaction = transaction
        self._tables = tables
        totals = transaction.get(b"outbox", _NO_TOTALS, db=tables.meta)
        self._next_sequence, self._pending_bytes = _TOTALS.unpack(totals)
        self._totals = totals

    def put_content(self, key: bytes, value: bytes) -> None:
        self._transaction.put(key, value, db=self._tables.content)

    def delete_content(self, key: bytes) -> None:
        self._transaction.delete(key, db=self._tables.content)

    def stored_time(self, key: bytes) -> datetime | None:
        with self._transaction.cursor(db=self._tables.content) as cursor:
            return _time(_STORED.unpack_from(cursor.value())[0]) if cursor.set_key(key) else None

    def enqueue(
        self,
        operation: Operation,
        key: bytes,
        now: datetime,
        *,
        size_bytes: int = 0,
        stored_before: datetime | None = None,
    ) -> None:
        """Adds an entry in the place of the key's earlier one, or keeps that if it asks for the same or more."""
        cutoff = 0 if stored_before is None else _micros(stored_before)
        earlier = self._transaction.get(key, db=self._tables.outbox_by_key)
        if earlier is not None:
            value = self._transaction.get(earlier, db=self._tables.outbox)
            if value is not None:
                was, _, _, was_cutoff = _ENTRY.unpack_from(value)
                if was == operation and was_cutoff in (0, cutoff):
                    return
            self.dequeue(earlier)
        sequence = _SEQUENCE.pack(self._next_sequence)
        self._next_sequence += 1
        entry = _ENTRY.pack(operation, _micros(now), size_bytes, cutoff) + key
        self._transaction.put(sequence, entry, db=self._tables.outbox)
        self._transaction.put(key, sequence, db=self._tables.outbox_by_key)
        self._pending_bytes += size_bytes

    def dequeue(self, sequence: bytes) -> None:
        """Removes an entry; one that is gone is no fault."""
        value = self._transaction.pop(sequence, db=self._tables.outbox)
        if value is not None:
            self._transaction.delete(value[_ENTRY.size :], db=self._tables.outbox_by_key)
            self._pending_bytes -= _ENTRY.unpack_from(value)[2]

    def finish(self) -> None:
        """Writes the totals; the last thing before the commit."""
        totals = _TOTALS.pack(self._next_sequence, self._pending_bytes)
        if totals != self._totals:
            self._transaction.put(b"outbox", totals, db=self._tables.meta)


class _Gate:
    """Transactions run side by side, a change of the map size alone: LMDB allows none to be open then."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._inside = 0
        self._changing = False

    @contextlib.contextmanager
    def shared(self) -> Generator[None]:
        with self._condition:
            self._condition.wait_for(lambda: not self._changing)
            self._inside += 1
        try:
            yield
        finally:
            with self._condition:
                self._inside -= 1
                self._condition.notify_all()

    @contextlib.contextmanager
    def alone(self) -> Generator[None]:
        with self._condition:
            self._condition.wait_for(lambda: not self._changing)
            self._changing = True
            self._condition.wait_for(lambda: self._inside == 0)
        try:
            yield
        finally:
            with self._condition:
                self._changing = False
                self._condition.notify_all()


def _find_map(path: Path) -> range | None:
    """Where a file is mapped in this process, to be read and shared; None: nowhere, or this is not Linux."""
    name = f" {path.resolve()}"
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/maps").read_text().splitlines():
            if " r--s " in line and line.endswith(name):
                start, end = line.split(" ", 1)[0].split("-")
                return range(int(start, 16), int(end, 16))
    return None


def matches_digest(key: ContentKey, content: bytes) -> bool:
    """Whether the content is the one the key names."""
    return hashlib.sha256(content).hexdigest() == key.content_sha256


def _encode_key(key: ContentKey) -> bytes:
    """Encodes as tenant NUL unit NUL digest: the contents of a tenant stand together, and the key says what it is."""
    tenant, unit, digest = key.tenant_id.encode(), key.unit_id.encode(), bytes.fromhex(key.content_sha256)
    if not tenant or not unit or b"\0" in tenant + unit or len(digest) != _DIGEST_BYTES:
        raise InvalidArgument(
            ErrorReason.FIELD_INVALID, "a content key needs a tenant, a unit and a sha256, without NUL"
        )
    return b"\0".join((tenant, unit, digest))


def _decode_key(encoded: bytes) -> ContentKey:
    tenant, unit = encoded[: -_DIGEST_BYTES - 1].split(b"\0")
    return ContentKey(tenant.decode(), unit.decode(), encoded[-_DIGEST_BYTES:].hex())


def _decode_entry(sequence: bytes, value: bytes) -> OutboxEntry:
    operation, enqueued, _, cutoff = _ENTRY.unpack_from(value)
    return OutboxEntry(
        sequence,
        Operation(operation),
        _decode_key(value[_ENTRY.size :]),
        _time(enqueued),
        _time(cutoff) if cutoff else None,
    )


def _micros(time: datetime) -> int:
    return (time - _EPOCH) // _MICROSECOND


def _time(micros: int) -> datetime:
    return _EPOCH + micros * _MICROSECOND


def _storage_full(message: str) -> ResourceExhausted:
    return ResourceExhausted(ErrorReason.STORAGE_FULL, message)
