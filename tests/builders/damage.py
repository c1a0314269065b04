"""Seeded damage to a file: bytes, lines and fields."""

from collections.abc import Callable

import numpy as np

Damage = Callable[[bytes, np.random.Generator], bytes]

ODD_FIELDS = (
    b"", b"NA", b"-1", b"2", b"1e999", b"nan", b"-inf", b"1e-320", b"0x1", b"\xc3\xa9", b"\xff", b"\x00", b"\x1b[31m",
    b'"', b'""', b"a,b", b"=1+1", b"$\\q$", b"a" * 5000, b"[1]", b"{}", b"null", b"true", b"9" * 40, b"\xe2\x80\xae",
    b"'",
)  # fmt: skip


def cut(data: bytes, rng: np.random.Generator) -> bytes:
    """The end is lost."""
    return data[: int(rng.integers(len(data)))]


def flip(data: bytes, rng: np.random.Generator) -> bytes:
    """Some bytes become others."""
    damaged = bytearray(data)
    for place in rng.integers(len(data), size=int(rng.integers(1, 6))):
        damaged[place] = int(rng.integers(256))
    return bytes(damaged)


def drop_line(data: bytes, rng: np.random.Generator) -> bytes:
    """A line is lost."""
    lines = data.splitlines(keepends=True)
    del lines[int(rng.integers(len(lines)))]
    return b"".join(lines)


def repeat_line(data: bytes, rng: np.random.Generator) -> bytes:
    """A line comes twice."""
    lines = data.splitlines(keepends=True)
    place = int(rng.integers(len(lines)))
    return b"".join([*lines[: place + 1], *lines[place:]])


def odd_field(data: bytes, rng: np.random.Generator) -> bytes:
    """A field, which ends at a comma, a space or a line's end, holds something odd."""
    lines = data.split(b"\n")
    place = int(rng.integers(len(lines)))
    separator = b"," if b"," in lines[place] else b" "
    fields = lines[place].split(separator)
    fields[int(rng.integers(len(fields)))] = ODD_FIELDS[int(rng.integers(len(ODD_FIELDS)))]
    lines[place] = separator.join(fields)
    return b"\n".join(lines)


def odd_column(data: bytes, rng: np.random.Generator) -> bytes:
    """A whole column holds the same odd thing."""
    odd = ODD_FIELDS[int(rng.integers(len(ODD_FIELDS)))]
    lines = data.split(b"\n")
    place = int(rng.integers(len(lines[0].split(b","))))
    for number, line in enumerate(lines[1:], start=1):
        fields = line.split(b",")
        if place < len(fields):
            fields[place] = odd
            lines[number] = b",".join(fields)
    return b"\n".join(lines)


def drop_column(data: bytes, rng: np.random.Generator) -> bytes:
    """A column is lost."""
    lines = [line.split(b",") for line in data.split(b"\n")]
    place = int(rng.integers(len(lines[0])))
    return b"\n".join(b",".join(fields[:place] + fields[place + 1 :]) for fields in lines)


def shuffle_lines(data: bytes, rng: np.random.Generator) -> bytes:
    """All lines but the first stand in another order."""
    first, *rest = data.splitlines(keepends=True)
    return b"".join([first, *(rest[k] for k in rng.permutation(len(rest)))])


def few_lines(data: bytes, rng: np.random.Generator) -> bytes:
    """Only the first lines are left."""
    return b"".join(data.splitlines(keepends=True)[: int(rng.integers(1, 12))])


def coding(data: bytes, rng: np.random.Generator) -> bytes:
    """The text in another coding, or with other line ends."""
    text = data.decode("utf-8")
    kinds = (text.encode("utf-16"), text.encode("utf-16-le"), text.encode("utf-8-sig"), data.replace(b"\n", b"\r\n"),
             data.replace(b"\n", b"\r"), data.replace(b",", b";"), data.replace(b",", b"\t"))  # fmt: skip
    return kinds[int(rng.integers(len(kinds)))]


DAMAGES: tuple[Damage, ...] = (
    cut, flip, drop_line, repeat_line, odd_field, odd_column, drop_column, shuffle_lines, few_lines, coding,
)  # fmt: skip
