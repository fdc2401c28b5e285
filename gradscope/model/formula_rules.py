"""What the helper functions in torch's derivative table compute, in PyTorch's own notation.

A rule's text is Python in the names of the helper's parameters. `.mT` is written ᵀ and `** 2` is written ² at the end; `conj`
disappears where the numbers are real. Sources are the C++ of torch 2.13: `FunctionsManual.cpp` is of torch/csrc/autograd, and
`native/…` of aten/src/ATen. What a CPU can run is checked against the nodes themselves (tests/model/test_formula_values.py).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """What one helper function returns."""

    parameters: str
    """as it is called in derivatives.yaml; a `*name` takes the rest; missing ones at the end are `None`"""
    texts: tuple[str, ...]
    """one for each result"""
    where: tuple[str, ...] = ()
    """meanings of names in it: `name = expression` (in the parameters' names too), or a remark, with `{parameter}`"""
    source: str = "FunctionsManual.cpp"


def rule(parameters: str, *texts: str, where: tuple[str, ...] | str = (), source: str = "FunctionsManual.cpp") -> Rule:
    return Rule(parameters, texts, (where,) if isinstance(where, str) else where, source)


_AT_ZERO = "0 where {norm} is 0; with p = inf the elements that reach it share the gradient"
_NONZERO = "for numbers that are not 0; torch takes another way round zeros"
_NORM = rule(
    "grad, x, p, norm, dim, keepdim",
    "put_back(grad, dim, keepdim) * sgn(x) * (abs(x) / put_back(norm, dim, keepdim)) ** (p - 1)",
    where=_AT_ZERO,
)
_RESHAPED = rule("grad, *rest", "grad.reshape(self.shape)")
_BOUNDED = rule("grad, x, limit", "where((-limit <= x) & (x <= limit), 0, grad)", source="native/cpu/Activation.cpp")
_SOFTMAX = rule("grad, y, dim, dtype", "y * (grad - (grad * y).sum(dim, keepdim=True))", source="native/SoftMax.cpp")
_CAT = rule("grads, *rest", "cat(grads, dim)", where="grads: what arrives for each part; zeros for a part that got nothing")
_ATTENTION = (
    "P = attention_weights(query, key)",
    "dP = grad @ value.mT",
    "dS = P * (dP - (dP * P).sum(-1, keepdim=True))",
)
_BATCH_NORM = (
    "xhat = (input - mu) * rs",
    "w: weight of the channel, 1 where there is none",
    "mu, rs: mean and 1/√(var + eps) of the channel: the batch's ({mean}, {invstd}) in training, else the running ones",
    "avg(x): the mean over all dims but dim 1, kept as dims of size 1",
)
_NORMALISED = (
    "w * rs * (grad - avg(grad) - xhat * avg(grad * xhat) if training else grad)",
    "per_channel(grad * xhat)",
    "per_channel(grad)",
)
_CONVOLUTION = ("conv_input(grad, weight)", "conv_weight(grad, input)", "per_channel(grad)")
_POOLED = rule("grad, self, *rest, indices", "at_places(self.shape, indices, grad)", source="native/DilatedMaxPool2d.cpp")
_GROUPED = "group by group, where offs has the end of each"
_CELLS = "zeros(self.shape)"

HELPERS: dict[str, Rule] = {
    # ------------------------------------------------------------ casts and scalars
    "handle_r_to_c": rule("dtype, grad", "grad"),
    "maybe_multiply": rule("grad, scale", "grad * scale"),
    "_to_copy_backward": rule("grad, options", "grad.type_as(self)"),
    "wrap_opt_if": rule("x, condition", "x"),
    "masked_fill_inplace_if_safe": rule("x, mask, value", "x.masked_fill(mask, value)"),
    # ------------------------------------------------------------ products
    "mul_tensor_backward": rule("grad, other, dtype", "grad * conj(other)"),
    "div_tensor_self_backward": rule("grad, other, dtype, mode", "grad / conj(other) if mode is None else 0"),
    "div_tensor_other_backward": rule("grad, x, other, mode", "-grad * conj(x / other ** 2) if mode is None else 0"),
    "mm_mat1_backward": rule("grad, mat2, sizes, strides, layout, alpha", "grad @ conj(mat2.mT) * conj(alpha)"),
    "mm_mat2_backward": rule("grad, mat1, sizes, strides, layout, alpha", "conj(mat1.mT) @ grad * conj(alpha)"),
    "mm_mat1_sparse_backward": rule("grad, mat1, mat2, alpha", "(grad @ conj(mat2.mT) * alpha).sparse_mask(mat1)"),
    "_grouped_mm_mat1_backward": rule("grad, mat2, sizes, strides, layout, offs, alpha", "grad @ mat2.mT", where=_GROUPED),
    "_grouped_mm_mat2_backward": rule("grad, mat1, sizes, strides, layout, offs, alpha", "mat1.mT @ grad", where=_GROUPED),
    "linear_backward": rule(
        "input, grad, weight, mask",
        "grad @ weight",
        "rows(grad).mT @ rows(input)",
        "rows(grad).sum(0)",
        source="native/Linear.cpp",
    ),
    "pow_backward": rule("grad, x, exponent", "grad * conj(exponent * x ** (exponent - 1))"),
    "pow_backward_self": rule("grad, x, exponent", "grad * conj(where(exponent == 0, 0, exponent * x ** (exponent - 1)))"),
    "pow_backward_exponent": rule("grad, x, exponent, y", "grad * conj(where((x == 0) & (exponent >= 0), 0, y * log(x)))"),
    # ------------------------------------------------------------ elementwise
    "sigmoid_backward": rule("grad, y", "grad * conj(y * (1 - y))", source="native/BinaryOps.cpp"),
    "tanh_backward": rule("grad, y", "grad * conj(1 - y ** 2)", source="native/BinaryOps.cpp"),
    "threshold_backward": rule("grad, x, threshold", "where(x <= threshold, 0, grad)", source="native/Activation.cpp"),
    "leaky_relu_backward": rule(
        "grad, x, slope, is_result", "where(x > 0, grad, grad * slope)", source="native/cpu/Activation.cpp"
    ),
    "hardtanh_backward": rule(
        "grad, x, low, high", "where((x <= low) | (x >= high), 0, grad)", source="native/cpu/Activation.cpp"
    ),
    "hardsigmoid_backward": rule("grad, x", "where((-3 < x) & (x < 3), grad / 6, 0)", source="native/cpu/Activation.cpp"),
    "hardswish_backward": rule(
        "grad, x", "where(x <= -3, 0, where(x < 3, grad * (x / 3 + 1 / 2), grad))", source="native/cpu/Activation.cpp"
    ),
    "hardshrink_backward": _BOUNDED,
    "softshrink_backward": _BOUNDED,
    "gelu_backward": rule(
        "grad, x, approximate",
        "grad * (Phi(x) + x * phi(x))",
        where=(
            "Phi(x): (1 + erf(x/√2)) / 2, and phi is its derivative",
            "with approximate='tanh', Phi(x): (1 + tanh(√(2/π) * (x + 0.044715 * x³))) / 2",
        ),
        source="native/cpu/Activation.cpp",
    ),
    "silu_backward": rule("grad, x", "grad * s * (1 + x * (1 - s))", where="s = sigmoid(x)", source="native/cpu/Activation.cpp"),
    "mish_backward": rule(
        "grad, x", "grad * (t + x * sigmoid(x) * (1 - t ** 2))", where="t = tanh(softplus(x))", source="native/cpu/Activation.cpp"
    ),
    "softplus_backward": rule(
        "grad, x, beta, threshold",
        "where(x * beta > threshold, grad, grad * sigmoid(x * beta))",
        source="native/cpu/Activation.cpp",
    ),
    "log_sigmoid_backward": rule("grad, x, buffer", "grad * sigmoid(-x)", source="native/cpu/Activation.cpp"),
    "logit_backward": rule(
        "grad, x, eps",
        "grad / (x * (1 - x))",
        where="0 where {x} lies outside [eps, 1 - eps]; NaN outside [0, 1] where eps is not given",
        source="native/cpu/BinaryOpsKernel.cpp",
    ),
    "glu_backward": rule(
        "grad, x, dim",
        "cat([grad * sigmoid(b), grad * a * sigmoid(b) * (1 - sigmoid(b))], dim)",
        where="a, b = x.chunk(2, dim)",
        source="native/GatedLinearUnit.cpp",
    ),
    "_prelu_kernel_backward": rule(
        "grad, x, weight",
        "where(x > 0, grad, grad * weight)",
        "where(x > 0, 0, grad * x)",
        source="native/cpu/Activation.cpp",
    ),
    "polar_backward": rule("grad, y", "real(conj(grad) * sgn(y))", "real(conj(grad) * y * 1j)"),
    "atan2_backward": rule("grad, x, other, mask", "grad * other / (x ** 2 + other ** 2)", "-grad * x / (x ** 2 + other ** 2)"),
    "log1p_backward": rule("grad, x", "grad / conj(x + 1)"),
    "sinc_backward": rule("grad, x", "where(x == 0, 0, grad * (pi * x * cos(pi * x) - sin(pi * x)) / (pi * x ** 2))"),
    "deg2rad_backward": rule("grad", "grad * pi / 180"),
    "rad2deg_backward": rule("grad", "grad * 180 / pi"),
    "copysign_tensor_self_backward": rule("grad, x, y", "where(x == 0, 0, grad * y / x)"),
    "clamp_backward": rule(
        "grad, x, min, max", "where((x >= min) & (x <= max), grad, 0)", where="a bound that was not given is met by all"
    ),
    "clamp_backward_min_max": rule(
        "grad, x, min, max, mask",
        "where((x < min) & (min < max), grad, 0)",
        "where((x > max) | (max < min), grad, 0)",
    ),
    "fake_quantize_per_tensor_affine_cachemask_backward": rule("grad, mask", "grad * mask", source="native/quantized"),
    "fake_quantize_per_channel_affine_cachemask_backward": rule("grad, mask", "grad * mask", source="native/quantized"),
    "native_dropout_backward": rule("grad, mask, scale", "grad * mask * scale", source="native/Dropout.cpp"),
    # ------------------------------------------------------------ reductions
    "sum_backward": rule("grad, shape, dim, keepdim", "put_back(grad, dim, keepdim).expand(shape)"),
    "nansum_backward": rule("grad, x, dim, keepdim", "put_back(grad, dim, keepdim).expand(x.shape) * ~isnan(x)"),
    "mean_backward": rule(
        "grad, shape, dim, numel, keepdim",
        "put_back(grad, dim, keepdim).expand(shape) / n",
        where="n: how many numbers each mean is of",
    ),
    "var_backward": rule(
        "grad, x, dim, correction, keepdim",
        "put_back(grad, dim, keepdim) * 2 * (x - x.mean(dim, keepdim=True)) / (n - correction)",
        where="n: how many numbers each variance is of; correction is 1 where it was not given",
    ),
    "std_backward": rule(
        "std, grad, x, dim, correction, keepdim",
        "put_back(grad / std, dim, keepdim) * (x - x.mean(dim, keepdim=True)) / (n - correction)",
        where=("n: how many numbers each deviation is of; correction is 1 where it was not given", "0 where {std} is 0"),
    ),
    "var_mean_backward": rule(
        "of_var, of_mean, x, dim, correction, keepdim",
        "put_back(of_var, dim, keepdim) * 2 * (x - x.mean(dim, keepdim=True)) / (n - correction)"
        " + put_back(of_mean, dim, keepdim) / n",
        where="n: how many numbers each is of; correction is 1 where it was not given",
    ),
    "std_mean_backward": rule(
        "of_std, of_mean, x, std, dim, correction, keepdim",
        "put_back(of_std / std, dim, keepdim) * (x - x.mean(dim, keepdim=True)) / (n - correction)"
        " + put_back(of_mean, dim, keepdim) / n",
        where="n: how many numbers each is of; correction is 1 where it was not given",
    ),
    "norm_backward": _NORM,
    "linalg_vector_norm_backward": rule(
        "grad, x, ord, norm, dim, keepdim",
        "put_back(grad, dim, keepdim) * sgn(x) * (abs(x) / put_back(norm, dim, keepdim)) ** (ord - 1)",
        where=_AT_ZERO.replace("p =", "ord ="),
    ),
    "value_selecting_reduction_backward": rule(
        "grad, dim, indices, shape, keepdim",
        "zeros(shape).scatter(dim, put_back(indices, dim, keepdim), put_back(grad, dim, keepdim))",
    ),
    "evenly_distribute_backward": rule("grad, x, y", "where(x == y, grad / (x == y).sum(), 0)"),
    "scale_grad_by_count": rule("grad, mask, dims", "grad * (mask) / (mask).sum(dims, keepdim=True)"),
    "restore_reduced_dims": rule("x, dim, keepdim", "put_back(x, dim, keepdim)"),
    "logsumexp_backward": rule("grad, x, y, dim, keepdim", "put_back(grad, dim, keepdim) * exp(x - put_back(y, dim, keepdim))"),
    "cumsum_backward": rule("grad, dim", "grad.flip(dim).cumsum(dim).flip(dim)"),
    "cumprod_backward": rule("grad, x, dim, y", "(grad * y).flip(dim).cumsum(dim).flip(dim) / x", where=_NONZERO),
    "cummaxmin_backward": rule("grad, x, indices, dim", "zeros(x.shape).scatter_add(dim, indices, grad)"),
    "prod_backward": rule("grad, x, y, dim, keepdim", "put_back(grad * y, dim, keepdim) / x", where=_NONZERO),
    "_softmax_backward_data": _SOFTMAX,
    "_log_softmax_backward_data": rule(
        "grad, y, dim, dtype", "grad - exp(y) * grad.sum(dim, keepdim=True)", source="native/SoftMax.cpp"
    ),
    # ------------------------------------------------------------ shapes
    "unsqueeze_to": _RESHAPED,
    "permute_backwards": rule("grad, dims", "grad.permute(argsort(dims))"),
    "slice_backward_wrapper": rule(
        "grad, shape, dim, start, end, step", "zeros(shape).slice_scatter(grad, dim, start, end, step)"
    ),
    "select_backward": rule("grad, shape, dim, index", "zeros(shape).select_scatter(grad, dim, index)"),
    "diagonal_backward": rule("grad, shape, offset, dim1, dim2", "zeros(shape).diagonal_scatter(grad, offset, dim1, dim2)"),
    "split_backward": _CAT,
    "split_with_sizes_backward": _CAT,
    "unbind_backward": rule("grads, dim", "stack(grads, dim)", where=_CAT.where),
    "cat_tensors_backward": rule(
        "grad, shapes, dtypes, dim", "grad.split(sizes, dim)[i]", where="sizes = [t.shape[dim] for t in tensors]"
    ),
    "stack_tensors_backward": rule("grad, dim, dtypes", "grad.select(dim, i)"),
    "constant_pad_nd_backward": rule("grad, pad", "constant_pad_nd(grad, [-size for size in pad])"),
    "trace_backward": rule("grad, shape", "grad * eye(self.shape)"),
    "block_diag_backward": rule("grad, *rest", "block_of(grad, i)"),
    # ------------------------------------------------------------ places
    "index_backward": rule("empty, indices, grad", f"{_CELLS}.index_put(indices, grad, accumulate=True)"),
    "index_select_backward": rule("grad, shape, dim, index", "zeros(shape).index_add(dim, index, grad)"),
    "gather_backward": rule("grad, x, dim, index, sparse", "zeros(x.shape).scatter_add(dim, index, grad)"),
    "take_backward": rule("grad, x, index", "zeros(x.shape).put(index, grad, accumulate=True)"),
    "masked_fill_backward": rule("grad, mask", "where(mask, grad, 0).sum()"),
    "masked_select_backward": rule("grad, x, mask", "zeros(x.shape).masked_scatter(mask, grad)"),
    "masked_scatter_backward": rule(
        "grad, mask, shape",
        "first(grad.masked_select(mask), shape)",
        where="first(values, shape): the values in order, then zeros",
    ),
    "embedding_backward": rule(
        "grad, indices, count, padding_idx, by_freq, sparse",
        "zeros(weight.shape).index_put([indices], grad, accumulate=True)",
        where="rows of padding_idx get nothing; with scale_grad_by_freq each row is divided by how often it was looked up",
        source="native/Embedding.cpp",
    ),
    "max_pool2d_with_indices_backward": _POOLED,
    "max_pool3d_with_indices_backward": _POOLED,
    "adaptive_max_pool2d_backward": _POOLED,
    "adaptive_max_pool3d_backward": _POOLED,
    "fractional_max_pool2d_backward": _POOLED,
    "fractional_max_pool3d_backward": _POOLED,
    # ------------------------------------------------------------ losses
    "mse_loss_backward": rule(
        "grad, x, target, reduction", "grad * 2 * (x - target) / N", source="native/cpu/BinaryOpsKernel.cpp"
    ),
    "smooth_l1_loss_backward": rule(
        "grad, x, target, reduction, beta",
        "grad * clamp((x - target) / beta, -1, 1) / N",
        source="native/cpu/PointwiseOpsKernel.cpp",
    ),
    "huber_loss_backward": rule(
        "grad, x, target, reduction, delta",
        "grad * clamp(x - target, -delta, delta) / N",
        source="native/cpu/PointwiseOpsKernel.cpp",
    ),
    "soft_margin_loss_backward": rule(
        "grad, x, target, reduction", "-grad * target * sigmoid(-target * x) / N", source="native/Loss.cpp"
    ),
    "binary_cross_entropy_backward": rule(
        "grad, x, target, weight, reduction",
        "grad * weight * (x - target) / clamp(x * (1 - x), 1e-12) / N",
        where="weight counts as 1 where it was not given",
        source="native/Loss.cpp",
    ),
    "binary_cross_entropy_target_backward": rule(
        "grad, x, target, weight, reduction",
        "grad * weight * (log(1 - x) - log(x)) / N",
        where="weight counts as 1 where it was not given",
    ),
    "binary_cross_entropy_with_logits_backward": rule(
        "grad, x, target, weight, pos_weight, reduction",
        "grad * weight * ((1 + (pos_weight - 1) * target) * sigmoid(x) - pos_weight * target) / N",
        where="weight and pos_weight count as 1 where they were not given",
    ),
    "binary_cross_entropy_with_logits_target_backward": rule(
        "grad, x, target, weight, pos_weight, reduction",
        "grad * weight * (log_sigmoid(-x) - pos_weight * log_sigmoid(x)) / N",
        where="weight and pos_weight count as 1 where they were not given",
    ),
    "nll_loss_backward": rule(
        "grad, x, target, weight, reduction, ignore_index, total",
        "at_targets(target, -grad * weight[target] / W)",
        where=(
            "weight counts as 1 where it was not given",
            "W: the weights of all targets (total_weight) with reduction='mean', else 1",
            "where the target is ignore_index, 0",
        ),
        source="native/LossNLL.cpp",
    ),
    # ------------------------------------------------------------ normalisation
    "native_layer_norm_backward": rule(
        "grad, input, shape, mean, rstd, weight, bias, mask",
        "rstd * (g - avg(g) - xhat * avg(g * xhat))",
        "sum_to(grad * xhat, weight.shape)",
        "sum_to(grad, bias.shape)",
        where=(
            "g = grad * weight",
            "xhat = (input - mean) * rstd",
            "weight counts as 1 where it was not given",
            "avg(x): the mean over normalized_shape's dims, kept as dims of size 1",
        ),
        source="native/layer_norm.cpp",
    ),
    "native_group_norm_backward": rule(
        "grad, input, mean, rstd, weight, N, C, HxW, group, mask",
        "rs * (g - avg(g) - xhat * avg(g * xhat))",
        "per_channel(grad * xhat)",
        "per_channel(grad)",
        where=(
            "g = grad * w",
            "xhat = (input - mu) * rs",
            "w: weight of the channel, 1 where there is none",
            "mu, rs: mean and 1/√(var + eps) of the group of channels ({mean}, {rstd})",
            "avg(x): the mean over a group of channels and all their places, for each of them",
            "for a gradient of the first result alone, the usual case",
        ),
        source="native/group_norm.cpp",
    ),
    "native_batch_norm_backward": rule(
        "grad, input, weight, running_mean, running_var, mean, invstd, training, eps, mask",
        *_NORMALISED,
        where=_BATCH_NORM,
        source="native/Normalization.cpp",
    ),
    "batch_norm_backward": rule(
        "grad, input, weight, running_mean, running_var, mean, invstd, training, eps, mask, reserve",
        *_NORMALISED,
        where=_BATCH_NORM,
        source="native/Normalization.cpp",
    ),
    "cudnn_batch_norm_backward": rule(
        "input, grad, weight, running_mean, running_var, mean, invstd, eps, reserve",
        *_NORMALISED,
        where=_BATCH_NORM,
        source="native/cudnn/BatchNorm.cpp",
    ),
    "_fused_rms_norm_backward": rule(
        "grad, input, shape, rstd, weight, mask",
        "rstd * (g - xhat * avg(g * xhat))",
        "sum_to(grad * xhat, weight.shape)",
        where=(
            "g = grad * weight",
            "xhat = input * rstd",
            "weight counts as 1 where it was not given",
            "avg(x): the mean over normalized_shape's dims, kept as dims of size 1",
        ),
        source="native/layer_norm.cpp",
    ),
    "_weight_norm_interface_backward": rule(
        "grad, v, g, norms, dim",
        "g / norms * (grad - v * over(grad * v) / norms ** 2)",
        "over(grad * v) / norms",
        where="over(x): the sum over all dims but dim, kept as dims of size 1",
        source="native/WeightNorm.cpp",
    ),
    # ------------------------------------------------------------ convolution and attention
    "convolution_backward": rule("grad, input, weight, *rest", *_CONVOLUTION, source="native/Convolution.cpp"),
    "convolution_backward_overrideable": rule("grad, input, weight, *rest", *_CONVOLUTION, source="native/Convolution.cpp"),
    "mps_convolution_backward": rule("input, grad, weight, *rest", *_CONVOLUTION, source="native/mps"),
    "_slow_conv2d_backward": rule("grad, input, weight, *rest", *_CONVOLUTION, source="native/ConvolutionMM2d.cpp"),
    "_cudnn_convolution_backward": rule("input, grad, weight, *rest", *_CONVOLUTION[:2]),
    **dict.fromkeys(
        (
            "_scaled_dot_product_flash_attention_for_cpu_backward",
            "_scaled_dot_product_flash_attention_backward",
            "_scaled_dot_product_efficient_attention_backward",
            "_scaled_dot_product_cudnn_attention_backward",
        ),
        rule(
            "grad, query, key, value, *rest",
            "dS @ key * scale",
            "dS.mT @ query * scale",
            "P.mT @ grad",
            "sum_to(dS, attn_bias.shape)",
            where=(
                *_ATTENTION,
                "attention_weights: softmax(query @ keyᵀ * scale + mask), recomputed; scale is 1/√(query.shape[-1]) unless given",
                "with dropout, of the weights that were kept",
            ),
            source="native/transformers",
        ),
    ),
    # ------------------------------------------------------------ linear algebra
    "linalg_det_backward": rule(
        "grad, det, A, LU, pivots", "scalars(grad * conj(det)) * conj(inv(A).mT)", where="for an A that can be inverted"
    ),
    "slogdet_backward": rule(
        "of_sign, of_logdet, A, sign, LU, pivots", "scalars(of_logdet) * conj(inv(A).mT)", where="for real A"
    ),
    "linalg_solve_backward": rule(
        "grad, X, A, LU, pivots, left, mask",
        "-solve(conj(A.mT), grad) @ conj(X.mT)",
        "solve(conj(A.mT), grad)",
        where=(
            "with left=True (A X = B); columns count as matrices of one column",
            "where one matrix serves a batch, its gradients are summed",
        ),
    ),
    # ------------------------------------------------------------ sparse and nested
    "to_dense_backward": rule("grad, x, masked", "grad.to_sparse().sparse_mask(x) if masked else grad"),
    "to_sparse_backward": rule("grad, layout, blocksize", "grad.to_dense()"),
}
"""by the helper's name in derivatives.yaml, without `_symint`"""
