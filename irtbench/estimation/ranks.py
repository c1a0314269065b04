"""The processes that torchrun has started, each with its share of the respondents (torch.distributed).

Every process takes the same steps of the fit. What differs is whose responses it reads: a pass over the respondents is
a pass over its share, and ends with one all-reduce of the sums, by gloo between processors and NCCL between GPUs. The
sums are the same bits everywhere then, and so is all that follows from them.

torchrun lets all attempts of a run share one store, in which the addresses of processes that are dead remain, and
machines may count attempts differently. So every process puts down a word of its own, the first makes a name of all
words that it finds, and the name is settled when each process has found its own word in it.

The sums of finished passes are kept on disk (`KeptPasses`), for a run that was killed to go on with the next: kept
under what they are sums of (the responses, and all tensors that they depend on), they are found again by a run that
takes the same way, and its figures are the same to the last bit. Sums of other responses, parameters or versions of
irtbench have other names.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import time
import uuid
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from importlib.metadata import version
from typing import Literal

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from irtbench.data.input_error import InputError
from irtbench.data.place import keep, kept_in
from irtbench.data.stored_responses import StoredResponses
from irtbench.models.pyro_model.rows import StoredRows, span_ends

FOLDER = "passes"


class KeptPasses:
    """A folder of sums, a file a pass.

    Parameters
    ----------
    responses
        Whose sums; the folder is inside theirs.
    """

    def __init__(self, responses: StoredResponses) -> None:
        self.folder = responses.folder / FOLDER
        self.base = hashlib.sha256(f"{responses.content_hash} {version('irtbench')}".encode())

    def __len__(self) -> int:
        return len(list(self.folder.glob("*.sums")))

    def name_of(self, what: str, at: Sequence[NDArray[np.generic]]) -> str:
        """The name of sums that depend on these numbers."""
        digest = self.base.copy()
        digest.update(what.encode())
        for part in at:
            digest.update(f"{part.dtype} {part.shape}".encode())
            digest.update(np.ascontiguousarray(part).data)
        return digest.hexdigest()[:32]

    def get(self, name: str) -> NDArray[np.float64] | None:
        """The sums of that name; None where there are none, or the file is damaged."""
        content = kept_in(self.folder / f"{name}.sums", name)
        return None if content is None else np.load(io.BytesIO(content), allow_pickle=False)

    def put(self, name: str, sums: NDArray[np.float64]) -> None:
        """Keep sums, in one step of the file system."""
        self.folder.mkdir(exist_ok=True)
        content = io.BytesIO()
        np.save(content, sums, allow_pickle=False)
        keep(self.folder / f"{name}.sums", name, content.getvalue())

    def remove(self) -> None:
        """Remove them all."""
        shutil.rmtree(self.folder, ignore_errors=True)


PAUSE = 0.02  # seconds between two looks of four processes; of more in proportion to the root of their number


def name_of_attempt(store: Store, rank: int, n: int) -> str:
    """The name on which the n processes that run now agree.

    Parameters
    ----------
    store
        What they share, and have shared with others before.
    rank, n
        Number of this process, and of all.
    """
    own, pause = uuid.uuid4().hex, PAUSE * (n / 4) ** 0.5
    store.set(f"word/{rank}", own)
    while True:
        if rank == 0:
            words = [store.get(f"word/{other}").decode() for other in range(n)]
            store.set("words", " ".join(words))
        else:
            words = store.get("words").decode().split()
        name = hashlib.sha256(" ".join(words).encode()).hexdigest()
        if rank == 0 and all(store.check([f"{name}/{other}"]) for other in range(1, n)):
            store.set(f"{name}/all", "")
            return name
        if rank > 0 and len(words) == n and words[rank] == own:
            store.set(f"{name}/{rank}", "")
            if store.check([f"{name}/all"]):
                return name
        time.sleep(pause)


PATIENCE = timedelta(days=30)  # for the slowest process; where one ends, the others learn of it at once
FIRST = 0  # the process that reads what was kept, writes and prints
FAILED = "failed"


@dataclass
class Ranks:
    """A process among those of the run.

    Parameters
    ----------
    rank
        Its number, from 0.
    n
        How many there are.
    local_rank, n_local
        The same on its machine.
    store
        What they exchange besides sums.
    kept
        Sums of passes that are finished, in the first process; None where none are to be kept.
    """

    rank: int
    n: int
    local_rank: int
    n_local: int
    store: Store
    kept: KeptPasses | None = None
    _resuming: bool = field(default=False, repr=False)

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes and prints."""
        return self.rank == FIRST

    @property
    def on_one_machine(self) -> bool:
        """Whether all are on this machine."""
        return self.n == self.n_local

    def share_of(self, rows: StoredRows) -> StoredRows:
        """Its rows of all; none where there are more processes than respondents."""
        first, last = span_ends(len(rows), self.n)[self.rank]
        return replace(rows, first=rows.first + first, last=rows.first + last, together=self)

    def device(self, wanted: Literal["auto", "cpu", "cuda"]) -> torch.device:
        """The processor, or a GPU of its own for each process.

        Raises
        ------
        InputError
            If GPUs were asked for and there are fewer than processes on a machine.
        """
        enough = self.least(float(torch.cuda.device_count() >= self.n_local)) == 1 if wanted != "cpu" else False
        if wanted == "cuda" and not enough:
            raise InputError(
                f"model: device cuda was asked for, but {self.n_local} processes have {torch.cuda.device_count()} GPUs "
                "that torch sees; expected one each, auto or cpu"
            )
        if not enough:
            return torch.device("cpu")
        torch.cuda.set_device(self.local_rank)
        return torch.device("cuda", self.local_rank)

    def keep_passes(self, responses: StoredResponses) -> None:
        """Keep the sums of every pass with the responses, and take those that an earlier run has left there."""
        self.kept = KeptPasses(responses)
        self._resuming = self.from_first(len(self.kept) > 0)

    def summed(
        self,
        what: str,
        at: Sequence[Tensor],
        own: Callable[[], tuple[Tensor, ...]],
        none: Callable[[], tuple[Tensor, ...]],
    ) -> tuple[Tensor, ...]:
        """Sums of all processes by one all-reduce, or those that were kept; see `threads.summed`.

        Raises
        ------
        InputError
            If the processes are not at the same parameters, or one has ended.
        """
        places = [part.detach().cpu().numpy() for part in at]
        name = "" if self.kept is None else self.kept.name_of(what, places)
        if self._resuming:
            assert self.kept is not None
            flat = self.kept.get(name) if self.is_first else None
            self._resuming = self.from_first(flat is not None)
            if self._resuming:
                return self._handed_out(flat, none())
        found = own()
        mark = float(zlib.crc32(b"".join(part.tobytes() for part in places)))
        flat_sums = flattened(found, mark)
        self._reduced(flat_sums, dist.ReduceOp.SUM)
        if float(flat_sums[-1]) != mark * self.n:
            raise InputError(
                "processes: their parameters differ in the last digits, for their processors or libraries do; expected "
                "machines of one kind"
            )
        if self.kept is not None and self.is_first:
            self.kept.put(name, flat_sums[:-1].cpu().numpy())
        return unflattened(flat_sums, found)

    def total(self, *sums: Tensor) -> tuple[Tensor, ...]:
        """Sums of all processes from those of each, by one all-reduce."""
        flat = flattened(sums)
        self._reduced(flat, dist.ReduceOp.SUM)
        return unflattened(flat, sums)

    def least(self, value: float) -> float:
        """The smallest number that any process has."""
        found = torch.tensor([value], dtype=torch.float64)
        self._reduced(found, dist.ReduceOp.MIN)
        return float(found)

    def from_first(self, yes: bool) -> bool:
        """What the first process says, in all of them."""
        return self.text_from_first("yes" if yes else "") == "yes"

    def text_from_first(self, text: str) -> str:
        """The same of a text; what the others give is not looked at."""
        found = [text]
        self._tried(lambda: dist.broadcast_object_list(found, FIRST, device=torch.device("cpu")))
        return found[0]

    def next_of(self, what: str) -> int:
        """Numbers from 0, each handed out once to whichever process asks: work for processes of unequal speed."""
        found: int = self.store.add(what, 1)
        return found - 1

    def wait_for_all(self) -> None:
        """Go on when all processes have come here."""
        self._tried(dist.barrier)

    def _handed_out(self, flat: np.ndarray | None, like: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Sums that the first process has, in all."""
        sums = flattened(like)
        if flat is not None:
            sums.copy_(torch.from_numpy(flat))
        self._tried(lambda: dist.broadcast(sums, FIRST))
        return unflattened(sums, like)

    def _reduced(self, values: Tensor, operation: dist.ReduceOp.RedOpType) -> None:
        self._tried(lambda: dist.all_reduce(values, operation))

    def _tried(self, together: Callable[[], object]) -> None:
        try:
            together()
        except RuntimeError as error:
            raise InputError(
                f"processes: another of the {self.n} has ended; started again with the same --cache the run goes on "
                "from the last pass that was finished"
            ) from error


def flattened(sums: Sequence[Tensor], *more: float) -> Tensor:
    """Sums one behind the other, in float64."""
    last = torch.tensor(more, dtype=torch.float64, device=sums[0].device)
    return torch.cat([*(part.reshape(-1).to(torch.float64) for part in sums), last])


def unflattened(flat: Tensor, like: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The inverse of `flattened`: tensors of these shapes and types."""
    parts = flat[: sum(part.numel() for part in like)].split([part.numel() for part in like])
    return tuple(part.reshape(each.shape).to(each.dtype) for part, each in zip(parts, like, strict=True))


@contextmanager
def joined() -> Iterator[Ranks]:
    """Join the processes that torchrun has started; where one fails, it alone says why.

    An exception leaves the block in the first process that has one. In the others, which fail after it or because of
    it, a `SystemExit` does.
    """
    gpus = torch.cuda.is_available() and dist.is_nccl_available()
    shared, rank, n = next(rendezvous("env://", timeout=PATIENCE))
    store = PrefixStore(name_of_attempt(PrefixStore("irtbench", shared), rank, n), shared)
    local_rank, n_local = (int(os.environ[name]) for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    try:
        backend = "cpu:gloo,cuda:nccl" if gpus else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=n, timeout=PATIENCE)
        yield Ranks(rank, n, local_rank, n_local, store)
    except BaseException as error:
        if not fails_first(store):
            raise SystemExit(1) from error
        raise
    dist.destroy_process_group()


def fails_first(store: Store) -> bool:
    """Whether no other process has failed yet; False where that cannot be known any more."""
    try:
        return bool(store.add(FAILED, 1) == 1)
    except RuntimeError:
        return False
