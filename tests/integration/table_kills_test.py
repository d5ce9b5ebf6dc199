"""Parquet files of a bucket, whose store holds a fetch back half-way until everything is killed with -9: the next start
needs no clean-up and goes on with exactly the samples that are missing, on another number of ranks.
SPDX-License-Identifier: Apache-2.0"""
import http.server
import os
import pathlib
import re
import signal
import threading
import unittest
import urllib.parse

import harness

BODY = (pathlib.Path(__file__).resolve().parent.parent / "golden/tables/documents.parquet").read_bytes()  # 60 rows
FILES = [f"tables/part-{i}.parquet" for i in range(4)]
# The ends of files, which are read at the start, are as long as the files, and are kept as well.
CACHE_LIMIT = 2 * len(BODY)


class Bucket:
    """What S3 answers about FILES. `hold` counts the fetches down to the one that is sent by half and then waits."""

    def __init__(self):
        self.hold, self.held, self.fetches = 0, threading.Event(), 0
        bucket = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                url = urllib.parse.urlsplit(self.path)
                key = url.path.removeprefix("/bucket/")
                if "list-type" in url.query:
                    entries = "".join(f"<Contents><Key>{name}</Key><Size>{len(BODY)}</Size></Contents>" for name in FILES)
                    return self.send(200, f"<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>".encode())
                if key not in FILES:
                    return self.send(404, b"<Error><Code>NoSuchKey</Code></Error>")
                wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
                if wanted is None:
                    return self.send(200, BODY)
                begin, end = int(wanted[1]), int(wanted[2]) + 1
                self.send(206, BODY[begin:end], {"Content-Range": f"bytes {begin}-{end - 1}/{len(BODY)}"})
            do_GET = do_HEAD = answer

            def send(self, code, body, headers=None):
                self.send_response(code)
                for name, value in {"Content-Length": len(body), "ETag": '"1"', **(headers or {})}.items():
                    self.send_header(name, str(value))
                self.end_headers()
                if self.command == "HEAD":
                    return
                if code == 206:
                    bucket.fetches += 1
                    bucket.hold -= 1
                    if bucket.hold == 0:
                        self.wfile.write(body[:len(body) // 2])
                        self.wfile.flush()
                        bucket.held.set()
                        self.rfile.read(1)  # until the process that asked is gone
                        self.close_connection = True
                        return
                self.wfile.write(body)

            def log_message(self, *args):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # who asked was killed
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class TableKillsTest(harness.JobTest):
    def setUp(self):
        super().setUp()
        self.bucket = Bucket()
        self.addCleanup(self.bucket.stop)

    def environment(self):
        return super().environment() | {"S3_ENDPOINT_URL": f"http://127.0.0.1:{self.bucket.server.server_address[1]}",
                                        "AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": "mine",
                                        "AWS_REGION": "us-east-1"}

    def job(self, name):
        loader = {"name": "parquet", "path": "s3://bucket/tables/*.parquet", "local": str(self.folder / f"cache-{name}"),
                  "cache_limit": CACHE_LIMIT, "shuffle_bytes": 200, "features": ["left", "right"], "target": "class", "columns": ["left"]}
        return self.write_job(name, model={"name": "mlp", "sizes": [2, 8, 4]}, train_dataloader=loader,
                              global_train_batch_size=6, schedulers=None, max_duration="2ep", save_interval="3ba",
                              determinism="elastic", virtual_shards=4, callbacks={"sample_recorder": None})

    def test_a_kill_in_the_middle_of_a_fetch_leaves_nothing_to_clean_up(self):
        self.run_composer("-n", 1, self.job("whole"))
        reference = self.take_records("whole", 1)
        epoch = 60 * len(FILES)
        self.assertEqual(len(reference), 2 * epoch // 6)
        fetched, job, seen = self.bucket.fetches, self.job("killed"), {}
        self.assertGreaterEqual(fetched, 3 * len(FILES), "ends, and each file once an epoch")
        # While the ends are fetched, in the first epoch, in the second.
        for ranks, hold in ((2, 2), (1, len(FILES) + 2), (4, 3), (2, 1)):
            self.bucket.held.clear()
            self.bucket.hold = hold
            process = self.start("-n", ranks, job)
            self.wait_for(lambda: self.bucket.held.is_set() or process.poll() is not None, "a fetch", timeout=120)
            self.assertIsNone(process.poll(), "it ended without the fetch that was to be held")
            workers = self.workers("killed").values()
            process.kill()
            for pid in workers:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            process.wait()
            self.wait_for(lambda: not self.workers("killed"), "the ranks of a killed launcher end")
            for batch, ids in self.take_records("killed", ranks).items():
                self.assertEqual(ids, reference[batch], f"batch {batch} on {ranks} ranks")
                seen[batch] = ids
        self.bucket.hold = 0
        self.run_composer("-n", 2, job)
        for batch, ids in self.take_records("killed", 2).items():
            self.assertEqual(ids, reference[batch], f"batch {batch} after the kills")
            seen[batch] = ids
        self.assertEqual(seen, reference, "each sample once an epoch, in its batch")
        self.assertEqual(sorted(sum((seen[batch] for batch in range(1, epoch // 6 + 1)), [])), list(range(epoch)))
        self.assertEqual(self.losses("killed"), self.losses("whole"), "bit for bit")
        stored = list((self.folder / "cache-killed/composer-shards").iterdir())
        self.assertFalse([path.name for path in stored if path.name.endswith(".part")])
        self.assertLessEqual(sum(path.stat().st_size for path in stored), CACHE_LIMIT)


if __name__ == "__main__":
    unittest.main()
