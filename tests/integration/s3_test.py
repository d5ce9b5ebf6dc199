"""Tests object storage against moto's S3 server from PyPI, which checks every signature: the conformance suite of
stores, a job that saves to s3:// and resumes from there, and a wrong key that is rejected. Needs moto and boto3
(tools/moto_setup.sh); skipped without them."""
import json
import os
import pathlib
import subprocess
import time
import unittest
import urllib.request

import harness
from fault_proxy import FaultProxy

MOTO = pathlib.Path(os.environ.get("COMPOSER_MOTO", harness.BIN.parent.parent.parent / ".deps/moto")) / "bin"
# werkzeug decodes %2F in a query, so that moto (5.2.1) would check the signature of `prefix=a/b`; S3 checks that of
# `prefix=a%2Fb`.
SERVER = """
import sys
from urllib.parse import quote, unquote
from botocore.auth import S3SigV4Auth
def canonical(self, parts):
    pairs = [pair.partition("=")[::2] for pair in parts.query.split("&") if pair]
    return "&".join(sorted(quote(unquote(k), safe="-_.~") + "=" + quote(unquote(v), safe="-_.~") for k, v in pairs))
S3SigV4Auth._canonical_query_string_url = canonical
from moto.server import main
main(sys.argv[1:])
"""
USER = """
import boto3, json, sys
client = dict(endpoint_url=sys.argv[1], region_name="us-east-1", aws_access_key_id="any", aws_secret_access_key="any")
iam = boto3.client("iam", **client)
iam.create_user(UserName="u")
key = iam.create_access_key(UserName="u")["AccessKey"]
everything = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
iam.put_user_policy(UserName="u", PolicyName="all", PolicyDocument=json.dumps(everything))
boto3.client("s3", **client).create_bucket(Bucket="bucket")
print(json.dumps({"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}))
"""


