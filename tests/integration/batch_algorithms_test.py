"""Runs the real binaries on two ranks with algorithms that draw: a job whose worker was killed ends bit for bit as one
that ran through, with copies of the parameters and sharded."""
import gzip
import os
import random
import signal
import struct
import unittest

import harness

DRAWING = [{"cutmix": {}}, {"cutout": {"num_holes": 2}}, {"colout": {"batch": False}},
           {"progressive_resizing": {"mode": "crop", "delay_fraction": 0.1}},
           {"stochastic_depth": {"target_layer_name": "ResNetBasicBlock", "drop_rate": 0.5}},
           {"swa": {"swa_start": "0.2dur", "swa_end": "0.8dur", "update_interval": "1ba"}}]


class BatchAlgorithmsTest(harness.JobTest):
    def write_images(self, count=64, side=28):
        draws = random.Random(1)
        for kind, shape in [("images-idx3", (count, side, side)), ("labels-idx1", (count,))]:
            limit, numbers = (256, count * side * side) if len(shape) == 3 else (10, count)
            header = struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape)
            values = bytes(draws.randrange(limit) for _ in range(numbers))
            (self.folder / f"train-{kind}-ubyte.gz").write_bytes(gzip.compress(header + values))

    def test_a_killed_job_draws_the_same_again(self):
        self.write_images()
        data = {"name": "fashion_mnist", "path": str(self.folder)}
        for name, parallel in [("ddp", None), ("sharded", {"fsdp": {"sharding_strategy": "FULL_SHARD"}})]:
            with self.subTest(name):
                job = {"model": {"name": "resnet_small", "image_size": 28}, "train_dataloader": data,
                       "algorithms": DRAWING, "parallelism_config": parallel}
                self.run_composer("-n", 2, self.write_job(f"calm-{name}", **job))
                process = self.start("-n", 2, self.write_job(name, callbacks={"throttle": {"seconds": 0.03}}, **job))
                self.wait_for_batch(name, 17)
                os.kill(self.workers(name)[1], signal.SIGKILL)
                _, err = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 0, err)
                self.assert_same_state(self.newest_checkpoint(f"calm-{name}"), self.newest_checkpoint(name))


if __name__ == "__main__":
    unittest.main()
