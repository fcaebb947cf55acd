"""Isotope's side: its programs and what they print."""
import json, os, statistics

import llama, processes
from servers import Server

KV_BYTES = 2 << 30  # of the server, as vLLM gets


def program(run, *words):
    out, _ = processes.run([run.isotope, *words])
    try:
        return json.loads(out)
    except ValueError:
        raise processes.Failed(f"isotope {words[0]} printed no JSON: {processes.last_lines(out)}")


def bench(run, model, prompts=(), generate=0, depth=0, isa=None):
    """As llama.bench; bf16 KV."""
    rows = program(run, "bench", "-m", model, "-t", str(run.threads), "-r", "1", "--json", "--kv", "bf16", "-p", ",".join(map(str, prompts)) or "0",
                   "-n", str(generate), "-d", str(depth), *(["--isa", isa] if isa else []))
    return llama.speeds(rows)


def batched(run, model, sequences, generate):
    rows = program(run, "bench", "-m", model, "-t", str(run.threads), "-r", "1", "--json", "--kv", "bf16", "-p", "0", "-n", str(generate), "--npl", str(sequences))
    return rows[0]["avg_ts"]


def explains(run):
    return "--explain" in processes.run([run.isotope, "bench", "--help"])[0]


def explain(run, model, prompt=0, generate=0, sequences=1):
    """Times of the ops of one test, as `isotope bench --explain` tells them."""
    rows = program(run, "bench", "-m", model, "-t", str(run.threads), "-r", "1", "--json", "-p", str(prompt), "-n", str(generate), "--npl", str(sequences), "--explain")
    return rows[0]["explain"]


def read_share(run, model, turns):
    """Share of the read bandwidth that generation reaches: the middle one of many turns of a few steps and of reading as many bytes, in one process."""
    rows = program(run, "bench", "-m", model, "-t", str(run.threads), "-r", "1", "--json", "--kv", "bf16", "-p", "0", "-n", "8", "--explain", "--turns", str(turns))
    return statistics.median(rows[0]["explain"]["read_shares"])


def server(run, model, log):
    def command(port):
        return [run.isotope, "serve", "--model", model, "--host", "127.0.0.1", "--port", str(port), "--threads", str(run.threads),
                "--kv-cache-memory-bytes", str(KV_BYTES)]
    return Server("isotope serve", command, log, patience=120)


def client(run, address, backend, seed, sizes, shared=0, requests=None, output=None):
    """One run of the serving client. Failed requests make the run fail: half an answer is no speed."""
    return program(run, "bench", "serve", "--base-url", address, "--backend", backend, "--num-prompts", str(requests or sizes.requests),
                   "--max-concurrency", str(sizes.concurrency), "--random-input-len", str(sizes.own), "--random-prefix-len", str(shared),
                   "--random-output-len", str(output or sizes.output), "--seed", str(seed), "--json")


def linear_cost(run, model):
    """{ops: of one token in a prompt, bytes: of the weights that a prompt reads, token_ops, token_bytes: the same of one generated token, which also needs
    the output head}, two operations a product."""
    tensors = program(run, "inspect", "--json", "--tensors", model)["tensors"]
    matrices = {t["name"]: t for t in tensors if len(t["shape"]) == 2}
    embedding = next((n for n in matrices if n.startswith("token_embd") or n.endswith("embed_tokens.weight")), None)
    heads = [n for n in matrices if n in ("output.weight", "lm_head.weight")] or [embedding]
    weights = lambda names: sum(matrices[n]["shape"][0] * matrices[n]["shape"][1] for n in names if n)
    size = lambda names: sum(matrices[n]["bytes"] for n in names if n)
    body = [n for n in matrices if n not in heads and n != embedding]
    return {"ops": 2 * weights(body), "bytes": size(body), "token_ops": 2 * weights(body + heads), "token_bytes": size(body + heads)}


def version(run):
    return processes.run([run.isotope, "--version"])[0].strip()


def limits(run):
    """The machine's limits as `isotope doctor` measures them."""
    facts = program(run, "doctor", "--json", "--threads", str(run.threads))
    return {"int8_ops": facts["int8_ops_per_s"], "read_bytes": facts["read_bytes_per_s"], "isa": facts["isa"]}


def built(run, name):
    """A program of bench/kernels beside this isotope, or None."""
    path = os.path.join(os.path.dirname(os.path.abspath(run.isotope)), "bench", "kernels", name)
    return path if os.path.exists(path) else None
