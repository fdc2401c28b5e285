"""Hugging Face's BERT with a random, tiny configuration, on padded sentences."""

import torch
from keep import keep
from transformers import BertConfig, BertForSequenceClassification

torch.manual_seed(0)
config = BertConfig(
    vocab_size=60,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=16,
)
model = BertForSequenceClassification(config)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-1, momentum=0.9)
for _ in range(3):
    ids = torch.randint(1, 60, (3, 8))
    mask = torch.ones_like(ids)
    mask[0, 5:] = 0
    loss = model(input_ids=ids, attention_mask=mask, labels=torch.tensor([0, 1, 1])).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
keep(model)
