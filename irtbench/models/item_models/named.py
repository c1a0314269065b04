"""The item models by their names."""

from __future__ import annotations

from collections.abc import Mapping

from irtbench.models.item_models.graded import Graded
from irtbench.models.item_models.item_model import ItemModel
from irtbench.models.item_models.logistic import Logistic
from irtbench.models.item_models.partial_credit import Nominal, PartialCredit

#: Models of more than right and wrong; the slopes of pcm and rsm are 1.
IN_CATEGORIES = ("grm", "gpcm", "pcm", "rsm", "nominal")
MODELS: Mapping[str, ItemModel] = {
    model.name: model
    for model in (
        Logistic(),
        Logistic(lower=True),
        Logistic(lower=True, upper=True),
        Graded(),
        PartialCredit(),
        Nominal(),
    )
}
