"""A name for one attempt of a run, which no process of an attempt that failed can be mistaken for a part of.

torchrun lets all attempts of a run share one store, in which the addresses of processes that are dead still stand, and
machines may count attempts differently. So every process puts down a word of its own, the first makes a name of all
words that it finds, and the name stands when each process has found its own word in it.
"""

from __future__ import annotations

import hashlib
import time
import uuid

from torch.distributed.distributed_c10d import Store

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
