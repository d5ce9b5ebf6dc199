#!/usr/bin/env python3
"""Signs requests with the signer of Oracle's own client and writes tests/golden/oci_signatures.json, with a key that is
made for it. Run by hand: pip install oci."""
import json
import pathlib
import urllib.parse

import oci
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from oci._vendor import requests

OUTPUT = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/oci_signatures.json"
TENANCY, USER = "ocid1.tenancy.oc1..aaaa", "ocid1.user.oc1..bbbb"
FINGERPRINT = "20:3b:97:13:55:1c:8b:17:09:8f:f6:1e:3e:2a:8a:16"
ORIGIN, DATE = "https://objectstorage.us-ashburn-1.oraclecloud.com", "Fri, 24 May 2013 00:00:00 GMT"
# (method, path, query, body); bodies of objects are not signed.
REQUESTS = [
    ("GET", "/n/", {}, ""),
    ("PUT", "/n/tenant/b/runs/o/mine/a.bin", {}, "bytes"),
    ("HEAD", "/n/tenant/b/runs/o/mine/a.bin", {}, ""),
    ("GET", "/n/tenant/b/runs/o", {"prefix": "mine/a b", "start": "mine/a/2"}, ""),
    ("POST", "/n/tenant/b/runs/u", {}, '{"object":"mine/a"}'),
    ("PUT", "/n/tenant/b/runs/u/mine/a", {"uploadId": "x-1", "uploadPartNum": "2"}, "part"),
    ("DELETE", "/n/tenant/b/runs/u/mine/a", {"uploadId": "x-1"}, ""),
]


def make_key(pass_phrase):
    locked = serialization.BestAvailableEncryption(pass_phrase) if pass_phrase else serialization.NoEncryption()
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    text = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked).decode()
    return text


def signed(signer, method, path, query, body):
    text = "&".join(f"{name}={urllib.parse.quote(value, safe='')}" for name, value in sorted(query.items()))
    url = ORIGIN + path + ("?" + text if text else "")
    request = requests.Request(method, url, data=body or None, headers={"date": DATE}).prepare()
    signer(request, enforce_content_headers=method == "POST")
    return {"method": method, "path": path, "query": query, "body": body,
            "authorization": request.headers["authorization"]}


def main():
    signers = []
    for phrase in ("", "open sesame"):
        key = make_key(phrase.encode())
        signer = oci.Signer(TENANCY, USER, FINGERPRINT, None, pass_phrase=phrase or None, private_key_content=key)
        signers.append({"private_key": key, "pass_phrase": phrase,
                        "requests": [signed(signer, *request) for request in REQUESTS]})
    golden = {"oci": oci.__version__, "tenancy": TENANCY, "user": USER, "fingerprint": FINGERPRINT, "origin": ORIGIN,
              "keys": signers}
    OUTPUT.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
