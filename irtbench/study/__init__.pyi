# isort: skip_file
from irtbench.study.examination import CommandAdvice as CommandAdvice
from irtbench.study.findings import Finding as Finding
from irtbench.study.examination import Examination as Examination
from irtbench.study.item_analysis import ItemAnalysis as ItemAnalysis
from irtbench.study.results import ScaleStudy as ScaleStudy
from irtbench.study.person_screening import ScaleFit as ScaleFit
from irtbench.study.person_screening import fit_scales as fit_scales
from irtbench.study.person_screening import joint_person_fit as joint_person_fit
from irtbench.study.person_screening import screen_by_fit as screen_by_fit
from irtbench.study.screening_effect import ScreeningEffect as ScreeningEffect
