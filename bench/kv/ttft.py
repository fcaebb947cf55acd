#!/usr/bin/env python3
"""What a prefix hit is worth in a live server: ttft.py PROGRAM [MODEL]

Starts `isotope serve` twice, with the prefix cache and without it, and prints
 - the time to first token of prompts of 4096 shared and 16 own tokens, one at a time, against that of 128-token prompts;
 - output tokens per second of 64 such requests with 16 output tokens each, all at once.
Run it on a quiet machine.
"""
import concurrent.futures
import pathlib
import random
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "kv_events"))
from support import Process, call, wait_for  # noqa: E402

PROGRAM = sys.argv[1]
MODEL = sys.argv[2] if len(sys.argv) > 2 else "smollm2-135m"
SHARED, OWN, SHORT, REQUESTS, OUTPUT, REPEATS = 4096, 16, 128, 64, 16, 15
rng = random.Random(1)


def tokens(n):
    return [rng.randrange(100, 40000) for _ in range(n)]


def complete(url, ids, output=1):
    status, body = call(url, "/v1/completions", {"prompt": ids, "max_tokens": output, "temperature": 0, "ignore_eos": True, "timings": True}, timeout=3600)
    assert status == 200, body
    return body


def ttft(url, prompts):
    return statistics.median(complete(url, ids)["timings"]["ttft_ms"] for ids in prompts)


def measure(flags, folder):
    server = Process("server", folder, [PROGRAM, "serve", "--model", MODEL, "--port", "0", *flags])
    try:
        url = wait_for(lambda: next((w for w in server.text().split() if w.startswith("http://") and w.rstrip("/").endswith("/v1")), None), 300)[:-3].rstrip("/")
        shared = tokens(SHARED)
        complete(url, shared + tokens(OWN))
        short = ttft(url, [tokens(SHORT) for _ in range(REPEATS)])
        long = ttft(url, [shared + tokens(OWN) for _ in range(REPEATS if not flags else 3)])
        begin = time.time()
        with concurrent.futures.ThreadPoolExecutor(REQUESTS) as pool:
            list(pool.map(lambda _: complete(url, shared + tokens(OWN), OUTPUT), range(REQUESTS)))
        return short, long, REQUESTS * OUTPUT / (time.time() - begin)
    finally:
        server.stop()


def main():
    with tempfile.TemporaryDirectory() as folder:
        short, hit, fast = measure([], folder)
        _, cold, slow = measure(["--no-enable-prefix-caching"], folder)
    print(f"time to first token: {SHORT} tokens {short:.1f} ms, {SHARED} cached + {OWN} own {hit:.1f} ms ({hit / short:.2f} x), without the cache {cold:.0f} ms")
    print(f"{REQUESTS} requests of {SHARED} + {OWN} tokens, {OUTPUT} output tokens each: {fast:.1f} tokens/s, without the cache {slow:.1f} ({fast / slow:.1f} x)")


if __name__ == "__main__":
    main()
