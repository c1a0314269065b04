"""Addresses in texts: what is secret in them is shown nowhere, and what is no secret stays."""

from pathlib import Path

import pytest

from irtbench.data import place
from irtbench.data.input_error import InputError
from irtbench.data.place import as_given, keep_credentials, note_credentials, without_credentials


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "_given", {})
    monkeypatch.setattr(place, "_secrets", {})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://KEY:SECRET@bucket/x.parquet?X-Amz-Signature=1", "s3://bucket/x.parquet"),
        ("file s3:/KEY:SECRET@bucket/x, row 3, column i1: got 2", "file s3://bucket/x, row 3, column i1: got 2"),
        ("S3://KEY:SECRET@bucket/x", "S3://bucket/x"),
        ("s3://KEY:SEC/RET@bucket/x", "s3://bucket/x"),
        ("s3://KEY:SEC?RET#@bucket/x?sig=1", "s3://bucket/x"),
        ("simplecache::s3://KEY:SECRET@bucket/x?sig=1", "simplecache::s3://bucket/x"),
        ("zip://a?sig=1::https://me:pass@host/x.zip#tok", "zip://a::https://host/x.zip"),
        ("at 'https://me@host:80/x?t=1', see", "at 'https://host:80/x', see"),
        ("abfs://container:pass@account.net/x?sv=1&sig=2", "abfs://container@account.net/x"),
        ("/work/s3:/KEY:SECRET@bucket/x: no such file", "/work/s3:/bucket/x: no such file"),
        ("s3://A:B@one/x,s3://C:D@two/y?e", "s3://one/x,s3://two/y"),
        ("http://[::1]:9000/x?sig=1", "http://[::1]:9000/x"),
        ("https://host:8080/a@b/x", "https://host:8080/a@b/x"),
        ("s3://bucket/me@home/x.parquet", "s3://bucket/me@home/x.parquet"),
        ("item a:b@c, 'd?e#f', C:/x@y?z", "item a:b@c, 'd?e#f', C:/x@y?z"),
    ],
)
def test_a_text_is_shown_without_credentials(text: str, shown: str) -> None:
    assert without_credentials(text) == shown
    assert without_credentials(shown) == shown
    assert str(InputError(text)) == shown


def test_what_is_secret_in_an_address_that_was_opened_goes_wherever_a_library_repeats_it() -> None:
    note_credentials(
        "s3://AKIAKEYID:pass%2Fword@bucket/x?X-Amz-Signature=abcdef0123&region=eu&endpoint_override=host:9000"
    )
    saying = "key AKIAKEYID (pass/word, pass%2Fword) for /AKIAKEYID:pass%2Fword@bucket/x: abcdef0123 at host:9000 in eu"
    assert without_credentials(saying) == "key *** (***, ***) for /bucket/x: *** at host:9000 in eu"
    note_credentials("https://me:ab@host/x?q=1&page=results")  # too short to be distinguished from other words
    assert without_credentials("me, ab, 1, results, home@host") == "me, ab, 1, results, home@host"
    # a command knows the place alone, and what opens it the rest
    address = "s3://KEY:SECRET@bucket/x.parquet?region=eu"
    kept = keep_credentials(Path(address))
    assert str(kept) == "s3:/bucket/x.parquet"
    assert as_given("s3://bucket/x.parquet") == address
    assert keep_credentials(Path("data/x@y.csv")) == Path("data/x@y.csv")
    assert as_given("s3://other/x") == "s3://other/x"
