"""Two outputs, one seed: J = [x0² + x1, x0·x1] at x = (2, 3).

Look at: the seed [1, 10] at the top of the Tape, and the four contributions that meet in x.
    n        one node at a time; on the last rows see x.grad grow: 1 of 4, 2 of 4, …
    s 1,1    Enter: another seed; x.grad becomes [7, 3] at once      {   back to the script's own
    ( )      the rows of the Jacobian, one after the other

By hand. The Jacobian, one row for each output:

    dJ0/dx = [2·x0, 1 ] = [4, 1]
    dJ1/dx = [x1,   x0] = [3, 2]

A seed v gives v0 · row 0 + v1 · row 1:

    v = [1, 10]:   1·[4, 1] + 10·[3, 2] = [34, 21]
    v = [1,  1]:   1·[4, 1] +  1·[3, 2] = [ 7,  3]
"""

import torch

x = torch.tensor([2.0, 3.0], requires_grad=True)
J = torch.stack([x[0] ** 2 + x[1], x[0] * x[1]])

J.backward(gradient=torch.tensor([1.0, 10.0]))

print("J      =", J.tolist())
print("x.grad =", x.grad.tolist())
assert J.tolist() == [7.0, 6.0]
assert x.grad.tolist() == [34.0, 21.0]
