"""TensorBoard's own reader finds in a run's event files what metrics.jsonl, the job and its data contain.

The package `tensorboard` comes from ./dev setup (.deps/tensorboard) or is importable; without it the tests are skipped.
"""
import gzip
import json
import pathlib
import struct
import sys
import unittest
import zlib

import harness
from fsdp_test import GPT_JOB

SKIPPED = 77  # reported to ctest
sys.path.append(str(harness.ROOT / ".deps/tensorboard"))
try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
except ImportError as error:
    print(f"skipped: {error}; ./dev setup installs it")
    sys.exit(SKIPPED)

IMAGES = pathlib.Path("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz")
ALL = {"scalars": 0, "tensors": 0}  # no sampling
TIME = {"time/epoch", "time/batch", "time/batch_in_epoch", "time/sample", "time/sample_in_epoch", "time/token",
        "time/token_in_epoch", "wall", "launch", "generation"}


def float32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def flat(value, path=""):
    """Returns the names of nested hyperparameters, flattened as in Composer: optimizers/lr, model/sizes/0."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if children is None:
        return {path: value}
    return {name: leaf for key, child in children
            for name, leaf in flat(child, f"{path}/{key}" if path else str(key)).items()}


def grey_pixels(png):
    """Returns the rows of an 8-bit grey PNG whose rows are not filtered."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n", png[:8]
    at, data = 8, b""
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at:at + 8])
        body = png[at + 8:at + 8 + size]
        assert zlib.crc32(kind + body) == struct.unpack(">I", png[at + 8 + size:at + 12 + size])[0]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
            assert (depth, colour) == (8, 0)
        if kind == b"IDAT":
            data += body
        at += 12 + size
    raw = zlib.decompress(data)
    assert all(raw[row * (width + 1)] == 0 for row in range(height))
    return b"".join(raw[row * (width + 1) + 1:(row + 1) * (width + 1)] for row in range(height))


