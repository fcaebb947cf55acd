"""Child processes that never outlive this one: each in a group of its own, ended by Ctrl-C, by an error and by our death."""
import ctypes, os, signal, subprocess, sys, threading, time

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
_children = set()
_lock = threading.Lock()


class Failed(RuntimeError):
    """A program of one side did not do what it should; the row fails, the others go on."""


def _dies_with_parent():
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def start(command, **kw):
    try:
        p = subprocess.Popen(command, start_new_session=True, preexec_fn=_dies_with_parent, **kw)
    except OSError as e:
        raise Failed(f"cannot start {command[0]}: {e.strerror}")
    with _lock:
        _children.add(p)
    return p


def tell(p, sig):
    try:
        os.killpg(p.pid, sig)
    except (ProcessLookupError, PermissionError):
        pass


def stop(p, patience=10):
    """Ends the whole group: politely, then not."""
    tell(p, signal.SIGCONT)
    tell(p, signal.SIGTERM)
    try:
        p.wait(patience)
    except subprocess.TimeoutExpired:
        pass
    tell(p, signal.SIGKILL)  # also what the leader left behind
    p.wait()
    with _lock:
        _children.discard(p)


def stop_all():
    for p in list(_children):
        stop(p, 3)


def run(command, timeout=1800, env=None, cwd=None):
    """(stdout, stderr) as text. Failed names the program and tells how it ended."""
    p = start(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", env=env, cwd=cwd)
    try:
        out, err = p.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Failed(f"{describe(command)} did not end within {timeout} s")
    finally:
        stop(p, 0 if p.poll() is not None else 5)
        p.stdout.close()
        p.stderr.close()
    if p.returncode:
        how = f"was ended by signal {-p.returncode}" if p.returncode < 0 else f"failed with status {p.returncode}"
        raise Failed(f"{describe(command)} {how}: {last_lines(err or out)}")
    return out, err


def say(command):
    print("  $ " + " ".join(command), file=sys.stderr, flush=True)


def describe(command):
    words = [w for w in command[1:] if not w.startswith("-")]
    return " ".join([os.path.basename(command[0])] + words[:1])


def last_lines(text, lines=4, characters=400):
    kept = [line for line in text.strip().splitlines() if line.strip()][-lines:]
    return " / ".join(kept)[-characters:] or "it said nothing"


def interrupt_on_terminate():
    """SIGTERM takes the same way out as Ctrl-C."""
    def handler(signum, frame):
        raise KeyboardInterrupt
    signal.signal(signal.SIGTERM, handler)
    signal.signal(signal.SIGHUP, handler)


def first_output(command, timeout=120):
    """(seconds from the start to the first byte on stdout, peak resident bytes, all of stdout) of one process."""
    read_end, write_end = os.pipe()
    begin = time.monotonic()
    p = start(command, stdin=subprocess.DEVNULL, stdout=write_end, stderr=subprocess.DEVNULL)
    os.close(write_end)
    timer = threading.Timer(timeout, tell, (p, signal.SIGKILL))
    timer.start()
    try:
        data = os.read(read_end, 65536)
        first = time.monotonic() - begin
        while more := os.read(read_end, 65536):
            data += more
        _, status, usage = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
    finally:
        timer.cancel()
        os.close(read_end)
        stop(p, 0)
    if p.returncode or not data:
        raise Failed(f"{describe(command)} ended with status {p.returncode} and {len(data)} bytes of answer")
    return first, usage.ru_maxrss * 1024, data.decode(errors="replace")
