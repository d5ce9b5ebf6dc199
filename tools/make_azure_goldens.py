#!/usr/bin/env python3
"""Signs requests with azure-storage-blob's own policy and writes tests/golden/azure_signatures.json. Run by hand:
pip install azure-storage-blob."""
import json
import pathlib
import types

import azure.storage.blob
from azure.storage.blob._shared.authentication import SharedKeyCredentialPolicy

OUTPUT = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/azure_signatures.json"
ACCOUNT, KEY = "devstoreaccount1", ("Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/"
                                    "KBHBeksoGMGw==")  # the well-known key of Microsoft's emulator
DATE = {"x-ms-date": "Fri, 24 May 2013 00:00:00 GMT", "x-ms-version": "2021-12-02"}
REQUESTS = [
    ("GET", "/runs/mine/a.bin", {}, {}, 0),
    ("PUT", "/devstoreaccount1/runs/a", {}, {"content-type": "application/octet-stream", "if-none-match": "*",
                                             "x-ms-blob-type": "BlockBlob", "x-ms-meta-composerattempt": "00ff"}, 7),
    ("PUT", "/runs/a", {"comp": "block", "blockid": "MDBmZjAwMDAwMQ=="}, {}, 3),
    ("GET", "/runs", {"restype": "container", "comp": "list", "prefix": "a/b", "marker": "x y"}, {}, 0),
]


def signed(method, path, query, headers, length):
    every = {**headers, **DATE}
    request = types.SimpleNamespace(method=method, url="https://host" + path, query=query, headers=dict(every))
    if length:
        request.headers["content-length"] = str(length)
    SharedKeyCredentialPolicy(ACCOUNT, KEY).on_request(
        types.SimpleNamespace(http_request=request, context=types.SimpleNamespace(transport=None)))
    return {"method": method, "path": path, "query": query, "headers": headers, "body": "x" * length,
            "authorization": request.headers["Authorization"]}


def main():
    golden = {"azure_storage_blob": azure.storage.blob.__version__, "account": ACCOUNT, "key": KEY,
              "requests": [signed(*request) for request in REQUESTS]}
    OUTPUT.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
