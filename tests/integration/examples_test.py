"""Every program and job in examples/ that does not need its own data runs unchanged."""
import shutil
import subprocess

import harness


class ExamplesTest(harness.JobTest):
    def run_example(self, name, *args):
        ran = subprocess.run([harness.BIN / name, *map(str, args)], cwd=self.folder, capture_output=True, text=True,
                             timeout=120)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return ran.stdout

    def accuracy(self, out):
        return float([line.split()[1] for line in out.splitlines() if "Accuracy" in line][0])

    def test_a_model_and_a_dataset_of_ones_own(self):
        out = self.run_example("train_mlp", self.folder / "run")
        self.assertIn("600 steps", out)
        self.assertGreater(self.accuracy(out), 0.9)
        self.assertEqual(self.run_example("train_mlp", self.folder / "run"), out,
                         "started again it loads the end and evaluates")

    def test_algorithm_callback_logger_and_scheduler(self):
        out = self.run_example("custom_algorithm_callback")
        batches = [int(line.split()[1]) for line in out.splitlines()]
        self.assertTrue(batches and all(batch % 10 == 0 for batch in batches), out)
        self.assertLess(batches[-1], 8 * 16, "the callback ends it early")
        self.assertIn("input_noise/deviation 0.3", out)

    def test_fit_eval_predict_and_save(self):
        out = self.run_example("fit_predict", self.folder / "run")
        self.assertGreater(self.accuracy(out.replace("loaded ", "")), 0.8, "weights of the first run")
        self.assertIn("after 1ep more: batch 16", out)
        self.assertIn("after 20ba more: batch 36", out)
        self.assertIn("64 predictions", out)
        self.assertTrue(list((self.folder / "run/tensorboard").rglob("*tfevents*")), out)

    def test_plugin(self):
        built = harness.BIN.parent / "examples/plugin"
        shutil.copytree(built, self.folder / "plugin")
        job = self.folder / "plugin/train.yaml"
        _, err = self.run_composer("-n", 2, job, f"run_folder={self.folder}/runs/spirals", timeout=120)
        self.assertGreater(self.summary("spirals")["metrics"]["metrics/eval/MulticlassAccuracy"], 0.9, err)
        self.assertTrue(any("gradient_norm" in record for record in self.metrics("spirals")))
        # The plugin is found from the YAML file, wherever the command is run.
        out, _ = self.run_composer("validate", "plugin/train.yaml", cwd=self.folder)
        self.assertIn("valid", out)


if __name__ == "__main__":
    import unittest
    unittest.main()
