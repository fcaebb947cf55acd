"""What the command-line tests share."""
import fcntl
import http.client
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

ISOTOPE = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else "isotope"
MODEL = "smollm2-135m"
# Seconds to wait for what must come. Reached only when it does not; machines that run the tests may be busy with other things.
PATIENCE = 120


def need_model():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if not os.path.exists(f"{cache}/isotope/models/{MODEL}.gguf"):
        print(f"skipped: run scripts/fetch-model {MODEL}")
        sys.exit(77)


def run(*args, stdin=subprocess.DEVNULL, text_in=None, timeout=2 * PATIENCE):
    kwargs = {"input": text_in} if text_in is not None else {"stdin": stdin}
    return subprocess.run([ISOTOPE, *args], capture_output=True, text=True, timeout=timeout, **kwargs)


class Terminal:
    """The program on a pseudo-terminal of 100 columns."""

    def __init__(self, *args, env=None):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update({"TERM": "xterm", "LC_ALL": "C.UTF-8", **(env or {})})
            os.execv(ISOTOPE, [ISOTOPE, *args])
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        modes = termios.tcgetattr(self.fd)
        modes[0] |= 0x4000  # IUTF8, as every terminal emulator sets it: text typed ahead of the editor is erased by character
        termios.tcsetattr(self.fd, termios.TCSANOW, modes)
        self.seen = ""

    def send(self, text):
        os.write(self.fd, text.encode())

    def prompt(self):
        """Waits until the line editor reads. Its prompt alone is too early: it is written before the editor takes the terminal over, and
        what is typed in between is the kernel's to interpret."""
        seen = self.expect(r"[\r\n]> ")
        end = time.time() + PATIENCE
        while termios.tcgetattr(self.fd)[3] & termios.ICANON:
            if time.time() > end or not self.alive():
                raise AssertionError("the line editor does not take the terminal over")
            time.sleep(0.005)
        return seen

    def read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.seen = re.sub("\x1b\\[\\?2004[hl]", "", self.seen + data.decode(errors="replace"))  # asking for bracketed paste shows nothing
        return bool(data)

    def expect(self, pattern, seconds=PATIENCE):
        """Waits for a pattern in what came since the last match; returns what came up to it."""
        end = time.time() + seconds
        while not (m := re.search(pattern, self.seen)):
            if time.time() > end or not (self.read(0.2) or self.alive()):
                raise AssertionError(f"{pattern!r} did not come; seen: {self.seen!r}")
        before, self.seen = self.seen[: m.end()], self.seen[m.end():]
        return before

    def alive(self):
        return os.waitpid(self.pid, os.WNOHANG) == (0, 0)

    def status(self, seconds=PATIENCE):
        """The exit status (negative: signal)."""
        end = time.time() + seconds
        while time.time() < end:
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
        raise AssertionError(f"the program did not end; seen: {self.seen!r}")


class Server:
    """`isotope serve` on a free port."""

    def __init__(self, *flags, wait=True, env=None):
        self.process = subprocess.Popen([ISOTOPE, "serve", "--model", MODEL, "--port", "0", "--kv-cache-memory-bytes", "400000000", *flags],
                                        stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})})
        self.log, self.port = "", None
        while wait and (line := self.process.stderr.readline()):
            self.log += line
            if m := re.search(r"listening on http://[^ ]*:(\d+),", line):
                self.port = int(m[1])
            if "ready: " in line:
                return
        if wait:
            raise AssertionError("the server did not start:\n" + self.log)

    def expect(self, text):
        """Waits for a line of the log that holds `text`."""
        while line := self.process.stderr.readline():
            self.log += line
            if text in line:
                return
        raise AssertionError(f"{text!r} did not come:\n" + self.log)

    def wait_for_calls(self, n):
        """Until `n` calls are being answered."""
        end = time.time() + PATIENCE
        while self.json("GET", "/load")[1]["server_load"] != n:
            if time.time() > end:
                raise AssertionError(f"there are not {n} calls")
            time.sleep(0.005)

    def request(self, method, path, body=None, headers=None, timeout=PATIENCE):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        c.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json", **(headers or {})})
        return c.getresponse()

    def json(self, method, path, body=None, headers=None):
        r = self.request(method, path, body, headers)
        return r.status, json.loads(r.read())

    def stop(self, sig=signal.SIGTERM, timeout=PATIENCE):
        begin = time.time()
        self.process.send_signal(sig)
        self.log += self.process.stderr.read()
        return self.process.wait(timeout), time.time() - begin
