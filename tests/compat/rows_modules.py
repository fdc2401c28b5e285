"""Rows of the compatibility suite: torch's own modules, linear algebra, indexing and random numbers."""

from __future__ import annotations

from typing import Any

import torch
from harness import Rows
from torch import distributions, nn
from torch.nn import functional as F

rows = Rows()


def trained(net: nn.Module, *inputs: Any, steps: int = 2) -> dict[str, Any]:
    """The weights and buffers after some steps of Adam."""
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        out = net(*inputs)
        loss = (out[0] if isinstance(out, tuple) else out).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    grads = [parameter.grad for parameter in net.parameters()]
    return {"state": list(net.state_dict().values()), "grads": grads, "losses": losses}


@rows.add("LSTM and GRU, bidirectional, with dropout; packed sequences", calls=3)
def recurrent() -> object:
    lstm = nn.LSTM(3, 4, num_layers=2, bidirectional=True, dropout=0.3, batch_first=True)
    first = trained(lstm, torch.randn(2, 5, 3))
    gru = nn.GRU(3, 4)
    packed = nn.utils.rnn.pack_sequence([torch.randn(4, 3), torch.randn(2, 3)])
    out, _ = gru(packed)
    out.data.sum().backward()
    return first, [parameter.grad for parameter in gru.parameters()]


@rows.add("`LSTMCell` unrolled over time")
def cells() -> object:
    cell = nn.LSTMCell(3, 4)
    h, c = torch.zeros(2, 4), torch.zeros(2, 4)
    for step in torch.randn(6, 2, 3):
        h, c = cell(step, (h, c))
    (h * c).sum().backward()
    return [parameter.grad for parameter in cell.parameters()]


@rows.add("`nn.Transformer` layers, training and eval", calls=2)
def transformer() -> object:
    layer = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, enable_nested_tensor=False)
    decoder = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
    x, y = torch.randn(2, 4, 8), torch.randn(2, 3, 8, requires_grad=True)
    decoder(y, layer(x)).square().mean().backward()
    grads = [parameter.grad.clone() for parameter in [*layer.parameters(), *decoder.parameters()]]
    layer.eval()
    decoder(y, layer(x)).square().mean().backward()
    return grads, y.grad


@rows.add("`MultiheadAttention` with masks, `scaled_dot_product_attention`", calls=2)
def attention() -> object:
    mha = nn.MultiheadAttention(8, 2, dropout=0.2, batch_first=True)
    x = torch.randn(2, 5, 8, requires_grad=True)
    mask = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
    out, weights = mha(x, x, x, attn_mask=mask)
    (out.sum() + weights.square().sum()).backward()
    q = torch.randn(1, 2, 4, 8, requires_grad=True)
    F.scaled_dot_product_attention(q, q * 2, q.sin(), is_causal=True, dropout_p=0.1).sum().backward()
    return x.grad, q.grad, [parameter.grad for parameter in mha.parameters()]


@rows.add("convolutions, transposed and grouped, pooling, `grid_sample`, interpolation", calls=2)
def images() -> object:
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3, groups=2, padding=1, padding_mode="reflect"),
        nn.GroupNorm(2, 4),
        nn.GELU(),
        nn.MaxPool2d(2, return_indices=False),
        nn.ConvTranspose2d(4, 2, 2, stride=2),
        nn.AdaptiveAvgPool2d(4),
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.PixelShuffle(1),
        nn.LPPool2d(2, 2),
    )
    return trained(net, torch.randn(2, 2, 8, 8))


@rows.add("`MaxUnpool2d` with indices, `grid_sample`, `fold` and `unfold`")
def sampled() -> object:
    x = torch.randn(1, 1, 4, 4, requires_grad=True)
    pooled, where = F.max_pool2d(x, 2, return_indices=True)
    theta = torch.tensor([[[1.0, 0.1, 0], [0, 0.9, 0.2]]], requires_grad=True)
    grid = F.affine_grid(theta, (1, 1, 4, 4), align_corners=False)
    seen = F.grid_sample(x, grid, align_corners=False)
    again = F.fold(F.unfold(x, 2), (4, 4), 2)
    (F.max_unpool2d(pooled, where, 2) * seen + again).sum().backward()
    return x.grad, theta.grad


@rows.add("every kind of normalisation", calls=2)
def normalised() -> object:
    net = nn.Sequential(
        nn.BatchNorm1d(4), nn.LayerNorm(6), nn.InstanceNorm1d(4, affine=True, track_running_stats=True), nn.RMSNorm(6)
    )
    return trained(net, torch.randn(3, 4, 6))


@rows.add("scatter, gather, `index_put_`, `masked_select`, cumulative and segment operations")
def indexed() -> object:
    x = torch.randn(4, 3, requires_grad=True)
    where = torch.tensor([[0, 1, 2], [2, 0, 1]])
    a = torch.zeros(4, 3).scatter_add(0, where, x[:2] * 2).scatter_reduce(0, where, x[2:], "amax")
    b = torch.zeros(5, 3).index_add(0, torch.tensor([1, 1, 4, 0]), x.sin())
    c = x.clone()
    c[torch.tensor([0, 2])] = c[1] * 3
    c[c > 1] = 0.5
    d = x.cumsum(0).cumprod(1).masked_select(x.detach() > 0)
    e = x.index_select(1, torch.tensor([2, 0])).masked_fill(torch.eye(4, 2, dtype=torch.bool), 7) + x.roll(1)[:, :2]
    (a.sum() + b.prod() + c.square().sum() + d.sum() + e.logsumexp(0).sum()).backward()
    return x.grad


