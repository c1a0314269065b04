"""irtbench: from crowd answers to a calibrated evaluation scale, and any system's place on it.

Arrays, data frames and files go in (``fit_model``, ``score_responses``, ``item_fit``, ``agreement`` ...), results with
``.table()`` come out. Names are loaded when they are first used, so that scoring does not wait for torch. Sources are
cited by author and year; docs/references.md has them in full.
"""

from importlib import import_module
from textwrap import fill
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from irtbench.analysis.bias_of_test import DifferentialTestFunctioning as DifferentialTestFunctioning
    from irtbench.analysis.bias_of_test import differential_test_functioning as differential_test_functioning
    from irtbench.analysis.crowd_plan import AttentionChecks as AttentionChecks
    from irtbench.analysis.crowd_plan import CrowdPlan as CrowdPlan
    from irtbench.analysis.crowd_plan import PlanSettings as PlanSettings
    from irtbench.analysis.crowd_plan import attention_checks as attention_checks
    from irtbench.analysis.crowd_plan import plan_crowd as plan_crowd
    from irtbench.analysis.dependence_bootstrap import with_bootstrap as with_bootstrap
    from irtbench.analysis.design_information import DesignInformation as DesignInformation
    from irtbench.analysis.design_information import ExpectedPrecision as ExpectedPrecision
    from irtbench.analysis.design_information import ability_precision as ability_precision
    from irtbench.analysis.design_information import design_information as design_information
    from irtbench.analysis.design_information import typical_items as typical_items
    from irtbench.analysis.dimensions import Dimensions as Dimensions
    from irtbench.analysis.dimensions import find_dimensions as find_dimensions
    from irtbench.analysis.effect_of_testlets import EffectOfTestlets as EffectOfTestlets
    from irtbench.analysis.effect_of_testlets import effect_of_testlets as effect_of_testlets
    from irtbench.analysis.explained_difficulty import ExplainedDifficulty as ExplainedDifficulty
    from irtbench.analysis.explained_difficulty import explain_difficulty as explain_difficulty
    from irtbench.analysis.explained_responses import explain_responses as explain_responses
    from irtbench.analysis.factor_test import one_more_factor as one_more_factor
    from irtbench.analysis.guessing import GuessingTest as GuessingTest
    from irtbench.analysis.guessing import guessing_test as guessing_test
    from irtbench.analysis.item_bias import ItemBias as ItemBias
    from irtbench.analysis.item_bias import item_bias as item_bias
    from irtbench.analysis.item_shifts import ItemShifts as ItemShifts
    from irtbench.analysis.item_shifts import ShiftControl as ShiftControl
    from irtbench.analysis.item_shifts import item_shifts as item_shifts
    from irtbench.analysis.item_shifts import shift_control as shift_control
    from irtbench.analysis.linear_logistic_test import LinearLogisticTest as LinearLogisticTest
    from irtbench.analysis.linear_logistic_test import linear_logistic_test as linear_logistic_test
    from irtbench.analysis.mantel_haenszel import MantelHaenszel as MantelHaenszel
    from irtbench.analysis.mantel_haenszel import mantel_haenszel as mantel_haenszel
    from irtbench.analysis.model_comparison import LikelihoodRatio as LikelihoodRatio
    from irtbench.analysis.model_comparison import compare_models as compare_models
    from irtbench.analysis.model_comparison import likelihood_ratio as likelihood_ratio
    from irtbench.analysis.parallel_analysis import ParallelAnalysis as ParallelAnalysis
    from irtbench.analysis.parallel_analysis import parallel_analysis as parallel_analysis
    from irtbench.analysis.rotation import RotatedLoadings as RotatedLoadings
    from irtbench.analysis.rotation import rotate_to_labels as rotate_to_labels
    from irtbench.analysis.score_regression import ScoreRegression as ScoreRegression
    from irtbench.analysis.score_regression import score_regression as score_regression
    from irtbench.analysis.wrong_keys import WrongKeys as WrongKeys
    from irtbench.analysis.wrong_keys import wrong_keys as wrong_keys
    from irtbench.bank.bank import ItemBank as ItemBank
    from irtbench.bank.bank import load_bank as load_bank
    from irtbench.bank.bank import save_bank as save_bank
    from irtbench.bank.data_card import DataCard as DataCard
    from irtbench.bank.item_map import ItemMap as ItemMap
    from irtbench.bank.item_map import item_map as item_map
    from irtbench.bank.known_items import read_bank as read_bank
    from irtbench.bank.norm_table import with_norms as with_norms
    from irtbench.bank.norms import Norms as Norms
    from irtbench.bank.raking import Raking as Raking
    from irtbench.bank.raking import rake as rake
    from irtbench.bank.raking import raked_norms as raked_norms
    from irtbench.bank.raking import read_margins as read_margins
    from irtbench.bank.scale import Scale as Scale
    from irtbench.bank.scale_line import ScaleLine as ScaleLine
    from irtbench.building.assembly import AssembledForms as AssembledForms
    from irtbench.building.assembly import assemble_forms as assemble_forms
    from irtbench.building.drift import Drift as Drift
    from irtbench.building.drift import find_drift as find_drift
    from irtbench.building.extending import extended_scale as extended_scale
    from irtbench.building.extending import linked_scale as linked_scale
    from irtbench.building.form_bank import form_bank as form_bank
    from irtbench.building.form_wishes import FormWishes as FormWishes
    from irtbench.building.form_wishes import Limit as Limit
    from irtbench.building.linking import ScaleLink as ScaleLink
    from irtbench.building.linking import link_scales as link_scales
    from irtbench.building.prune_rules import Exclusion as Exclusion
    from irtbench.building.prune_rules import PruneRules as PruneRules
    from irtbench.building.pruned import Pruning as Pruning
    from irtbench.building.pruning import prune as prune
    from irtbench.building.scale_checks import ScaleChecks as ScaleChecks
    from irtbench.building.scale_checks import check_scale as check_scale
    from irtbench.config import StudyFile as StudyFile
    from irtbench.config import read_study as read_study
    from irtbench.data.answer_patterns import longest_pattern as longest_pattern
    from irtbench.data.answer_patterns import longest_run as longest_run
    from irtbench.data.answer_times import RapidGuesses as RapidGuesses
    from irtbench.data.answer_times import rapid_guesses as rapid_guesses
    from irtbench.data.answer_times import robust_time_limit as robust_time_limit
    from irtbench.data.approval_rates import approval_rates as approval_rates
    from irtbench.data.booklets import deal_items as deal_items
    from irtbench.data.booklets import make_booklets as make_booklets
    from irtbench.data.choices import ChoiceItems as ChoiceItems
    from irtbench.data.given import as_answers as as_answers
    from irtbench.data.given import as_items as as_items
    from irtbench.data.given import as_responses as as_responses
    from irtbench.data.grading import GradingSettings as GradingSettings
    from irtbench.data.grading import grade as grade
    from irtbench.data.harness_ids import harness_ids as harness_ids
    from irtbench.data.input_error import InputError as InputError
    from irtbench.data.item_features import ItemFeatures as ItemFeatures
    from irtbench.data.item_sampling import AgreementLevel as AgreementLevel
    from irtbench.data.item_sampling import AnnotatedItems as AnnotatedItems
    from irtbench.data.item_sampling import annotated_items as annotated_items
    from irtbench.data.item_sampling import sample_items as sample_items
    from irtbench.data.items import ItemTable as ItemTable
    from irtbench.data.peer_agreement import peer_agreement as peer_agreement
    from irtbench.data.predictions import Predictions as Predictions
    from irtbench.data.readers.choice_items import read_choices as read_choices
    from irtbench.data.readers.encode import encode_table as encode_table
    from irtbench.data.readers.feature_table import read_features as read_features
    from irtbench.data.readers.groups import read_groups as read_groups
    from irtbench.data.readers.item_table import read_items as read_items
    from irtbench.data.readers.large_columns import ColumnChoice as ColumnChoice
    from irtbench.data.readers.large_table import LargeTable as LargeTable
    from irtbench.data.readers.long_table import LongTable as LongTable
    from irtbench.data.readers.prediction_table import read_predictions as read_predictions
    from irtbench.data.readers.recognise import read as read
    from irtbench.data.readers.recognise import read_answers as read_answers
    from irtbench.data.readers.recognise import read_responses as read_responses
    from irtbench.data.readers.respondents import read_respondents as read_respondents
    from irtbench.data.readers.tagged_items import read_tags as read_tags
    from irtbench.data.readers.tagged_items import read_testlets as read_testlets
    from irtbench.data.readers.tagged_items import read_twins as read_twins
    from irtbench.data.responses import ResponseMatrix as ResponseMatrix
    from irtbench.data.screening import Screening as Screening
    from irtbench.data.screening import ScreeningSettings as ScreeningSettings
    from irtbench.data.screening import screen as screen
    from irtbench.data.sheets.crowd_sheets import crowd_sheets as crowd_sheets
    from irtbench.data.sparse_responses import SparseResponses as SparseResponses
    from irtbench.data.sparse_responses import responses_from_long as responses_from_long
    from irtbench.data.stored_responses import StoredResponses as StoredResponses
    from irtbench.data.tags import ItemTags as ItemTags
    from irtbench.diagnostics.answer_similarity import AnswerSimilarity as AnswerSimilarity
    from irtbench.diagnostics.answer_similarity import answer_similarity as answer_similarity
    from irtbench.diagnostics.classical import ClassicalStatistics as ClassicalStatistics
    from irtbench.diagnostics.classical import classical_statistics as classical_statistics
    from irtbench.diagnostics.distractors import distractor_table as distractor_table
    from irtbench.diagnostics.empirical_curve import EmpiricalCurve as EmpiricalCurve
    from irtbench.diagnostics.empirical_curve import ObservedShares as ObservedShares
    from irtbench.diagnostics.empirical_curve import empirical_curve as empirical_curve
    from irtbench.diagnostics.empirical_curve import observed_shares as observed_shares
    from irtbench.diagnostics.global_fit import GlobalFit as GlobalFit
    from irtbench.diagnostics.global_fit import global_fit as global_fit
    from irtbench.diagnostics.global_fit import global_fit_of_factors as global_fit_of_factors
    from irtbench.diagnostics.internal_consistency import InternalConsistency as InternalConsistency
    from irtbench.diagnostics.internal_consistency import internal_consistency as internal_consistency
    from irtbench.diagnostics.internal_consistency import omega_total as omega_total
    from irtbench.diagnostics.item_fit import ItemFit as ItemFit
    from irtbench.diagnostics.item_fit import item_fit as item_fit
    from irtbench.diagnostics.local_dependence import LocalDependence as LocalDependence
    from irtbench.diagnostics.local_dependence import local_dependence as local_dependence
    from irtbench.diagnostics.mean_square_fit import MeanSquareFit as MeanSquareFit
    from irtbench.diagnostics.mean_square_fit import mean_square_fit as mean_square_fit
    from irtbench.diagnostics.measurement_precision import MeasurementPrecision as MeasurementPrecision
    from irtbench.diagnostics.measurement_precision import empirical_reliability as empirical_reliability
    from irtbench.diagnostics.measurement_precision import measurement_precision as measurement_precision
    from irtbench.diagnostics.person_fit import PersonFit as PersonFit
    from irtbench.diagnostics.person_fit import person_fit as person_fit
    from irtbench.diagnostics.residuals import mean_squares as mean_squares
    from irtbench.diagnostics.scale_reliability import ScaleReliability as ScaleReliability
    from irtbench.diagnostics.scale_reliability import scale_reliability as scale_reliability
    from irtbench.diagnostics.scale_reliability import spearman_brown as spearman_brown
    from irtbench.diagnostics.scale_reliability import times_as_informative as times_as_informative
    from irtbench.diagnostics.scale_reliability import times_as_long as times_as_long
    from irtbench.diagnostics.tetrachoric import Tetrachoric as Tetrachoric
    from irtbench.diagnostics.tetrachoric import tetrachoric as tetrachoric
    from irtbench.estimation.bifactor import BifactorModel as BifactorModel
    from irtbench.estimation.bifactor import bifactor_scores as bifactor_scores
    from irtbench.estimation.bifactor import fit_bifactor as fit_bifactor
    from irtbench.estimation.driver import maximise as maximise
    from irtbench.estimation.factors import FactorModel as FactorModel
    from irtbench.estimation.factors import factor_scores as factor_scores
    from irtbench.estimation.factors import fit_factors as fit_factors
    from irtbench.estimation.fit import fit_model as fit_model
    from irtbench.estimation.fit_categories import FittedCategories as FittedCategories
    from irtbench.estimation.fit_categories import fit_categories as fit_categories
    from irtbench.estimation.fitted import FittedModel as FittedModel
    from irtbench.estimation.many_scales.fit_many import fit_many as fit_many
    from irtbench.estimation.many_scales.fitted_scales import FittedScales as FittedScales
    from irtbench.estimation.marginal.fisher_scoring import DeltaELBO as DeltaELBO
    from irtbench.estimation.marginal.fisher_scoring import FisherScoring as FisherScoring
    from irtbench.estimation.multiple_groups import GroupedModel as GroupedModel
    from irtbench.estimation.multiple_groups import fit_groups as fit_groups
    from irtbench.estimation.settings import FitSettings as FitSettings
    from irtbench.estimation.variational.loss import MarginalELBO as MarginalELBO
    from irtbench.evaluation.agreement import Agreement as Agreement
    from irtbench.evaluation.agreement import agreement as agreement
    from irtbench.evaluation.agreement import agreement_by_label as agreement_by_label
    from irtbench.evaluation.agreement_tables import ItemAgreement as ItemAgreement
    from irtbench.evaluation.agreement_tables import RespondentAgreement as RespondentAgreement
    from irtbench.evaluation.agreement_tables import item_agreement as item_agreement
    from irtbench.evaluation.agreement_tables import respondent_agreement as respondent_agreement
    from irtbench.evaluation.artifacts import Artifacts as Artifacts
    from irtbench.evaluation.artifacts import Baseline as Baseline
    from irtbench.evaluation.artifacts import artifacts as artifacts
    from irtbench.evaluation.breakdown import TypeCounts as TypeCounts
    from irtbench.evaluation.breakdown import accuracy_by_type as accuracy_by_type
    from irtbench.evaluation.breakdown import advantage_by_type as advantage_by_type
    from irtbench.evaluation.breakdown import type_counts as type_counts
    from irtbench.evaluation.breakdown import values_by_type as values_by_type
    from irtbench.evaluation.calibration import BrierScore as BrierScore
    from irtbench.evaluation.calibration import Calibration as Calibration
    from irtbench.evaluation.calibration import brier_score as brier_score
    from irtbench.evaluation.calibration import calibration as calibration
    from irtbench.evaluation.calibration import error_interval as error_interval
    from irtbench.evaluation.calibration_difference import CalibrationDifference as CalibrationDifference
    from irtbench.evaluation.calibration_difference import calibration_difference as calibration_difference
    from irtbench.evaluation.chance_agreement import CoefficientWithError as CoefficientWithError
    from irtbench.evaluation.chance_agreement import bootstrap_coefficient as bootstrap_coefficient
    from irtbench.evaluation.chance_agreement import category_kappas as category_kappas
    from irtbench.evaluation.chance_agreement import coefficient_with_error as coefficient_with_error
    from irtbench.evaluation.chance_agreement import fleiss_kappa as fleiss_kappa
    from irtbench.evaluation.chance_agreement import gwet_ac1 as gwet_ac1
    from irtbench.evaluation.chance_agreement import krippendorff_alpha as krippendorff_alpha
    from irtbench.evaluation.consistency import SwitchProtocol as SwitchProtocol
    from irtbench.evaluation.consistency import compare_measures as compare_measures
    from irtbench.evaluation.consistency import contrast_measures as contrast_measures
    from irtbench.evaluation.consistency import switch_protocol as switch_protocol
    from irtbench.evaluation.coreference import antecedent_clusters as antecedent_clusters
    from irtbench.evaluation.coreference import draw_antecedents as draw_antecedents
    from irtbench.evaluation.coreference import link_pairs as link_pairs
    from irtbench.evaluation.coreference import link_probabilities as link_probabilities
    from irtbench.evaluation.coreference import name_clusters as name_clusters
    from irtbench.evaluation.debiased_error import debiased_squared_error as debiased_squared_error
    from irtbench.evaluation.event_counts import Propagated as Propagated
    from irtbench.evaluation.event_counts import count_events as count_events
    from irtbench.evaluation.event_counts import draw_events as draw_events
    from irtbench.evaluation.event_counts import propagate as propagate
    from irtbench.evaluation.gold_labels import GoldLabels as GoldLabels
    from irtbench.evaluation.gold_labels import dawid_skene_labels as dawid_skene_labels
    from irtbench.evaluation.gold_labels import majority_labels as majority_labels
    from irtbench.evaluation.human_bound import HumanAccuracy as HumanAccuracy
    from irtbench.evaluation.human_bound import crowd_filter as crowd_filter
    from irtbench.evaluation.human_bound import fresh_accuracy as fresh_accuracy
    from irtbench.evaluation.human_bound import hoeffding_confidence as hoeffding_confidence
    from irtbench.evaluation.human_bound import hoeffding_margin as hoeffding_margin
    from irtbench.evaluation.human_bound import human_accuracy as human_accuracy
    from irtbench.evaluation.human_bound import over_seeds as over_seeds
    from irtbench.evaluation.paired_bootstrap import paired_bootstrap as paired_bootstrap
    from irtbench.evaluation.paired_tests import McNemar as McNemar
    from irtbench.evaluation.paired_tests import PermutationTest as PermutationTest
    from irtbench.evaluation.paired_tests import mcnemar as mcnemar
    from irtbench.evaluation.paired_tests import permutation_test as permutation_test
    from irtbench.evaluation.power import expected_p as expected_p
    from irtbench.evaluation.power import expected_p_table as expected_p_table
    from irtbench.evaluation.power import guessers_luck as guessers_luck
    from irtbench.evaluation.power import power as power
    from irtbench.evaluation.power import size_needed as size_needed
    from irtbench.evaluation.probability_pairs import concatenate_classes as concatenate_classes
    from irtbench.evaluation.proportion import wilson_interval as wilson_interval
    from irtbench.evaluation.reliability import ReliabilityCurve as ReliabilityCurve
    from irtbench.evaluation.reliability import adaptive_bins as adaptive_bins
    from irtbench.evaluation.reliability import calibration_error as calibration_error
    from irtbench.evaluation.reliability import equal_width_bins as equal_width_bins
    from irtbench.evaluation.reliability import reliability_curve as reliability_curve
    from irtbench.evaluation.system_comparison import SystemComparison as SystemComparison
    from irtbench.evaluation.system_comparison import compare_systems as compare_systems
    from irtbench.evaluation.trial_variance import TrialVariance as TrialVariance
    from irtbench.evaluation.trial_variance import trial_table as trial_table
    from irtbench.models.category_parameters import CategoryParameters as CategoryParameters
    from irtbench.models.curves import icc as icc
    from irtbench.models.curves import information as information
    from irtbench.models.item_models.item_model import ItemModel as ItemModel
    from irtbench.models.item_parameters import ItemParameters as ItemParameters
    from irtbench.models.joint_error import JointError as JointError
    from irtbench.models.likelihood import log_likelihood as log_likelihood
    from irtbench.models.parameter_table import as_parameters as as_parameters
    from irtbench.models.parameter_table import parameter_columns as parameter_columns
    from irtbench.models.parameter_table import parameter_table as parameter_table
    from irtbench.models.parameter_table import read_parameters as read_parameters
    from irtbench.models.priors import GuessingPrior as GuessingPrior
    from irtbench.models.priors import Priors as Priors
    from irtbench.models.pyro_model.bifactor_row import BifactorNodes as BifactorNodes
    from irtbench.models.pyro_model.bifactor_row import CollapsedBifactor as CollapsedBifactor
    from irtbench.models.pyro_model.bifactor_row import ItemGroups as ItemGroups
    from irtbench.models.pyro_model.collapsed import CollapsedLogistic as CollapsedLogistic
    from irtbench.models.pyro_model.grouped_model import grouped_model as grouped_model
    from irtbench.models.pyro_model.item_tensors import ItemTensors as ItemTensors
    from irtbench.models.pyro_model.linear_logistic import linear_logistic_model as linear_logistic_model
    from irtbench.models.pyro_model.model import logistic_model as logistic_model
    from irtbench.models.pyro_model.node_tensors import NodeTensors as NodeTensors
    from irtbench.models.quadrature import Quadrature as Quadrature
    from irtbench.models.quadrature import normal_grid as normal_grid
    from irtbench.models.quadrature import normal_population as normal_population
    from irtbench.models.simulation import simulate_responses as simulate_responses
    from irtbench.models.sum_score_distribution import sum_score_distribution as sum_score_distribution
    from irtbench.scoring.ability import Abilities as Abilities
    from irtbench.scoring.ability import estimate_ability as estimate_ability
    from irtbench.scoring.ability_comparison import AbilityComparison as AbilityComparison
    from irtbench.scoring.ability_comparison import compare_abilities as compare_abilities
    from irtbench.scoring.adaptive import Adaptive as Adaptive
    from irtbench.scoring.adaptive import AdaptiveSettings as AdaptiveSettings
    from irtbench.scoring.adaptive_paths import AdaptivePaths as AdaptivePaths
    from irtbench.scoring.adaptive_paths import replay_adaptive as replay_adaptive
    from irtbench.scoring.adaptive_paths import simulate_adaptive as simulate_adaptive
    from irtbench.scoring.bulk import score_file as score_file
    from irtbench.scoring.explanation import Explanation as Explanation
    from irtbench.scoring.explanation import explain as explain
    from irtbench.scoring.explanation import explain_all as explain_all
    from irtbench.scoring.group_percentiles import percentiles_by_group as percentiles_by_group
    from irtbench.scoring.inspect_stop import InspectStop as InspectStop
    from irtbench.scoring.inspect_stop import item_order as item_order
    from irtbench.scoring.item_error import item_error_share as item_error_share
    from irtbench.scoring.item_error import with_item_error as with_item_error
    from irtbench.scoring.leaving_out import EffectOfLeavingOut as EffectOfLeavingOut
    from irtbench.scoring.leaving_out import leave_items_out as leave_items_out
    from irtbench.scoring.partitions import PartitionScorer as PartitionScorer
    from irtbench.scoring.percentiles import Percentiles as Percentiles
    from irtbench.scoring.percentiles import percentiles as percentiles
    from irtbench.scoring.plausible_values import plausible_values as plausible_values
    from irtbench.scoring.prediction import PredictedAccuracy as PredictedAccuracy
    from irtbench.scoring.prediction import learn_correction as learn_correction
    from irtbench.scoring.prediction import predict_accuracy as predict_accuracy
    from irtbench.scoring.scores import ScoringSettings as ScoringSettings
    from irtbench.scoring.scores import grade_answers as grade_answers
    from irtbench.scoring.scores import grading_of as grading_of
    from irtbench.scoring.scores import score_answers as score_answers
    from irtbench.scoring.scores import score_responses as score_responses
    from irtbench.scoring.sum_score_table import SumScoreTable as SumScoreTable
    from irtbench.scoring.sum_score_table import sum_score_table as sum_score_table
    from irtbench.study.crowd_similarity import crowd_similarity as crowd_similarity
    from irtbench.study.effort import CommandAdvice as CommandAdvice
    from irtbench.study.examination import Examination as Examination
    from irtbench.study.examination import examine as examine
    from irtbench.study.findings import Finding as Finding
    from irtbench.study.item_analysis import ItemAnalysis as ItemAnalysis
    from irtbench.study.person_screening import ScaleFit as ScaleFit
    from irtbench.study.person_screening import fit_scales as fit_scales
    from irtbench.study.person_screening import joint_person_fit as joint_person_fit
    from irtbench.study.person_screening import screen_by_fit as screen_by_fit
    from irtbench.study.results import ScaleStudy as ScaleStudy
    from irtbench.study.results import Study as Study
    from irtbench.study.run import run_study as run_study
    from irtbench.study.screening_effect import ScreeningEffect as ScreeningEffect
    from irtbench.study.screening_effect import screening_effect as screening_effect

