"""llama.cpp as a measured peer: fetched by package name, built for this machine, run as programs."""
import contextlib, glob, json, os, re, socket, subprocess, sys, tarfile, time, urllib.request

PACKAGE = "llama-cpp-python"
TARGETS = ["llama-bench", "llama-perplexity", "llama-server"]
OFF = ["LLAMA_CURL", "LLAMA_OPENSSL", "LLAMA_BUILD_TESTS", "LLAMA_BUILD_EXAMPLES", "LLAMA_BUILD_UI", "LLAMA_BUILD_WEBUI"]


def run(command, **kw):
    print("  $ " + " ".join(command), file=sys.stderr)
    return subprocess.run(command, check=True, **kw)


def fetch(folder, version):
    """The unpacked source tree of the package."""
    found = glob.glob(os.path.join(folder, f"llama_cpp_python-{version}", "vendor", "llama.cpp"))
    if found:
        return found[0]
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run(pip + ["install", "scikit-build-core[pyproject]", "cmake", "ninja"])
    run(pip + ["download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--dest", folder, f"{PACKAGE}=={version}"])
    archive = glob.glob(os.path.join(folder, f"llama_cpp_python-{version}*.tar.gz"))[0]
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data") if hasattr(tarfile, "data_filter") else tar.extractall(folder)
    return glob.glob(os.path.join(folder, f"llama_cpp_python-{version}", "vendor", "llama.cpp"))[0]


def build(folder, version):
    """The folder with the programs; built on the first call."""
    tree = fetch(folder, version)
    out = os.path.join(tree, "build", "bin")
    if not all(os.path.exists(os.path.join(out, t)) for t in TARGETS):
        options = ["-DGGML_NATIVE=ON", "-DCMAKE_BUILD_TYPE=Release"] + [f"-D{o}=OFF" for o in OFF]
        run(["cmake", "-S", tree, "-B", os.path.join(tree, "build"), "-G", "Ninja"] + options, stdout=subprocess.DEVNULL)
        run(["cmake", "--build", os.path.join(tree, "build"), "--target"] + TARGETS, stdout=subprocess.DEVNULL)
    return out


def version(programs):
    out = subprocess.run([os.path.join(programs, "llama-bench"), "--version"], capture_output=True, text=True)
    return (out.stdout + out.stderr).strip().split("\n")[0]


def bench(programs, model, prompt, generate, threads):
    """{"prompt": tokens/s, "generation": tokens/s} of one run."""
    command = [os.path.join(programs, "llama-bench"), "-m", model, "-p", str(prompt), "-n", str(generate), "-t", str(threads), "-r", "1", "-o", "json"]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return speeds(rows)


def speeds(rows):
    """llama-bench's rows, which `isotope bench --json` has too."""
    return {"generation" if r["n_gen"] else "prompt": r["avg_ts"] for r in rows}


def perplexity(programs, model, text_file, window, windows, threads):
    """(perplexity, standard error) over the first windows of the text."""
    command = [os.path.join(programs, "llama-perplexity"), "-m", model, "-f", text_file, "--no-escape", "-c", str(window), "-b", str(window), "-t", str(threads),
               "-ctk", "f16", "-ctv", "f16", "--chunks", str(windows)]
    r = subprocess.run(command, capture_output=True, text=True)
    m = re.search(r"Final estimate: PPL = ([0-9.]+) \+/- ([0-9.]+)", r.stdout + r.stderr)
    if r.returncode or not m:
        raise RuntimeError("llama-perplexity failed:\n" + (r.stdout + r.stderr)[-2000:])
    return float(m[1]), float(m[2])


@contextlib.contextmanager
def server(programs, model):
    """A llama-server on a free port; yields its address."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    command = [os.path.join(programs, "llama-server"), "-m", model, "--host", "127.0.0.1", "--port", str(port), "-c", "256", "-t", "1", "--no-warmup"]
    p = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{port}"
        for _ in range(600):
            if p.poll() is not None:
                raise RuntimeError("llama-server ended at once")
            try:
                urllib.request.urlopen(address + "/health", timeout=5).read()
                break
            except OSError:
                time.sleep(0.5)
        yield address
    finally:
        p.terminate()
        p.wait()


def token_ids(programs, model, text):
    with server(programs, model) as address:
        body = json.dumps({"content": text, "add_special": True, "parse_special": False}).encode()
        request = urllib.request.Request(address + "/tokenize", body, {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request, timeout=600))["tokens"]
