"""The tools compared, each as its own documentation would have it used."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmark_parts.sizes import Size

FLOAT32_FROM = 10_000_000  # responses, from which the line of single precision is run unless it is asked for
MOST_SCORED = 100_000  # respondents, the first, whose abilities are looked at
MOST_FOR_HESSIAN = 100_000  # responses, up to which a peer's standard errors by a whole Hessian are asked for
Device = Literal["cpu", "cuda"]


@dataclass(frozen=True, eq=False)
class Estimates:
    """What a tool found: items on the scale where ability has mean 0 and sd 1, and what it says of convergence."""

    discrimination: NDArray[np.float64]
    difficulty: NDArray[np.float64]
    guessing: NDArray[np.float64]
    converged: bool | None  # None where the tool does not say
    said: str


@dataclass(frozen=True, eq=False)
class StandardErrors:
    """What a tool says of its errors; None where it does not.

    Parameters
    ----------
    difficulty
        Standard errors of b, shape (n_items,).
    theta
        Abilities and their standard errors of all respondents, or of the first, shape (2, n_scored).
    """

    difficulty: NDArray[np.float64] | None = None
    theta: NDArray[np.float64] | None = None


def none_said(result: Any) -> StandardErrors:
    """Of a tool that has no standard errors."""
    return StandardErrors()


@dataclass(frozen=True)
class Prepared:
    """A fit with its input laid out.

    ``fit`` is what is timed, ``read`` makes estimates of what it returns, ``errors`` says how sure they are.
    """

    fit: Callable[[], Any]
    read: Callable[[Any], Estimates]
    errors: Callable[[Any], StandardErrors] = none_said


@dataclass(frozen=True)
class Tool:
    """One line of the tables.

    Parameters
    ----------
    label
        Its name in tables and figures.
    distribution, modules
        The package that must be installed, and the modules that are imported before anything is measured.
    prepare
        Lays the responses out as the tool takes them; gets size, device and seed too.
    kinds
        The models it is run for.
    on_gpu
        Whether it runs on a GPU too.
    from_responses
        The fewest responses for which it is run unless it is asked for by name.
    """

    label: str
    distribution: str
    modules: tuple[str, ...]
    prepare: Callable[[NDArray[np.uint8], Size, Device, int], Prepared]
    kinds: tuple[str, ...] = ("2pl", "3pl")
    on_gpu: bool = False
    from_responses: int = 0

    @property
    def python(self) -> str:
        """The interpreter that has its package: this one, or that of the environment's ``PYTHON_THETA_IRT``."""
        return os.environ.get("PYTHON_" + self.distribution.upper().replace("-", "_"), sys.executable)

    @property
    def installed(self) -> bool:
        """Whether its package can be imported."""
        return self.python != sys.executable or importlib.util.find_spec(self.modules[0]) is not None

    @property
    def version(self) -> str:
        """The version of its package."""
        if self.python == sys.executable:
            return version(self.distribution)
        asked = f"from importlib.metadata import version; print(version({self.distribution!r}))"
        return subprocess.run([self.python, "-c", asked], check=True, capture_output=True, text=True).stdout.strip()

    def import_libraries(self) -> None:
        """Import all it needs, so that no import is timed or counted as memory of the fit."""
        for module in self.modules:
            importlib.import_module(module)


@dataclass(frozen=True)
class Irtbench:
    """`irtbench.fit_model` with its defaults but for what is named here."""

    settings: dict[str, Any] = field(default_factory=dict)

    def __call__(self, values: NDArray[np.uint8], size: Size, device: Device, seed: int) -> Prepared:
        from irtbench.data.responses import ResponseMatrix
        from irtbench.estimation.fit import fit_model
        from irtbench.estimation.fitted import FittedModel
        from irtbench.estimation.settings import FitSettings
        from irtbench.scoring.ability import estimate_ability

        responses = ResponseMatrix(
            values,
            tuple(f"r{i + 1}" for i in range(size.n_respondents)),
            tuple(f"i{j + 1}" for j in range(size.n_items)),
        )
        prior = {"prior": "hierarchical"} if size.hierarchical else {}
        settings = FitSettings(**({"kind": size.kind, "device": device} | prior | self.settings))

        def read(fitted: FittedModel) -> Estimates:
            items = fitted.items
            return Estimates(
                items.discrimination, items.difficulty, items.guessing, fitted.converged, fitted.stopped_because
            )

        def errors(fitted: FittedModel) -> StandardErrors:
            scored = estimate_ability(
                responses.select_respondents(np.arange(size.n_respondents) < MOST_SCORED), fitted.items
            )
            return StandardErrors(
                fitted.items.standard_errors()["difficulty"], np.stack([scored.theta, scored.standard_error])
            )

        return Prepared(
            lambda: fit_model(responses, settings, seed=seed), read, errors if settings.standard_errors else none_said
        )


