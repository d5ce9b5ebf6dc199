"""Every metric that a run logs has a row in docs/metrics.md, and `composer report` says what it is."""
import fnmatch
import html
import json
import re
import subprocess
import sys
import unittest

import harness

sys.path.insert(0, str(harness.ROOT / "tools"))
import check_reference_doc  # noqa: E402


class MetricNamesTest(harness.JobTest):
    def test_every_metric_of_a_run_has_a_meaning(self):
        job = self.write_job(
            "talks", max_duration="6ba", save_interval=None, on_nan="skip", log_traces=True, device_train_microbatch_size="auto",
            eval_dataloader={"name": "gaussian_classification", "size": 50, "features": 32, "classes": 10, "batch_size": 25},
            eval_interval="3ba", algorithms={"label_smoothing": {"smoothing": 0.1}, "layer_freezing": None},
            callbacks={"lr_monitor": None, "speed_monitor": {"window_size": 2}, "runtime_estimator": None,
                       "memory_monitor": {"interval": 1, "dist_aggregate_batch_interval": 1}, "optimizer_monitor": {"batch_log_interval": 1},
                       "activation_monitor": {"interval": "1ba"}, "system_metrics_monitor": {"seconds": 0.001}})
        self.run_composer("-n", 2, job)
        lines = [json.loads(line) for line in (self.run_folder("talks") / "metrics.jsonl").read_text().splitlines()]
        names = {name for line in lines for name in line} - {"wall", "launch", "generation"}
        names -= {name for name in names if re.fullmatch(r"time/(epoch|batch|sample|token|iteration)(_in_\w+)?", name)}
        self.assertGreater(len(names), 60)
        rows = check_reference_doc.run_metrics()
        patterns = {re.sub(r"<[^>]*>", "?*", name): meaning for name, _, meaning in rows}
        unknown = [name for name in sorted(names) if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
        self.assertEqual(unknown, [])
        subprocess.run([harness.BIN / "composer", "report", self.run_folder("talks")], check=True, capture_output=True)
        page = (self.run_folder("talks") / "report.html").read_text()
        self.assertIn(f"<figcaption>{html.escape(patterns['loss/train/total'])}</figcaption>", page)
        self.assertIn(f"<figcaption>{html.escape(patterns['time/remaining_estimate'])}</figcaption>", page)


if __name__ == "__main__":
    unittest.main()
