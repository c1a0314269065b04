# isort: skip_file
from irtbench.bank.raking import Raking as Raking
from irtbench.bank.raking import raked_norms as raked_norms
from irtbench.bank.raking import read_margins as read_margins
from irtbench.bank.scale_line import ScaleLine as ScaleLine
from irtbench.bank.item_map import ItemMap as ItemMap
