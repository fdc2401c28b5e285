"""Which forward argument each edge of a common operation belongs to."""

from __future__ import annotations

from gradscope.debuggee.capture import Captured

_BINARY = ("self", "other")
_NORM = ("input", "weight", "bias")

ROLES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("AddBackward0", "SubBackward0", "RsubBackward0", "MulBackward0", "DivBackward0", "MaximumBackward0", "MinimumBackward0"),
        _BINARY,
    ),
    "DotBackward0": ("self", "tensor"),
    "MvBackward0": ("self", "vec"),
    "MmBackward0": ("self", "mat2"),
    "BmmBackward0": ("self", "mat2"),
    "AddmmBackward0": ("self", "mat1", "mat2"),
    "AddbmmBackward0": ("self", "batch1", "batch2"),
    "BaddbmmBackward0": ("self", "batch1", "batch2"),
    "AddmvBackward0": ("self", "mat", "vec"),
    "AddcmulBackward0": ("self", "tensor1", "tensor2"),
    "AddcdivBackward0": ("self", "tensor1", "tensor2"),
    "LerpBackward1": ("self", "end", "weight"),
    "PowBackward1": ("self", "exponent"),
    "Atan2Backward0": _BINARY,
    "WhereBackward0": _BINARY,
    "LinearBackward0": _NORM,
    "ConvolutionBackward0": _NORM,
    "NativeLayerNormBackward0": _NORM,
    "NativeGroupNormBackward0": _NORM,
    "NativeBatchNormBackward0": _NORM,
    "CudnnBatchNormBackward0": _NORM,
    "FusedRmsNormBackward0": ("input", "weight"),
    "EmbeddingBackward0": ("weight",),
    "PreluKernelBackward0": ("self", "weight"),
    "GatherBackward0": ("self",),
    "MseLossBackward0": ("self", "target"),
    "L1LossBackward0": ("self", "target"),
    "SmoothL1LossBackward0": ("self", "target"),
    "HuberLossBackward0": ("self", "target"),
    "BinaryCrossEntropyBackward0": ("self", "target"),
    "BinaryCrossEntropyWithLogitsBackward0": ("self", "target"),
    "NllLossBackward0": ("self",),
    "KlDivBackward0": ("self", "target"),
    "ScaledDotProductFlashAttentionForCpuBackward0": ("query", "key", "value"),
    "ScaledDotProductFlashAttentionBackward0": ("query", "key", "value"),
    "ScaledDotProductEfficientAttentionBackward0": ("query", "key", "value"),
    "CopySlices": ("base", "value"),
    "IndexPutBackward0": ("self", "values"),
    "MaskedScatterBackward0": ("self", "source"),
    "MaskedFillBackward1": ("self", "value"),
    "ScatterAddBackward0": ("self", "src"),
    "ScatterBackward0": ("self", "src"),
    "IndexAddBackward0": ("self", "source"),
    "CdistBackward0": ("x1", "x2"),
}
"""by slot of `next_functions`; ops not named here have one argument, or many of a kind"""


def edge_roles(captured: Captured) -> dict[int, str]:
    """edge -> name of the forward argument"""
    roles: dict[int, str] = {}
    first, slots = captured.first_edge, captured.edge_slot
    for node, op in enumerate(captured.ops):
        names = ROLES.get(op)
        if names is None:
            continue
        for edge in range(first[node], first[node + 1]):
            if slots[edge] < len(names):
                roles[edge] = names[slots[edge]]
    return roles
