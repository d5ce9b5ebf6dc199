"""image_loader.py make FOLDER: writes JPEG files of 500 x 375 (quality 90, 4:2:0) for image_decode.cc and this program.
image_loader.py run FOLDER [SECONDS]: images a second of CPU time by PIL alone, and with torchvision's transforms, as
torch's DataLoader without workers runs them. Needs pillow, torch and torchvision.
SPDX-License-Identifier: Apache-2.0
"""

import io
import pathlib
import statistics
import sys
import time

import numpy as np
import PIL
import torch
import torchvision
from PIL import Image
from torchvision import transforms


def make(folder, count=64, height=375, width=500):
    """Smooth shapes with edges and some noise, so that files are about as large as photographs are."""
    random = np.random.RandomState(17)
    folder.mkdir(parents=True, exist_ok=True)
    y, x = np.mgrid[0:height, 0:width]
    for i in range(count):
        layers = np.zeros((height, width, 3))
        for _ in range(12):
            a, b, c = random.uniform(-0.05, 0.05, 2).tolist() + [random.uniform(0, 6)]
            layers += random.uniform(-40, 40, 3) * np.sign(np.sin(a * x + b * y + c))[:, :, None]
            layers += random.uniform(-40, 40, 3) * np.sin(3 * a * x - 2 * b * y + c)[:, :, None]
        pixels = np.clip(128 + layers + random.normal(0, 6, layers.shape), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{i:03}.jpg", quality=90, subsampling="4:2:0")


class InMemory(torch.utils.data.Dataset):
    def __init__(self, files, transform):
        self.files, self.transform = files, transform

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return self.transform(Image.open(io.BytesIO(self.files[index])).convert("RGB"))


def rate(loader, count):
    begin = time.process_time()
    for _ in loader:
        pass
    return count / (time.process_time() - begin)


def run(folder, seconds):
    torch.set_num_threads(1)
    files = [path.read_bytes() for path in sorted(folder.iterdir())]
    print(f"{len(files)} files, {sum(map(len, files)) // len(files)} bytes each; Pillow {PIL.__version__}, "
          f"torchvision {torchvision.__version__}, torch {torch.__version__}")
    full = transforms.Compose([transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor()])
    decode = InMemory(files, lambda image: image.size)
    ways = {"PIL": decode,
            "DataLoader: decode, crop, flip, float": torch.utils.data.DataLoader(InMemory(files, full), batch_size=16)}
    rates = {name: [] for name in ways}
    begin = time.process_time()
    while time.process_time() - begin < seconds or len(rates["PIL"]) < 5:
        for name, loader in ways.items():
            rates[name].append(rate((loader[i] for i in range(len(files))) if name == "PIL" else loader, len(files)))
    for name, values in rates.items():
        print(f"{name}: {statistics.median(values):.0f} images/s of CPU ({min(values):.0f} to {max(values):.0f}, "
              f"{len(values)} rounds)")


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(pathlib.Path(sys.argv[2]))
    else:
        run(pathlib.Path(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else 10)
