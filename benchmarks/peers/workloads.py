"""The workloads of the step benchmarks, same as in benchmarks/step_overhead.cc: the same shapes, on one thread.

mlp: 64-64-64-10, batch 16. cnn: ResNet of 16, 32, 64 channels on 28 x 28, batch 32. gpt: 2 layers, 128 wide, 64 bytes
of context, batch 8.
SPDX-License-Identifier: Apache-2.0
"""

import json
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional

CLASSES, VOCAB, CONTEXT, WIDTH, HEADS, LAYERS = 10, 256, 64, 128, 4, 2


def mlp():
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, CLASSES))


def conv(inside, outside, kernel, stride):
    return nn.Conv2d(inside, outside, kernel, stride, kernel // 2, bias=False)


class BasicBlock(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1, self.bn1 = conv(inside, outside, 3, stride), nn.BatchNorm2d(outside)
        self.conv2, self.bn2 = conv(outside, outside, 3, 1), nn.BatchNorm2d(outside)
        self.downsample = nn.Identity()
        if stride != 1 or inside != outside:
            self.downsample = nn.Sequential(conv(inside, outside, 1, stride), nn.BatchNorm2d(outside))

    def forward(self, x):
        y = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        return functional.relu(self.bn2(self.conv2(y)) + self.downsample(x), inplace=True)


class ResNetSmall(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = conv(1, 16, 3, 2), nn.BatchNorm2d(16)
        self.blocks = nn.Sequential(BasicBlock(16, 16, 1), BasicBlock(16, 32, 2), BasicBlock(32, 64, 2))
        self.fc = nn.Linear(64, CLASSES)

    def forward(self, x):
        x = self.blocks(functional.relu(self.bn1(self.conv1(x)), inplace=True))
        return self.fc(x.mean((2, 3)))


class GptBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, tokens, _ = x.shape
        q, k, v = self.qkv(self.ln_1(x)).view(batch, tokens, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4).unbind(0)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(batch, tokens, WIDTH))
        return x + self.down(functional.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks, self.ln_f = nn.Sequential(*[GptBlock() for _ in range(LAYERS)]), nn.LayerNorm(WIDTH)

    def forward(self, tokens):
        x = self.blocks(self.wte(tokens) + self.wpe.weight[:tokens.shape[1]])
        return functional.linear(self.ln_f(x), self.wte.weight)


BATCH = {"mlp": 16, "cnn": 32, "gpt": 8}
MODELS = {"mlp": mlp, "cnn": ResNetSmall, "gpt": Gpt}


def make_model(name):
    torch.manual_seed(17)
    return MODELS[name]()


def make_data(name, batches):
    """Returns (inputs, targets) of that many batches."""
    generator = torch.Generator().manual_seed(18)
    count = batches * BATCH[name]
    if name == "gpt":
        ids = torch.randint(0, VOCAB, (count, CONTEXT + 1), generator=generator)
        return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
    shape = (count, 64) if name == "mlp" else (count, 1, 28, 28)
    return torch.rand(shape, generator=generator), torch.randint(0, CLASSES, (count,), generator=generator)


def loss_of(logits, targets):
    return functional.cross_entropy(logits.flatten(0, -2), targets.flatten())


def arguments():
    """Parses the command line: BLOCKS STEPS [mlp|cnn|gpt]; a block of steps gives one figure."""
    return int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "mlp"


def report(name, blocks, steps):
    """Prints one JSON line in the format of step_overhead. blocks holds (wall seconds, CPU seconds) of each block."""
    ms, cpu = ([1e3 * block[i] / steps for block in blocks] for i in (0, 1))
    print(json.dumps({"name": name, "ms_per_step": statistics.median(ms), "cpu_ms_per_step": statistics.median(cpu),
                      "blocks": ms}), flush=True)


def now():
    return time.perf_counter(), time.process_time()


def since(start):
    return tuple(end - begin for end, begin in zip(now(), start))
