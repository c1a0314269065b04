# isort: skip_file
# The names in daily use, in the order of the procedure; below them the rooms that hold all others.
from irtbench.data.input_error import InputError as InputError
from irtbench.data.responses import ResponseMatrix as ResponseMatrix
from irtbench.data.sparse_responses import SparseResponses as SparseResponses
from irtbench.data.stored_responses import StoredResponses as StoredResponses
from irtbench.data.items import ItemTable as ItemTable
from irtbench.data.items import ItemFeatures as ItemFeatures
from irtbench.data.readers.item_table import read_features as read_features
from irtbench.data.readers.prediction_table import Predictions as Predictions
from irtbench.data.given import as_responses as as_responses
from irtbench.data.given import as_answers as as_answers
from irtbench.data.given import as_items as as_items
from irtbench.data.readers.recognise import read as read
from irtbench.data.readers.recognise import read_answers as read_answers
from irtbench.data.readers.recognise import read_responses as read_responses
from irtbench.data.readers.long_table import LongTable as LongTable
from irtbench.data.readers.item_table import read_items as read_items
from irtbench.data.readers.respondents import read_groups as read_groups
from irtbench.data.readers.item_table import read_testlets as read_testlets
from irtbench.data.readers.prediction_table import read_predictions as read_predictions
from irtbench.data.grading import GradingSettings as GradingSettings
from irtbench.data.grading import grade as grade
from irtbench.data.screening import ScreeningSettings as ScreeningSettings
from irtbench.data.screening import screen as screen
from irtbench.data.readers.respondents import approval_rates as approval_rates
from irtbench.data.answer_patterns import peer_agreement as peer_agreement
from irtbench.data.item_sampling import sample_items as sample_items
from irtbench.data.sheets import harness_ids as harness_ids
from irtbench.models.item_parameters import ItemParameters as ItemParameters
from irtbench.models.category_parameters import CategoryParameters as CategoryParameters
from irtbench.models.curves import icc as icc
from irtbench.models.curves import information as information
from irtbench.models.theta_posterior import log_likelihood as log_likelihood
from irtbench.models.curves import simulate_responses as simulate_responses
from irtbench.models.parameter_table import as_parameters as as_parameters
from irtbench.models.parameter_table import parameter_table as parameter_table
from irtbench.models.parameter_table import read_parameters as read_parameters
from irtbench.models.pyro_model.model import logistic_model as logistic_model
from irtbench.models.priors import Priors as Priors
from irtbench.models.quadrature import Quadrature as Quadrature
from irtbench.models.theta_posterior import sum_score_distribution as sum_score_distribution
from irtbench.estimation.settings import FitSettings as FitSettings
from irtbench.estimation.fitted import FittedModel as FittedModel
from irtbench.estimation.fit import fit_model as fit_model
from irtbench.estimation.fit_categories import FittedCategories as FittedCategories
from irtbench.estimation.fit_categories import fit_categories as fit_categories
from irtbench.models.item_models.item_model import ItemModel as ItemModel
from irtbench.estimation.many_scales.fit_many import fit_many as fit_many
from irtbench.estimation.multiple_groups import fit_groups as fit_groups
from irtbench.estimation.bifactor import fit_bifactor as fit_bifactor
from irtbench.estimation.factors import fit_factors as fit_factors
from irtbench.diagnostics.internal_consistency import classical_statistics as classical_statistics
from irtbench.diagnostics.internal_consistency import internal_consistency as internal_consistency
from irtbench.diagnostics.measurement_precision import measurement_precision as measurement_precision
from irtbench.diagnostics.measurement_precision import scale_reliability as scale_reliability
from irtbench.diagnostics.item_fit import item_fit as item_fit
from irtbench.diagnostics.local_dependence import local_dependence as local_dependence
from irtbench.diagnostics.global_fit import global_fit as global_fit
from irtbench.diagnostics.person_fit import person_fit as person_fit
from irtbench.diagnostics.answer_similarity import answer_similarity as answer_similarity
from irtbench.diagnostics.empirical_curve import empirical_curve as empirical_curve
from irtbench.diagnostics.person_fit import mean_square_fit as mean_square_fit
from irtbench.diagnostics.correlation import tetrachoric as tetrachoric
from irtbench.analysis.model_comparison import likelihood_ratio as likelihood_ratio
from irtbench.analysis.model_comparison import compare_models as compare_models
from irtbench.analysis.dimensions import parallel_analysis as parallel_analysis
from irtbench.analysis.dimensions import find_dimensions as find_dimensions
from irtbench.analysis.model_comparison import effect_of_testlets as effect_of_testlets
from irtbench.analysis.design_information import design_information as design_information
from irtbench.analysis.crowd_plan import plan_crowd as plan_crowd
from irtbench.analysis.item_bias import item_bias as item_bias
from irtbench.analysis.bias_of_test import differential_test_functioning as differential_test_functioning
from irtbench.analysis.item_shifts import item_shifts as item_shifts
from irtbench.analysis.explained_difficulty import explain_difficulty as explain_difficulty
from irtbench.analysis.explained_responses import linear_logistic_test as linear_logistic_test
from irtbench.analysis.wrong_keys import wrong_keys as wrong_keys
from irtbench.analysis.bias_by_score import mantel_haenszel as mantel_haenszel
from irtbench.analysis.bias_by_score import score_regression as score_regression
from irtbench.bank.norms import Norms as Norms
from irtbench.bank.norms import rake as rake
from irtbench.bank.scale import Scale as Scale
from irtbench.bank.scale import DataCard as DataCard
from irtbench.bank.bank import ItemBank as ItemBank
from irtbench.bank.bank import save_bank as save_bank
from irtbench.bank.bank import load_bank as load_bank
from irtbench.bank.scale import item_map as item_map
from irtbench.bank.bank import read_bank as read_bank
from irtbench.bank.bank import with_norms as with_norms
from irtbench.building.prune_rules import Exclusion as Exclusion
from irtbench.building.prune_rules import PruneRules as PruneRules
from irtbench.building.pruning import prune as prune
from irtbench.building.form_wishes import Limit as Limit
from irtbench.building.form_wishes import FormWishes as FormWishes
from irtbench.building.assembly import assemble_forms as assemble_forms
from irtbench.building.assembly import form_bank as form_bank
from irtbench.building.linking import link_scales as link_scales
from irtbench.building.extending import find_drift as find_drift
from irtbench.scoring.ability import Abilities as Abilities
from irtbench.scoring.ability import estimate_ability as estimate_ability
from irtbench.scoring.optional_columns import plausible_values as plausible_values
from irtbench.scoring.percentiles import percentiles as percentiles
from irtbench.scoring.percentiles import sum_score_table as sum_score_table
from irtbench.scoring.scores import ScoringSettings as ScoringSettings
from irtbench.scoring.scores import score_responses as score_responses
from irtbench.scoring.scores import score_answers as score_answers
from irtbench.scoring.scores import grade_answers as grade_answers
from irtbench.scoring.optional_columns import explain as explain
from irtbench.scoring.ability_comparison import compare_abilities as compare_abilities
from irtbench.scoring.adaptive import AdaptiveSettings as AdaptiveSettings
from irtbench.scoring.adaptive import Adaptive as Adaptive
from irtbench.scoring.adaptive_paths import replay_adaptive as replay_adaptive
from irtbench.scoring.adaptive_paths import simulate_adaptive as simulate_adaptive
from irtbench.scoring.prediction import predict_accuracy as predict_accuracy
from irtbench.scoring.prediction import learn_correction as learn_correction
from irtbench.evaluation.agreement import agreement as agreement
from irtbench.evaluation.agreement import agreement_by_label as agreement_by_label
from irtbench.evaluation.gold_labels import majority_labels as majority_labels
from irtbench.evaluation.gold_labels import dawid_skene_labels as dawid_skene_labels
from irtbench.evaluation.proportion import wilson_interval as wilson_interval
from irtbench.evaluation.paired_tests import paired_bootstrap as paired_bootstrap
from irtbench.evaluation.paired_tests import permutation_test as permutation_test
from irtbench.evaluation.paired_tests import mcnemar as mcnemar
from irtbench.evaluation.system_comparison import compare_systems as compare_systems
from irtbench.evaluation.power import power as power
from irtbench.evaluation.breakdown import accuracy_by_type as accuracy_by_type
from irtbench.evaluation.breakdown import advantage_by_type as advantage_by_type
from irtbench.evaluation.calibration import calibration as calibration
from irtbench.evaluation.calibration import brier_score as brier_score
from irtbench.evaluation.calibration import calibration_difference as calibration_difference
from irtbench.evaluation.reliability import reliability_curve as reliability_curve
from irtbench.evaluation.consistency import switch_protocol as switch_protocol
from irtbench.evaluation.human_bound import crowd_filter as crowd_filter
from irtbench.evaluation.human_bound import human_accuracy as human_accuracy
from irtbench.evaluation.artifacts import artifacts as artifacts
from irtbench.config import StudyFile as StudyFile
from irtbench.config import read_study as read_study
from irtbench.study.examination import examine as examine
from irtbench.study.results import Study as Study
from irtbench.study.run import run_study as run_study
from irtbench.study.person_screening import crowd_similarity as crowd_similarity
from irtbench.study.screening_effect import screening_effect as screening_effect
from irtbench.data import *
from irtbench.models import *
from irtbench.estimation import *
from irtbench.diagnostics import *
from irtbench.analysis import *
from irtbench.bank import *
from irtbench.building import *
from irtbench.scoring import *
from irtbench.evaluation import *
from irtbench.study import *

__version__: str
_HOMES: dict[str, str]
_ROOMS: tuple[str, ...]
__all__: list[str]
