"""The short forms that a study file asks for, of the bank that the study built."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from irtbench.bank.bank import ItemBank
from irtbench.building.assembly import AssembledForms, assemble_forms
from irtbench.building.binary_program import TimeOut
from irtbench.building.form_bank import form_bank
from irtbench.config import StudyFile
from irtbench.data.input_error import InputError
from irtbench.data.readers.item_table import read_items
from irtbench.data.readers.table import read_table


@dataclass(frozen=True, eq=False)
class StudyForms:
    """What became of the wish for forms: the forms and a bank of each, or why there are none."""

    assembled: AssembledForms | None
    banks: tuple[ItemBank, ...]
    why_not: str


def study_forms(bank: ItemBank, settings: StudyFile) -> StudyForms | None:
    """Forms as ``[forms]`` wishes; None without the table. A wish that cannot be met does not stop the study."""
    if settings.forms is None:
        return None
    try:
        found = assemble_forms(bank, settings.forms, columns=_columns(settings))
    except (InputError, TimeOut) as error:
        return StudyForms(None, (), str(error))
    banks = tuple(form_bank(bank, form, seed=settings.study.seed) for form in found.forms)
    return StudyForms(found, banks, "")


def _columns(settings: StudyFile) -> pd.DataFrame | None:
    """The table of items, whose columns limits and enemies may name; the rows that the study is about."""
    data = settings.data
    if data.items is None:
        return None
    known = read_items(data.items, columns=data.item_columns, where=data.where)
    table = read_table(data.items)
    for column, value in data.where.items():
        table = table[table[column] == value]
    return table.reset_index(drop=True).assign(item_id=list(known.item_ids))
