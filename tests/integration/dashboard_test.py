"""The dashboard in Chromium: of a real job, and of 1,000 ranks and 100,000 records that a small server plays.

Slow, because Chromium is not installed with the rest: apt-get install chromium; without it the tests are skipped."""
import http.server
import json
import re
import threading
import unittest
import urllib.error
import urllib.parse
import urllib.request

import browser
import harness

PAGE = harness.ROOT / "launcher/control/dashboard.html"
EVIL = "<img src=x onerror=\"document.title='owned'\">"
RANKS = [{"rank": r, "local_rank": r % 8, "pid": 1, "phase": "gone" if r == 17 else "training", "step": 100 - 10 * (r == 5),
          "samples": 1, "loss": 1.0, "behind": r == 5, "heartbeat_age_seconds": 0.1} for r in range(1000)]
MEMBERS = [{"node_rank": n, "host": EVIL, "slots": 8, "state": "running", "restarts": 0, "ranks": RANKS[8 * n:8 * n + 8]}
           for n in range(125)]
JOB = {"job": "j", "run_name": EVIL, "run_folder": "/runs/j", "state": "running", "generation": 3, "world_size": 1000, "nodes": 125,
       "node_rank": 0, "restarts": 2, "total_restarts": 2, "last_cause": EVIL, "step": 100, "samples": 1, "steps_per_second": 1.5,
       "goodput": 0.97, "wall_seconds": 4000, "last_checkpoint": "ba90", "ranks": RANKS[:8], "members": MEMBERS}


def event(name, data):
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


class Recorded(http.server.BaseHTTPRequestHandler):
    """Plays the events of a job of 1,000 ranks whose names try to be markup, to those who have the key."""
    def do_GET(self):
        path, _, query = self.path.partition("?")
        if path == "/":
            return self.reply(PAGE.read_bytes(), "text/html")
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(event("job", JOB))
        for first in range(0, 100000, 20000):
            records = [{"time/batch": b, "loss/train/total": 100.0 / b, EVIL + "/x": 1.0} for b in range(first + 1, first + 20001)]
            self.wfile.write(event("records", {"from": f"from={first + 20000}", "rewound": False, "records": records}))
        self.wfile.write(event("traces", [{"name": EVIL + ".json", "bytes": 12345678, "modified": 1793271123}]))
        if "key=secret" in query:
            self.wfile.write(event("log", {"rank": 0, "generation": 1, "begins": True, "text": f"\x1b[31m{EVIL}\x1b[0m\n"}))
        self.wfile.flush()
        threading.Event().wait(60)  # until the browser has gone

    def reply(self, body, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@unittest.skipIf(browser.CHROMIUM is None, "chromium is missing: apt-get install chromium")
class DashboardTest(harness.JobTest):
    def test_a_job(self):
        port = harness.free_port()
        job = self.write_job("watched", max_duration="100000ba", save_interval="1000ba", profiler={
            "schedule": {"skip_first": 2, "wait": 0, "warmup": 1, "active": 2, "repeat": 1}})
        process = self.start("-n", "2", "--http-port", port, job)
        self.wait_for_batch("watched", 50)
        address = re.search(r"http://127\.0\.0\.1:\d+/#[0-9a-f]{32}", process.stderr.readline()).group()
        with browser.Page(address) as page:
            steps = "Number(document.querySelector('#ranks i')?.title.match(/step (\\d+)/)[1])"
            dom = page.dom_when("document.querySelectorAll('#curves path[d]').length > 2 && document.querySelector('#log').textContent")
            self.assertIn("<title>watched – composer</title>", dom)
            self.assertIn('class="chip running"', dom)
            self.assertEqual(len(re.findall(r'<i class="training" title="rank \d: training, step \d+', dom)), 2)
            for name in ("loss/train/total", "metrics/train/MulticlassAccuracy", "throughput/samples_per_sec"):
                self.assertRegex(dom, rf"<span>{name}</span><span>[\d.]+</span>")
            self.assertRegex(dom, r'<path d="M0\.00 \d')
            self.assertIn("loss", page.evaluate("document.querySelector('#log').textContent"))
            dom = page.dom_when("document.querySelectorAll('#traces a').length > 2")
            self.assertIn(">ep0-ba5-rank0.json</a>", dom)
            links = page.evaluate("[...document.querySelectorAll('#traces a')].map(a => a.href).join(' ')").split()
            for link in links:
                name = urllib.parse.unquote(urllib.parse.urlsplit(link).path.rpartition("/")[2])
                with urllib.request.urlopen(link, timeout=30) as answer:
                    self.assertEqual(answer.read(), (self.run_folder("watched") / "traces" / name).read_bytes(), name)
                with self.assertRaises(urllib.error.HTTPError) as caught:
                    urllib.request.urlopen(link.partition("?")[0], timeout=30)
                self.assertEqual(caught.exception.code, 403)
                caught.exception.close()
            before = page.evaluate(steps)
            page.wait_for(lambda: page.evaluate(steps) > before, "a later step without a reload")
        with browser.Page(address.partition("#")[0]) as page:  # without the key
            page.dom_when("document.querySelectorAll('#curves path[d]').length > 2")
            self.assertIn("ends with a key", page.evaluate("document.querySelector('#log').textContent"))

    def test_a_thousand_ranks_and_names_that_try_to_be_markup(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorded)
        server.daemon_threads = True
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with browser.Page(f"http://127.0.0.1:{server.server_port}/#secret") as page:
            dom = page.dom_when("document.documentElement.outerHTML.includes('step 1 to 100000') && document.querySelector('#log').textContent")
            text = page.evaluate("document.querySelector('#log').textContent")
            self.assertNotEqual(page.evaluate("document.title"), "owned")
        self.assertEqual(len(re.findall(r'<i class="[a-z]+" title="rank ', dom)), 1000)
        self.assertEqual(len(re.findall(r'<i class="gone"', dom)), 1)
        self.assertEqual(len(re.findall(r'<i class="behind"', dom)), 1)
        self.assertEqual(dom.count("<tr>"), 126 + 2)  # of nodes, of traces
        self.assertNotIn("<img", dom)
        self.assertIn("&lt;img src=x", dom)
        self.assertEqual(text, EVIL + "\n")
        self.assertIn("<td>12.3 MB</td>", dom)
        self.assertIn('href="/traces/%3Cimg%20src%3Dx', dom)


if __name__ == "__main__":
    unittest.main()
