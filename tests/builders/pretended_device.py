"""A device that computes on the processor, but refuses what a GPU would refuse: tensors of two places in one sum."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from irtbench.estimation.many_scales import stack
from irtbench.estimation.marginal import e_step
from irtbench.estimation.several_abilities import bifactor_problem

PLACE = torch.device("meta")  # torch itself keeps no numbers there
COPYING = "aten::copy_"  # which a GPU does from the processor's memory too
INDEXING = {"aten::index.Tensor", "aten::index_put_", "aten::index_put", "aten::_index_put_impl_"}


class Elsewhere(torch.Tensor):
    """A tensor that says it is on the GPU; `held` is where its numbers are."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> Elsewhere:
        if held.layout != torch.strided:
            return torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
                cls, held.size(), dtype=held.dtype, layout=held.layout, device=PLACE
            )
        return torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=PLACE,
        )

    def __init__(self, held: torch.Tensor) -> None:
        self.held = held

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        return on_its_place(function, args, kwargs or {})


def on_its_place(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operation on the numbers, and wrap what comes out of it if it would be on the GPU."""
    tensors: list[torch.Tensor] = []

    def held(part: Any) -> Any:
        if isinstance(part, torch.Tensor):
            tensors.append(part)
            return part.held if isinstance(part, Elsewhere) else part
        if isinstance(part, (tuple, list)):
            return [held(one) for one in part]
        return part

    inner = [held(part) for part in args]
    options = {name: held(part) for name, part in kwargs.items()}
    there = any(isinstance(part, Elsewhere) for part in tensors)
    name = function._schema.name + (f".{function._schema.overload_name}" if function._schema.overload_name else "")
    if there and name != COPYING:
        here = [part for part in tensors if not isinstance(part, Elsewhere) and part.dim() > 0]
        if name in INDEXING:  # a GPU takes indices from the processor, but not values, nor gives it indices
            indices, *values = args[1:3]
            own = isinstance(args[0], Elsewhere)
            here = [part for part in values if own != isinstance(part, Elsewhere) and part.dim() > 0]
            here += [part for part in indices if not own and isinstance(part, Elsewhere)]
        if name == "aten::linalg_lstsq" and kwargs.get("driver") not in (None, "gels"):
            raise AssertionError(f"{name}: no driver but gels is on a GPU")
        if here:
            place = f"a tensor of {tuple(here[0].shape)} on the processor among tensors on the GPU"
            raise AssertionError(f"{name}: {place}")
    asked = kwargs.get("device")
    goes = torch.device(asked) if asked is not None else PLACE if there else torch.device("cpu")
    if asked is not None:
        options["device"] = torch.device("cpu")
    result = function(*inner, **options)
    if function._schema.name.endswith("_") and tensors:  # in place: the tensor itself
        return args[0]
    if "out" in kwargs:
        return kwargs["out"]
    return result if goes.type == "cpu" else sent(result)


def sent(result: Any) -> Any:
    """The same with its tensors on the GPU."""
    if isinstance(result, torch.Tensor):
        return Elsewhere(result)
    return type(result)(map(sent, result)) if isinstance(result, (tuple, list)) else result


class PretendedDevice(TorchDispatchMode):
    """Sends what is made on the GPU, and what is computed from it, to the pretended one."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return on_its_place(function, args, kwargs or {})


class MadeThere(TorchFunctionMode):
    """Tensors of plain numbers are made on the processor and sent, for torch would make them without the numbers."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if function in (torch.tensor, torch.as_tensor) and kwargs.get("device") == PLACE:
            place = kwargs.pop("device")
            return function(*args, **kwargs).to(place)
        if function is torch.Tensor.tolist and isinstance(args[0], Elsewhere):
            return args[0].held.tolist()  # which torch refuses of a class of ours, and not of a GPU
        if function is torch.Tensor.cpu and isinstance(args[0], Elsewhere) and args[0].held.layout != torch.strided:
            return args[0].held
        if function is torch.Tensor.to_dense and isinstance(args[0], Elsewhere):
            return Elsewhere(args[0].held.to_dense())
        if function is torch.Tensor.matmul and isinstance(args[0], Elsewhere) and args[0].dim() == 1 < args[1].dim():
            return (args[0][None] @ args[1])[0]  # as torch does it, but for squeezing in place, out of our sight
        if function is torch.Tensor.new_tensor and isinstance(args[0], Elsewhere):
            return torch.tensor(args[1], dtype=args[0].dtype).to(PLACE)
        if function in (torch.Tensor.__getitem__, torch.Tensor.__setitem__) and isinstance(args[1], tuple):
            key = tuple(torch.tensor(part) if isinstance(part, list) else part for part in args[1])
            args = (args[0], key, *args[2:])
        return function(*args, **kwargs)


@contextmanager
def pretended_gpu() -> Iterator[list[str]]:
    """Let every device that is asked for be the pretended one; yields what is asked for."""
    asked: list[str] = []

    def choose_device(wanted: str) -> torch.device:
        asked.append(wanted)
        return PLACE

    choosing = [module for name, module in sys.modules.items() if name.startswith("irtbench.")]
    with ExitStack() as held:
        for module in choosing:
            if "choose_device" in vars(module):
                held.enter_context(patch.object(module, "choose_device", choose_device))
        cells = (e_step.BATCH_CELLS, stack.CHUNK_BYTES, stack.GROUP_CELLS, bifactor_problem.MOST_CELLS)
        for by_device in cells:
            held.enter_context(patch.dict(by_device, {PLACE.type: by_device["cpu"]}))  # sums in the same order
        held.enter_context(PretendedDevice())
        held.enter_context(MadeThere())
        yield asked


def assert_same_if_pretended(numbers_of: Callable[[str], Mapping[str, Any]]) -> None:
    """Numbers of the processor and of the pretended device are the same, but for the order of sums."""
    here = numbers_of("cpu")
    with pretended_gpu():
        there = numbers_of("cuda")
    assert_near(there, here, 1e-9, 1e-11)


def assert_same_on_a_gpu(numbers_of: Callable[[str], Mapping[str, Any]]) -> None:
    """Numbers of the processor and of a GPU are the same to what single precision leaves."""
    assert_near(numbers_of("cuda"), numbers_of("cpu"), 1e-4, 1e-4)


def assert_near(found: Mapping[str, Any], expected: Mapping[str, Any], relative: float, absolute: float) -> None:
    """Arrays of the same names are near one another."""
    for name, numbers in expected.items():
        np.testing.assert_allclose(found[name], numbers, rtol=relative, atol=absolute, err_msg=name)
