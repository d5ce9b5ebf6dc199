"""torch_rendezvous.py AGENTS: torchrun's c10d rendezvous with AGENTS agents as threads of this process and one store.
Prints the seconds from the first next_rendezvous() to the last answer.
SPDX-License-Identifier: Apache-2.0
"""
import os
import sys
import threading
import time

from torch.distributed import TCPStore
from torch.distributed.elastic.rendezvous import RendezvousParameters
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler


def main(agents):
    server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    handlers = []
    for _ in range(agents):
        store = TCPStore("127.0.0.1", server.port, is_master=False, wait_for_workers=False)
        parameters = RendezvousParameters(backend="c10d", endpoint="127.0.0.1", run_id="scale", min_nodes=agents,
                                          max_nodes=agents, local_addr="127.0.0.1")
        handlers.append(create_handler(store, C10dRendezvousBackend(store, "scale"), parameters))
    go, done = threading.Barrier(agents + 1), threading.Barrier(agents + 1)

    def meet(handler):
        go.wait()
        handler.next_rendezvous()
        done.wait()

    for handler in handlers:
        threading.Thread(target=meet, args=(handler,), daemon=True).start()
    go.wait()
    start = time.monotonic()
    done.wait()
    print(f"{time.monotonic() - start:.3f}", flush=True)


main(int(sys.argv[1]))
os._exit(0)
