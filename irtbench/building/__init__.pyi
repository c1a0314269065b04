# isort: skip_file
from irtbench.building.pruned import ScaleChecks as ScaleChecks
from irtbench.building.pruned import check_scale as check_scale
from irtbench.building.pruned import Pruning as Pruning
from irtbench.building.assembly import AssembledForms as AssembledForms
from irtbench.building.linking import ScaleLink as ScaleLink
from irtbench.building.extending import Drift as Drift
from irtbench.building.extending import extended_scale as extended_scale
from irtbench.building.extending import linked_scale as linked_scale
