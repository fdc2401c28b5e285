"""A small causal transformer: four blocks, tied embeddings, one training step.

Look at: the Tape opens folded by module, equal blocks rolled into one row.
    n        one visible row at a time: the head, the last block, …; l unfolds, h folds
    m        to the end of a module; f line by line of the forward in reverse
    5 G z    the last of the Leaves: tokens.weight = head.weight, two names and two contributions, because the head uses
             the embedding's weight
    /attn    Enter: opens the block that holds the first match, and says which of how many; . and , next and previous match
"""

import torch
from torch import nn

torch.manual_seed(0)
VOCABULARY, LENGTH, WIDTH, HEADS, LAYERS = 32, 12, 16, 4, 4


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / (width // HEADS) ** 0.5
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attn = Attention()
        self.norm2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.h = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight
        nn.init.normal_(self.tokens.weight, std=0.1)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
        return self.head(self.norm(x))


model = Transformer()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
text = torch.randint(0, VOCABULARY, (4, LENGTH + 1))

for step in range(2):
    optimizer.zero_grad()
    logits = model(text[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    print(f"step {step}: loss = {loss.item():.4f}")

assert model.head.weight is model.tokens.weight
assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())
