"""The small GPT of the start and soak benchmarks: 4 layers, 128 wide, 4 heads, 64 bytes of context, 0.87 M parameters.

It has the same shape as ours (examples/gpt-text/train.yaml with the driver's overrides). Plain torch, runs on 2.7 and
2.11.
SPDX-License-Identifier: Apache-2.0
"""

import torch
from torch import nn
from torch.nn import functional

VOCAB, CONTEXT, WIDTH, HEADS, LAYERS, RANK_BATCH = 256, 64, 128, 4, 4, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, context, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, context, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, context, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCAB, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.norm(self.blocks(x)))


def random_batch(count=RANK_BATCH):
    """Returns (input ids, next ids), [count, CONTEXT] each. No file is read, which favours the peer."""
    ids = torch.randint(0, VOCAB, (count, CONTEXT + 1))
    return ids[:, :-1], ids[:, 1:]


def loss_of(logits, targets):
    return functional.cross_entropy(logits.reshape(-1, VOCAB), targets.reshape(-1))
