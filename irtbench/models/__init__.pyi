# isort: skip_file
from irtbench.models.item_parameters import JointError as JointError
from irtbench.models.parameter_table import parameter_columns as parameter_columns
from irtbench.models.pyro_model.model import grouped_model as grouped_model
from irtbench.models.pyro_model.collapsed import CollapsedLogistic as CollapsedLogistic
from irtbench.models.pyro_model.categories import BifactorNodes as BifactorNodes
from irtbench.models.pyro_model.categories import CollapsedBifactor as CollapsedBifactor
from irtbench.models.pyro_model.categories import ItemGroups as ItemGroups
from irtbench.models.pyro_model.tensors import NodeTensors as NodeTensors
from irtbench.models.pyro_model.tensors import ItemTensors as ItemTensors
from irtbench.models.priors import GuessingPrior as GuessingPrior
from irtbench.models.quadrature import normal_grid as normal_grid
from irtbench.models.quadrature import normal_population as normal_population
