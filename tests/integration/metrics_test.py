"""Prometheus's own parser (Debian's python3-prometheus-client) reads what --http-port serves."""
import json
import re
import signal
import socket
import sys
import unittest
import urllib.error
import urllib.request

import harness

try:
    import prometheus_client.parser as parser
except ImportError:
    sys.path.append("/usr/lib/python3/dist-packages")  # another Python than Debian's runs this test
    try:
        import prometheus_client.parser as parser
    except ImportError:
        parser = None


class Metrics(harness.JobTest):
    def serve(self, *flags):
        process = self.start("--http-port", 0, *flags, "-n", 2, "-c", "sh", "-c", "exec sleep 60")
        line = process.stderr.readline()
        match = re.search(r"http port (\d+)", line)
        self.assertTrue(match, line)
        return process, f"http://127.0.0.1:{match[1]}"

    def get(self, url):
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.headers["Content-Type"], answer.read().decode()

    def status(self, base):
        return json.loads(self.get(base + "/status")[1])

    @unittest.skipIf(parser is None, "prometheus_client is missing: apt install python3-prometheus-client")
    def test_prometheus_reads_it(self):
        process, base = self.serve()
        self.wait_for(lambda: self.status(base)["state"] == "running" and self.status(base)["world_size"] == 2,
                      "running")
        kind, text = self.get(base + "/metrics")
        self.assertTrue(kind.startswith("text/plain; version=0.0.4"), kind)
        families = {f.name: f for f in parser.text_string_to_metric_families(text)}
        self.assertEqual(families["composer_restarts"].type, "counter")
        one = {name: f.samples[0].value for name, f in families.items()}
        self.assertEqual((one["composer_world_size"], one["composer_running"], one["composer_generation"]), (2, 1, 1))
        self.assertEqual([s.labels["rank"] for s in families["composer_rank_up"].samples], ["0", "1"])
        self.assertEqual([s.value for s in families["composer_rank_up"].samples], [1, 1])
        for family in families.values():
            self.assertTrue(family.documentation and family.type in ("gauge", "counter"), family.name)
            for sample in family.samples:
                self.assertIn("job", sample.labels)
                self.assertIn("node", sample.labels)
        process.send_signal(signal.SIGTERM)
        process.wait(20)

    def test_status_health_and_nothing_else(self):
        process, base = self.serve()
        self.assertEqual(self.status(base)["pid"], process.pid)
        self.assertEqual(self.get(base + "/healthz")[1], "ok\n")
        for path, method in (("/nothing", "GET"), ("/../../etc/passwd", "GET"), ("/", "POST"), ("/events", "POST"), ("/status", "POST"), ("/metrics", "DELETE")):
            with self.assertRaises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(urllib.request.Request(base + path, method=method), timeout=10)
            self.assertEqual(caught.exception.code, 404 if method == "GET" else 405)
            caught.exception.close()
        process.send_signal(signal.SIGTERM)
        process.wait(20)

    def test_hostile_requests_change_nothing(self):
        """No request on this port has a token, and none of them does anything to the job."""
        process, base = self.serve()
        self.wait_for(lambda: self.status(base)["state"] == "running", "running")
        self.wait_for(lambda: all(rank["pid"] for rank in self.status(base)["ranks"]), "the ranks' processes")
        before = {key: self.status(base)[key] for key in ("generation", "restarts", "world_size", "pid")}
        pids = [rank["pid"] for rank in self.status(base)["ranks"]]
        port = int(base.rsplit(":", 1)[1])
        lines = [f"{method} {path} HTTP/1.1" for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "GE\0T")
                 for path in ("/stop", "/drain", "/save", "/control/stop", "/events?rank=0", "/events?rank=0&key=" + "0" * 32,
                              "/events?from=-1", "/events?from=99999999999999&check=ffffffffffffffff", "//etc/passwd", "/%2e%2e/x")]
        hostile = [line.encode() + b"\r\nContent-Length: 5\r\n\r\nstop\n" for line in lines]
        hostile += [b"\x16\x03\x01" + bytes(500), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\n" * 9000, b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 3000,
                    b"GET /" + b"a" * 100000, b"GET / HTTP/1.1\r\n\r\n" * 1000, bytes(range(256)) * 50]
        for text in hostile:
            with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
                connection.sendall(text[:4096])
                connection.settimeout(0.02)
                try:
                    connection.sendall(text[4096:])
                    self.assertNotIn(b"event: log", connection.recv(4096))
                except OSError:  # it has closed, or does not answer half a request
                    pass
        self.assertEqual(self.get(base + "/healthz")[1], "ok\n")
        self.assertEqual({key: self.status(base)[key] for key in before}, before)
        self.assertEqual([rank["pid"] for rank in self.status(base)["ranks"]], pids)
        process.send_signal(signal.SIGTERM)
        process.wait(20)

    def test_a_port_in_use_is_the_users_error(self):
        process, base = self.serve()
        port = base.rsplit(":", 1)[1]
        _, err = self.run_composer("--http-port", port, "-n", 1, "-c", "true", code=64)
        self.assertIn(f"--http-port: 127.0.0.1:{port} is in use by another process", err)
        process.send_signal(signal.SIGTERM)
        process.wait(20)


if __name__ == "__main__":
    unittest.main()
