"""oci:// by the RSA key of ~/.oci/config, against a fake of Oracle's Object Storage that checks every signature: `composer
store check` finds no fault, a job saves there in parts of ranks and goes on, and a key that the service does not know is
an error that says so. Where COMPOSER_OCI names a Python with Oracle's own client (pip install oci), that client writes
and reads what Composer reads and wrote. SPDX-License-Identifier: Apache-2.0"""
import os
import pathlib
import shutil
import subprocess
import unittest

import fake_oci
import harness

USER = {"tenancy": "ocid1.tenancy.oc1..aaaaaaaaba3pv6wkcr4jqae5f44n2b2m2yt2j6rx32uzr4h25vqstifsfdsq",
        "user": "ocid1.user.oc1..aaaaaaaat5nvwcna5j6aqzjcaty5eqbb6qt2jvpkanghtgdaqedqw3rynjq",
        "fingerprint": "20:3b:97:13:55:1c:8b:17:09:8f:f6:1e:3e:2a:8a:16"}
CLIENT = """
import sys, oci
config = oci.config.from_file(sys.argv[1])
oci.config.validate_config(config)
client = oci.object_storage.ObjectStorageClient(config, service_endpoint=sys.argv[2])
space = client.get_namespace().data
assert space == "tenant", space
client.put_object(space, "runs", "theirs/a.bin", b"0123456789", opc_meta={"by": "client"})
try:
    client.put_object(space, "runs", "theirs/a.bin", b"other", if_none_match="*")
    raise SystemExit("created twice")
except oci.exceptions.ServiceError as error:
    assert error.status == 412 and error.code == "IfNoneMatchFailed", error
assert client.get_object(space, "runs", "theirs/a.bin", range="bytes=2-4").data.content == b"234"
head = client.head_object(space, "runs", "theirs/a.bin")
assert head.headers["content-length"] == "10" and head.headers["opc-meta-by"] == "client", head.headers
open(sys.argv[3], "wb").write(b"x" * (11 << 20))
oci.object_storage.UploadManager(client).upload_file(space, "runs", "theirs/large", sys.argv[3], part_size=5 << 20)
assert len(client.get_object(space, "runs", "theirs/large").data.content) == 11 << 20
names, start = [], None
while True:
    page = client.list_objects(space, "runs", start=start).data
    names += [each.name for each in page.objects]
    start = page.next_start_with
    if start is None:
        break
manifest = next(name for name in names if name.endswith("manifest.json"))
assert client.get_object(space, "runs", manifest).data.content.startswith(b"{"), manifest
client.delete_object(space, "runs", "theirs/a.bin")
print(len(names), "objects")
"""


@unittest.skipUnless(shutil.which("openssl"), "no openssl here")
class OciTest(harness.JobTest):
    def setUp(self):
        super().setUp()
        for name in ("user", "stranger"):
            subprocess.run(["openssl", "genrsa", "-out", self.folder / f"{name}.pem", "2048"], check=True,
                           capture_output=True)
        subprocess.run(["openssl", "rsa", "-in", self.folder / "user.pem", "-pubout", "-out", self.folder / "user.pub"],
                       check=True, capture_output=True)
        self.fake = fake_oci.FakeOci("/".join(USER.values()), self.folder / "user.pub")
        self.addCleanup(self.fake.stop)

    def with_key(self, name):
        config = self.folder / f"{name}.config"
        config.write_text("[DEFAULT]\n" + "".join(f"{key}={value}\n" for key, value in USER.items()) +
                          f"region=us-ashburn-1\nkey_file={self.folder}/{name}.pem\n")
        return dict(self.environment(), OCI_CONFIG_FILE=str(config), OCI_ENDPOINT_URL=self.fake.url)

    def test_a_store_has_no_fault_and_a_job_saves_there_and_goes_on(self):
        out, _ = self.run_composer("store", "check", "oci://runs/check", env=self.with_key("user"))
        self.assertIn("all is well", out)
        self.assertEqual(self.fake.objects, {})
        job = self.write_job("far", save_folder="oci://runs@tenant/mine")
        self.run_composer("-n", 2, job, "max_duration=20ba", "schedulers.t_max=40ba", env=self.with_key("user"),
                          timeout=200)
        self.assertIn("mine/ep1-ba20/manifest.json", self.fake.objects)
        self.run_composer("-n", 1, job, "schedulers.t_max=40ba", env=self.with_key("user"), timeout=200)
        self.run_composer("-n", 1, self.write_job("near"), timeout=200)
        self.assert_same_losses(self.losses("far")[20:], self.losses("near")[20:])
        if "COMPOSER_OCI" in os.environ:
            script = self.folder / "client.py"
            script.write_text(CLIENT)
            done = subprocess.run([os.environ["COMPOSER_OCI"], script, self.folder / "user.config", self.fake.url,
                                   self.folder / "large"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual([line for line in self.fake.refused if "NotAuthenticated" in line], [])

    def test_a_key_that_the_service_does_not_know_is_named(self):
        out, _ = self.run_composer("store", "check", "oci://runs/check", env=self.with_key("stranger"), code=1)
        self.assertIn("401 NotAuthenticated", out)

    def test_what_is_missing_is_an_error_at_the_start(self):
        config = self.folder / "config"
        config.write_text("[DEFAULT]\nuser=me\n")
        job = self.write_job("far", save_folder="oci://runs/mine")
        _, err = self.run_composer("-n", 1, job, env=dict(self.environment(), OCI_CONFIG_FILE=str(config)), code=64)
        self.assertIn("[DEFAULT]: tenancy: missing", err)


if __name__ == "__main__":
    unittest.main()
