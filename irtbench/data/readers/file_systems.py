"""File systems at addresses: which may be read, how long they may be silent, and whether a file was changed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TypeVar
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs

from irtbench.data.input_error import InputError
from irtbench.data.place import CHAINED, CONTAINERS, address_of, without_credentials

STORES = ("file", "memory", "s3", "gs", "gcs", *CONTAINERS)  # schemes that are read, whoever names them
TYPED = ("http", "https")  # those that only the command line may name
TAGGED = ("s3", "gs", "gcs", *CONTAINERS)  # those whose stores give a file another tag with every write
READ = 2**22  # bytes that are hashed at a time
NAMED_HOST = re.compile(r"(?:endpoint_override|storage_authority)=([^&#]*)")  # in the query of a store
CONNECTING, SILENT = 30.0, 120.0  # seconds that a server may take to be found, and to send the next bytes

WAITING = "irtbench waits for a server"  # name of threads

Given = TypeVar("Given")


def demand_allowed(address: str, allow_address: Sequence[str], *, of_study: bool) -> None:
    """Refuse an address of a scheme that is not meant, and one by which a study file names a host of its own."""
    if CHAINED.search(address):
        raise InputError(f"{address}: is an address within an address; expected a single one")
    shown = without_credentials(address)
    scheme, _, rest = shown.partition("://")
    host = rest.partition("/")[0]
    found = NAMED_HOST.search(unquote(address))
    endpoint = "" if found is None else found[1]
    names_host = scheme in TYPED or found is not None or (scheme in CONTAINERS and "." in host)
    if scheme in (*STORES, *TYPED) and not (of_study and names_host):
        return
    target = f"{scheme}://{endpoint}/" if endpoint else shown
    for one in map(without_credentials, allow_address):
        if target == one or target.startswith(one if one.endswith("/") else f"{one}/"):
            return
    why = f"a study file that names a host ({endpoint or host})" if names_host else f"an address of {scheme}://"
    known = ", ".join((*STORES, *(() if of_study else TYPED)))
    allowed = f"{scheme}://{endpoint or host}/"
    raise InputError(
        f"{address}: {why} is not followed unless it is allowed; expected one of {known}, or --allow-address {allowed} "
        "(of fit, score, build, items diagnose)"
    )


def filesystem_of(place: str) -> tuple[pa.fs.FileSystem, str]:
    """The file system of a path or an address, and the path there."""
    if address_of(place) is None:
        return pa.fs.LocalFileSystem(), place

    def opened() -> tuple[pa.fs.FileSystem, str]:
        try:
            found, path = pa.fs.FileSystem.from_uri(place)
            return found, path
        except pa.ArrowInvalid:  # one that Arrow does not know
            if "::" in place:
                raise InputError(f"{place}: is a file within another; expected a file by itself") from None
            import fsspec  # which not everybody needs

            other, path = fsspec.core.url_to_fs(place)
            return pa.fs.PyFileSystem(pa.fs.FSSpecHandler(other)), path

    try:
        return in_time(opened, None, place)
    except InputError:
        raise
    except Exception as error:  # of whichever library knows the scheme
        raise InputError(f"{place}: cannot be reached ({first_line(error)})") from None


def in_time(
    call: Callable[[], Given], filesystem: pa.fs.FileSystem | None, place: str, seconds: float | None = None
) -> Given:
    """What a call gives that may have to wait for a server; on this machine there is none."""
    if isinstance(filesystem, pa.fs.LocalFileSystem):
        return call()
    seconds = CONNECTING if seconds is None else seconds
    done: Future[Given] = Future()

    def run() -> None:
        try:
            done.set_result(call())
        except BaseException as error:  # raised where it is waited for
            done.set_exception(error)

    Thread(target=run, name=WAITING, daemon=True).start()
    if not wait([done], seconds).done:
        raise InputError(f"{place}: no answer in {seconds:g} seconds; expected a server that answers")
    return done.result()


def each_in_time(values: Iterator[Given], filesystem: pa.fs.FileSystem, place: str) -> Iterator[Given]:
    """The values, each of which may have to wait for a server."""
    end = object()
    while (value := in_time(lambda: next(values, end), filesystem, place, SILENT)) is not end:
        yield value  # type: ignore[misc]


def change_of(filesystem: pa.fs.FileSystem, info: pa.fs.FileInfo) -> str:
    """What the file system has of the last change of a file: on this machine what no copy takes along, too."""
    if not isinstance(filesystem, pa.fs.LocalFileSystem):
        return str(info.mtime_ns)
    status = Path(info.path).stat()
    return f"{status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"


def content_tag(filesystem: pa.fs.FileSystem | None, path: str | Path) -> str:
    """What changes with what a file holds: the tag that an object store gives it, or else the hash of its bytes."""
    path, store = str(path), filesystem or pa.fs.LocalFileSystem()

    def tag() -> str:
        if store.type_name.rpartition("+")[2] not in TAGGED:
            return ""
        if isinstance(store, pa.fs.PyFileSystem):
            found = store.handler.fs.info(path)
        else:
            with store.open_input_file(path) as file:
                found = file.metadata() or {}
        known = {name.lower(): value for name, value in found.items()}
        return next((f"{name} {known[name]}" for name in ("etag", "generation") if known.get(name)), "")

    try:
        if found := in_time(tag, store, path):
            return found
        with in_time(partial(store.open_input_stream, path), store, path) as file:
            digest = hashlib.sha256()
            for block in each_in_time(iter(partial(file.read, READ), b""), store, path):
                digest.update(block)
        return f"sha256:{digest.hexdigest()}"
    except InputError:
        raise
    except failures_of(store) as error:
        raise InputError(f"file {path}: cannot be read to its end ({first_line(error)})") from None


def failures_of(filesystem: pa.fs.FileSystem) -> tuple[type[Exception], ...]:
    """What a file that cannot be read raises: where fsspec reads it, errors of whichever library fetches it."""
    if isinstance(filesystem, pa.fs.PyFileSystem):
        return (Exception,)
    return pa.ArrowException, OSError, KeyError


def first_line(error: BaseException) -> str:
    """What an error of a library says first."""
    missing = isinstance(error, FileNotFoundError)
    return "no such file" if missing else next(iter(str(error).splitlines()), type(error).__name__)
