"""Dynamo's indexer follows a live server, joins late, misses a stretch and recovers it by replay, and reports the blocks that the engine reports.

dynamo_indexer.py PROGRAM MODEL FOLDER
"""
import random
import sys

from support import Engine, Forwarder, Process, cached_tokens, call, free_port, wait_for

PROGRAM, MODEL, FOLDER = sys.argv[1:4]
BLOCK = 16
rng = random.Random(5)


def prompt(n):
    return [rng.randrange(100, 40000) for _ in range(n)]


def matched(indexer, ids):
    status, body = call(indexer, "/query", {"token_ids": ids, "model_name": "test-model"})
    assert status == 200, body
    numbers = [int(n) for ranks in body["scores"].values() for n in ranks.values()]
    return max(numbers, default=0)


def agree(indexer, engine, prompts, what):
    """The indexer's answer equals the cached tokens of a request that is longer by one token, the one that is never matched."""
    for ids in prompts:
        engine.complete(ids)
        cached = cached_tokens(engine.complete(ids + [7]))
        assert cached == len(ids) // BLOCK * BLOCK, (what, cached, len(ids))

        def same_answer():
            return matched(indexer, ids) == cached
        wait_for(same_answer, 20)
    print(f"{what}: {len(prompts)} prompts, same matched blocks")


def main():
    engine = Engine("engine", FOLDER, PROGRAM, MODEL)
    live = Forwarder(int(engine.source["endpoint"].rsplit(":", 1)[1]))
    port = free_port()
    indexer_url = f"http://127.0.0.1:{port}"
    indexer = Process("indexer", FOLDER, [sys.executable, "-m", "dynamo.indexer", "--port", str(port), "--threads", "1"])
    try:
        wait_for(lambda: call(indexer_url, "/health")[0] == 200)
        early = [prompt(n) for n in (16, 33, 100, 500)]
        for ids in early:  # before anybody listens: only a replay can tell of them
            engine.complete(ids)
        status, body = call(indexer_url, "/register", {"instance_id": 1, "endpoint": f"tcp://127.0.0.1:{live.port}", "model_name": "test-model", "block_size": BLOCK,
                                                       "dp_rank": 0, "replay_endpoint": engine.source["replay_endpoint"]})
        assert status in (200, 201), body
        agree(indexer_url, engine, [prompt(n) for n in (48, 260)] + early, "after a late join")
        replayed = engine.counter("isotope:kv_events_replayed_total")
        assert replayed > 0, "the late join asked for no replay"

        live.cut()
        missed = [prompt(n) for n in (64, 129, 300)]
        for ids in missed:
            engine.complete(ids)
        assert matched(indexer_url, missed[0]) == 0
        live.mend()
        fresh = []

        def told_again():  # the next live batch shows the gap
            fresh.append(prompt(32))
            engine.complete(fresh[-1])
            return matched(indexer_url, missed[2]) > 0
        wait_for(told_again, 60)
        agree(indexer_url, engine, missed + fresh + early, "after a missed stretch")
        assert engine.counter("isotope:kv_events_replayed_total") > replayed, "the gap asked for no replay"

        stranger = prompt(64)
        assert matched(indexer_url, stranger) == 0
        branch = early[3][:200] + prompt(100)
        assert matched(indexer_url, branch) == 192 == cached_tokens(engine.complete(branch)), "a branch inside a block"
        call(engine.url, "/reset_prefix_cache", {})
        wait_for(lambda: matched(indexer_url, early[3]) == 0, 20)
        print("a reset empties the indexer")
        assert engine.counter("isotope:kv_events_dropped_total") == 0
    except BaseException:
        print("--- indexer\n" + indexer.text()[-3000:] + "\n--- engine\n" + engine.text()[-3000:])
        raise
    finally:
        indexer.stop()
        engine.stop()
    print("dynamo.indexer: ok")


if __name__ == "__main__":
    main()
