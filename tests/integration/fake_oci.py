"""Imitates Oracle Cloud's Object Storage on a port of this machine, as far as storage/oci_store.h and Oracle's own Python
client use it: objects, lists by page, uploads in parts, If-None-Match. Each request's signature is checked with the
user's public key by `openssl`, and its date must be of the last five minutes. SPDX-License-Identifier: Apache-2.0"""
import base64
import email.utils
import hashlib
import http.server
import json
import re
import subprocess
import tempfile
import threading
import time
import urllib.parse

NAMESPACE, BUCKET = "tenant", "runs"
SIGNED = re.compile(r'Signature algorithm="rsa-sha256",headers="([^"]*)",keyId="([^"]*)",signature="([^"]*)",version="1"')


class Refused(Exception):
    def __init__(self, status, code):
        super().__init__(code)
        self.status, self.code = status, code


class FakeOci:
    """`key_id`: tenancy/user/fingerprint. `public_key`: a file in PEM. `page`: objects in an answer to a list."""

    def __init__(self, key_id, public_key, page=2):
        self.key_id, self.public_key, self.page = key_id, public_key, page
        self.objects, self.uploads, self.refused, self.lock = {}, {}, [], threading.Lock()
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                try:
                    fake.check_signature(self, body)
                    with fake.lock:
                        status, headers, data = fake.reply(self.command, self.path, self.headers, body)
                except Refused as error:
                    fake.refused.append(f"{self.command} {self.path}: {error.code}")
                    status, headers, data = error.status, {}, {"code": error.code, "message": "of the fake"}
                data = data if isinstance(data, bytes) else json.dumps(data).encode()
                self.send_response(status)
                for name, value in {"content-length": len(data), "opc-request-id": "fake", **headers}.items():
                    self.send_header(name, str(value))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)
            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer

            def log_message(self, *args):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def check_signature(self, request, body):
        found = SIGNED.fullmatch(request.headers.get("authorization", ""))
        if not found or found[2] != self.key_id:
            raise Refused(401, "NotAuthenticated")
        names = found[1].split()
        needed = {"date", "(request-target)", "host"}
        if request.command == "POST":
            needed |= {"content-length", "content-type", "x-content-sha256"}
        date = email.utils.parsedate_to_datetime(request.headers["date"]).timestamp()
        if not needed <= set(names) or abs(time.time() - date) > 300:
            raise Refused(401, "NotAuthenticated")
        if "x-content-sha256" in names and request.headers["x-content-sha256"] != base64.b64encode(
                hashlib.sha256(body).digest()).decode():
            raise Refused(401, "NotAuthenticated")
        target = f"{request.command.lower()} {request.path}"
        text = "\n".join(f"{name}: {target if name == '(request-target)' else request.headers[name]}" for name in names)
        with tempfile.NamedTemporaryFile() as signature:
            signature.write(base64.b64decode(found[3]))
            signature.flush()
            good = subprocess.run(["openssl", "dgst", "-sha256", "-verify", self.public_key, "-signature", signature.name],
                                  input=text.encode(), stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL).returncode == 0
        if not good:
            raise Refused(401, "NotAuthenticated")

    def reply(self, method, path, headers, body):
        url = urllib.parse.urlsplit(path)
        query = dict(urllib.parse.parse_qsl(url.query))
        if url.path in ("/n", "/n/"):
            return 200, {}, NAMESPACE
        inside = urllib.parse.unquote(url.path)
        if not inside.startswith(f"/n/{NAMESPACE}/b/{BUCKET}/"):
            raise Refused(404, "BucketNotFound")
        kind, _, name = inside.split("/", 5)[5].partition("/")
        if kind == "o":
            return self.of_object(method, name, headers, body) if name else self.listed(query)
        return self.of_upload(method, name, query, headers, body)

    def make(self, name, headers, data, metadata):
        if headers.get("if-none-match") == "*" and name in self.objects:
            raise Refused(412, "IfNoneMatchFailed")
        self.objects[name] = (data, metadata)
        return 200, {"etag": hashlib.md5(data).hexdigest(), "opc-content-md5": base64.b64encode(
            hashlib.md5(data).digest()).decode()}, b""

    def of_object(self, method, name, headers, body):
        if method == "PUT":
            return self.make(name, headers, body, {key.lower(): value for key, value in headers.items()
                                                   if key.lower().startswith("opc-meta-")})
        if name not in self.objects:
            raise Refused(404, "ObjectNotFound")
        if method == "DELETE":
            del self.objects[name]
            return 204, {}, b""
        data, metadata = self.objects[name]
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", headers.get("range") or "")
        if not wanted:
            return 200, {**metadata, "content-length": len(data), "etag": hashlib.md5(data).hexdigest()}, data
        first, last = int(wanted[1]), int(wanted[2] or len(data) - 1)
        if first >= len(data):
            raise Refused(416, "InvalidRange")
        return 206, {"content-range": f"bytes {first}-{min(last, len(data) - 1)}/{len(data)}"}, data[first:last + 1]

    def listed(self, query):
        names = [name for name in sorted(self.objects)
                 if name.startswith(query.get("prefix", "")) and name >= query.get("start", "")]
        answer = {"objects": [{"name": name} for name in names[:self.page]], "prefixes": []}
        if len(names) > self.page:
            answer["nextStartWith"] = names[self.page]
        return 200, {}, answer

    def of_upload(self, method, name, query, headers, body):
        if not name and method == "GET":
            return 200, {}, [{"namespace": NAMESPACE, "bucket": BUCKET, "object": upload["object"], "uploadId": key}
                             for key, upload in self.uploads.items()]
        if not name:
            asked, key = json.loads(body), f"upload-{len(self.uploads)}-{time.time_ns()}"
            self.uploads[key] = {"object": asked["object"], "metadata": asked.get("metadata") or {}, "parts": {}}
            return 200, {}, {"namespace": NAMESPACE, "bucket": BUCKET, "object": asked["object"], "uploadId": key}
        upload = self.uploads.get(query.get("uploadId"))
        if upload is None or upload["object"] != name:
            raise Refused(404, "NoSuchUpload")
        if method == "PUT":
            upload["parts"][int(query["uploadPartNum"])] = body
            return 200, {"etag": hashlib.md5(body).hexdigest(), "opc-content-md5": base64.b64encode(
                hashlib.md5(body).digest()).decode()}, b""
        answer = (204, {}, b"")
        if method == "POST":
            parts = json.loads(body)["partsToCommit"]
            if any(hashlib.md5(upload["parts"].get(part["partNum"], b"?")).hexdigest() != part["etag"] for part in parts):
                raise Refused(400, "InvalidUploadPart")
            data = b"".join(upload["parts"][part["partNum"]] for part in sorted(parts, key=lambda part: part["partNum"]))
            answer = self.make(name, headers, data, upload["metadata"])
        del self.uploads[query["uploadId"]]
        return answer
