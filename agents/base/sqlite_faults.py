"""Faults of SQLite by their remedies."""

import errno
import sqlite3

BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
"""Another process uses the file; the last is of locks on a network disk."""
DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR})
"""The file has to be removed; the last is of other tables than expected."""
_ERRNO = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
    **dict.fromkeys((sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM), errno.EACCES),
}
_KIND = 0xFF  # the last byte of a code, without its details


def get_kind(error: BaseException) -> int:
    """Return the kind of a fault (``sqlite3.SQLITE_FULL``), or 0 if the error has no code of SQLite."""
    return int(getattr(error, "sqlite_errorcode", 0)) & _KIND


def find_errno(code: int) -> int | None:
    """Return the errno for a code of SQLite, or None if neither a disk nor a permission is at fault.

    ``format_os_error`` has advice for these numbers.
    """
    return _ERRNO.get(code & _KIND)
