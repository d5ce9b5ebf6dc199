"""composer_algorithms.py ROUNDS STEPS [NAME]: the Python Composer's side of benchmarks/algorithm_step.cc, with the same
rows, sizes and arguments; prints one JSON line per algorithm, or {"name", "why"} for what the Python Composer does not
run on these models.
SPDX-License-Identifier: Apache-2.0
"""

import json
import statistics
import sys
import warnings

import composer
import numpy as np
import torch
import workloads
from composer import algorithms as library
from composer.models import ComposerClassifier, ComposerModel
from PIL import Image
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset
from torchvision.datasets import VisionDataset
from torchvision.transforms import ToTensor

EPOCHS, CONTEXT = 4, 64


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(784, 512), nn.Linear(512, 512), nn.Linear(512, 10)
        self.drop, self.drop_again = nn.Dropout(0.5), nn.Dropout(0.5)

    def forward(self, x):
        x = self.drop(functional.relu(self.first(x.flatten(1))))
        return self.last(self.drop_again(functional.relu(self.second(x))))


class GroupNormNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(inside, 32, 3, padding=1) for inside in (1, 32, 32))
        self.norms, self.last = nn.ModuleList(nn.GroupNorm(8, 32) for _ in range(3)), nn.Linear(32, 10)

    def forward(self, x):
        for conv, norm in zip(self.convs, self.norms):
            x = functional.relu(norm(conv(x)))
        return self.last(x.mean((2, 3)))


class Language(ComposerModel):
    def __init__(self):
        super().__init__()
        self.net = workloads.make_model("gpt")

    def forward(self, batch):
        return self.net(batch["input_ids"])

    def loss(self, outputs, batch):
        return workloads.loss_of(outputs, batch["labels"])

    def get_metrics(self, is_train):
        return {}


class Pictures(VisionDataset):
    def __init__(self, samples):
        super().__init__("", transform=ToTensor())
        generator = np.random.RandomState(1)
        self.images = generator.randint(0, 256, (samples, 28, 28, 3), dtype=np.uint8)
        self.targets = generator.randint(0, 10, samples)

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        return self.transform(Image.fromarray(self.images[index])), int(self.targets[index])


class Sequences(torch.utils.data.Dataset):
    def __init__(self, samples):
        self.ids = torch.randint(0, 256, (samples, CONTEXT + 1))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        return {"input_ids": self.ids[index, :-1], "labels": self.ids[index, 1:]}


def classifier(net):
    return ComposerClassifier(net, num_classes=10)


def rgb():
    net = workloads.make_model("cnn")
    net.conv1 = workloads.conv(3, 16, 3, 2)
    return classifier(net)


def images(samples):
    return TensorDataset(torch.rand(samples, 1, 28, 28), torch.randint(0, 10, (samples,)))