@dataclass(frozen=True)
class Mirt:
    """`mirt.fit_mirt`, the Python package of that name, without standard errors; None is its own number of nodes."""

    n_nodes: int | None = None

    def __call__(self, values: NDArray[np.uint8], size: Size, device: Device, seed: int) -> Prepared:
        from mirt import fit_mirt

        responses = values.astype(np.int64)
        nodes = {} if self.n_nodes is None else {"n_quadpts": self.n_nodes}

        def fit() -> Any:
            return fit_mirt(responses, model=size.kind.upper(), compute_standard_errors=False, **nodes)

        def read(result: Any) -> Estimates:
            found = result.model.parameters
            a = np.asarray(found["discrimination"], dtype=np.float64)
            c = np.asarray(found.get("guessing", np.zeros(a.size)), dtype=np.float64)
            said = f"{result.n_iterations} iterations"
            return Estimates(a, np.asarray(found["difficulty"], dtype=np.float64), c, bool(result.converged), said)

        return Prepared(fit, read)


def prepare_girth(values: NDArray[np.uint8], size: Size, device: Device, seed: int) -> Prepared:
    """`girth.twopl_mml` and `girth.threepl_mml` with their defaults; they take items x respondents."""
    from girth import threepl_mml, twopl_mml

    responses = np.ascontiguousarray(values.T.astype(np.int64))

    def read(result: dict[str, Any]) -> Estimates:
        a = np.asarray(result["Discrimination"], dtype=np.float64)
        c = np.asarray(result.get("Guessing", np.zeros(a.size)), dtype=np.float64)
        return Estimates(a, np.asarray(result["Difficulty"], dtype=np.float64), c, None, "says nothing of convergence")

    return Prepared(lambda: (twopl_mml if size.kind == "2pl" else threepl_mml)(responses), read)


def prepare_py_irt(values: NDArray[np.uint8], size: Size, device: Device, seed: int) -> Prepared:
    """py-irt's models with hierarchical priors, its default 2,000 epochs and learning rate.

    Its abilities have a mean and sd of their own, those of the variational posterior of all respondents: theta has
    mean m = mean(loc_i) and variance s^2 = var(loc_i) + mean(scale_i^2). On the scale of mean 0 and sd 1, a is s a and
    b is (b - m) / s.
    """
    import pyro
    from py_irt.config import IrtConfig
    from py_irt.dataset import Dataset
    from py_irt.training import IrtModelTrainer

    respondents, items = range(size.n_respondents), range(size.n_items)
    # its readers take one JSON object a respondent or a data frame; this is what they make of it, without the detour
    dataset = Dataset.model_construct(
        item_ids={f"i{j}" for j in items},
        subject_ids={f"r{i}" for i in respondents},
        item_id_to_ix={f"i{j}": j for j in items},
        ix_to_item_id={j: f"i{j}" for j in items},
        subject_id_to_ix={f"r{i}": i for i in respondents},
        ix_to_subject_id={i: f"r{i}" for i in respondents},
        observation_subjects=np.repeat(np.arange(size.n_respondents), size.n_items).tolist(),
        observation_items=np.tile(np.arange(size.n_items), size.n_respondents).tolist(),
        observations=values.ravel().tolist(),
        training_example=[True] * values.size,
        anchor_items=None,
    )
    config = IrtConfig(model_type=size.kind, priors="hierarchical", seed=seed)
    trainer = IrtModelTrainer(data_path=None, config=config, dataset=dataset, verbose=False)

    def fit() -> Any:
        pyro.set_rng_seed(seed)
        trainer.train(device="cpu")
        return trainer.last_params

    def read(found: dict[str, Any]) -> Estimates:
        loc = np.asarray(found["ability"])
        scale = pyro.param("scale_ability").detach().numpy().astype(np.float64)
        mean, sd = loc.mean(), np.sqrt(loc.var() + (scale**2).mean())
        a = np.asarray(found["disc"]) * sd
        b = (np.asarray(found["diff"]) - mean) / sd
        c = np.asarray(found.get("lambdas", np.zeros(a.size)))
        return Estimates(a, b, c, None, f"stops after {config.epochs} epochs")

    return Prepared(fit, read)


