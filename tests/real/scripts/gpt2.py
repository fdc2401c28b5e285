"""Hugging Face's GPT-2 with a random, tiny configuration."""

import torch
from keep import keep
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
config = GPT2Config(n_layer=2, n_head=2, n_embd=16, vocab_size=50, n_positions=16, bos_token_id=None, eos_token_id=None)
model = GPT2LMHeadModel(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for _ in range(3):
    ids = torch.randint(0, 50, (2, 8))
    loss = model(input_ids=ids, labels=ids).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
keep(model)
