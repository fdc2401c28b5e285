"""A regression without a likelihood: only a variance function is assumed, and the quasi-score is given as the seed.

Counts y with mean mu = exp(X b) and variance V(mu) = phi · mu. There is no loss to call backward() on; what is known is the
derivative of the quasi-log-likelihood Q with respect to each mean,

    dQ/dmu_i = (y_i - mu_i) / (phi · V(mu_i)),     here with V(mu) = mu,

and that is just what a seed is: mu.backward(gradient=-dQ/dmu) gives the gradient of -Q with respect to b by the chain rule:

    b.grad = -Xᵀ (mu ⊙ (y - mu) / (phi · mu)) = -Xᵀ (y - mu) / phi        (dmu/db = mu ⊙ X for a log link)

Look at: the Seed pane, one cell for each observation: large where the model is wrong and the variance is small.
    c        to the end: b.grad at the first iteration
    s *2     Enter: a seed twice as large (phi halved) doubles b.grad: phi cancels in the fit, not in the standard errors
    ( )      one observation alone: how it pulls at b
    >        the next iteration (after an edit Enter: with the script's own seed): watch the seed shrink as the fit improves

Each iteration is a step of Fisher scoring, b += (Xᵀ W X)⁻¹ (-b.grad) with W = mu / phi. The answer is checked against iteratively
reweighted least squares, which solves the same equations another way.
"""

import torch

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)

n, phi = 40, 1.7
X = torch.stack([torch.ones(n), torch.linspace(-1, 1, n), torch.randn(n)], dim=1)
y = torch.poisson(torch.exp(X @ torch.tensor([1.0, 0.8, -0.4])))

b = torch.zeros(3, requires_grad=True)
for iteration in range(25):
    mu = torch.exp(X @ b)
    quasi_score = (y - mu.detach()) / (phi * mu.detach())

    b.grad = None
    mu.backward(gradient=-quasi_score)

    assert torch.allclose(b.grad, -X.T @ (y - mu.detach()) / phi)
    information = X.T @ (mu.detach()[:, None] / phi * X)
    step = torch.linalg.solve(information, -b.grad)
    with torch.no_grad():
        b += step
    print(f"iteration {iteration}: b = {[round(value, 6) for value in b.tolist()]}  ‖b.grad‖ = {b.grad.norm():.2e}")
    if step.abs().max() < 1e-12:
        break

# Iteratively reweighted least squares: a weighted regression of the working response on X, again and again. No autograd.
irls = torch.zeros(3)
for _ in range(25):
    mu = torch.exp(X @ irls)
    working = X @ irls + (y - mu) / mu
    irls = torch.linalg.solve(X.T @ (mu[:, None] * X), X.T @ (mu * working))

standard_errors = torch.linalg.inv(information).diagonal().sqrt()
print("IRLS:        b =", [round(value, 6) for value in irls.tolist()])
print("standard errors =", [round(value, 6) for value in standard_errors.tolist()])
assert torch.allclose(b.detach(), irls, rtol=0, atol=1e-9)
assert torch.allclose(X.T @ (y - torch.exp(X @ b.detach())), torch.zeros(3), atol=1e-9)  # the quasi-score is zero at the fit
