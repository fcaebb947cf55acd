"""llama.cpp as a measured peer: fetched by package name, built for this machine or for AVX2 only, run as programs."""
import contextlib, glob, json, os, re, subprocess, sys, tarfile, urllib.request

import processes
from servers import Server

PACKAGE, VERSION = "llama-cpp-python", "0.3.36"
OFF = ["LLAMA_CURL", "LLAMA_OPENSSL", "LLAMA_BUILD_TESTS", "LLAMA_BUILD_EXAMPLES", "LLAMA_BUILD_UI", "LLAMA_BUILD_WEBUI"]
AVX512 = ["GGML_AVX512", "GGML_AVX512_VBMI", "GGML_AVX512_VNNI", "GGML_AVX512_BF16", "GGML_AVX_VNNI", "GGML_AMX_TILE", "GGML_AMX_INT8", "GGML_AMX_BF16"]
AVX2 = ["GGML_SSE42", "GGML_AVX", "GGML_AVX2", "GGML_BMI2", "GGML_FMA", "GGML_F16C"]
# variant -> (build folder, options, programs)
VARIANTS = {
    "native": ("build", ["-DGGML_NATIVE=ON"], ["llama-bench", "llama-batched-bench", "llama-completion", "llama-perplexity", "llama-server"]),
    "avx2": ("build-avx2", ["-DGGML_NATIVE=OFF"] + [f"-D{o}=ON" for o in AVX2] + [f"-D{o}=OFF" for o in AVX512], ["llama-bench"]),
}


def run(command, **kw):
    processes.say(command)
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


def programs(folder, version, variant):
    """The folder of a variant's programs if all are there, else None."""
    build, _, wanted = VARIANTS[variant]
    out = os.path.join(folder, f"llama_cpp_python-{version}", "vendor", "llama.cpp", build, "bin")
    return out if all(os.path.exists(os.path.join(out, p)) for p in wanted) else None


def build(folder, version, variant="native", jobs=None):
    """The folder with the programs; built on the first call. The environment's own cmake and ninja are used."""
    if found := programs(folder, version, variant):
        return found
    tree = fetch(folder, version)
    name, options, wanted = VARIANTS[variant]
    out = os.path.join(tree, name)
    cmake = os.path.join(os.path.dirname(sys.executable), "cmake")
    cmake = cmake if os.path.exists(cmake) else "cmake"
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", "")
    env = {**os.environ, "PATH": path}
    run([cmake, "-S", tree, "-B", out, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"] + options + [f"-D{o}=OFF" for o in OFF], stdout=subprocess.DEVNULL, env=env)
    run([cmake, "--build", out, "-j", str(jobs or os.cpu_count()), "--target"] + wanted, stdout=subprocess.DEVNULL, env=env)
    return programs(folder, version, variant)


def version(folder):
    out = subprocess.run([os.path.join(folder, "llama-bench"), "--version"], capture_output=True, text=True)
    return (out.stdout + out.stderr).strip().split("\n")[0]


def bench(folder, model, threads, prompts=(), generate=0, depth=0):
    """{("prompt", tokens): tokens/s, ("generation", depth): tokens/s} of one process; f16 KV."""
    command = [os.path.join(folder, "llama-bench"), "-m", model, "-t", str(threads), "-r", "1", "-o", "json", "-ctk", "f16", "-ctv", "f16",
               "-p", ",".join(map(str, prompts)) or "0", "-n", str(generate), "-d", str(depth)]
    return speeds(json.loads(processes.run(command)[0]))


def speeds(rows):
    """llama-bench's rows, which `isotope bench --json` has too."""
    return {("generation", r["n_depth"]) if r["n_gen"] else ("prompt", r["n_prompt"]): r["avg_ts"] for r in rows}


def batched(folder, model, threads, sequences, generate):
    """Generated tokens/s of all sequences together."""
    command = [os.path.join(folder, "llama-batched-bench"), "-m", model, "-t", str(threads), "-tb", str(threads), "-npp", "1", "-ntg", str(generate),
               "-npl", str(sequences), "-c", str(sequences * (generate + 16)), "-ctk", "f16", "-ctv", "f16", "--output-format", "jsonl"]
    rows = [json.loads(line) for line in processes.run(command)[0].splitlines() if line.startswith("{")]
    if not rows:
        raise processes.Failed("llama-batched-bench printed no result")
    return rows[-1]["speed_tg"]


def completion_command(folder, model, threads, prompt, context):
    return [os.path.join(folder, "llama-completion"), "-m", model, "-p", prompt, "-n", "1", "--temp", "0", "-t", str(threads), "-c", str(context),
            "-no-cnv", "--no-display-prompt", "--no-warmup", "-ctk", "f16", "-ctv", "f16"]


def perplexity(folder, model, text_file, window, windows, threads):
    """(perplexity, standard error) over the first windows of the text."""
    command = [os.path.join(folder, "llama-perplexity"), "-m", model, "-f", text_file, "--no-escape", "-c", str(window), "-b", str(window), "-t", str(threads),
               "-ctk", "f16", "-ctv", "f16", "--chunks", str(windows)]
    out, err = processes.run(command)
    m = re.search(r"Final estimate: PPL = ([0-9.]+) \+/- ([0-9.]+)", out + err)
    if not m:
        raise processes.Failed("llama-perplexity printed no estimate: " + processes.last_lines(out + err))
    return float(m[1]), float(m[2])


def server(folder, model, log, threads=1, slots=1, context=256):
    """A llama-server with `slots` sequences of `context` tokens each."""
    def command(port):
        return [os.path.join(folder, "llama-server"), "-m", model, "--host", "127.0.0.1", "--port", str(port), "-c", str(slots * context), "-np", str(slots),
                "-t", str(threads), "-tb", str(threads), "-ctk", "f16", "-ctv", "f16"]
    return Server("llama-server", command, log, patience=120)


def token_ids(folder, model, text, log):
    with contextlib.closing(ClosingServer(server(folder, model, log))) as s:
        body = json.dumps({"content": text, "add_special": True, "parse_special": False}).encode()
        request = urllib.request.Request(s.address + "/tokenize", body, {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request, timeout=600))["tokens"]


class ClosingServer:
    def __init__(self, server):
        self.server = server.start()
        self.address = self.server.address

    def close(self):
        self.server.stop()
