"""vllm-router with the policy kv_aware in front of two servers: a request that shares a prefix goes to the server that holds it, 20 of 20.

vllm_router.py PROGRAM MODEL FOLDER
"""
import os
import random
import sys
import time

from support import Engine, Process, cached_tokens, call, free_port, wait_for

PROGRAM, MODEL, FOLDER = sys.argv[1:4]
ROUTER = os.path.join(os.path.dirname(sys.executable), "vllm-router")
rng = random.Random(6)


def prompt(n):
    return [rng.randrange(100, 40000) for _ in range(n)]


def main():
    engines = [Engine(f"engine{i}", FOLDER, PROGRAM, MODEL) for i in range(2)]
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [ROUTER, "--host", "127.0.0.1", "--port", str(port), "--policy", "kv_aware", "--prometheus-port", str(free_port()), "--kv-event-block-size", "16",
               "--kv-event-model", "test-model", "--worker-urls", *[e.url for e in engines]]
    for e in engines:
        command += ["--kv-event-source", f"{e.url}={e.source['endpoint']}", "--kv-event-replay-source", f"{e.url}={e.source['replay_endpoint']}"]
    router = Process("router", FOLDER, command)
    try:
        wait_for(lambda: call(url, "/health")[0] == 200, 60)
        for e in engines:  # subscriptions take a moment; what came before is replayed
            e.complete(prompt(32))
        right = 0
        for i in range(20):
            shared = prompt(16 * rng.randrange(8, 40))
            holder = engines[rng.randrange(2)]
            holder.complete(shared + prompt(3))
            sent = holder.counter("isotope:kv_events_sent_total")
            wait_for(lambda: holder.counter("isotope:kv_events_sent_total") >= sent)
            time.sleep(0.3)  # the router's own time to take it in
            status, body = call(url, "/v1/completions", {"model": "test-model", "prompt": shared + prompt(5), "max_tokens": 1, "temperature": 0})
            assert status == 200, body
            hit = cached_tokens(body)
            right += hit == len(shared)
            if hit != len(shared):
                print(f"request {i}: {hit} of {len(shared)} tokens were cached where it went")
        print(f"vllm-router: {right} of 20 went to the holder")
        assert right == 20
    except BaseException:
        print("--- router\n" + router.text()[-4000:])
        raise
    finally:
        router.stop()
        for e in engines:
            e.stop()


if __name__ == "__main__":
    main()
