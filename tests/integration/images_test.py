"""Fashion-MNIST as PNG files: trained from a folder of images and from MDS shards with a column of PNGs, with AugMix and
RandAugment, stopped in an epoch and resumed on other numbers of ranks. SPDX-License-Identifier: Apache-2.0"""
import gzip
import json
import pathlib
import struct
import unittest
import zlib

import harness

FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")
COUNT, SIDE = 260, 28
DECODE = {"decode_image": {"channels": 1}}
TRANSFORMS = [DECODE, {"random_crop": {"size": SIDE, "padding": 2}}, "random_flip", "to_float",
              {"normalize": {"mean": [0.286], "std": [0.353]}}]
AUGMENT = [{"augmix": {"severity": 2}}, {"randaugment": {"severity": 3, "depth": 1}}]


def fashion(name, header, size):
    path = FASHION / name
    data = path.read_bytes() if path.exists() else gzip.decompress((FASHION / f"{name}.gz").read_bytes())
    return data[header:header + size * COUNT]


def png(pixels):
    """A grey picture of SIDE x SIDE."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    rows = b"".join(b"\0" + pixels[y * SIDE:(y + 1) * SIDE] for y in range(SIDE))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", SIDE, SIDE, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def write_mds(folder, samples):
    """One shard with the columns image (png) and targets (int), as mosaicml-streaming writes it."""
    folder.mkdir(parents=True)
    config = {"column_encodings": ["png", "int"], "column_names": ["image", "targets"], "column_sizes": [None, 8],
              "compression": None, "format": "mds", "hashes": [], "size_limit": 1 << 26, "version": 2}
    described = json.dumps(config, sort_keys=True).encode()
    bodies = [struct.pack("<I", len(image)) + image + struct.pack("<q", target) for image, target in samples]
    at = 4 + 4 * (len(bodies) + 1) + len(described)
    offsets = [at]
    for body in bodies:
        offsets.append(offsets[-1] + len(body))
    shard = struct.pack(f"<I{len(offsets)}I", len(bodies), *offsets) + described + b"".join(bodies)
    (folder / "shard.00000.mds").write_bytes(shard)
    raw = {"basename": "shard.00000.mds", "bytes": len(shard), "hashes": {}}
    index = dict(config, raw_data=raw, zip_data=None, samples=len(samples))
    (folder / "index.json").write_text(json.dumps({"shards": [index], "version": 2}))


class ImagesTest(harness.JobTest):
    def setUp(self):
        super().setUp()
        pixels = fashion("train-images-idx3-ubyte", 16, SIDE * SIDE)
        labels = fashion("train-labels-idx1-ubyte", 8, 1)
        self.samples = [(png(pixels[i * SIDE * SIDE:(i + 1) * SIDE * SIDE]), labels[i]) for i in range(COUNT)]

    def image_folder(self):
        for i, (image, label) in enumerate(self.samples):
            path = self.folder / "images" / str(label) / f"{i:04}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(image)
        return {"name": "image_folder", "path": str(self.folder / "images"), "transforms": TRANSFORMS}

    def mds(self):
        write_mds(self.folder / "mds", self.samples)
        return {"name": "streaming", "local": str(self.folder / "mds"), "transforms": TRANSFORMS}

    def job(self, name, loader, **changes):
        return self.write_job(name, **{
            "model": {"name": "resnet_small", "image_size": SIDE}, "train_dataloader": loader,
            "global_train_batch_size": 52, "schedulers": None, "max_duration": "2ep", "save_interval": "2ba",
            "algorithms": AUGMENT, "determinism": "elastic", "virtual_shards": 4, "callbacks": {"sample_recorder": None}, **changes})

    def batches(self, name, ranks):
        batches = {}
        for rank in range(ranks):
            for line in (self.run_folder(name) / f"logs/samples-rank{rank}.jsonl").read_text().splitlines():
                record = json.loads(line)
                batches.setdefault(record["batch"], []).extend(record["sample_ids"])
        return [ids for _, ids in sorted(batches.items())]

    def test_folders_and_shards_train_and_resume_on_other_ranks(self):
        for name, loader in (("folder", self.image_folder()), ("mds", self.mds())):
            with self.subTest(name):
                self.run_composer("-n", 1, self.job(name, loader))
                batches = self.batches(name, 1)
                self.assertEqual(sorted(sum(batches[:5], [])), list(range(COUNT)), "an epoch has each sample once")
                self.assertEqual(sorted(sum(batches[5:], [])), list(range(COUNT)))
                moved = f"{name}-moved"
                for ranks, until in ((2, 3), (1, 7), (2, 10)):
                    self.run_composer("-n", ranks, self.job(moved, dict(loader, num_workers=ranks - 1)),
                                      f"max_duration={until}ba")
                self.assertEqual(self.losses(moved), self.losses(name), "bit for bit")
        plain = self.image_folder()
        self.run_composer("-n", 1, self.job("plain", plain, algorithms=[]))
        self.assertNotEqual(self.losses("plain"), self.losses("folder"), "the algorithms change the images")

    def test_show_draws_what_the_model_gets(self):
        job = self.job("shown", self.image_folder())
        picture = self.folder / "grid.png"
        out, _ = self.run_composer("data", "show", job, "-n", 5, "--png", picture)
        self.assertIn("inputs          float32 [52, 1, 28, 28]", out)
        self.assertIn("5 pictures", out)
        body = picture.read_bytes()
        self.assertEqual(struct.unpack(">II", body[16:24]), (3 * (SIDE + 1) - 1, 2 * (SIDE + 1) - 1))
        self.run_composer("data", "show", job, "-n", 5, "--png", self.folder / "later.png", "--epoch", 1)
        self.assertNotEqual((self.folder / "later.png").read_bytes(), body, "another order, other crops")

    def test_binary_files_train(self):
        job = self.job("mnist", {"name": "mnist", "path": str(FASHION), "transforms": TRANSFORMS[1:]},
                       max_duration="3ba", determinism=None, virtual_shards=None)
        self.run_composer("-n", 1, job)
        self.assertEqual(len(self.losses("mnist")), 3)

    def test_mistakes_are_named(self):
        loader = self.image_folder()
        cut = self.folder / "images" / str(self.samples[7][1]) / "0007.png"
        cases = [
            (dict(loader, path=str(self.folder / "none")), {}, "none"),
            (dict(loader, transforms=[{"decode_image": {"channels": 2}}]), {}, "must be 1, 3 or 4"),
            (dict(loader, transforms=[DECODE, {"resize": {"size": 3, "height": 4}}]), {}, "or height and width"),
            (dict(loader, transforms=[DECODE, "to_flaot"]), {}, "to_float"),
            ({"name": "fashion_mnist"}, {}, "AugMix: it changes images of bytes"),
            (loader, {"algorithms": [{"augmix": {"severity": 11}}]}, "severity"),
            (loader, {"algorithms": [{"randaugment": {"augmentation_set": "most"}}]}, "augmentation_set"),
        ]
        for number, (wrong, changes, expected) in enumerate(cases):
            with self.subTest(expected):
                _, err = self.run_composer("-n", 1, self.job(f"wrong-{number}", wrong, **changes), code=64)
                self.assertIn(expected, err)
        cut.write_bytes(cut.read_bytes()[:200])
        process_error = self.run_composer("-n", 1, self.job("cut", loader), code=64)[1]
        self.assertIn("0007.png: a PNG file that is cut off", process_error)


if __name__ == "__main__":
    unittest.main()