@unittest.skipUnless((MOTO / "moto_server").exists(), f"no {MOTO}/moto_server: tools/moto_setup.sh")
class S3Test(harness.JobTest):
    def setUp(self):
        super().setUp()
        port = harness.free_port()
        self.url = f"http://127.0.0.1:{port}"
        # The first four requests (the user, its key and rights, the bucket) are free; from then on signatures and
        # rights are checked.
        self.server = subprocess.Popen([MOTO / "python", "-c", SERVER, "-H", "127.0.0.1", "-p", str(port)],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       env={**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": "4"})
        self.addCleanup(self.server.wait)
        self.addCleanup(self.server.kill)
        self.wait_for_server()
        made = subprocess.run([MOTO / "python", "-c", USER, self.url], capture_output=True, text=True, timeout=60,
                              check=True)
        self.env = {**os.environ, **json.loads(made.stdout), "S3_ENDPOINT_URL": self.url, "AWS_REGION": "us-east-1",
                    "AWS_EC2_METADATA_DISABLED": "true"}

    def wait_for_server(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                urllib.request.urlopen(self.url + "/moto-api/", timeout=2)
                return
            except OSError:
                time.sleep(0.1)
        self.fail("moto_server does not come up")

    def test_conformance(self):
        ran = subprocess.run([harness.BIN.parent / "tests/s3_live_test"],
                             env={**self.env, "COMPOSER_TEST_PLACE": "s3://bucket/suite"}, capture_output=True,
                             text=True, timeout=240)
        self.assertEqual(ran.returncode, 0, ran.stdout[-4000:])
        self.assertIn("[  PASSED  ]", ran.stdout)

    def test_a_job_saves_to_a_bucket_and_goes_on_from_there(self):
        job = self.write_job("cloud", save_folder="s3://bucket/{run_name}/ckpt", save_interval="2ba",
                             max_duration="6ba", save_num_checkpoints_to_keep=2)
        self.run_composer("-n", 2, job, env=self.env)
        self.assertEqual(self.summary("cloud")["last_checkpoint"].split("/ckpt/")[0], "s3://bucket/cloud")
        out, _ = self.run_composer("checkpoint", "verify", "s3://bucket/cloud/ckpt", env=self.env)
        self.assertEqual(out.count("valid"), 2, out)
        job = self.write_job("cloud", save_folder="s3://bucket/{run_name}/ckpt", save_interval="2ba",
                             max_duration="10ba", save_num_checkpoints_to_keep=2)
        self.run_composer("-n", 1, job, env=self.env)
        self.assertIn("s3://bucket/cloud/ckpt/", json.dumps(self.summary("cloud")["generations"][0]),
                      "it went on from the bucket")
        self.assertEqual(self.metrics("cloud")[-1]["time/batch"], 10)
        # Loads the weights into another run, by URL.
        other = self.write_job("other", load_path="s3://bucket/cloud/ckpt", load_weights_only=True, max_duration="2ba")
        self.run_composer("-n", 1, other, env=self.env)

    def test_no_save_fails_where_requests_do(self):
        # Each first PUT of a path is cut within its body, and there are 503s, resets, and answers that break off. Every
        # save still succeeds, including background saves, and what is in the bucket is whole.
        proxy = FaultProxy(self.url)
        self.addCleanup(proxy.server_close)
        self.addCleanup(proxy.shutdown)
        env = {**self.env, "S3_ENDPOINT_URL": proxy.url}
        for name, keys in {"behind": {}, "skipping": {"save_overlap": "skip"},
                           "blocking": {"save_async": False}}.items():
            job = self.write_job(name, save_folder="s3://bucket/{run_name}/ckpt", save_interval="1ba",
                                 max_duration="4ba", save_num_checkpoints_to_keep=2, **keys)
            self.run_composer("-n", 2, job, env=env, timeout=240)
            out, _ = self.run_composer("checkpoint", "verify", f"s3://bucket/{name}/ckpt", env=self.env)
            self.assertIn("ep0-ba4", out)
            self.assertGreaterEqual(out.count("valid"), 1, out)
            self.assertNotRegex(out, "damaged|torn|checksum")
        for fault, count in proxy.faults.items():
            self.assertGreater(count, 2, f"{fault} of {proxy.faults}")
        print(f"  {proxy.requests} requests, {proxy.faults}")

    def preempted_while_uploading(self, name, silent_about=None):
        """Runs a job that uploads its metrics every batch through the proxy, and is told that its machine will be taken
        away. Returns (stderr, seconds that it took)."""
        proxy = FaultProxy(self.url)
        self.addCleanup(proxy.server_close)
        self.addCleanup(proxy.shutdown)
        stop = self.folder / f"stop_{name}"
        uploads = {"bucket_uri": "s3://bucket", "interval": 1, "preempted_flush_seconds": 10}
        job = self.write_job(name, max_duration="5000ba", callbacks={"throttle": {"seconds": 0.02}},
                             loggers={"remote_uploader_downloader": uploads})
        process = self.start("-n", 2, "--preemption", f"file:{stop}", job,
                             env={**self.env, "S3_ENDPOINT_URL": proxy.url})
        self.wait_for_batch(name, 20)
        proxy.silent_about = silent_about
        self.wait_for_batch(name, 40)
        stop.write_text("")
        began = time.monotonic()
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 75, err)
        return err, time.monotonic() - began

    def object(self, key):
        script = (
            "import boto3, sys; sys.stdout.buffer.write(boto3.client('s3', endpoint_url=sys.argv[1], region_name='us-east-1')"
            ".get_object(Bucket='bucket', Key=sys.argv[2])['Body'].read())")
        return subprocess.run([MOTO / "python", "-c", script, self.url, key], env=self.env, capture_output=True,
                              timeout=60, check=True).stdout

    def test_what_is_queued_at_a_preemption_arrives_or_is_named(self):
        err, _ = self.preempted_while_uploading("arrives")
        self.assertNotIn("not uploaded", err)
        lines = (self.run_folder("arrives") / "metrics.jsonl").read_bytes()
        self.assertEqual(self.object("arrives/metrics.jsonl"), lines, "all that was written until the end")
        err, seconds = self.preempted_while_uploading("lost", silent_about="/lost/")
        self.assertRegex(
            err,
            r"[1-9] files were not uploaded to s3://bucket/? within 10s and are lost there: .*lost/metrics.jsonl")
        self.assertLess(seconds, 60)
        out, _ = self.run_composer("checkpoint", "verify", self.summary("lost")["last_checkpoint"])
        self.assertIn("valid", out)

    def test_wrong_keys_are_refused(self):
        job = self.write_job("refused", save_folder="s3://bucket/refused", max_duration="2ba")
        env = {**self.env, "AWS_SECRET_ACCESS_KEY": "wrong" * 8}
        process = self.start("-n", 1, "--max-restarts", 0, job, env=env)
        _, err = process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("s3://bucket/refused", err)
        self.assertIn("SignatureDoesNotMatch", err)


if __name__ == "__main__":
    unittest.main()
