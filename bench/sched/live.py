#!/usr/bin/env python3
"""What the prefill delayer and the balancing of prefill costs are worth in a live server at saturation: live.py PROGRAM [MODEL] [--rounds N]

Two engines on one core each that step together (--data-parallel-size 2 --dp-lockstep) get more requests than they can serve. Each comparison starts one
server for each setting and lets them work in turns, so that both see the same machine; it prints the figures of each and the ratio of their rates.
 - delayer: prompts of 256 tokens, answers of 32 to 224, on or off. Answers differ in length as those of users do: were they all alike, whole cohorts would end
   together and the prompts of both engines fall into the same steps by themselves.
 - balance: one prompt in four is eight times as long as the others, prefills gathered; costs evened out or left as they are
Run it on a quiet machine.
"""
import argparse
import concurrent.futures
import pathlib
import random
import re
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "kv_events"))
from support import Server, call  # noqa: E402

TOGETHER = ["--data-parallel-size", "2", "--dp-lockstep", "--threads", "2", "--kv-cache-memory-bytes", "1000000000", "--no-enable-prefix-caching"]
COMPARISONS = {
    "delayer": {
        "flags": ["--max-num-seqs", "16", "--max-num-batched-tokens", "512"],
        "settings": {"off": {"ATOM_ENABLE_PREFILL_DELAYER": "0"}, "on": {}, "on, 8 protected": {"ATOM_PREFILL_DECODE_INTERVAL": "8"}},
        "prompts": (256,), "output": (32, 224), "clients": 48,
    },
    "balance": {
        "flags": ["--max-num-seqs", "12", "--max-num-batched-tokens", "1024", "--dp-load-balance", "round_robin"],
        "settings": {"off": {"ATOM_PREFILL_DECODE_INTERVAL": "8", "ATOM_DP_PREFILL_BALANCE_SLACK": "1000"},
                     "on": {"ATOM_PREFILL_DECODE_INTERVAL": "8", "ATOM_DP_PREFILL_BALANCE_SLACK": "0.1", "ATOM_DP_PREFILL_BALANCE_MIN_TOKENS": "64"}},
        "prompts": (1024, 128, 128, 128), "output": (16, 80), "clients": 32,
    },
}


class Together(Server):
    def __init__(self, name, folder, program, model, flags, settings):
        super().__init__(name, folder, program, model, *TOGETHER, *flags, settings=settings)

    def counters(self):
        text = call(self.url, "/metrics")[1]
        return {name: sum(float(v) for v in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.M))
                for name in ("vllm:prompt_tokens_total", "isotope:prefill_steps_total", "isotope:dp_prefill_gave_back_tokens_total")}


def work(server, what, rng, requests):
    """Requests in a closed loop of so many clients; what happened."""
    bodies = []
    for _ in range(requests):
        ids = [rng.randrange(100, 40000) for _ in range(rng.choice(what["prompts"]))]
        bodies.append({"prompt": ids, "max_tokens": rng.randint(*what["output"]), "temperature": 0, "ignore_eos": True, "timings": True})
    before, start = server.counters(), time.time()
    with concurrent.futures.ThreadPoolExecutor(what["clients"]) as pool:
        answers = list(pool.map(lambda body: call(server.url, "/v1/completions", body, timeout=3600), bodies))
    took, after = time.time() - start, server.counters()
    assert all(status == 200 for status, _ in answers), answers[0]
    change = {k: after[k] - before[k] for k in after}
    ttft = sorted(a["timings"]["ttft_ms"] for _, a in answers)
    return {"output tokens/s": sum(b["max_tokens"] for b in bodies) / took, "requests/s": requests / took,
            "prompt tokens a prefill step": change["vllm:prompt_tokens_total"] / max(1, change["isotope:prefill_steps_total"]),
            "given back tokens": change["isotope:dp_prefill_gave_back_tokens_total"],
            "ttft mean s": statistics.mean(ttft) / 1000, "ttft p90 s": ttft[int(0.9 * len(ttft))] / 1000}


def compare(name, program, model, rounds, requests):
    what = COMPARISONS[name]
    results = {s: [] for s in what["settings"]}
    with tempfile.TemporaryDirectory() as folder:
        servers = {s: Together(f"{name}-{s}", folder, program, model, what["flags"], env) for s, env in what["settings"].items()}
        try:
            for s in servers.values():
                work(s, what, random.Random(-1), what["clients"])
            for turn in range(rounds):
                for s, server in servers.items():
                    results[s].append(work(server, what, random.Random(turn), requests))
        finally:
            for s in servers.values():
                s.stop()
    print(f"{name}: {rounds} rounds of {requests} requests, {what['clients']} clients, prompts of {what['prompts']} and answers of {what['output']} tokens; medians")
    print(f"  {'':<30}" + "".join(f"{s:>18}" for s in results))
    for key in results["off"][0]:
        print(f"  {key:<30}" + "".join(f"{statistics.median(r[key] for r in runs):18.2f}" for runs in results.values()))
    for s in list(results)[1:]:
        ratios = [b["output tokens/s"] / a["output tokens/s"] for a, b in zip(results["off"], results[s])]
        print(f"  rate {s} / off: {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("program")
    p.add_argument("model", nargs="?", default="smollm2-135m")
    p.add_argument("--only", choices=COMPARISONS)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--requests", type=int, default=144)
    a = p.parse_args()
    for name in [a.only] if a.only else COMPARISONS:
        compare(name, a.program, a.model, a.rounds, a.requests)


if __name__ == "__main__":
    main()
