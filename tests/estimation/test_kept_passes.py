"""Sums of passes that are kept: found again as written, never those of something else; and names of attempts."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from torch.distributed import HashStore  # type: ignore[attr-defined]

from builders.simulated import drawn
from builders.stored import on_disk
from irtbench.estimation import ranks
from irtbench.estimation.ranks import KeptPasses, name_of_attempt

SUMS = np.linspace(-1, 1, 7)


def test_sums_are_found_by_all_that_they_depend_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by those of a run with other parameters, responses, items or another irtbench."""
    one, two = on_disk(drawn(20, 3), tmp_path / "a"), on_disk(drawn(20, 3, missing=0.2), tmp_path / "b")
    kept = KeptPasses(one)
    name = kept.name_of("sums", [SUMS])
    kept.put(name, SUMS)
    np.testing.assert_array_equal(KeptPasses(one).get(name), SUMS)
    others = [
        kept.name_of("sums", [SUMS + 1e-12]), kept.name_of("other", [SUMS]), KeptPasses(two).name_of("sums", [SUMS]),
        KeptPasses(one.select_items(one.item_ids[::-1])).name_of("sums", [SUMS]),
    ]  # fmt: skip
    monkeypatch.setattr(ranks, "version", lambda name: "0.0")
    others.append(KeptPasses(one).name_of("sums", [SUMS]))
    assert len({name, *others}) == 6
    assert [kept.get(other) for other in others] == [None] * 5


def test_no_byte_of_kept_sums_is_changed_without_a_word(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each byte of the file in turn."""
    kept = KeptPasses(on_disk(drawn(20, 3), tmp_path / "a"))
    name = kept.name_of("sums", [SUMS])
    kept.put(name, SUMS)
    file = kept.folder / f"{name}.sums"
    content = file.read_bytes()
    for place in range(len(content)):
        file.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        caplog.clear()
        found = kept.get(name)
        assert (found, len(caplog.messages)) == (None, 1)
    other = kept.name_of("other", [SUMS])
    file.write_bytes(content)
    file.rename(kept.folder / f"{other}.sums")  # in another's place
    assert kept.get(other) is None


@pytest.mark.parametrize("n", [1, 2, 5])
def test_every_attempt_has_a_name_of_its_own_whatever_earlier_ones_have_left(n: int) -> None:
    store, names = HashStore(), []
    for _ in range(4):
        with ThreadPoolExecutor(n) as pool:
            # the first comes last: the others find what the attempt before has left
            found = list(pool.map(lambda rank: name_of_attempt(store, rank, n), reversed(range(n))))
        assert len(set(found)) == 1
        names.append(found[0])
    assert len(set(names)) == 4
