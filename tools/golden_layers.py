"""Makes the goldens of algorithms that change layers or weights: Factorize, GhostBatchNorm, WeightStandardization,
LowPrecisionGroupNorm, StochasticDepth, GyroDropout, GatedLinearUnits, Alibi, SWA, NoOpModel. Called by make_goldens.py.
SPDX-License-Identifier: Apache-2.0
"""

import importlib
import sys
import types

import numpy as np
import torch
from composer.algorithms import SWA, NoOpModel
from composer.algorithms.factorize.factorize_core import _svd_initialize
from composer.algorithms.factorize.factorize_modules import (FactorizedConv2d, FactorizedLinear, _clean_latent_size,
                                                             _max_rank_with_possible_speedup)
from composer.algorithms.gated_linear_units.gated_linear_unit_layers import BERTGatedFFOutput
from composer.algorithms.ghost_batchnorm.ghost_batchnorm import GhostBatchNorm2d
from composer.algorithms.gyro_dropout.gyro_dropout import GyroDropoutLayer
from composer.algorithms.low_precision_groupnorm.low_precision_groupnorm import LPGroupNorm
from composer.algorithms.stochastic_depth.stochastic_layers import make_resnet_bottleneck_stochastic
from composer.algorithms.weight_standardization.weight_standardization import apply_weight_standardization
from composer.models import ComposerClassifier
from composer.optim import DecoupledSGDW
from golden_file import Lcg, make_trainer, write
from golden_loop import fill
from golden_steps import Losses
from torch.utils.data import DataLoader, TensorDataset


def flat(tensors):
    return sum([t.detach().flatten().tolist() for t in tensors], [])


def forward_and_back(net, x):
    x = x.requires_grad_()
    y = net(x)
    y.square().sum().backward()
    return {"output": flat([y]), "gradients": flat([x.grad, *(p.grad for p in net.parameters())])}


def factorize():
    ranks = [[latent, size_in, size_out, _clean_latent_size(latent, size_in, size_out),
              _max_rank_with_possible_speedup(size_in, size_out)]
             for latent, size_in, size_out in [(0.25, 256, 512), (128, 256, 256), (0.001, 8, 9), (3.7, 10, 6), (2, 3, 3)]]
    conv = FactorizedConv2d.from_conv2d(torch.nn.Conv2d(8, 12, 3, stride=2, padding=1, bias=False), latent_channels=0.5)
    linear = FactorizedLinear.from_linear(torch.nn.Linear(16, 12), latent_features=4)
    rows = []
    for kind, net, shape in [("conv", conv, (2, 8, 6, 6)), ("linear", linear, (3, 16))]:
        fill(net, 1, 0.3)
        rows.append({"kind": kind, "parameters": [n for n, _ in net.named_parameters()],
                     **forward_and_back(net, Lcg(2).tensor(*shape))})
    weight = Lcg(3).tensor(6, 10)
    wa, wb = _svd_initialize(weight.T, None, 3)
    return {"ranks": ranks, "layers": rows, "svd": flat([(wa @ wb).T])}


def ghost():
    rows = []
    for batch, size in [(8, 4), (7, 3), (6, 6)]:
        net = GhostBatchNorm2d(torch.nn.BatchNorm2d(3), size)
        fill(net, 1, 1.0)
        rows.append({"batch": batch, "size": size, "parameters": [n for n, _ in net.named_parameters()],
                     **forward_and_back(net, Lcg(2).tensor(batch, 3, 2, 2)),
                     "buffers": flat([net.batchnorm.running_mean, net.batchnorm.running_var])})
    return rows


