# isort: skip_file
from irtbench.scoring.item_error import item_error_share as item_error_share
from irtbench.scoring.item_error import with_item_error as with_item_error
from irtbench.scoring.percentiles import Percentiles as Percentiles
from irtbench.scoring.optional_columns import percentiles_by_group as percentiles_by_group
from irtbench.scoring.percentiles import SumScoreTable as SumScoreTable
from irtbench.scoring.scores import grading_of as grading_of
from irtbench.scoring.bulk import score_file as score_file
from irtbench.scoring.bulk import PartitionScorer as PartitionScorer
from irtbench.scoring.ability_comparison import EffectOfLeavingOut as EffectOfLeavingOut
from irtbench.scoring.ability_comparison import leave_items_out as leave_items_out
from irtbench.scoring.optional_columns import Explanation as Explanation
from irtbench.scoring.optional_columns import explain_all as explain_all
from irtbench.scoring.ability_comparison import AbilityComparison as AbilityComparison
from irtbench.scoring.adaptive_paths import AdaptivePaths as AdaptivePaths
from irtbench.scoring.adaptive_paths import InspectStop as InspectStop
from irtbench.scoring.adaptive_paths import item_order as item_order
from irtbench.scoring.prediction import PredictedAccuracy as PredictedAccuracy
