#!/usr/bin/env python3
"""Starts `isotope serve` on a free port and runs one client program against it: run.py CLIENT --isotope PROGRAM --folder DIR

Exit status 77: skipped, because the client's package cannot be installed or the model is not in the cache.
"""
import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).resolve().parent
GGUF = "gguf==0.19.0"
TRANSFORMERS = ["torch==2.15.0", "transformers==5.24.0", GGUF]
CLIENTS = {"openai": ["openai==3.57.0"], "anthropic": ["anthropic==2.14.0"], "langchain": ["langchain-openai==1.7.4", "langchain==1.5.2"],
           "lm_eval": ["lm-eval[api,hf]==0.4.13", *TRANSFORMERS], "guidellm": ["guidellm==0.8.1", *TRANSFORMERS], "aiperf": ["aiperf==0.13.0", GGUF],
           "schemathesis": ["schemathesis==4.32.5"], "structured": ["jsonschema==4.26.0"], "json_schema_suite": ["jsonschema==4.26.0"], "page": ["playwright==1.65.2", "pillow==13.0.0"]}
# What a client's server is started with, besides its key and parser of tool calls.
FLAGS = {"schemathesis": ["--max-model-len", "96"], "lm_eval": ["--max-model-len", "2048", "--precision", "exact"]}
SKIPPED = 77


def environment(folder, name):
    """The client's Python, made at the first call."""
    home = folder / name
    python = home / "bin" / "python"
    stamp = home / "installed"
    wanted = " ".join(CLIENTS[name])
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    venv.create(home, with_pip=True, clear=True)
    done = subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *CLIENTS[name]], capture_output=True, text=True)
    if done.returncode:
        print(f"skipped: {wanted} cannot be installed:\n{done.stderr[-500:]}")
        sys.exit(SKIPPED)
    stamp.write_text(wanted)
    return python


class Server:
    """`isotope serve`; `url` once it answers."""

    def __init__(self, program, model, *flags):
        self.process = subprocess.Popen([program, "serve", "--model", model, "--port", "0", *flags], stderr=subprocess.PIPE, text=True)
        self.url, self.log = None, []
        for line in self.process.stderr:
            self.log.append(line)
            if found := re.search(r"ready: (http\S+)/v1", line):
                self.url = found[1]
                break
        if self.url is None:
            raise SystemExit("the server did not start:\n" + "".join(self.log))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        rest = self.process.stderr.read()
        status = self.process.wait(timeout=60)
        if status != 0:
            raise SystemExit(f"the server ended with status {status}:\n{rest}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("client", choices=CLIENTS)
    p.add_argument("--isotope", required=True)
    p.add_argument("--folder", type=pathlib.Path, required=True)
    p.add_argument("--model", default="smollm2-135m")
    a = p.parse_args()
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    gguf = f"{cache}/isotope/models/{a.model}.gguf" if a.model == "smollm2-135m" else a.model
    if a.model == "smollm2-135m" and not os.path.exists(gguf):
        print(f"skipped: {a.model} is not in the cache; run scripts/fetch-model {a.model}")
        sys.exit(SKIPPED)
    python = environment(a.folder, a.client)
    server = Server(a.isotope, a.model, "--api-key", "key-of-the-test", "--tool-call-parser", "hermes", *FLAGS.get(a.client, ["--max-model-len", "2048"]))
    try:
        client = subprocess.run([python, HERE / f"{a.client}_client.py", server.url, gguf], timeout=7200)
    finally:
        server.stop()
    sys.exit(client.returncode)


if __name__ == "__main__":
    main()
