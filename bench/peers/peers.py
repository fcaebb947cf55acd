"""Compares isotope with llama.cpp on the same files. Started by `compare`; see README.md."""
import argparse, datetime, json, os, platform, subprocess, sys

import draw, llama, perplexity, speed

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "isotope", "models")
MODELS = ["smollm2-135m", "gemma3-270m"]


def arguments():
    p = argparse.ArgumentParser(prog="compare", description=__doc__)
    p.add_argument("what", nargs="?", choices=["all", "speed", "perplexity", "build"], default="all", help="build: only fetch and build llama.cpp")
    p.add_argument("--model", action="append", metavar="NAME[=FILE]", help="a built-in model, or a name for a GGUF file; repeatable (default: both built-in models)")
    p.add_argument("--isotope", default=os.path.join(ROOT, "build", "release", "isotope"), help="the program")
    p.add_argument("--llama-bin", help="folder of llama.cpp programs that are built already")
    p.add_argument("--llama-version", default="0.3.36", help="version of the package llama-cpp-python")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--pairs", type=int, default=5)
    p.add_argument("--prompt", type=int, default=512)
    p.add_argument("--generate", type=int, default=128)
    p.add_argument("--window", type=int, default=512)
    p.add_argument("--windows", type=int, default=13)
    p.add_argument("--tolerance", type=float, default=0.005)
    p.add_argument("--text", help="text for perplexity (default: licence texts of the system)")
    p.add_argument("--out", default=os.path.join(ROOT, "build", "peers", "results"))
    return p.parse_args()


def models(a):
    out = {}
    for m in a.model or MODELS:
        name, _, file = m.partition("=")
        out[name] = file or os.path.join(CACHE, name + ".gguf")
        if not os.path.exists(out[name]):
            raise SystemExit(f"compare: {out[name]} does not exist; scripts/fetch-model {name} fetches it")
    return out


def machine():
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    return {"cpu": cpu, "cores": os.cpu_count(), "load": os.getloadavg()[0]}


def main():
    a = arguments()
    os.makedirs(a.out, exist_ok=True)
    if a.what != "build" and not os.path.exists(a.isotope):
        raise SystemExit(f"compare: {a.isotope} does not exist; make build makes it")
    a.llama_bin = a.llama_bin or llama.build(os.path.join(ROOT, "build", "peers"), a.llama_version)
    if a.what == "build":
        return print(a.llama_bin)
    host = machine()
    if host["load"] > 0.5:
        print(f"compare: the machine is busy (load {host['load']:.1f}); speeds will mislead", file=sys.stderr)
    report = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "machine": host, "threads": a.threads,
              "llama": llama.version(a.llama_bin), "isotope": subprocess.run([a.isotope, "--version"], capture_output=True, text=True).stdout.strip()}
    failed = False
    if a.what in ("all", "speed"):
        report["speed"] = {name: speed.compare(a, name, file) for name, file in models(a).items()}
        print(speed.table(report["speed"], a))
        with open(os.path.join(a.out, "speed.svg"), "w") as f:
            f.write(draw.svg(report["speed"], f"Prompt {a.prompt} and generation {a.generate}, {a.threads} threads", f"{host['cpu']}, {a.pairs} interleaved pairs"))
    if a.what in ("all", "perplexity"):
        report["perplexity"] = {}
        for name, file in models(a).items():
            r = report["perplexity"][name] = perplexity.compare(a, name, file)
            print(perplexity.line(name, r, a), flush=True)
            failed = failed or not r["ok"]
    path = os.path.join(a.out, f"{a.what}.json")
    with open(path, "w") as f:
        json.dump(report, f, indent=1)
    print("written: " + path)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
