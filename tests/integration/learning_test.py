"""The two examples, as shipped, learn what the README promises, on 2 ranks."""
import unittest

import harness


class LearningTest(harness.JobTest):
    def test_fashion_mnist_reaches_88_percent(self):
        folder = self.run_folder("fashion")
        self.run_composer("-n", 2, harness.ROOT / "examples/fashion/train.yaml", f"run_folder={folder}", timeout=240,
                          cwd=harness.ROOT)
        summary = self.summary("fashion")
        self.assertGreaterEqual(summary["metrics"]["metrics/eval/MulticlassAccuracy"], 0.88)
        print(f"fashion: {summary['metrics']}, {summary['wall_seconds']:.1f} s")

    def test_gpt_loss_falls_below_60_percent(self):
        folder = self.run_folder("gpt")
        self.assertTrue((harness.ROOT / ".deps/data/kjv.txt").exists(), "./dev setup makes the text")
        self.run_composer("-n", 2, harness.ROOT / "examples/gpt-text/train.yaml", f"run_folder={folder}",
                          "max_duration=150ba", timeout=240, cwd=harness.ROOT)
        losses = [m["loss/train/total"] for m in self.metrics("gpt") if "loss/train/total" in m]
        self.assertEqual(len(losses), 150)
        self.assertLess(losses[-1], 0.6 * losses[0])
        print(f"gpt: loss {losses[0]:.3f} -> {losses[-1]:.3f}")


if __name__ == "__main__":
    unittest.main()
