"""The address of each item on the page, and sentences that lead there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from irtbench.report.formatting import plural

MOST_NAMED = 8  # items in one sentence


@dataclass(frozen=True)
class Link:
    """Words that lead to a place on the page."""

    text: str
    anchor: str


#: A sentence or more: words, and words that lead somewhere.
Sentence = tuple[str | Link, ...]


def item_anchor(item_id: str) -> str:
    """The fragment of an item's address: letters, digits, ``-``, ``_`` and ``.`` as they are, other bytes as ``~xx``.

    Different items have different addresses, and none holds what HTML or a browser's address would read otherwise.

    Examples
    --------
    >>> item_anchor("c11"), item_anchor("a b<&>"), item_anchor("~")
    ('item-c11', 'item-a~20b~3c~26~3e', 'item-~7e')
    """
    kept = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
    name = item_id.encode("utf-8", errors="surrogatepass")
    return "item-" + "".join(chr(byte) if byte in kept else f"~{byte:02x}" for byte in name)


def linked_items(item_ids: Sequence[str]) -> Sentence:
    """The items as in a sentence, each leading to its row; of many the first ``MOST_NAMED`` and how many more.

    Examples
    --------
    >>> linked_items(["a", "b"])
    (Link(text='a', anchor='item-a'), ' and ', Link(text='b', anchor='item-b'))
    """
    named = item_ids if len(item_ids) <= MOST_NAMED + 1 else item_ids[:MOST_NAMED]
    links: list[str | Link] = [Link(item, item_anchor(item)) for item in named]
    if len(named) < len(item_ids):
        links.append(plural(len(item_ids) - len(named), "other"))
    parted = [part for link in links for part in (link, ", ")][:-1]
    if len(links) > 1:
        parted[-2] = " and "
    return tuple(parted)