def prepare_theta_irt(values: NDArray[np.uint8], size: Size, device: Device, seed: int) -> Prepared:
    """`theta.fit` with its defaults: 61 Gauss-Hermite nodes, priors of c alone; errors from its whole Hessian."""
    import theta

    responses = values.astype(np.float64)

    def read(model: Any) -> Estimates:
        a, b, c = (np.asarray(part, dtype=np.float64) for part in (model.a, model.b, model.c))
        return Estimates(a, b, c, bool(model.converged), f"{int(model.n_iter)} iterations")

    def errors(model: Any) -> StandardErrors:
        few = values.size <= MOST_FOR_HESSIAN
        return StandardErrors(
            np.asarray(model.standard_errors(responses)["b"]) if few else None,
            np.stack([np.asarray(part) for part in model.score(responses)]),
        )

    return Prepared(lambda: theta.fit(responses, size.kind.upper()), read, errors)


@dataclass(frozen=True)
class TorchMeasure:
    """`torch_measure`'s models with the defaults of their `fit`, 1,000 epochs.

    Its abilities have a mean and sd of their own: those of the estimates, or with a posterior ("svi") of loc and scale,
    as for py-irt.
    """

    method: str

    def __call__(self, values: NDArray[np.uint8], size: Size, device: Device, seed: int) -> Prepared:
        import torch
        from torch_measure.models import ThreePL, TwoPL

        responses = torch.from_numpy(values.astype(np.float32))

        def fit() -> Any:
            torch.manual_seed(seed)
            model = (TwoPL if size.kind == "2pl" else ThreePL)(size.n_respondents, size.n_items)
            return model, model.fit(responses, method=self.method, verbose=False)

        def abilities(found: Any) -> tuple[NDArray[np.float64], NDArray[np.float64], float, float]:
            """Abilities with their deviations, on the tool's own scale, and its mean and sd."""
            model, history = found
            loc = model.ability.detach().numpy().astype(np.float64)
            said = history.get("posterior")
            deviation = np.zeros(loc.size) if said is None else said["ability"]["scale"].numpy().astype(np.float64)
            return loc, deviation, float(loc.mean()), float(np.sqrt(loc.var() + (deviation**2).mean()))

        def read(found: Any) -> Estimates:
            model, history = found
            _, _, mean, sd = abilities(found)
            a = model.discrimination.detach().numpy().astype(np.float64) * sd
            b = (model.difficulty.detach().numpy().astype(np.float64) - mean) / sd
            c = model.guessing.detach().numpy().astype(np.float64) if size.kind == "3pl" else np.zeros(a.size)
            return Estimates(a, b, c, None, f"stops after {len(history['losses'])} epochs")

        def errors(found: Any) -> StandardErrors:
            _, history = found
            if "posterior" not in history:
                return StandardErrors()
            loc, deviation, mean, sd = abilities(found)
            of_b = history["posterior"]["difficulty"]["scale"].numpy().astype(np.float64)
            return StandardErrors(of_b / sd, np.stack([(loc - mean) / sd, deviation / sd]))

        return Prepared(fit, read, errors)


OURS = ("irtbench", "irtbench.estimation.fit")
TORCH_MEASURE = ("torch_measure", "torch_measure.models")
TOOLS = {
    "irtbench": Tool("irtbench", "irtbench", OURS, Irtbench({"standard_errors": False}), on_gpu=True),
    "irtbench-se": Tool("irtbench, standard errors", "irtbench", OURS, Irtbench(), on_gpu=True),
    "irtbench-float32": Tool(
        "irtbench, float32",
        "irtbench",
        OURS,
        Irtbench({"standard_errors": False, "dtype": "float32"}),
        on_gpu=True,
        from_responses=FLOAT32_FROM,
    ),
    "irtbench-no-prior": Tool(
        "irtbench, no prior", "irtbench", OURS, Irtbench({"standard_errors": False, "prior": "none"}), kinds=("3pl",)
    ),
    "mirt": Tool("mirt (Python)", "mirt", ("mirt",), Mirt()),
    "mirt-61": Tool("mirt (Python), 61 nodes", "mirt", ("mirt",), Mirt(61)),
    "girth": Tool("girth", "girth", ("girth",), prepare_girth),
    "py-irt": Tool("py-irt", "py-irt", ("py_irt", "py_irt.training"), prepare_py_irt),
    "theta-irt": Tool("theta-irt", "theta-irt", ("theta",), prepare_theta_irt),
    "torch-measure": Tool("torch_measure", "torch-measure", TORCH_MEASURE, TorchMeasure("mle")),
    "torch-measure-svi": Tool("torch_measure, svi", "torch-measure", TORCH_MEASURE, TorchMeasure("svi")),
}
