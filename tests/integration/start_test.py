"""composer init: what it writes trains as it is, and can be resumed."""
import os
import unittest

import harness

KINDS = ("bert", "finetune", "gpt", "resnet")


class StartTest(harness.JobTest):
    def test_every_kind_trains_as_it_is(self):
        for kind in KINDS:
            with self.subTest(kind):
                out, _ = self.run_composer("init", kind, self.folder / kind)
                self.assertIn("composer -n 2 train.yaml", out)
                here = os.getcwd()
                os.chdir(self.folder / kind)  # its data is named relative to its folder
                self.addCleanup(os.chdir, here)
                self.run_composer("-n", 2, "train.yaml", "max_duration=3ba", "eval_interval=0")
                records = (self.folder / kind / f"runs/my-{kind}/metrics.jsonl").read_text().splitlines()
                self.assertEqual(len([line for line in records if "loss/train/total" in line]), 3)
                os.chdir(here)


if __name__ == "__main__":
    unittest.main()
