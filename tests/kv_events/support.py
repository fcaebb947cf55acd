"""Servers, HTTP and waiting, for the tests with published consumers of KV events. Python's standard library only."""
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.parse


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def call(url, path, body=None, timeout=60):
    """(status, JSON or text)"""
    u = urllib.parse.urlparse(url)
    c = http.client.HTTPConnection(u.hostname, u.port, timeout=timeout)
    c.request("POST" if body is not None else "GET", path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
    r = c.getresponse()
    text = r.read().decode()
    try:
        return r.status, json.loads(text)
    except ValueError:
        return r.status, text


def wait_for(what, seconds=60):
    """Repeats what() until it is true; returns its value."""
    end = time.time() + seconds
    while True:
        try:
            value = what()
        except OSError:
            value = None
        if value:
            return value
        if time.time() > end:
            raise AssertionError(f"{what.__name__}: not within {seconds} s")
        time.sleep(0.05)


class Forwarder:
    """A TCP port that leads to another one, and can be cut: what is published meanwhile is lost to those who listen through it."""

    def __init__(self, port):
        self.target, self.pairs, self.open = port, [], True
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near, _ = self.listener.accept()
            if not self.open:
                near.close()
                continue
            far = socket.create_connection(("127.0.0.1", self.target))
            self.pairs += [near, far]
            for a, b in ((near, far), (far, near)):
                threading.Thread(target=self.copy, args=(a, b), daemon=True).start()

    @staticmethod
    def copy(a, b):
        try:
            while data := a.recv(65536):
                b.sendall(data)
        except OSError:
            pass

    def cut(self):
        self.open = False
        for s in self.pairs:
            s.shutdown(socket.SHUT_RDWR)
            s.close()
        self.pairs = []

    def mend(self):
        self.open = True


class Process:
    """A program whose output goes to a file; ended by stop()."""

    def __init__(self, name, folder, command, env=None):
        self.name, self.log = name, pathlib.Path(folder) / f"{name}.log"
        with open(self.log, "w") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **(env or {})})

    def text(self):
        return self.log.read_text(errors="replace")

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Server(Process):
    """`isotope serve` on a port of the system's choice; `url` once it answers, an error after `patience` seconds or when it ends."""

    def __init__(self, name, folder, program, model, *flags, settings=None, patience=300):
        super().__init__(name, folder, [program, "serve", "--model", model, "--port", "0", *flags], settings)
        self.url = wait_for(self.ready, patience)

    def ready(self):
        if self.process.poll() is not None:
            raise AssertionError(f"{self.name} ended:\n{self.text()}")
        found = re.search(r"ready: (http\S+)/v1", self.text())
        return found and found[1]


class Engine(Server):
    """A server with KV events on ports of the system's choice."""

    def __init__(self, name, folder, program, model, *flags, **settings):
        events = {"ATOM_KV_EVENTS_ENABLE": "1", "ATOM_KV_EVENTS_ENDPOINT": "tcp://127.0.0.1:0", "ATOM_KV_EVENTS_REPLAY_ENDPOINT": "tcp://127.0.0.1:0", **settings}
        super().__init__(name, folder, program, model, "--kv-cache-memory-bytes", "200000000", "--threads", "1", "--served-model-name", "test-model", *flags,
                         settings=events, patience=120)
        self.source = call(self.url, "/kv_event_sources")[1]["0"]

    def complete(self, ids, **fields):
        status, body = call(self.url, "/v1/completions", {"model": "test-model", "prompt": ids, "max_tokens": 1, "temperature": 0, "timings": True, **fields})
        assert status == 200, body
        return body

    def counter(self, name):
        text = call(self.url, "/metrics")[1]
        return float(re.search(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", text, re.M)[1])


def cached_tokens(body):
    return body["usage"]["prompt_tokens_details"]["cached_tokens"]
