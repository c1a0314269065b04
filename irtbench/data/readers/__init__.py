"""One reader for each outside format: the only places that know foreign column names."""

from irtbench.data.readers.item_table import read_items
from irtbench.data.readers.long_table import LongTable
from irtbench.data.readers.recognise import holds_responses, read_answers, read_responses
from irtbench.data.readers.table import read_table

__all__ = ["LongTable", "holds_responses", "read_answers", "read_items", "read_responses", "read_table"]
