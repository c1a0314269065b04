# isort: skip_file
from irtbench.bank.norms import Raking as Raking
from irtbench.bank.norms import raked_norms as raked_norms
from irtbench.bank.norms import read_margins as read_margins
from irtbench.bank.scale import ScaleLine as ScaleLine
from irtbench.bank.scale import ItemMap as ItemMap
