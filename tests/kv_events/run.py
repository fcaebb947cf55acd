#!/usr/bin/env python3
"""Published consumers of KV events against the server, each from its own package: run.py CONSUMER --isotope PROGRAM --folder DIR

The package goes into a virtual environment below DIR, or --python names one that has it. Exit status 77: skipped, because the package cannot be
installed or the model is not in the cache.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).resolve().parent
CONSUMERS = {"dynamo_indexer": "ai-dynamo-runtime==1.6.1", "vllm_router": "vllm-router==0.1.17"}
SKIPPED = 77


def environment(folder, consumer):
    home = folder / consumer
    python, stamp = home / "bin" / "python", home / "installed"
    if stamp.exists() and stamp.read_text() == CONSUMERS[consumer]:
        return python
    venv.create(home, with_pip=True, clear=True)
    done = subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", CONSUMERS[consumer]], capture_output=True, text=True)
    if done.returncode:
        print(f"skipped: {CONSUMERS[consumer]} cannot be installed:\n{done.stderr[-500:]}")
        sys.exit(SKIPPED)
    stamp.write_text(CONSUMERS[consumer])
    return python


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("consumer", choices=CONSUMERS)
    p.add_argument("--isotope", required=True)
    p.add_argument("--folder", type=pathlib.Path, required=True)
    p.add_argument("--model", default="smollm2-135m")
    p.add_argument("--python")
    a = p.parse_args()
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if a.model == "smollm2-135m" and not os.path.exists(f"{cache}/isotope/models/{a.model}.gguf"):
        print(f"skipped: {a.model} is not in the cache; run scripts/fetch-model {a.model}")
        sys.exit(SKIPPED)
    a.folder.mkdir(parents=True, exist_ok=True)
    python = a.python or environment(a.folder, a.consumer)
    done = subprocess.run([python, "-B", HERE / f"{a.consumer}.py", os.path.abspath(a.isotope), a.model, a.folder], timeout=1800)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
