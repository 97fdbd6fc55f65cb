"""Prometheus metrics of `semel audit --follow`, on a port of this machine alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import TYPE_CHECKING

from semel.cli.output import narrate
from semel.errors import EnvironmentFailure

if TYPE_CHECKING:
    from semel.audit.following import WindowReport

# Not to be reached from elsewhere: labels have the names of topics, and nobody is asked for a password.
HOST = "127.0.0.1"
REQUEST_S_MAX = 10
_HELP = {
    "semel_audit_windows_total": ("counter", "windows that were read"),
    "semel_audit_records_total": ("counter", "records that were read, by side"),
    "semel_audit_anomalies_total": ("counter", "anomalies in settled windows, by kind, and whether they are proven"),
    "semel_audit_late_total": ("counter", "copies that came after they were called lost"),
    "semel_audit_open_records": ("gauge", "records without a partner that are not judged yet, by side"),
    "semel_audit_settled_window": ("gauge", "the last window that is settled"),
    "semel_audit_held_up": ("gauge", "1 while an open transaction keeps windows from being settled"),
}

Series = tuple[str, tuple[tuple[str, str], ...]]


class Metrics:
    """Sums over all lines; a scrape reads them while the audit goes on."""

    def __init__(self) -> None:
        """Nothing has been seen."""
        self._lock = Lock()
        self._values: dict[Series, int] = {}

    def add(self, report: WindowReport) -> None:
        """Take one line."""
        pair = (("left", report.left), ("right", report.right))
        counts = report.counts
        with self._lock:
            self._count("semel_audit_windows_total", 1, *pair)
            self._count("semel_audit_records_total", counts.came_left, *pair, ("side", "left"))
            self._count("semel_audit_records_total", counts.came_right, *pair, ("side", "right"))
            self._count("semel_audit_late_total", counts.late, *pair)
            for one in report.findings:
                labels = (("kind", one.kind.value), ("proven", str(one.is_proven).lower()))
                self._count("semel_audit_anomalies_total", one.count, *pair, *labels)
            self._values["semel_audit_open_records", (*pair, ("side", "left"))] = counts.open_left
            self._values["semel_audit_open_records", (*pair, ("side", "right"))] = counts.open_right
            self._values["semel_audit_settled_window", pair] = report.settled
            self._values["semel_audit_held_up", pair] = int(report.is_held_up)

    def _count(self, name: str, more: int, *labels: tuple[str, str]) -> None:
        self._values[name, labels] = self._values.get((name, labels), 0) + more

    def text(self) -> str:
        """As Prometheus reads it."""
        with self._lock:
            # Copied under the lock and written out without it: a slow scrape must not hold the audit up.
            values = dict(self._values)
        lines = []
        for name, (kind, told) in _HELP.items():
            lines += [f"# HELP {name} {told}", f"# TYPE {name} {kind}"]
            for (series, labels), value in values.items():
                if series == name:
                    told_labels = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels)
                    lines.append(f"{name}{{{told_labels}}} {value}")
        return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    # What Prometheus asks for in the value of a label.
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


@contextmanager
def metrics_server(port: int | None) -> Iterator[Metrics]:
    """Serve metrics while the block runs, if a port is given; 0 is any that is free."""
    metrics = Metrics()
    if port is None:
        yield metrics
        return

    class Answer(BaseHTTPRequestHandler):
        # A client that says nothing must not keep its thread for ever.
        timeout = REQUEST_S_MAX

        def do_GET(self) -> None:
            is_known = self.path.partition("?")[0] in {"/", "/metrics"}
            body = metrics.text().encode() if is_known else b"there is /metrics\n"
            self.send_response(200 if is_known else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing: a scrape is not worth a line."""

    try:
        server = ThreadingHTTPServer((HOST, port), Answer)
    except OSError as error:
        raise EnvironmentFailure(
            f"nothing can listen on {HOST}:{port}: {error.strerror or error}", you_want="--metrics-port with a free one"
        ) from error
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, name="semel audit metrics", daemon=True)
    thread.start()
    narrate(f"metrics: http://{HOST}:{server.server_address[1]}/metrics")
    try:
        yield metrics
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