def standardized():
    net = torch.nn.Sequential(torch.nn.Conv2d(2, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(4, 3, 1))
    assert apply_weight_standardization(net, n_last_layers_ignore=1) == 1
    values = Lcg(1)
    with torch.no_grad():
        for p in [net[0].parametrizations.weight.original, net[0].bias, net[2].weight, net[2].bias]:
            p.copy_(0.3 * values.tensor(*p.shape))
    y = net(Lcg(2).tensor(2, 2, 5, 5))
    y.square().sum().backward()
    return {"output": flat([y]), "gradient": flat([net[0].parametrizations.weight.original.grad])}


def group_norm():
    """With the GPU's autocast said to be on, which is what the layer asks for, also on a CPU."""
    norm = LPGroupNorm(2, 6)
    fill(norm, 4, 1.0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        is_enabled = torch.is_autocast_enabled
        torch.is_autocast_enabled = lambda *args: True
        y = norm(Lcg(5).tensor(3, 6, 2))
        torch.is_autocast_enabled = is_enabled
    assert y.dtype == torch.bfloat16
    return flat([y.float()])


def stochastic():
    """A bottleneck whose first layer does nothing to inputs that are not negative: 3 times x + 0.1 x is its branch."""
    rows = []
    for method in ("block", "sample"):
        for training in (True, False):
            for seed in range(6):
                block = types.SimpleNamespace(training=training, relu=torch.relu, downsample=None)
                for name in ("conv1", "bn1", "conv2", "bn2", "conv3"):
                    setattr(block, name, lambda x: x)
                block.bn3 = lambda x: 3 * x
                holder = type("Block", (), {})()
                holder.__dict__.update(block.__dict__)
                made = make_resnet_bottleneck_stochastic(holder, 1, 4, 0.8, "linear", method)
                torch.manual_seed(seed)
                y = made.forward(Lcg(1).tensor(5, 2, 1, 1).abs())
                rows.append({"method": method, "training": training, "seed": seed, "drop_rate": float(made.drop_rate),
                             "output": flat([y])})
    return rows


def gyro():
    layer = GyroDropoutLayer(10, 3, 0.3, 6, 4)
    layer.train()
    rows = []
    x = Lcg(4).tensor(8, 5)
    original = np.random.choice
    for step in range(21):
        picks = [(step * 3 + i) % 6 for i in range(4)]
        asked = []
        np.random.choice = lambda sigma, tau: asked.append([sigma, tau]) or picks
        torch.manual_seed(2)
        y = layer(x)
        rows.append({"picked": bool(asked), "picks": picks, "output": flat([y])})
    np.random.choice = original
    return {"masks": flat([layer.preselect_masks]), "steps": rows}


def gated():
    rows = []
    for act, function in [("gelu", torch.nn.functional.gelu), ("relu", torch.relu), ("silu", torch.nn.functional.silu)]:
        for bias in (False, True):
            net = BERTGatedFFOutput(4, 7, 0.0, function, 1e-5, gated_layer_bias=bias, non_gated_layer_bias=bias)
            net.layernorm = torch.nn.Identity()
            fill(net, 1, 0.5)
            y = net(Lcg(2).tensor(3, 4), torch.zeros(3, 4))
            rows.append({"act": act, "bias": bias, "output": flat([y])})
    return rows


def alibi():
    """Composer's functions for GPT-2. Transformers are not installed: their classes are empty here."""
    for name in ("transformers", "transformers.models", "transformers.models.gpt2"):
        sys.modules[name] = types.ModuleType(name)
    for family, names in [("gpt2", ["GPT2Attention", "GPT2Model"]), ("bert", ["BertEmbeddings", "BertSelfAttention"]),
                          ("roberta", ["RobertaEmbeddings", "RobertaSelfAttention"])]:
        path = f"transformers.models.{family}.modeling_{family}"
        sys.modules[f"transformers.models.{family}"] = types.ModuleType(family)
        sys.modules[path] = types.ModuleType(path)
        for name in names:
            setattr(sys.modules[path], name, type(name, (torch.nn.Module,), {}))
    gpt2 = importlib.import_module("composer.algorithms.alibi.attention_surgery_functions._gpt2")
    utils = importlib.import_module("composer.algorithms.alibi.attention_surgery_functions.utils")
    rows = []
    for heads in (1, 3, 4):
        module = gpt2.GPT2Attention()
        module.register_parameter("p", torch.nn.Parameter(torch.zeros(1)))
        module.num_heads, module.scale_attn_weights, module.is_cross_attention = heads, True, False
        module.register_buffer("bias", torch.ones(1, 1, 4, 4, dtype=torch.uint8))
        module.masked_bias, module.attn_dropout = torch.tensor(-1e30), torch.nn.Identity()
        module = gpt2.gpt2_attention_converter(module, 0, 16)
        draws = Lcg(7)
        q, k, v = (draws.tensor(2, heads, 9, 5) for _ in range(3))
        rows.append({"heads": heads, "output": flat([module._attn(q, k, v)[0]])})
    return {"slopes": [utils._get_alibi_head_slopes(heads) for heads in range(1, 20)], "attention": rows}


def trained(algorithm, epochs, lr=0.5, classes=4):
    """As golden_steps.py's runs."""
    inputs = Lcg(2).tensor(40, 8)
    train = DataLoader(TensorDataset(inputs, inputs[:, :classes].argmax(dim=1)), 8)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    fill(net, 1, 0.3)
    model, watch = ComposerClassifier(net, num_classes=4), Losses()
    trainer = make_trainer(model, train, max_duration=f"{epochs}ep", callbacks=[watch],
                           optimizers=DecoupledSGDW(model.parameters(), lr=lr, momentum=0.9),
                           algorithms=[algorithm])
    trainer.fit()
    trainer.close()
    return {"losses": watch.losses, "final": flat(trainer.state.model.parameters())}


def swa():
    rows = []
    for epochs, arguments in [(5, {"swa_start": "0.4dur", "swa_end": "0.8dur"}),
                              (4, {"swa_start": "1ep", "swa_end": "3ep", "update_interval": "3ba"}),
                              (4, {"swa_start": "0.3dur", "swa_end": "0.9dur", "update_interval": "1ba"})]:
        rows.append({"epochs": epochs, "arguments": arguments, **trained(SWA(**arguments), epochs)})
    return rows


def layers():
    write(
        "layers", "Parameters in their order filled by Lcg(1), inputs by Lcg(2); gradients of sum(output^2) by the input "
        "and each parameter. factorize.ranks: latent size, inputs, outputs, rank, largest useful rank. stochastic: a block "
        "with branch 3 x, x = |Lcg(1)| [5, 2, 1, 1], the second of 4 with drop_rate 0.8. gyro: x [8, 5] of Lcg(4), 30 "
        "batches, p 0.3, sigma 6, tau 4. alibi: q, k, v [2, heads, 9, 5] of Lcg(7). swa, no_op: runs as in steps.json "
        "with lr 0.5 and 0.01, and of 2 classes.", {
            "factorize": factorize(), "ghost": ghost(), "standardized": standardized(), "group_norm": group_norm(),
            "stochastic": stochastic(), "gyro": gyro(), "gated": gated(), "swa": swa(),
            "no_op": trained(NoOpModel(), 2, 0.01, 2), "alibi": alibi()})