_NAMES = {
    "data.input_error": "InputError",
    "data.responses": "ResponseMatrix",
    "data.sparse_responses": "SparseResponses responses_from_long",
    "data.stored_responses": "StoredResponses",
    "data.items": "ItemTable",
    "data.item_features": "ItemFeatures",
    "data.readers.feature_table": "read_features",
    "data.tags": "ItemTags",
    "data.choices": "ChoiceItems",
    "data.predictions": "Predictions",
    "data.given": "as_responses as_answers as_items",
    "data.readers.recognise": "read read_answers read_responses",
    "data.readers.large_table": "LargeTable",
    "data.readers.large_columns": "ColumnChoice",
    "data.readers.encode": "encode_table",
    "data.readers.long_table": "LongTable",
    "data.readers.item_table": "read_items",
    "data.readers.respondents": "read_respondents",
    "data.readers.groups": "read_groups",
    "data.readers.tagged_items": "read_tags read_testlets read_twins",
    "data.readers.choice_items": "read_choices",
    "data.readers.prediction_table": "read_predictions",
    "data.grading": "GradingSettings grade",
    "data.screening": "ScreeningSettings Screening screen",
    "data.answer_patterns": "longest_run longest_pattern",
    "data.answer_times": "RapidGuesses rapid_guesses robust_time_limit",
    "data.approval_rates": "approval_rates",
    "data.peer_agreement": "peer_agreement",
    "data.item_sampling": "AgreementLevel AnnotatedItems annotated_items sample_items",
    "data.booklets": "deal_items make_booklets",
    "data.sheets.crowd_sheets": "crowd_sheets",
    "data.harness_ids": "harness_ids",
    "models.item_parameters": "ItemParameters",
    "models.joint_error": "JointError",
    "models.category_parameters": "CategoryParameters",
    "models.curves": "icc information",
    "models.likelihood": "log_likelihood",
    "models.simulation": "simulate_responses",
    "models.parameter_table": "as_parameters parameter_table read_parameters parameter_columns",
    "models.pyro_model.model": "logistic_model",
    "models.pyro_model.grouped_model": "grouped_model",
    "models.pyro_model.linear_logistic": "linear_logistic_model",
    "models.pyro_model.collapsed": "CollapsedLogistic",
    "models.pyro_model.bifactor_row": "BifactorNodes CollapsedBifactor ItemGroups",
    "models.pyro_model.node_tensors": "NodeTensors",
    "models.pyro_model.item_tensors": "ItemTensors",
    "models.priors": "GuessingPrior Priors",
    "models.quadrature": "Quadrature normal_grid normal_population",
    "models.sum_score_distribution": "sum_score_distribution",
    "estimation.settings": "FitSettings",
    "estimation.fitted": "FittedModel",
    "estimation.fit": "fit_model",
    "estimation.fit_categories": "FittedCategories fit_categories",
    "models.item_models.item_model": "ItemModel",
    "estimation.many_scales.fit_many": "fit_many",
    "estimation.many_scales.fitted_scales": "FittedScales",
    "estimation.driver": "maximise",
    "estimation.marginal.fisher_scoring": "DeltaELBO FisherScoring",
    "estimation.variational.loss": "MarginalELBO",
    "estimation.multiple_groups": "GroupedModel fit_groups",
    "estimation.bifactor": "bifactor_scores fit_bifactor BifactorModel",
    "estimation.factors": "FactorModel fit_factors factor_scores",
    "diagnostics.classical": "ClassicalStatistics classical_statistics",
    "diagnostics.distractors": "distractor_table",
    "diagnostics.internal_consistency": "InternalConsistency internal_consistency omega_total",
    "diagnostics.measurement_precision": "MeasurementPrecision measurement_precision empirical_reliability",
    "diagnostics.scale_reliability": "ScaleReliability scale_reliability spearman_brown times_as_long "
    "times_as_informative",
    "diagnostics.item_fit": "ItemFit item_fit",
    "diagnostics.local_dependence": "LocalDependence local_dependence",
    "diagnostics.global_fit": "GlobalFit global_fit global_fit_of_factors",
    "diagnostics.person_fit": "PersonFit person_fit",
    "diagnostics.answer_similarity": "AnswerSimilarity answer_similarity",
    "diagnostics.empirical_curve": "EmpiricalCurve empirical_curve ObservedShares observed_shares",
    "diagnostics.residuals": "mean_squares",
    "diagnostics.mean_square_fit": "MeanSquareFit mean_square_fit",
    "diagnostics.tetrachoric": "Tetrachoric tetrachoric",
    "analysis.dependence_bootstrap": "with_bootstrap",
    "analysis.guessing": "GuessingTest guessing_test",
    "analysis.factor_test": "one_more_factor",
    "analysis.model_comparison": "LikelihoodRatio likelihood_ratio compare_models",
    "analysis.parallel_analysis": "ParallelAnalysis parallel_analysis",
    "analysis.rotation": "RotatedLoadings rotate_to_labels",
    "analysis.dimensions": "Dimensions find_dimensions",
    "analysis.effect_of_testlets": "EffectOfTestlets effect_of_testlets",
    "analysis.design_information": (
        "ExpectedPrecision DesignInformation typical_items design_information ability_precision"
    ),
    "analysis.crowd_plan": "PlanSettings AttentionChecks CrowdPlan attention_checks plan_crowd",
    "analysis.item_bias": "ItemBias item_bias",
    "analysis.bias_of_test": "DifferentialTestFunctioning differential_test_functioning",
    "analysis.item_shifts": "ItemShifts ShiftControl item_shifts shift_control",
    "analysis.explained_difficulty": "ExplainedDifficulty explain_difficulty",
    "analysis.explained_responses": "explain_responses",
    "analysis.linear_logistic_test": "LinearLogisticTest linear_logistic_test",
    "analysis.wrong_keys": "WrongKeys wrong_keys",
    "analysis.mantel_haenszel": "MantelHaenszel mantel_haenszel",
    "analysis.score_regression": "ScoreRegression score_regression",
    "bank.norms": "Norms",
    "bank.raking": "Raking rake raked_norms read_margins",
    "bank.scale_line": "ScaleLine",
    "bank.scale": "Scale",
    "bank.data_card": "DataCard",
    "bank.bank": "ItemBank save_bank load_bank",
    "bank.item_map": "ItemMap item_map",
    "bank.known_items": "read_bank",
    "bank.norm_table": "with_norms",
    "building.prune_rules": "Exclusion PruneRules",
    "building.scale_checks": "ScaleChecks check_scale",
    "building.pruned": "Pruning",
    "building.pruning": "prune",
    "building.form_wishes": "Limit FormWishes",
    "building.assembly": "AssembledForms assemble_forms",
    "building.form_bank": "form_bank",
    "building.linking": "ScaleLink link_scales",
    "building.drift": "Drift find_drift",
    "building.extending": "extended_scale linked_scale",
    "scoring.ability": "Abilities estimate_ability",
    "scoring.item_error": "item_error_share with_item_error",
    "scoring.plausible_values": "plausible_values",
    "scoring.percentiles": "Percentiles percentiles",
    "scoring.group_percentiles": "percentiles_by_group",
    "scoring.sum_score_table": "SumScoreTable sum_score_table",
    "scoring.scores": "ScoringSettings score_responses score_answers grade_answers grading_of",
    "scoring.bulk": "score_file",
    "scoring.partitions": "PartitionScorer",
    "scoring.leaving_out": "EffectOfLeavingOut leave_items_out",
    "scoring.explanation": "Explanation explain explain_all",
    "scoring.ability_comparison": "AbilityComparison compare_abilities",
    "scoring.adaptive": "AdaptiveSettings Adaptive",
    "scoring.adaptive_paths": "AdaptivePaths replay_adaptive simulate_adaptive",
    "scoring.inspect_stop": "InspectStop item_order",
    "scoring.prediction": "PredictedAccuracy predict_accuracy learn_correction",
    "evaluation.agreement": "Agreement agreement agreement_by_label",
    "evaluation.chance_agreement": (
        "fleiss_kappa category_kappas krippendorff_alpha gwet_ac1 CoefficientWithError coefficient_with_error "
        "bootstrap_coefficient"
    ),
    "evaluation.gold_labels": "GoldLabels majority_labels dawid_skene_labels",
    "evaluation.agreement_tables": "ItemAgreement item_agreement RespondentAgreement respondent_agreement",
    "evaluation.proportion": "wilson_interval",
    "evaluation.paired_bootstrap": "paired_bootstrap",
    "evaluation.paired_tests": "PermutationTest permutation_test McNemar mcnemar",
    "evaluation.system_comparison": "SystemComparison compare_systems",
    "evaluation.power": "expected_p expected_p_table power size_needed guessers_luck",
    "evaluation.trial_variance": "TrialVariance trial_table",
    "evaluation.breakdown": "TypeCounts type_counts accuracy_by_type advantage_by_type values_by_type",
    "evaluation.calibration": "Calibration calibration BrierScore brier_score error_interval",
    "evaluation.calibration_difference": "CalibrationDifference calibration_difference",
    "evaluation.reliability": "ReliabilityCurve reliability_curve adaptive_bins equal_width_bins calibration_error",
    "evaluation.debiased_error": "debiased_squared_error",
    "evaluation.probability_pairs": "concatenate_classes",
    "evaluation.coreference": "draw_antecedents antecedent_clusters name_clusters link_probabilities link_pairs",
    "evaluation.event_counts": "draw_events count_events Propagated propagate",
    "evaluation.consistency": "SwitchProtocol switch_protocol contrast_measures compare_measures",
    "evaluation.human_bound": (
        "HumanAccuracy crowd_filter human_accuracy fresh_accuracy hoeffding_confidence hoeffding_margin over_seeds"
    ),
    "evaluation.artifacts": "Baseline Artifacts artifacts",
    "config": "StudyFile read_study",
    "study.effort": "CommandAdvice",
    "study.findings": "Finding",
    "study.examination": "Examination examine",
    "study.item_analysis": "ItemAnalysis",
    "study.results": "ScaleStudy Study",
    "study.run": "run_study",
    "study.crowd_similarity": "crowd_similarity",
    "study.person_screening": "ScaleFit fit_scales joint_person_fit screen_by_fit",
    "study.screening_effect": "ScreeningEffect screening_effect",
}  # of each module, in the order of the procedure
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__version__ = "0.1.0"
__all__ = list(_HOMES)


def _by_room() -> str:
    """The public names, a paragraph a room."""
    rooms: dict[str, list[str]] = {}
    for name, module in _HOMES.items():
        rooms.setdefault(module.split(".")[0], []).append(name)
    return "\n\n".join(
        fill(f"{room}: {', '.join(names)}", 116, subsequent_indent="    ") for room, names in rooms.items()
    )


__doc__ = f"{__doc__}\nThe public names, room by room, in the order of the procedure:\n\n{_by_room()}\n"


def __getattr__(name: str) -> object:
    """Load a public name from the module that holds it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'irtbench' has no attribute {name!r}")
    return getattr(import_module(f"irtbench.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """The public names, and what every module has."""
    return sorted([*_HOMES, *(name for name in globals() if name.startswith("__"))])