@rows.add("FFT and STFT")
def fourier() -> object:
    x = torch.randn(16, requires_grad=True)
    spectrum = torch.fft.rfft(x)
    short = torch.stft(x, 8, window=torch.hann_window(8), return_complex=True)
    (spectrum.abs().sum() + torch.fft.ifft2(torch.fft.fft2(x.reshape(4, 4))).real.square().sum() + short.abs().sum()).backward()
    return x.grad


@rows.add("`linalg`: svd, eigh, cholesky, qr, solve, slogdet, lstsq, matrix_exp")
def linear_algebra() -> object:
    a = (torch.randn(3, 3) + 3 * torch.eye(3)).requires_grad_()
    s = a @ a.mT
    u, values, v = torch.linalg.svd(a)
    total = values.sum() + torch.linalg.eigh(s).eigenvalues.prod() + torch.linalg.cholesky(s).sum() + torch.linalg.qr(a).R.sum()
    total = total + torch.linalg.solve(a, torch.ones(3)).sum() + torch.linalg.slogdet(a).logabsdet + torch.matrix_exp(a / 9).sum()
    total = total + torch.linalg.lstsq(a, torch.ones(3, 1)).solution.sum() + torch.linalg.eigvals(a).abs().sum()
    total = total + torch.einsum("ij,jk->", u, v).detach() + torch.linalg.pinv(a[:, :2]).sum()
    total.backward()
    return a.grad


@rows.add("distributions: `rsample`, `log_prob`; `multinomial` and Bernoulli; a generator of one's own", calls=2)
def random_numbers() -> object:
    own = torch.Generator().manual_seed(7)
    mean, scale = torch.zeros(3, requires_grad=True), torch.ones(3, requires_grad=True)
    grads = []
    for _ in range(2):
        normal = distributions.Normal(mean, scale.exp())
        gamma = distributions.Gamma(scale.exp(), torch.ones(3)).rsample()
        chosen = torch.multinomial(mean.softmax(0), 2, generator=own)
        bern = torch.bernoulli(mean.sigmoid(), generator=own)
        relaxed = distributions.RelaxedBernoulli(torch.tensor(0.5), logits=mean).rsample()
        loss = normal.log_prob(normal.rsample()).sum() + gamma.sum() + mean[chosen].sum() + (bern * scale).sum() + relaxed.sum()
        loss = loss + F.gumbel_softmax(mean, hard=True)[0] + F.dropout(scale, 0.5).sum()
        loss.backward()
        grads.append((mean.grad.clone(), scale.grad.clone()))
    return grads, own.get_state()


@rows.add("loss functions of torch, CTC included")
def losses() -> object:
    x = torch.randn(5, 2, 4, requires_grad=True)
    log = x.log_softmax(2)
    ctc = F.ctc_loss(log, torch.tensor([[1, 2], [3, 1]]), torch.tensor([5, 5]), torch.tensor([2, 2]))
    flat = x.reshape(10, 4)
    others = (
        F.huber_loss(flat, flat.detach() * 2)
        + F.kl_div(log, log.detach().exp() * 0.5 + 0.1)
        + F.hinge_embedding_loss(flat, torch.ones(10, 4))
    )
    triplet = F.triplet_margin_loss(flat[:3], flat[3:6], flat[6:9]) + F.binary_cross_entropy_with_logits(flat, torch.ones(10, 4))
    (
        ctc + others + triplet + F.nll_loss(log[0], torch.tensor([1, 3])) + F.multi_margin_loss(flat, torch.arange(10) % 4)
    ).backward()
    return x.grad


@rows.add("tied weights; `deepcopy` and `pickle` of a model that has been trained", calls=3)
def copied_models() -> object:
    import copy
    import io

    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
    net[2].weight = net[0].weight
    net(torch.randn(2, 3)).square().sum().backward()
    other = copy.deepcopy(net)
    other(torch.randn(2, 3)).sum().backward()
    file = io.BytesIO()
    torch.save(net, file)
    file.seek(0)
    third = torch.load(file, weights_only=False)
    third(torch.randn(2, 3)).sum().backward()
    return [[one.grad for one in model.parameters()] for model in (net, other, third)], len(file.getvalue())


@rows.add("many tensors at once: `_foreach`, fused optimizers, `clip_grad_norm_`", calls=2)
def many_at_once() -> object:
    net = nn.Sequential(*(nn.Linear(4, 4) for _ in range(3)))
    optimizer = torch.optim.AdamW(net.parameters(), 0.01, foreach=True)
    for _ in range(2):
        optimizer.zero_grad(set_to_none=False)
        scaled = torch._foreach_mul(list(net.parameters()), 0.5)
        (net(torch.randn(2, 4)).square().sum() + sum(one.sum() for one in scaled)).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    return list(net.state_dict().values())
