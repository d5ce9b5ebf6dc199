"""composer init: what it writes trains as it is, and can be resumed."""
import unittest

import harness

KINDS = ("bert", "finetune", "gpt", "resnet")


class StartTest(harness.JobTest):
    def test_every_kind_trains_as_it_is(self):
        for kind in KINDS:
            with self.subTest(kind):
                out, _ = self.run_composer("init", kind, self.folder / kind)
                self.assertIn("composer -n 2 train.yaml", out)
                self.run_composer("-n", 2, "train.yaml", "max_duration=3ba", "eval_interval=0",
                                  cwd=self.folder / kind)  # its data is named relative to its folder
                records = (self.folder / kind / f"runs/my-{kind}/metrics.jsonl").read_text().splitlines()
                self.assertEqual(len([line for line in records if "loss/train/total" in line]), 3)


if __name__ == "__main__":
    unittest.main()
