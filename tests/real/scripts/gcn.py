"""torch_geometric: two graph convolutions on a made-up graph."""

import torch
from keep import keep
from torch_geometric.nn import GCNConv


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = GCNConv(5, 8), GCNConv(8, 3)

    def forward(self, x, edges):
        x = torch.nn.functional.dropout(self.first(x, edges).relu(), training=self.training)
        return self.second(x, edges)


torch.manual_seed(0)
edges = torch.randint(0, 20, (2, 60))
features, classes = torch.randn(20, 5), torch.randint(0, 3, (20,))
model = Network()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(3):
    loss = torch.nn.functional.cross_entropy(model(features, edges), classes)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
keep(model)