class TensorBoardTest(harness.JobTest):
    def read(self, name):
        """Reads all event files of a run, in order, without the surplus that an interrupted attempt wrote."""
        accumulator = EventAccumulator(str(self.run_folder(name) / "tensorboard"), size_guidance=ALL,
                                       purge_orphaned_data=True)
        return accumulator.Reload()

    def files(self, name):
        return sorted((self.run_folder(name) / "tensorboard").iterdir())

    def logged(self, name):
        """Returns {metric: {batch: value}} of metrics.jsonl; values written again after a restart count."""
        metrics = {}
        for record in self.metrics(name):
            for key in record.keys() - TIME:
                metrics.setdefault(key, {})[record["time/batch"]] = record[key]
        return metrics

    def assert_same_scalars(self, name, accumulator):
        logged = self.logged(name)
        self.assertEqual(set(accumulator.Tags()["scalars"]), set(logged))
        for tag, values in logged.items():
            events = accumulator.Scalars(tag)
            self.assertEqual([event.step for event in events], sorted(values), tag)
            for event in events:
                self.assertEqual(float32(event.value), float32(values[event.step]), f"{tag} at {event.step}")
        return logged

    def settings(self, accumulator):
        content = accumulator.PluginTagToContent("hparams")["_hparams_/session_start_info"]
        return {key: getattr(value, value.WhichOneof("kind"))
                for key, value in HParamsPluginData.FromString(content).session_start_info.hparams.items()}

    def test_scalars_and_settings(self):
        job = self.write_job("plain", loggers={"tensorboard": None}, auto_log_hparams=True, eval_interval="10ba",
                             eval_dataloader={"name": "gaussian_classification", "size": 50, "features": 32,
                                              "classes": 10, "sample_seed": 1},
                             callbacks={"lr_monitor": None, "speed_monitor": {"window_size": 2},
                                        "optimizer_monitor": {"batch_log_interval": 5}})
        self.run_composer("-n", 2, job)
        accumulator = self.read("plain")
        logged = self.assert_same_scalars("plain", accumulator)
        self.assertEqual(sorted(logged["loss/train/total"]), list(range(1, 41)))
        self.assertEqual(sorted(logged["metrics/eval/MulticlassAccuracy"]), [10, 20, 30, 40])
        settings, wanted = self.settings(accumulator), flat(json.loads(job.read_text()))
        self.assertEqual(settings.pop("num_nodes"), 1)
        self.assertEqual(settings.pop("num_cpus_per_node"), 2)
        self.assertEqual(settings.pop("rank_zero_seed"), 7)
        settings.pop("composer_version")
        self.assertEqual(settings.keys(), wanted.keys())
        for key, value in wanted.items():
            self.assertEqual(settings[key], "null" if value is None else value, key)
        text = accumulator.Tensors("hyperparameters")[0].tensor_proto.string_val[0].decode()
        self.assertIn("| optimizers/lr | 0.001 |", text)

    def test_a_restarted_run_reads_as_one(self):
        job = self.write_job("again", loggers={"tensorboard": {"flush_interval": 1}},
                             callbacks={"fail_at": {"rank": 0, "batch": 25, "how": "kill"}})
        self.run_composer("-n", 2, job)
        self.assertEqual(len(self.files("again")), 2)
        again = [record["time/batch"] for record in self.metrics("again") if "loss/train/total" in record]
        self.assertEqual(again, list(range(1, 41)), "what the first attempt wrote too much is cut off")
        logged = self.assert_same_scalars("again", self.read("again"))
        self.assertEqual(sorted(logged["loss/train/total"]), list(range(1, 41)))

    def test_a_kill_before_anything_was_flushed(self):
        """The event file has nothing when the run dies, and the checkpoint is older than the evaluation of its batch."""
        job = self.write_job("lost", loggers={"tensorboard": None}, save_interval="10ba", eval_interval="1ep", callbacks={
            "fail_at": {"rank": 0, "batch": 33, "how": "kill"}, "speed_monitor": {"window_size": 2}},
            eval_dataloader={"name": "gaussian_classification", "size": 50, "features": 32, "classes": 10, "sample_seed": 1})
        self.run_composer("-n", 2, job)
        logged = self.assert_same_scalars("lost", self.read("lost"))
        self.assertEqual(sorted(logged["loss/train/total"]), list(range(1, 41)))
        self.assertIn("time/train", logged)
        self.assertGreater(len(logged["metrics/eval/MulticlassAccuracy"]), 1)

    def test_generated_texts_are_tables(self):
        text = self.folder / "text.txt"
        text.write_text("In the beginning | was the <word>.\n" * 100)
        job = dict(GPT_JOB, loggers={"tensorboard": None},
                   callbacks={"generate": {"prompts": ["In |", "<wörd>\n"], "interval": "5ba", "max_new_tokens": 7,
                                           "do_sample": True, "temperature": 3.0}})
        job["train_dataloader"] = dict(job["train_dataloader"], path=str(text))
        self.run_composer(self.write_job("texts", **job))
        events = self.read("texts").Tensors("generations")
        self.assertEqual([event.step for event in events], [5, 10, 12])
        for event in events:
            head, line, *rows = event.tensor_proto.string_val[0].decode().splitlines()
            self.assertEqual((head, line, len(rows)), ("| prompt | generation |", "|---|---|", 2))
            self.assertEqual([row.split(" | ")[0] for row in rows], ["| In &#124;", "| &#60;wörd><br>"])

    @unittest.skipUnless(IMAGES.exists(), "no dataset-fashion-mnist")
    def test_images_are_those_of_the_batch(self):
        job = self.write_job("images", model={"name": "resnet_small", "widths": [4], "stem_stride": 4},
                             train_dataloader={"name": "fashion_mnist"},
                             global_train_batch_size=8, max_duration="4ba", save_interval="4ba", schedulers=None,
                             loggers={"tensorboard": None},
                             callbacks={"image_visualizer": {"interval": "3ba", "num_images": 5},
                                        "sample_recorder": None})
        self.run_composer(job)
        accumulator = self.read("images")
        events = accumulator.Tensors("Images/Train")
        self.assertEqual([event.step for event in events], [0, 3])
        samples = [json.loads(line)["sample_ids"]
                   for line in (self.run_folder("images") / "logs/samples-rank0.jsonl").read_text().splitlines()]
        raw = gzip.decompress(IMAGES.read_bytes())[16:]
        for event in events:
            width, height, *pngs = event.tensor_proto.string_val
            self.assertEqual((width, height, len(pngs)), (b"28", b"28", 5))
            originals = [raw[784 * sample:784 * (sample + 1)] for sample in samples[event.step][:5]]
            # Normalised inputs are stretched so that the smallest is black and the largest white.
            least, most = min(map(min, originals)), max(map(max, originals))
            for png, original in zip(pngs, originals):
                for seen, pixel in zip(grey_pixels(png), original, strict=True):
                    self.assertAlmostEqual(seen, 255 * (pixel - least) / (most - least), delta=0.51)


if __name__ == "__main__":
    unittest.main()
