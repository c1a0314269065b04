# isort: skip_file
from irtbench.estimation.many_scales.fit_many import FittedScales as FittedScales
from irtbench.estimation.driver import maximise as maximise
from irtbench.estimation.marginal.fisher_scoring import DeltaELBO as DeltaELBO
from irtbench.estimation.marginal.fisher_scoring import FisherScoring as FisherScoring
from irtbench.estimation.variational.loss import MarginalELBO as MarginalELBO
from irtbench.estimation.multiple_groups import GroupedModel as GroupedModel
from irtbench.estimation.dispersion import FittedTrials as FittedTrials
from irtbench.estimation.dispersion import fit_trials as fit_trials
from irtbench.estimation.bifactor import bifactor_scores as bifactor_scores
from irtbench.estimation.bifactor import BifactorModel as BifactorModel
from irtbench.estimation.factors import FactorModel as FactorModel
from irtbench.estimation.factors import factor_scores as factor_scores
from irtbench.estimation.raters.fitted_raters import FittedRaters as FittedRaters
from irtbench.estimation.raters.fit_ratings import fit_raters as fit_raters
