"""Addresses of data (``s3://bucket/x.parquet``): shown and stored without their credentials; hashes of files.

Files are written whole or not at all, and a sealed record says whether it is what was written.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote

if sys.platform != "win32":
    import fcntl

#: What a path makes of an address: it takes one of two slashes away.
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/+(.*)", re.DOTALL)
_IN_TEXT = re.compile(r"(?<![a-z0-9+.-])([a-z][a-z0-9+.-]+:/+)(\S+)", re.IGNORECASE)
_ONE_SLASH = re.compile(r"(?<![a-z0-9+./-])((?!file:)[a-z][a-z0-9+.-]+:/)(?=[^/\s])", re.IGNORECASE)
CHAINED = re.compile(r"::(?=[a-z][a-z0-9+.-]+:/)", re.IGNORECASE)
_WITH_PORT = re.compile(r"[^:]*(:\d{0,5})?|\[.*\](:\d{0,5})?")
_END_OF_CLAUSE = re.compile(r"[\])}>'\"`,;:.]+$")
CONTAINERS = ("abfs", "abfss", "az")  # schemes whose container is where others have the user
SHORTEST_PASSWORD, SHORTEST_USER = 4, 8  # letters of what is taken out of a text even where no address is around it
_TOKEN = re.compile(r"(?i)[^=]*(?:sig|tok|key|secret|cred|pass|auth)[^=]*(?:=(.*))?|[^=]*=?(.{20,})")  # of a query

SEAL = 32  # bytes of the hash before what is kept
log = logging.getLogger(__name__)

_given: dict[str, str] = {}  # addresses without their credentials, and as they were given to a command of this process
_secrets: dict[str, str] = {}  # parts of the addresses that were opened, and what is shown in their place


def address_of(place: str | Path) -> str | None:
    """The address (``s3://...``, ``file:///...``) that was given, even as a path; None for a local path."""
    found = _ADDRESS.fullmatch(str(place))
    if found is None or Path(place).exists():
        return None
    return f"{found[1]}://{'/' if found[1] == 'file' else ''}{found[2]}"


def without_credentials(text: str) -> str:
    """The text with its addresses as they may be shown and stored: without user, password, query and fragment.

    Of addresses that were opened or given to a command in this process, passwords and tokens are removed everywhere.

    Examples
    --------
    >>> without_credentials("s3://KEY:SECRET@bucket/x.parquet?X-Amz-Signature=12: cannot be read")
    's3://bucket/x.parquet: cannot be read'
    >>> without_credentials("simplecache::https://me:pass@host:80/x#token, rows 1 to 9")
    'simplecache::https://host:80/x, rows 1 to 9'
    """
    if ":/" in text:
        text = _IN_TEXT.sub(lambda found: found[1] + _bare(found[1], found[2]), _ONE_SLASH.sub(r"\1/", text))
    for secret, shown in _secrets.items():
        text = text.replace(secret, shown)
    return text


def keep_credentials(place: Path) -> Path:
    """The place without credentials; `as_given` knows them from now on."""
    address = address_of(place)
    if address is None:
        return place
    note_credentials(address)
    shown = without_credentials(address)
    if shown != address:
        _given[shown] = address
    return Path(shown)


def as_given(address: str) -> str:
    """The address with the credentials that a command of this process was given for it."""
    return _given.get(address, address)


def note_credentials(text: str) -> None:
    """Take what is secret in an address out of every text from now on, in whatever form a library repeats it."""
    for found in _IN_TEXT.finditer(text):
        scheme = found[1]
        for part in CHAINED.split(found[2]):
            inner = _IN_TEXT.fullmatch(part)
            user, _, query = _parted(*((inner[1], inner[2]) if inner else (scheme, part)))
            secrets = {f"{user}@": ""} if ":" in user[:-1] else {}
            secrets |= {f"?{query}": "", f"#{query}": ""} if query else {}
            name, _, password = user.partition(":")
            tokens = [one[1] or one[2] or one[0] for one in map(_TOKEN.fullmatch, re.split("[&#]", query)) if one]
            least_of = [(password, SHORTEST_PASSWORD), *((one, SHORTEST_USER) for one in (name, *tokens))]
            for secret, least in least_of:
                secrets |= {one: "***" for one in (secret, unquote(secret)) if len(one) >= least}
            _secrets.update({secret: shown for secret, shown in secrets.items() if len(secret) >= SHORTEST_PASSWORD})
    for secret in sorted(_secrets, key=len, reverse=True):  # a long one may hold a short one
        _secrets[secret] = _secrets.pop(secret)


def _bare(scheme: str, rest: str) -> str:
    """What follows the scheme of an address in a text, of chained addresses each without its credentials."""
    first, *chained = CHAINED.split(rest, maxsplit=1)
    end = _END_OF_CLAUSE.search(first)
    shown = _IN_TEXT.sub(lambda found: found[1] + _bare(found[1], found[2]), _parted(scheme, first)[1])
    if chained:
        return f"{shown}::{without_credentials(chained[0])}"
    return shown if end is None or shown.endswith(end[0]) else shown + end[0]


def _parted(scheme: str, rest: str) -> tuple[str, str, str]:
    """User and password, what may be shown, and query with fragment of what follows a scheme."""
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    user = ""
    if "@" in authority:
        user = authority.rpartition("@")[0]
    elif not _WITH_PORT.fullmatch(authority):
        user = rest.rpartition("@")[0]  # a password with a slash or a question mark
    shown, _, query = re.sub("[?#]", "\0", rest[len(user) + bool(user) :], count=1).partition("\0")
    if user and scheme.partition(":")[0].lower() in CONTAINERS:
        container, colon, password = user.partition(":")
        user, shown = colon + password, f"{container}@{shown}"
    return user, shown, query


def file_hash(path: Path) -> str:
    """Hash of a file's bytes, ``sha256:...``; of a folder that of its files' names and hashes."""
    if path.is_dir():
        files = sorted(inner for inner in path.rglob("*") if inner.is_file())
        listed = "".join(f"{inner.relative_to(path).as_posix()} {file_hash(inner)}\n" for inner in files)
        return text_hash(listed)
    with path.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()


def text_hash(text: str) -> str:
    """Hash of a text, ``sha256:...``."""
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def write_whole(file: Path, *content: bytes | memoryview, sure: bool = True) -> None:
    """Write a file, whole or not at all: next to it, where it is to be sure on the disk, and then in its place."""
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        part.unlink(missing_ok=True)
        with part.open("xb") as opened:  # made anew: no link of that name is followed
            opened.writelines(content)
            opened.flush()
            if sure:
                os.fsync(opened.fileno())
        os.replace(part, file)
    finally:
        part.unlink(missing_ok=True)


def lock_on(place: Path, flags: int = os.O_RDONLY) -> int | None:
    """An open lock on a file or folder; None where another run has it or the system knows no such locks."""
    if sys.platform == "win32":
        return None
    descriptor = os.open(place, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def keep(file: Path, key: str, content: bytes | memoryview) -> None:
    """Keep the result of a step behind a hash of it and of a key: all that it depends on."""
    write_whole(file, _seal(key, content), content, sure=False)


def kept_in(file: Path, key: str) -> memoryview | None:
    """What is kept under this key; None where there is nothing, or, with a warning, something else."""
    try:
        found = memoryview(file.read_bytes())
    except FileNotFoundError:
        return None
    except OSError:
        found = memoryview(b"")
    if found[:SEAL] == _seal(key, found[SEAL:]):
        return found[SEAL:]
    file.unlink(missing_ok=True)
    log.warning("%s: is not what was written; computed anew", file)
    return None


def _seal(key: str, content: bytes | memoryview) -> bytes:
    digest = hashlib.sha256(f"{key} ".encode())
    digest.update(content)
    return digest.digest()


def write_sealed(file: Path, record: Any, key: str = "") -> None:
    """Write plain JSON values with a hash of them, and a key to be known by."""
    text = json.dumps(record)
    sealed = f'{{"key": {json.dumps(key)}, "hash": "{text_hash(text)}", "record": {text}}}'
    write_whole(file, sealed.encode())


def read_sealed(file: Path, key: str = "") -> Any:
    """What was written under this key; a ValueError where it is not, or is damaged."""
    try:
        sealed = json.loads(file.read_text(encoding="utf-8"))
        if sealed["key"] == key and sealed["hash"] == text_hash(json.dumps(sealed["record"])):
            return sealed["record"]
    except (KeyError, TypeError, RecursionError):
        pass
    raise ValueError(f"{file.name} is not what was written")
