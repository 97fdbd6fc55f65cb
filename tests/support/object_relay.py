"""A relay in front of an object store: it hands requests on, and keeps back the answer to the first writes of a file.

A process of its own: deltalake waits for the store with Python's lock held, so a thread beside it could not answer.

    python -m tests.support.object_relay STORE_PORT PART_OF_PATH TIMES

It prints the port that it listens on, then the store's status for each answer that it kept back.
"""

from __future__ import annotations

import http.client
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOST = "127.0.0.1"
WAIT_S_MAX = 30.0
OWN_HEADERS = {"connection", "transfer-encoding", "content-length"}


class Relay(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    store_port = 0
    lose = ""
    times = 0

    def hand_on(self) -> None:
        """The store gets the request; whether the client gets the answer is another matter."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        line = http.client.HTTPConnection(HOST, self.store_port, timeout=WAIT_S_MAX)
        line.request(self.command, self.path, body, dict(self.headers.items()))
        answer = line.getresponse()
        content = answer.read()
        line.close()
        if self.command == "PUT" and self.lose in self.path and Relay.times > 0:
            Relay.times -= 1
            self.close_connection = True
            sys.stdout.write(f"{answer.status}\n")
            sys.stdout.flush()
            return
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in OWN_HEADERS:
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else None
        self.send_header("Content-Length", length or str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = hand_on  # noqa: N815 - Python's names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Not in the tests' output."""


def main() -> None:
    """Serve until killed."""
    Relay.store_port, Relay.lose, Relay.times = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    server = ThreadingHTTPServer((HOST, 0), Relay)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
