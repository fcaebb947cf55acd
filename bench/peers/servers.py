"""Servers under measurement. All sides are kept running through the pairs, but only the measured one gets the processor."""
import os, signal, socket, time, urllib.error, urllib.request

import processes

START_TRIES = 3


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """`command` is a function from a port to a command line."""

    def __init__(self, name, command, log, env=None, patience=60):
        self.name, self.command, self.log, self.env, self.patience = name, command, log, env, patience
        self.process = self.port = None

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        """Ready when it returns. Another program may take the port between our look and the server's: then the next one is tried."""
        for attempt in range(START_TRIES):
            self.port = free_port()
            with open(self.log, "wb") as log:
                self.process = processes.start(self.command(self.port), stdin=processes.subprocess.DEVNULL, stdout=log, stderr=log, env=self.env)
            if self._wait_ready():
                return self
            text = self.tail()
            self.stop()
            if attempt + 1 < START_TRIES and "in use" in text.lower():
                continue
            raise processes.Failed(f"{self.name} did not get ready within {self.patience} s or ended; its log {self.log} ends: {text}")

    def _wait_ready(self):
        end = time.monotonic() + self.patience
        while time.monotonic() < end and self.process.poll() is None:
            try:
                with urllib.request.urlopen(self.address + "/health", timeout=5) as answer:
                    if answer.status == 200:
                        return True
            except (OSError, urllib.error.URLError, ValueError):
                pass
            time.sleep(0.1)
        return False

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def need_alive(self):
        if not self.alive():
            raise processes.Failed(f"{self.name} ended while it was needed; its log {self.log} ends: {self.tail()}")

    def pause(self):
        if self.alive():
            processes.tell(self.process, signal.SIGSTOP)

    def resume(self):
        self.need_alive()
        processes.tell(self.process, signal.SIGCONT)

    def stop(self):
        if self.process is not None:
            processes.stop(self.process)
        self.process = None

    def tail(self):
        if not os.path.exists(self.log):
            return "it has no log"
        with open(self.log, errors="replace") as f:
            return processes.last_lines(f.read()[-4000:])


class Pool:
    """Servers by name, each started when it is first needed; all but the one in use are stopped in place."""

    def __init__(self):
        self.servers, self.broken = {}, {}

    def use(self, name, stopped):
        """The running server of that name; `stopped` is started if there is none."""
        if name in self.broken:
            raise processes.Failed(self.broken[name])
        for other in self.servers.values():
            other.pause()
        if name not in self.servers:
            try:
                self.servers[name] = stopped.start()
            except processes.Failed as e:
                self.broken[name] = str(e)
                raise
        server = self.servers[name]
        try:
            server.resume()
        except processes.Failed:
            self.servers.pop(name).stop()  # the next use starts it again
            raise
        return server

    def close(self):
        for server in self.servers.values():
            server.stop()
        self.servers = {}
