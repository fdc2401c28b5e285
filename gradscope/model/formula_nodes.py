"""Words that formulas use, entries of torch's table that read better as a whole, and nodes that no table has."""

from __future__ import annotations

from dataclasses import dataclass

WORDS: dict[str, str] = {
    "put_back": "put_back(g, dim): g with the reduced dims put back, each of size 1",
    "rows": "rows(x): x with all dims but the last made into one",
    "sum_to": "sum_to(g, shape): g summed over the dims that were expanded",
    "per_channel": "per_channel(x): the sum over all dims but dim 1, the channels",
    "conv_input": "conv_input: the convolution transposed: each number of grad goes back, times the weights, where it was read",
    "conv_weight": "conv_weight: for each weight the sum over batch and places of grad times the input that the weight met there",
    "at_places": "at_places(shape, indices, grad): zeros, and each number of grad added where its maximum was found",
    "at_targets": "at_targets(target, g): zeros, and for each sample g in the column of its target",
    "N": "N = self.numel() with reduction='mean', else 1",
    "scalars": "scalars(g): each number of g as a matrix of one element",
    "block_of": "block_of(grad, i): the part of grad where tensor i lies on the diagonal",
    "eye": "eye(shape): 1 on the diagonal, 0 elsewhere",
    "avg_pool2d_backward": "avg_pool2d_backward: each number of grad is shared equally by the window it averaged",
    "avg_pool3d_backward": "avg_pool3d_backward: each number of grad is shared equally by the window it averaged",
    "_adaptive_avg_pool2d_backward": "_adaptive_avg_pool2d_backward: each number of grad is shared equally by its window",
    "_adaptive_avg_pool3d_backward": "_adaptive_avg_pool3d_backward: each number of grad is shared equally by its window",
    "as_strided_backward": "as_strided_backward: each number of grad is added where the view read it",
    "unfold_backward": "unfold_backward: each window of grad is added where it was read",
    "repeat_backward": "repeat_backward: the sum of the repeats",
    "cholesky_backward": "cholesky_backward: Murray, Differentiation of the Cholesky decomposition (2016)",
    "mkldnn_rnn_layer_backward": "mkldnn_rnn_layer_backward: oneDNN's backward of one recurrent layer, through time",
    "_cdist_backward": "_cdist_backward: each distance's grad along the difference of its two points, over the distance",
    "_embedding_bag_backward": "_embedding_bag_backward: each row gets the grads of its bags, as its mode weighs them",
    "fft_r2c_backward": "fft_r2c_backward: the real part of the complex transform the other way round, without the mirrored half",
    **{
        f"{kind}_pad{n}d_backward": f"{kind}_pad{n}d_backward: each number of grad is added where it was read"
        for kind in ("reflection", "replication")
        for n in (1, 2, 3)
    },
    **{
        f"upsample_{kind}_backward": f"upsample_{kind}_backward: each number of grad goes back, weighed, where it was read"
        for kind in ("nearest1d", "nearest2d", "nearest3d", "linear1d", "bilinear2d", "bicubic2d", "trilinear3d")
    },
}
"""names that the rules and the table use and PyTorch does not have as such"""

NODES: dict[str, dict[str, str]] = {
    "AddbmmBackward0": {"self": "grad * beta", "batch1": "grad @ batch2.mT * alpha", "batch2": "batch1.mT @ grad * alpha"},
    "AcosBackward0": {"self": "-grad / sqrt(1 - self ** 2)"},
    "AsinBackward0": {"self": "grad / sqrt(1 - self ** 2)"},
    "AcoshBackward0": {"self": "grad / sqrt(self ** 2 - 1)"},
    "AsinhBackward0": {"self": "grad / sqrt(self ** 2 + 1)"},
    "AtanBackward0": {"self": "grad / (1 + self ** 2)"},
    "AtanhBackward0": {"self": "grad / (1 - self ** 2)"},
    "RsqrtBackward0": {"self": "-grad / 2 * result ** 3"},
    "RollBackward0": {"self": "grad.roll([-shift for shift in shifts], dims)"},
    "IndexFillBackward1": {"self": "grad.index_fill(dim, index, 0)", "value": "grad.index_select(dim, index.unique()).sum()"},
    "NativeDropoutBackward0": {"input": "grad * result1 / (1 - p)"},
    "IndexAddBackward0": {"self": "grad", "source": "grad.index_select(dim, index) * alpha"},
    "IndexCopyBackward0": {"self": "grad.index_fill(dim, index, 0)", "source": "grad.index_select(dim, index)"},
    "WhereBackward0": {"self": "where(condition, grad, 0)", "other": "where(condition, 0, grad)"},
    "LinalgInvExBackward0": {"A": "-conj(inverse.mT) @ grad @ conj(inverse.mT)"},
    "EluBackward0": {"self": "where(self <= 0, grad * alpha * scale * input_scale * exp(self * input_scale), grad * scale)"},
    "EluBackward1": {"self": "where(result <= 0, grad * input_scale * (result + alpha * scale), grad * scale)"},
    "CeluBackward0": {"self": "where(self <= 0, grad * exp(self / alpha), grad)"},
    "CeluBackward1": {"self": "where(result <= 0, grad * (result / alpha + 1), grad)"},
    "LinalgCrossBackward0": {"self": "cross(other, grad, dim=dim)", "other": "cross(grad, self, dim=dim)"},
    "DistBackward0": {
        "self": "sum_to(norm_backward(grad, self - other, p, result), self.shape)",
        "other": "sum_to(-norm_backward(grad, self - other, p, result), other.shape)",
    },
    "IndexPutBackward0": {
        "self": "grad if accumulate else grad.index_put(indices, zeros_like(values))",
        "values": "sum_to(grad[indices], values.shape)",
    },
    "SgnBackward0": {"self": "0"},
    "AngleBackward0": {"self": "0"},
}
"""Entries that read better as a whole than by the rules, for real numbers"""

LINEAR = frozenset(
    f"{op}Backward0" for op in ("IndexAdd", "IndexCopy", "IndexPut", "LinalgInvEx", "NativeDropout", "Roll", "Where")
)
"""those of them that hold for complex numbers, too"""


@dataclass(frozen=True, slots=True)
class Hand:
    """A node whose C++ is written by hand, not generated from the table."""

    forward: str
    outputs: tuple[tuple[str, str], ...]
    where: tuple[str, ...]
    source: str
    elementwise: tuple[str, ...] = ()
    """those whose gradient the engine sums to their shape"""


BY_HAND: dict[str, Hand] = {
    "AccumulateGrad": Hand(
        "", (("grad", "variable.grad + grad"),), ("variable.grad counts as 0 where it is None",), "functions/accumulate_grad.h"
    ),
    "CopySlices": Hand(
        "base[view] = fn(base[view])",
        (("base", "grad, with what fn's own derivative gives in the place of the view"), ("value", "what fn's derivative gives")),
        ("fn: the in-place operation on a view of base; it is given the view's part of grad, and a value's part is summed",),
        "functions/tensor.cpp",
    ),
    "CopyBackwards": Hand(
        "self.copy_(src)", (("self", "zeros_like(grad)"), ("src", "grad.type_as(src)")), (), "functions/tensor.cpp", ("src",)
    ),
    "UndefinedGradBackward": Hand("", (("self", "undefined"),), (), "functions/basic_ops.cpp"),
}
"""The files lie in torch/csrc/autograd."""
