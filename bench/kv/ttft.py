#!/usr/bin/env python3
"""What a prefix hit is worth in a live server: ttft.py PROGRAM [MODEL] [--pairs N] [--loads N]

Starts `isotope serve` twice, with the prefix cache and without it, and prints
 - the time to first token of prompts of 4096 shared and 16 own tokens against that of 128-token prompts, one at a time and in turns;
 - output tokens per second of 64 such requests with 16 output tokens each, all at once, with the cache and without it in turns.
What runs in turns sees the same machine, so the ratios hold on a busy one too; for the times take a quiet one.
"""
import argparse
import concurrent.futures
import pathlib
import random
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "kv_events"))
from support import Server, call  # noqa: E402

SHARED, OWN, SHORT, REQUESTS, OUTPUT = 4096, 16, 128, 64, 16
rng = random.Random(1)


def tokens(n):
    return [rng.randrange(100, 40000) for _ in range(n)]


def complete(url, ids, output=1):
    status, body = call(url, "/v1/completions", {"prompt": ids, "max_tokens": output, "temperature": 0, "ignore_eos": True, "timings": True}, timeout=3600)
    assert status == 200, body
    return body


def ttft(url, ids):
    return complete(url, ids)["timings"]["ttft_ms"]


def rate(url, shared):
    begin = time.time()
    with concurrent.futures.ThreadPoolExecutor(REQUESTS) as pool:
        list(pool.map(lambda _: complete(url, shared + tokens(OWN), OUTPUT), range(REQUESTS)))
    return REQUESTS * OUTPUT / (time.time() - begin)


def serve(name, folder, program, model, *flags):
    return Server(name, folder, program, model, "--kv-cache-memory-bytes", "3000000000", *flags)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("program")
    p.add_argument("model", nargs="?", default="smollm2-135m")
    p.add_argument("--pairs", type=int, default=15, help="pairs of a short prompt and a hit")
    p.add_argument("--loads", type=int, default=3, help="rounds of 64 requests with the cache and without it; 0 leaves them out, without it one takes minutes")
    a = p.parse_args()
    shared = tokens(SHARED)
    with tempfile.TemporaryDirectory() as folder:
        servers = [serve("cached", folder, a.program, a.model)]
        try:
            cached = servers[0].url
            complete(cached, shared + tokens(OWN))
            times = [(ttft(cached, tokens(SHORT)), ttft(cached, shared + tokens(OWN))) for _ in range(a.pairs)]
            short, hit = (statistics.median(t[k] for t in times) for k in (0, 1))
            ratios = sorted(h / s for s, h in times)
            print(f"time to first token: {SHORT} tokens {short:.1f} ms, {SHARED} cached + {OWN} own {hit:.1f} ms; "
                  f"ratio of pairs {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})", flush=True)
            if not a.loads:
                return
            servers.append(serve("plain", folder, a.program, a.model, "--no-enable-prefix-caching"))
            pairs = [(rate(cached, shared), rate(servers[1].url, shared)) for _ in range(a.loads)]
        finally:
            for s in servers:
                s.stop()
    fast, slow = (statistics.median(p[k] for p in pairs) for k in (0, 1))
    ratios = sorted(f / s for f, s in pairs)
    print(f"{REQUESTS} requests of {SHARED} + {OWN} tokens, {OUTPUT} output tokens each: {fast:.1f} tokens/s, without the cache {slow:.1f}; "
          f"ratio of pairs {statistics.median(ratios):.1f} ({ratios[0]:.1f} to {ratios[-1]:.1f})")


if __name__ == "__main__":
    main()
