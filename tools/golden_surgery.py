"""Makes the goldens of model surgery: outputs, gradients and trained weights of mosaicml's BlurPool, SqueezeExcite and
LowPrecisionLayerNorm, and trained weights of Factorize, GhostBatchNorm and WeightStandardization. Called by
make_goldens.py.
SPDX-License-Identifier: Apache-2.0
"""

import functools

import torch
from composer import functional as cf
from composer.algorithms import BlurPool, Factorize, GhostBatchNorm, SqueezeExcite, WeightStandardization
from composer.algorithms.low_precision_layernorm.low_precision_layernorm import LPLayerNorm
from composer.models import ComposerClassifier
from composer.optim import DecoupledSGDW
from golden_file import Lcg, make_trainer, write
from golden_loop import fill
from torch.utils.data import DataLoader, TensorDataset


class Net(torch.nn.Module):
    """Every kind of layer that BlurPool and SqueezeExcite look at, in the names of our test's Net."""

    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(2, 16, 3, padding=1)
        self.pool = torch.nn.MaxPool2d(2)
        self.strided = torch.nn.Conv2d(16, 20, 3, stride=(2, 1), padding=1, groups=2)
        self.thin = torch.nn.Conv2d(20, 4, 1, stride=2, bias=False)

    def forward(self, x):
        return self.thin(torch.relu(self.strided(self.pool(self.stem(x))))).mean((2, 3))


class NormedNet(torch.nn.Module):
    """Something for Factorize, GhostBatchNorm and WeightStandardization, in the names of our test's NormedNet."""

    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(2, 16, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(16)
        self.middle = torch.nn.Conv2d(16, 16, 3, padding=1)
        self.last = torch.nn.Conv2d(16, 4, 1)

    def forward(self, x):
        return self.last(torch.relu(self.middle(torch.relu(self.norm(self.stem(x)))))).mean((2, 3))


def flat(tensors):
    return sum([t.detach().flatten().tolist() for t in tensors], [])


def forward_and_back(apply, arguments):
    net = Net()
    apply(net, **arguments)
    fill(net, 1, 0.3)
    x = Lcg(2).tensor(2, 2, 8, 8).requires_grad_()
    y = net(x)
    y.square().sum().backward()
    return {"arguments": arguments, "parameters": [n for n, _ in net.named_parameters()],
            "buffers": [n for n, _ in net.named_buffers()], "output": flat([y]),
            "gradients": flat([x.grad, *(p.grad for p in net.parameters())])}


def parameters_in_order(net):
    """A layer's weight before its bias, which a parametrization turns round."""
    for module in net.modules():
        if torch.nn.utils.parametrize.is_parametrized(module):
            yield module.parametrizations.weight.original
        own = dict(module.named_parameters(recurse=False))
        if not hasattr(module, "original"):
            yield from own.values()


def fill_in_order(net):
    values = Lcg(1)
    with torch.no_grad():
        for p in parameters_in_order(net):
            p.copy_(0.3 * values.tensor(*p.shape))


def trained(algorithm, arguments, make=Net):
    """Trains the net for 6 batches by the whole trainer."""
    net = make()
    # Surgery keeps the weights of what was there; the new ones are filled at INIT, by the algorithm's wrapper.
    model = ComposerClassifier(net, num_classes=4)
    x = Lcg(3).tensor(24, 2, 8, 8)
    rows = TensorDataset(x, x.mean((2, 3)).argmax(dim=1))
    made = algorithm(**arguments)
    apply = made.apply

    def apply_and_fill(event, state, logger):
        apply(event, state, logger)
        fill_in_order(net)

    made.apply = apply_and_fill
    trainer = make_trainer(model, DataLoader(rows, 8), max_duration="2ep", algorithms=[made],
                           optimizers=DecoupledSGDW(model.parameters(), lr=0.1, momentum=0.9))
    trainer.fit()
    trainer.close()
    buffers = [value for name, value in net.named_buffers() if "running" in name]
    return {"arguments": arguments, "final": flat([*parameters_in_order(net), *buffers])}


def low_precision_layernorm():
    """The layer with the GPU's autocast said to be on, which is what it asks for, also on a CPU."""
    norm = LPLayerNorm(6)
    fill(norm, 4, 1.0)
    x = Lcg(5).tensor(3, 6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        is_enabled = torch.is_autocast_enabled
        torch.is_autocast_enabled = lambda *args: True
        y = norm(x)
        torch.is_autocast_enabled = is_enabled
    assert y.dtype == torch.bfloat16
    return {"output": flat([y.float()])}


def surgery():
    blur = functools.partial(forward_and_back, cf.apply_blurpool)
    excite = functools.partial(forward_and_back, cf.apply_squeeze_excite)
    write(
        "surgery", "The nets of tests/trainer/algorithms/surgery_runs.h after surgery, with parameters in their order "
        "filled by Lcg(1) times 0.3 and inputs [2, 2, 8, 8] of Lcg(2): its output, and the gradients of sum(output^2) "
        "by the input and each parameter. trained: 2 epochs of 3 batches of 8 with DecoupledSGDW(lr 0.1, momentum 0.9); "
        "inputs [24, 2, 8, 8] of Lcg(3), class argmax of the channels' means; parameters (a layer's weight before its bias), "
        "then running statistics. low_precision_layernorm: 6 features, "
        "parameters Lcg(4), input [3, 6] of Lcg(5), bfloat16.", {
            "blurpool": [blur({}), blur({"blur_first": False}), blur({"replace_maxpools": False, "min_channels": 20}),
                         blur({"replace_convs": False})],
            "squeeze_excite": [excite({"latent_channels": 3, "min_channels": 16}),
                               excite({"latent_channels": 0.5, "min_channels": 4}), excite({})],
            "trained_blurpool": [trained(BlurPool, {}), trained(BlurPool, {"blur_first": False})],
            "trained_squeeze_excite": [trained(SqueezeExcite, {"latent_channels": 3, "min_channels": 16})],
            "trained_factorize": [trained(Factorize, {"min_channels": 16, "latent_channels": 4}, NormedNet)],
            "trained_ghost_batchnorm": [trained(GhostBatchNorm, {"ghost_batch_size": size}, NormedNet) for size in (2, 3)],
            "trained_weight_standardization": [trained(WeightStandardization, {"n_last_layers_ignore": ignored}, NormedNet)
                                               for ignored in (0, 1)],
            "low_precision_layernorm": low_precision_layernorm(),
        })