WORKLOADS = {
    "cnn": (32, lambda: classifier(workloads.make_model("cnn")), images, "fp32"),
    "rgb": (32, rgb, Pictures, "fp32"),
    "gpt": (8, Language, Sequences, "fp32"),
    "gpt bf16": (8, Language, Sequences, "amp_bf16"),
    "mlp": (32, lambda: classifier(Perceptron()), images, "fp32"),
    "gn bf16": (32, lambda: classifier(GroupNormNet()), images, "amp_bf16"),
}
ROWS = {
    "alibi": ("gpt", "only for Hugging Face's BERT and GPT-2"),
    "augmix": ("rgb", lambda: library.AugMix()),
    "blurpool": ("cnn", lambda: library.BlurPool(min_channels=16)),
    "channels_last": ("cnn", lambda: library.ChannelsLast()),
    "colout": ("cnn", lambda: library.ColOut()),
    "cutmix": ("cnn", lambda: library.CutMix()),
    "cutout": ("cnn", lambda: library.CutOut()),
    "ema": ("cnn", lambda: library.EMA()),
    "factorize": ("gpt", lambda: library.Factorize(min_channels=16, latent_channels=0.25, min_features=128,
                                                   latent_features=32)),
    "gated_linear_units": ("gpt", "only for Hugging Face's BERT"),
    "ghost_batchnorm": ("cnn", lambda: library.GhostBatchNorm(16)),
    "gradient_clipping norm": ("gpt", lambda: library.GradientClipping("norm", 1.0)),
    "gradient_clipping value": ("gpt", lambda: library.GradientClipping("value", 1.0)),
    "gradient_clipping adaptive": ("gpt", lambda: library.GradientClipping("adaptive", 0.5)),
    "gyro_dropout": ("mlp", lambda: library.GyroDropout(p=0.5, sigma=256, tau=16)),
    "label_smoothing": ("cnn", lambda: library.LabelSmoothing()),
    "layer_freezing": ("cnn", lambda: library.LayerFreezing(freeze_start=0.0)),
    "low_precision_groupnorm": ("gn bf16", lambda: library.LowPrecisionGroupNorm()),
    "low_precision_layernorm": ("gpt bf16", lambda: library.LowPrecisionLayerNorm()),
    "mixup": ("cnn", lambda: library.MixUp()),
    "no_op_model": ("cnn", lambda: library.NoOpModel()),
    "progressive_resizing": ("cnn", lambda: library.ProgressiveResizing()),
    "randaugment": ("rgb", lambda: library.RandAugment()),
    "sam": ("cnn", lambda: library.SAM()),
    "selective_backprop": ("cnn", lambda: library.SelectiveBackprop(start=0.0, end=1.0, keep=0.5, scale_factor=0.5,
                                                                    interrupt=0)),
    "seq_length_warmup": ("gpt", lambda: library.SeqLengthWarmup(max_seq_length=CONTEXT)),
    "squeeze_excite": ("cnn", lambda: library.SqueezeExcite(min_channels=16)),
    "stochastic_depth": ("cnn", "only for torchvision's bottleneck blocks"),
    "swa": ("cnn", lambda: library.SWA(swa_start="0.25dur", update_interval="1ba")),
    "weight_standardization": ("cnn", lambda: library.WeightStandardization()),
}


def run_once(workload, make_algorithm, steps):
    batch, make_model, make_data, precision = WORKLOADS[workload]
    torch.manual_seed(17)
    model = make_model()
    model.train_metrics = None
    model.get_metrics = lambda is_train: {}
    loader = DataLoader(make_data(steps // EPOCHS * batch), batch, shuffle=True, drop_last=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    trainer = composer.Trainer(model=model, train_dataloader=loader, max_duration=f"{EPOCHS}ep", device="cpu",
                               optimizers=optimizer, algorithms=[make_algorithm()] if make_algorithm else [],
                               precision=precision, progress_bar=False)
    start = workloads.now()
    trainer.fit()
    taken = workloads.since(start)
    trainer.close()
    return [1e3 * seconds / (steps // EPOCHS * EPOCHS) for seconds in taken]


def measure(name, rounds, steps):
    workload, make = ROWS[name]
    if isinstance(make, str):
        return {"name": name, "why": make}
    rows = []
    try:
        for _ in range(rounds):
            rows.append(run_once(workload, None, steps) + run_once(workload, make, steps))
    except Exception as error:  # noqa: BLE001: what it does not run is reported
        return {"name": name, "why": f"{type(error).__name__}: {str(error).splitlines()[0][:80]}"}
    base, base_cpu, with_it, cpu = (statistics.median(column) for column in zip(*rows))
    return {"name": name, "workload": workload, "base_ms": base, "ms": with_it, "base_cpu_ms": base_cpu, "cpu_ms": cpu}


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rounds, steps = int(sys.argv[1]), int(sys.argv[2])
    for name in sys.argv[3:] or ROWS:
        print(json.dumps(measure(name, rounds, steps)), flush=True)


main()
