# SPDX-License-Identifier: Apache-2.0
"""What PyTorch has to do for each family: the one table behind tools/torch_peers.py.

Operands have the names of the contracts. Shapes, bytes and flops are not here: mage_bench says them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

try:
    import torch
    from torch.nn.functional import gelu

    WHY_NO_TORCH = ""
except (ImportError, OSError) as error:  # OSError: a library that it needs is not there
    torch = None
    WHY_NO_TORCH = str(error)

U = 2.0**-24
TINY = 2.0**-149  # FP32's step at 0, which no bound can go below
EPS = 1e-5
SQRT_HALF = math.sqrt(0.5)


@dataclass(frozen=True)
class Family:
    """Callables take the inputs by their order in `inputs` and return a tuple in the order of `outputs`."""

    inputs: dict[str, str]  # name -> shape: matrix, row (one value a column), column (one value a row)
    outputs: dict[str, str]
    eager: Callable
    compiled: dict[str, Callable]  # forms to hand to torch.compile: in each mode the fastest in a pilot is measured
    expected: Callable  # of FP64 inputs: a list of (value, bound)
    derive: Callable | None = None  # sets inputs that follow from others, in place

    def output_shapes(self, rows: int, cols: int) -> dict[str, tuple[int, ...]]:
        return {name: shape_of(kind, rows, cols) for name, kind in self.outputs.items()}


def _gelu(x, bias):
    return (gelu(x + bias),)


def _gelu_tanh(x, bias):
    return (gelu(x + bias, approximate="tanh"),)


def _gelu_backward(x, bias, dy):
    dx = torch.ops.aten.gelu_backward(dy, x + bias)
    return dx, dx.sum(0)


def _layernorm(x, gamma, beta):
    return torch.native_layer_norm(x, x.shape[1:], gamma, beta, EPS)


def _layernorm_formula(x, gamma, beta):
    mean = x.mean(1, keepdim=True)
    centred = x - mean
    rstd = torch.rsqrt((centred * centred).mean(1, keepdim=True) + EPS)
    return centred * rstd * gamma + beta, mean, rstd


def _layernorm_backward(x, dy, mean, rstd, gamma):
    # Only the shape of the bias is looked at, and gamma has the same.
    return torch.ops.aten.native_layer_norm_backward(dy, x, x.shape[1:], mean, rstd, gamma, gamma, [True, True, True])


def _layernorm_backward_formula(x, dy, mean, rstd, gamma):
    xhat = (x - mean) * rstd
    weighted = dy * gamma
    c1 = weighted.mean(1, keepdim=True)
    c2 = (weighted * xhat).mean(1, keepdim=True)
    return rstd * (weighted - c1 - xhat * c2), (dy * xhat).sum(0), dy.sum(0)


# Bounds: depths of summation, which any of PyTorch's kernels stays below, times magnitudes. The contracts' are tighter.


def _row_depth(cols):
    return cols / 128 + 10


def _column_depth(rows):
    return 2 * math.sqrt(rows) + 16


def _expect_gelu(x, bias):
    t = x + bias
    y = 0.5 * t * torch.special.erfc(-t * SQRT_HALF)
    return [(y, 8 * U * t.abs() + 2 * U * y.abs() + TINY)]


def _expect_gelu_tanh(x, bias):
    t = x + bias
    y = 0.5 * t * (1 + torch.tanh(math.sqrt(2 / math.pi) * (t + 0.044715 * t**3)))
    return [(y, 8 * U * t.abs() + 4 * U * y.abs() + TINY)]


def _expect_gelu_backward(x, bias, dy):
    t = x + bias
    density = torch.exp(-0.5 * t * t) / math.sqrt(2 * math.pi)
    dx = dy * (0.5 * torch.special.erfc(-t * SQRT_HALF) + t * density)
    error = 12 * U * dy.abs() * (1 + t.abs()) + TINY
    depth = _column_depth(x.shape[0])
    return [(dx, error), (dx.sum(0), error.sum(0) + depth * U * dx.abs().sum(0))]


def _expect_layernorm(x, gamma, beta):
    depth = _row_depth(x.shape[1])
    mean = x.mean(1, keepdim=True)
    rstd = 1 / torch.sqrt((x - mean).square().mean(1, keepdim=True) + EPS)
    xhat = (x - mean) * rstd
    off_mean = (depth + 2) * U * x.abs().mean(1, keepdim=True)
    y_bound = gamma.abs() * (off_mean * rstd + (3 * depth + 10) * U * xhat.abs()) + 2 * U * beta.abs()
    rstd_bound = rstd * ((depth + 8) * U + (off_mean * rstd).square())
    return [(xhat * gamma + beta, y_bound + TINY), (mean, off_mean + TINY), (rstd, rstd_bound + TINY)]


def _expect_layernorm_backward(x, dy, mean, rstd, gamma):
    rows, cols = x.shape
    xhat = (x - mean) * rstd
    weighted = dy * gamma
    c1 = weighted.mean(1, keepdim=True)
    c2 = (weighted * xhat).mean(1, keepdim=True)
    largest = weighted.abs().amax(1, keepdim=True) + c1.abs() + xhat.abs() * c2.abs()
    bound = (4 * _row_depth(cols) + 16) * U * rstd * largest + TINY
    depth = _column_depth(rows)
    # PyTorch on a CPU makes xhat as x rstd - mean rstd, whose error is that of its terms.
    terms = (dy * rstd).abs() * (x.abs() + mean.abs())
    return [
        (rstd * (weighted - c1 - xhat * c2), bound),
        ((dy * xhat).sum(0), (depth * U * (dy * xhat).abs() + 4 * U * terms).sum(0) + TINY),
        (dy.sum(0), depth * U * dy.abs().sum(0) + TINY),
    ]


def _derive_moments(x, dy, mean, rstd, gamma):
    wide = x.double()
    exact = wide.mean(1, keepdim=True)
    mean.copy_(exact)
    rstd.copy_(1 / torch.sqrt((wide - exact).square().mean(1, keepdim=True) + EPS))


FAMILIES = {
    "gelu": Family(
        inputs={"x": "matrix", "bias": "row"},
        outputs={"y": "matrix"},
        eager=_gelu,
        compiled={"aten": _gelu},
        expected=_expect_gelu,
    ),
    "gelu_tanh": Family(
        inputs={"x": "matrix", "bias": "row"},
        outputs={"y": "matrix"},
        eager=_gelu_tanh,
        compiled={"aten": _gelu_tanh},
        expected=_expect_gelu_tanh,
    ),
    "gelu_backward": Family(
        inputs={"x": "matrix", "bias": "row", "dy": "matrix"},
        outputs={"dx": "matrix", "dbias": "row"},
        eager=_gelu_backward,
        compiled={"aten": _gelu_backward},
        expected=_expect_gelu_backward,
    ),
    "layernorm": Family(
        inputs={"x": "matrix", "gamma": "row", "beta": "row"},
        outputs={"y": "matrix", "mean": "column", "rstd": "column"},
        eager=_layernorm,
        compiled={"aten": _layernorm, "formula": _layernorm_formula},
        expected=_expect_layernorm,
    ),
    "layernorm_backward": Family(
        inputs={"x": "matrix", "dy": "matrix", "mean": "column", "rstd": "column", "gamma": "row"},
        outputs={"dx": "matrix", "dgamma": "row", "dbeta": "row"},
        eager=_layernorm_backward,
        compiled={"aten": _layernorm_backward, "formula": _layernorm_backward_formula},
        expected=_expect_layernorm_backward,
        derive=_derive_moments,
    ),
}


def shape_of(kind: str, rows: int, cols: int) -> tuple[int, ...]:
    return {"matrix": (rows, cols), "row": (cols,), "column": (rows, 1)}[kind]


def make_inputs(family: Family, rows: int, cols: int, seed: int, device: str) -> dict:
    generator = torch.Generator(device=device).manual_seed(seed)
    inputs = {
        name: torch.empty(shape_of(kind, rows, cols), device=device).normal_(generator=generator)
        for name, kind in family.inputs.items()
    }
    if family.derive:
        family.derive(**inputs)
    return inputs


def expect(family: Family, inputs: dict) -> list:
    return family.expected(*(tensor.double() for tensor in inputs.values()))


def worst_error(family: Family, outputs, expected) -> tuple[float, str]:
    """The largest error / bound of all outputs, and which output has it; infinite where one is no number."""
    worst = (0.0, next(iter(family.outputs)))
    for name, got, (value, bound) in zip(family.outputs, outputs, expected, strict=True):
        if got.numel() != value.numel():
            return math.inf, f"{name}, which has {got.numel()} elements instead of {value.numel()}"
        # In place and in turn: the largest problem's temporaries are a gigabyte each.
        ratio = got.double().reshape(value.shape).sub_(value).abs_().div_(bound)
        share = float(torch.nan_to_num_(ratio, nan=math.inf).max())
        if share > worst[0]:
            worst = (share, name)
    return worst


def fingerprint(tensor) -> str:
    """64 bits of the bytes and their places, worked out where the tensor is."""
    words = tensor.reshape(-1).view(torch.int32).to(torch.int64)
    places = torch.arange(1, words.numel() + 1, device=words.device)
    return f"{int((words * (2 * places + 1)).sum()) & (2**64 - 1):016x}"
