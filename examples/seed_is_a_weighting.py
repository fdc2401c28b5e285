"""The seed weighs the outputs: J.backward(gradient=v) is (J * v).sum().backward(), and a one-hot v is a row of the Jacobian.

Look at: the first stop has the vector J as its root and v as its seed; at the second the root is a scalar, and v sits in a node.
    c        to the end of the pass: x.grad is [22, 23]
    ( )      one-hot seeds: x.grad shows the rows of the Jacobian, [3, 0], [2, 1] and [3, 6]
    >        on to the next backward call (after an edit Enter: with the script's own seed): the same [22, 23] by another way

By hand, at x = (1, 2):

    J = [3·x0, x0·x1, 3·x0 + x1³/2] = [3, 2, 7]

    dJ/dx = [[3,  0         ],     [[3, 0],
             [x1, x0        ],  =   [2, 1],
             [3,  3/2 · x1² ]]      [3, 6]]

    v = [1, 5, 3]:   1·[3, 0] + 5·[2, 1] + 3·[3, 6] = [3 + 10 + 9, 0 + 5 + 18] = [22, 23]
"""

import torch

x = torch.tensor([1.0, 2.0], requires_grad=True)
v = torch.tensor([1.0, 5.0, 3.0])


def outputs() -> torch.Tensor:
    return torch.stack([3 * x[0], x[0] * x[1], 3 * x[0] + x[1] ** 3 / 2])


J = outputs()
J.backward(gradient=v)
by_seed = x.grad.clone()

x.grad = None
(outputs() * v).sum().backward()
by_weighting = x.grad.clone()

J = outputs()
rows = [torch.autograd.grad(J, x, grad_outputs=one_hot, retain_graph=True)[0] for one_hot in torch.eye(3)]

print("with the seed v:         ", by_seed.tolist())
print("with the sum weighted:   ", by_weighting.tolist())
print("rows of the Jacobian:    ", [row.tolist() for row in rows])
assert by_seed.tolist() == by_weighting.tolist() == [22.0, 23.0]
assert [row.tolist() for row in rows] == [[3.0, 0.0], [2.0, 1.0], [3.0, 6.0]]
assert (v @ torch.stack(rows)).tolist() == [22.0, 23.0]
