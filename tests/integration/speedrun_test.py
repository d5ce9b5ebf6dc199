"""composer speedrun trains both arms to a quality, keeps a line for each finished run, and goes on behind them. The twin
is its GPT with one narrow layer. SPDX-License-Identifier: Apache-2.0"""
import json
import signal
import unittest

import harness


class SpeedrunTest(harness.JobTest):
    def speedrun(self, *flags, **options):
        return self.run_composer(*self.command(*flags), **options)

    def command(self, *flags):
        text = self.folder / "text.txt"
        text.write_text("".join(f"{n * n} is the square of {n}. " for n in range(900)))
        small = ["model.n_layers=1", "model.n_heads=2", "model.d_model=16", "model.max_seq_len=16",
                 "train_dataloader.max_seq_len=16", "eval_dataloader.max_seq_len=16", "global_train_batch_size=8",
                 "eval_interval=10ba", "eval_subset_num_batches=1", "max_duration=40ba"]
        return ["speedrun", "gpt", f"variables.text={text}", *small, "--folder", self.folder / "runs", *flags]

    def lines(self):
        return [json.loads(line) for line in (self.folder / "runs/gpt.jsonl").read_text().splitlines()]

    def test_finished_runs_are_not_repeated(self):
        out, err = self.speedrun("--seeds", 1, "--quality", 5)
        self.assertIn("to metrics/eval/LanguageCrossEntropy < 5:", out)
        self.assertIn("recipe seed 1: reached", err)
        first = self.lines()
        self.assertEqual([(line["arm"], line["seed"]) for line in first], [("plain", 1), ("recipe", 1)])
        for line in first:
            self.assertTrue(line["reached"])
            self.assertLess(line["value"], 5)
            self.assertIn(line["steps"], (10, 20, 30))
            self.assertGreater(line["cpu_seconds"], 0.1)
        # The folder of a run that was interrupted is begun anew.
        half = self.folder / "runs/gpt-recipe-2"
        half.mkdir()
        (half / "metrics.jsonl").write_text("half")
        out, err = self.speedrun("--seeds", 2, "--quality", 5, "--arm", "recipe", "--json")
        self.assertEqual(err.count("seed"), 1, err)
        lines = self.lines()
        self.assertEqual(lines[:2], first)
        self.assertEqual([(line["arm"], line["seed"]) for line in lines[2:]], [("recipe", 2)])
        result = json.loads(out)
        self.assertEqual((result["plain"]["runs"], result["recipe"]["runs"]), (1, 2))
        self.assertFalse(half.exists(), "only the line stays")
        # Another quality is another experiment: none of the lines count, and a run may not get there.
        out, err = self.speedrun("--seeds", 1, "--quality", 0.01, "--arm", "plain")
        self.assertIn("plain seed 1: only", err)
        self.assertIn("0 of 1", out)
        self.assertEqual(self.lines()[-1]["steps"], 40)

    def test_what_fails_says_where_to_look(self):
        _, err = self.speedrun("--seeds", 1, "model.n_layer=2", code=64)
        self.assertIn("gpt-plain-1 exited with 64; what it printed is in ", err)
        self.assertIn("did you mean `n_layers`", (self.folder / "runs/gpt-plain-1.log").read_text())
        self.assertEqual(self.lines(), [])

    def test_the_run_ends_with_the_command(self):
        process = self.start(*self.command("--seeds", 1, "max_duration=1000000ba", "eval_interval=1000000ba"))
        self.wait_for_batch("gpt-plain-1", 1)
        self.assertTrue(self.workers("gpt-plain-1"))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(), -signal.SIGTERM)
        self.wait_for(lambda: not self.workers("gpt-plain-1"), "the end of its ranks")


if __name__ == "__main__":
    unittest.main()
