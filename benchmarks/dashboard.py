#!/usr/bin/env python3
"""The share of a core that the launcher takes while nobody, one and eight viewers watch the dashboard, at 2 and 1,000 ranks
(programs that sleep), and at 2 ranks of a training job: processor time of the launcher alone, from /proc.

  benchmarks/dashboard.py [--seconds 20] [--ranks 2 1000]

SPDX-License-Identifier: Apache-2.0"""
import argparse
import os
import pathlib
import socket
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests/integration"))

import harness  # noqa: E402


class Viewer(threading.Thread):
    """Reads /events as a browser does, and counts bytes."""
    def __init__(self, port):
        super().__init__(daemon=True)
        self.received = 0
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.sendall(b"GET /events HTTP/1.1\r\n\r\n")
        self.start()

    def run(self):
        while data := self.socket.recv(1 << 20):
            self.received += len(data)

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.join()
        self.socket.close()


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def share(pid, seconds):
    before, began = processor_seconds(pid), time.monotonic()
    time.sleep(seconds)
    return (processor_seconds(pid) - before) / (time.monotonic() - began)


def measure(test, name, port, process, seconds):
    cells = []
    for count in (0, 1, 8):
        viewers = [Viewer(port) for _ in range(count)]
        time.sleep(1)
        cells.append(f"{100 * share(process.pid, seconds):.2f} %")
        received = sum(viewer.received for viewer in viewers)
        for viewer in viewers:
            viewer.close()
    print(f"| {name} | " + " | ".join(cells) + f" | {received / (seconds + 1) / 8e3:.0f} kB/s |", flush=True)
    process.terminate()
    process.communicate(timeout=120)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--ranks", type=int, nargs="*", default=[2, 1000])
    arguments = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}; share of a core of the launcher\n"
          "| job | nobody watches | one viewer | eight viewers | sent to each |\n|---|---|---|---|---|")
    test = harness.JobTest()
    test.setUp()
    try:
        port = harness.free_port()
        process = test.start("-n", 2, "--http-port", port, test.write_job(
            "watched", max_duration="1000000ba", save_interval="100000ba", callbacks={"throttle": {"seconds": 0.1}}))
        test.wait_for_batch("watched", 5, timeout=120)
        measure(test, "2 ranks that train", port, process, arguments.seconds)
        for ranks in arguments.ranks:
            port = harness.free_port()
            process = test.start("-n", ranks, "--http-port", port, "-c", "sleep", "100000")
            test.wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0, "the page", 120)
            time.sleep(5)
            measure(test, f"{ranks} ranks that sleep", port, process, arguments.seconds)
    finally:
        test.doCleanups()


if __name__ == "__main__":
    main()
