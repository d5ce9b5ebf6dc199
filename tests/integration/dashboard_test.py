"""The dashboard in Chromium: of a real job, and of 1,000 ranks and 100,000 records that a small server plays.

Slow, because Chromium is not installed with the rest: apt-get install chromium; without it the tests are skipped."""
import http.server
import json
import re
import shutil
import subprocess
import threading
import unittest

import harness

CHROMIUM = shutil.which("chromium")
PAGE = harness.ROOT / "launcher/control/dashboard.html"
EVIL = "<img src=x onerror=\"document.title='owned'\">"
RANKS = [{"rank": r, "local_rank": r % 8, "pid": 1, "phase": "gone" if r == 17 else "training", "step": 100 - 10 * (r == 5),
          "samples": 1, "loss": 1.0, "behind": r == 5, "heartbeat_age_seconds": 0.1} for r in range(1000)]
MEMBERS = [{"node_rank": n, "host": EVIL, "slots": 8, "state": "running", "restarts": 0, "ranks": RANKS[8 * n:8 * n + 8]}
           for n in range(125)]
JOB = {"job": "j", "run_name": EVIL, "run_folder": "/runs/j", "state": "running", "generation": 3, "world_size": 1000, "nodes": 125,
       "node_rank": 0, "restarts": 2, "total_restarts": 2, "last_cause": EVIL, "step": 100, "samples": 1, "steps_per_second": 1.5,
       "goodput": 0.97, "wall_seconds": 4000, "last_checkpoint": "ba90", "ranks": RANKS[:8], "members": MEMBERS}


class Recorded(http.server.BaseHTTPRequestHandler):
    """Plays a job of 1,000 ranks whose names try to be markup."""
    def do_GET(self):
        path, _, query = self.path.partition("?")
        if path == "/":
            return self.reply(PAGE.read_bytes(), "text/html")
        if path == "/job":
            return self.reply(json.dumps(JOB).encode(), "application/json")
        first = int(re.sub(r"\D", "", query) or 0)
        records = [{"time/batch": b, "loss/train/total": 100.0 / b, EVIL + "/x": 1.0} for b in range(first + 1, min(first + 20000, 100000) + 1)]
        self.reply(json.dumps({"from": f"from={first + len(records)}", "more": first + len(records) < 100000, "rewound": False,
                               "records": records}).encode(), "application/json")

    def reply(self, body, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@unittest.skipIf(CHROMIUM is None, "chromium is missing: apt-get install chromium")
class DashboardTest(harness.JobTest):
    def dom(self, port, milliseconds=8000):
        """Returns the page as it is after a time of the browser's own."""
        return subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.folder}/chromium",
                               f"--virtual-time-budget={milliseconds}", "--dump-dom", f"http://127.0.0.1:{port}/"],
                              check=True, capture_output=True, text=True, timeout=120).stdout

    def test_a_job(self):
        port = harness.free_port()
        job = self.write_job("watched", max_duration="100000ba", save_interval="1000ba")
        self.start("-n", "2", "--http-port", port, job)
        self.wait_for_batch("watched", 50)
        dom = self.dom(port)
        self.assertIn("<title>watched – composer</title>", dom)
        self.assertIn('class="chip running"', dom)
        self.assertEqual(len(re.findall(r'<i class="training" title="rank \d: training, step \d+', dom)), 2)
        for name in ("loss/train/total", "metrics/train/MulticlassAccuracy", "throughput/samples_per_sec"):
            self.assertRegex(dom, rf"<span>{name}</span><span>[\d.]+</span>")
        self.assertRegex(dom, r'<path d="M0\.00 \d')

    def test_a_thousand_ranks_and_names_that_try_to_be_markup(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorded)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        dom = self.dom(server.server_port)
        self.assertEqual(len(re.findall(r'<i class="[a-z]+" title="rank ', dom)), 1000)
        self.assertEqual(len(re.findall(r'<i class="gone"', dom)), 1)
        self.assertEqual(len(re.findall(r'<i class="behind"', dom)), 1)
        self.assertEqual(dom.count("<tr>"), 126)
        self.assertIn("step 1 to 100000", dom)
        self.assertNotIn("<img", dom)
        self.assertNotIn("owned</title>", dom.replace(EVIL, ""))
        self.assertIn("&lt;img src=x", dom)


if __name__ == "__main__":
    unittest.main()
