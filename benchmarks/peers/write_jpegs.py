"""write_jpegs.py FOLDER COUNT SIDE: writes COUNT pictures like photographs (smooth, with some noise) into the folders of
four classes. Needs Pillow, which mosaicml-streaming brings. SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import random
import sys

from PIL import Image

folder, count, side = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
draws = random.Random(17)
for i in range(count):
    place = folder / f"class{i % 4}"
    place.mkdir(parents=True, exist_ok=True)
    coarse = Image.frombytes("RGB", (16, 16), draws.randbytes(3 * 256)).resize((side, side), Image.BICUBIC)
    noise = Image.frombytes("RGB", (side, side), draws.randbytes(3 * side * side))
    Image.blend(coarse, noise, 0.1).save(place / f"{i:05d}.jpg", quality=90)
