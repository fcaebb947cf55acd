"""isotope serve: start, flags, signals. serve_test.py PROGRAM"""
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from support import ISOTOPE, MODEL, PATIENCE, Server, need_model, run

LONG = {"prompt": "Once upon a time", "max_tokens": 4000, "ignore_eos": True, "stream": True}


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Flags(unittest.TestCase):
    def test_spellings_of_other_engines(self):
        log = tempfile.mktemp()
        s = Server("--served-model-name", "first", "--served-model-name", "second", "--max_model_len", "1024", "--max-num-seqs", "8", "--kv_cache_dtype", "bf16",
                   "--block-size", "16", "--enable_prefix_caching", "--no-enable_chunked_prefill", "-tp", "1", "--gpu-memory-utilization", "0.5", "--enforce-eager",
                   "--cudagraph-mode", "FULL", "--trust-remote-code", "--level", "3", "--api-key", "secret-one", "--request-log", log,
                   env={"ISOTOPE_API_KEY": "secret-two"})
        try:
            self.assertEqual(s.json("GET", "/v1/models")[0], 401)
            for key in ("secret-one", "secret-two"):
                status, models = s.json("GET", "/v1/models", headers={"Authorization": f"Bearer {key}"})
                self.assertEqual(([m["id"] for m in models["data"]], models["data"][0]["max_model_len"]), (["first", "second"], 1024))
            headers = {"Authorization": "Bearer secret-one"}
            config = s.json("GET", "/config", headers=headers)[1]
            flags = {f["name"]: f for f in config["flags"]}
            self.assertEqual((flags["--max-model-len"]["value"], flags["--max-model-len"]["source"]), ("1024", "command line"))
            self.assertEqual(flags["--host"]["source"], "default")
            self.assertNotIn("secret", json.dumps(config))
            self.assertGreater(len(config["levers"]), 200)
            self.assertEqual(s.json("POST", "/v1/completions", {"prompt": "a", "max_tokens": 2}, headers)[0], 200)
        finally:
            status, _ = s.stop()
        self.assertEqual(status, 0, s.log)
        for name in ("enforce-eager", "cudagraph-mode", "trust-remote-code", "level"):
            self.assertIn(f"--{name} has no effect", s.log)
        with open(log) as f:
            line = json.loads(f.readline())
        self.assertEqual((line["outcome"], line["completion_tokens"]), ("completed", 2))

    def test_dummy_weights_are_not_what_is_served_by_default(self):
        with_default = Server()
        try:
            flags = {f["name"]: f for f in with_default.json("GET", "/config")[1]["flags"]}
            self.assertEqual((flags["--load-dummy"]["value"], flags["--load-dummy"]["source"]), ("none", "default"))
        finally:
            with_default.stop()

    def test_refused_wishes(self):
        for args, text in [(["-tp", "2"], "tensor parallelism"), (["--method", "mtp"], "speculative"), (["--load_dummy", "zero"], "dummy"),
                           (["--default-chat-template-kwargs", "[1]"], "no JSON object"), (["--hf-overrides", "x"], "no JSON object"),
                           (["--override-generation-config", '{"temperature": "x"}'], "temperature"), (["--request-log", "/none/x"], "/none/x"), (["--context-shift"], "a full context ends the answer")]:
            r = run("serve", "--model", MODEL, "--port", "0", *args)
            self.assertIn(r.returncode, (1, 2), args)
            self.assertIn(text, r.stderr)
        r = run("serve", "--model", "/none.gguf", "--port", "0")
        self.assertIn("/none.gguf", r.stderr)

    def test_several_models(self):
        encoder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "embeddings", "goldens", "bert-mean")
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        same = f"two={cache}/isotope/models/{MODEL}.gguf"
        s = Server("--model", same, "--models-max", "2", "--pin", MODEL, "--sleep-idle-seconds", "1000", "--max-model-len", "256")
        try:
            models = s.json("GET", "/v1/models")[1]["data"]
            self.assertEqual([(m["id"], m["status"]["value"]) for m in models], [(MODEL, "loaded"), ("two", "unloaded")])
            for name in (MODEL, "two", MODEL):
                status, answer = s.json("POST", "/v1/completions", {"model": name, "prompt": "The capital of France is", "max_tokens": 3, "temperature": 0})
                self.assertEqual((status, answer["model"]), (200, name))
            self.assertEqual([m["status"]["value"] for m in s.json("GET", "/v1/models")[1]["data"]], ["loaded", "loaded"])
            self.assertEqual(s.json("GET", "/health")[0], 200)
        finally:
            self.assertEqual(s.stop()[0], 0, s.log)
        for args, text in ((["--model", "x=" + encoder, "--model", "x=" + encoder], "two models are called 'x'"), (["--model", encoder, "--pin", "y"], "no model is called 'y'"),
                           (["--models-dir", "/none"], "/none"), (["--model", "x=/none.gguf"], "/none.gguf")):
            r = subprocess.run([ISOTOPE, "serve", "--port", "0", *args], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
            self.assertIn(r.returncode, (1, 2))
            self.assertIn(text, r.stderr)

    def refuses(self, text, *args, status=(1, 2), env=None):
        r = subprocess.run([ISOTOPE, "serve", "--model", "/none.gguf", "--port", "0", *args], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
                           env={**os.environ, **(env or {})})
        self.assertIn(r.returncode, status, (args, r.stderr))
        self.assertIn(text, r.stderr, args)
        return r.stderr

    def test_empty_values(self):
        for flag in ("--api-key", "--host", "--served-model-name", "--chat-template", "--request-log", "--allowed-origins", "--override-generation-config"):
            self.assertIn(flag, self.refuses("the value is empty", flag, ""))
        self.refuses("the value is empty", "--api-key", "good", "--api-key", "")
        self.refuses("ISOTOPE_API_KEY", env={"ISOTOPE_API_KEY": ""})
        self.refuses("a space or a control character", "--api-key", "two words")

    def test_numbers_that_are_none(self):
        for flag in ("--max-body-mb", "--shutdown-timeout", "--timeout-keep-alive", "--health-stall-seconds", "--gpu-memory-utilization", "--seed"):
            for value in ("nan", "-nan", "inf", "x"):
                self.refuses(flag, flag, value, status=range(1, 128))

    def test_sampling_defaults_with_a_typo(self):
        self.refuses("did you mean temperature?", "--override-generation-config", '{"temprature": 1}')
        self.refuses("the names are temperature", "--override-generation-config", '{"eos_token_id": 1}')

    def test_flags_of_other_engines_without_effect(self):
        for args in (["--cudagraph-capture-sizes", "1", "2", "4"], ["--cudagraph_capture_sizes", "[1,2,4]"], ["--enable-tbo"], ["--enable-tbo", "all"],
                     ["--enable-auto-tool-choice"], ["--reasoning-format", "deepseek"], ["--uvicorn-log-level", "info"], ["-ngl", "99"], ["--flash-attn"],
                     ["-fa", "on"], ["-O3"], ["-cc.mode=3"], ["--compilation-config.mode", "3"], ["--jinja"], ["-ub", "512"]):
            self.assertIn("/none.gguf", self.refuses("has no effect", *args))
        for args in (["-np", "4"], ["-a", "name"], ["--seed", "18446744073709551615"], ["-s", "-1"], ["-tp", "1"], ["-tp=1"], ["--device", "cpu"], ["-c", "64"],
                     ["--quantization", "none"], ["--load_dummy", "none"], ["--load-dummy"], ["--kv-transfer-config", "{}"], ["--no-mtp"], ["--no_mtp"],
                     ["--no-nextn"]):
            self.assertIn("/none.gguf", self.refuses("", *args))
        self.assertIn("/none.gguf", self.refuses("", "--enable-tbo", "--enforce-eager"))

    def test_parsers_of_tools_and_reasoning(self):
        for args in (["--tool-call-parser", "hermes"], ["--tool_call_parser", "none"], ["--reasoning-parser", "qwen3"], ["--reasoning-parser", "auto"]):
            self.assertIn("/none.gguf", self.refuses("", *args))
        self.assertIn("hermes, ", self.refuses("there is no parser 'xlam'", "--tool-call-parser", "xlam"))
        self.assertIn("deepseek_r1, ", self.refuses("there is no parser 'granite'", "--reasoning-parser", "granite"))

    def test_flags_of_other_engines_that_cannot_be_met(self):
        for args, text in ((["--tokenizer", "x"], "the tokenizer comes with the model"), (["--ssl-keyfile", "x"], "TLS"), (["--enable-lora"], "LoRA"),
                           (["-md", "x"], "speculative"), (["-sc", '{"method": "mtp"}'], "speculative"), (["--speculative-config.method", "mtp"], "speculative"),
                           (["--temp", "0.5"], "--override-generation-config"),
                           (["-ctk", "q8_0"], "--kv-cache-dtype"), (["--device", "cuda"], "CPU")):
            self.assertIn("leave the flag out", self.refuses(text, *args))

    def test_model_as_llama_server_spells_it(self):
        r = run("serve", "-m", "/other.gguf", "--port", "0")
        self.assertIn("/other.gguf", r.stderr)

    def test_a_template_of_ones_own(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jinja") as f:
            f.write("{% for m in messages %}[{{ m.role }}|{{ m.content }}|{{ mood | default('calm') }}]{% if m.role == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}{% endfor %}")
            f.flush()
            s = Server("--chat-template", f.name, "--default-chat-template-kwargs", '{"mood": "glad"}')
        try:
            hi = {"messages": [{"role": "user", "content": "hi"}]}
            self.assertEqual(s.json("POST", "/apply_template", hi)[1]["prompt"], "[user|hi|glad]")
            self.assertEqual(s.json("POST", "/apply_template", {**hi, "chat_template_kwargs": {"mood": "sad"}})[1]["prompt"], "[user|hi|sad]")
            status, error = s.json("POST", "/v1/chat/completions", {"messages": [{"role": "tool", "content": "x"}], "max_tokens": 1})
            self.assertEqual((status, "no tools here" in error["error"]["message"]), (400, True), error)
        finally:
            s.stop()

    def test_server_port_wins(self):
        line = "already in use"
        while "already in use" in line:  # somebody else may take a port that was free a moment ago
            with socket.socket() as s:
                s.bind(("127.0.0.1", 0))
                port = s.getsockname()[1]
            p = subprocess.Popen([ISOTOPE, "serve", "--model", MODEL, "--port", "8006", "--server-port", str(port), "--kv-cache-memory-bytes", "100000000"],
                                 stderr=subprocess.PIPE, text=True)
            line = p.stderr.readline()
            p.terminate()
            p.stderr.read()
            status = p.wait(PATIENCE)
            p.stderr.close()
        self.assertIn(f":{port},", line)
        self.assertEqual(status, 0)

    def test_port_in_use(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen()
            r = run("serve", "--model", MODEL, "--port", str(s.getsockname()[1]))
        self.assertEqual(r.returncode, 1)
        self.assertIn("already in use", r.stderr)

    def test_a_broken_model_is_an_error(self):
        with tempfile.NamedTemporaryFile(suffix=".gguf") as f:
            f.write(b"GGUF\x03\x00\x00\x00" + b"\xff" * 16)
            f.flush()
            r = run("serve", "--model", f.name, "--port", "0")
        self.assertEqual(r.returncode, 1)
        self.assertIn(f.name, r.stderr)


class Life(unittest.TestCase):  # field reports X02, X03
    def test_an_idle_server_sleeps_and_stops_at_once(self):
        s = Server()
        s.json("POST", "/v1/completions", {"prompt": "a", "max_tokens": 2})
        begin = cpu_seconds(s.process.pid)
        time.sleep(10)
        self.assertLess(cpu_seconds(s.process.pid) - begin, 0.1)  # 1 %
        status, _ = s.stop()
        self.assertEqual(status, 0, s.log)

    def test_a_stream_ends_with_an_error_event(self):
        for sig in (signal.SIGTERM, signal.SIGINT):
            s = Server("--shutdown-timeout", "0.3")
            r = s.request("POST", "/v1/completions", LONG)
            r.readline()
            status, seconds = s.stop(sig)
            events = [json.loads(l[6:]) for l in r.read().decode().splitlines() if l.startswith("data: {")]
            self.assertEqual(status, 0, s.log)
            self.assertEqual(events[-1]["error"]["code"], 503)
            self.assertLess(seconds, 30)

    def test_answers_that_can_end_in_time_do(self):
        s = Server("--shutdown-timeout", "60")
        r = s.request("POST", "/v1/completions", {**LONG, "max_tokens": 60})
        r.readline()
        status, _ = s.stop()
        body = r.read().decode()
        self.assertEqual(status, 0, s.log)
        self.assertIn('"finish_reason":"length"', body)
        self.assertTrue(body.endswith("data: [DONE]\n\n"))

    def test_a_long_prefill_does_not_hold_the_end_up(self):
        s = Server("--shutdown-timeout", "0.2", "--threads", "1", "--max-model-len", "8192")
        body = {"prompt": [i % 40000 + 10 for i in range(8000)], "max_tokens": 190, "ignore_eos": True}
        got = []
        t = threading.Thread(target=lambda: got.append(s.json("POST", "/v1/completions", body)))
        t.start()
        s.wait_for_calls(1)
        self.assertEqual(s.json("GET", "/health")[0], 200)
        status, seconds = s.stop()
        t.join()
        self.assertEqual(status, 0, s.log)
        self.assertEqual(got[0][0], 503)
        self.assertLess(seconds, 40)

    def test_a_second_signal_ends_at_once(self):
        s = Server("--shutdown-timeout", "100")
        r = s.request("POST", "/v1/completions", LONG)
        r.readline()
        s.process.send_signal(signal.SIGTERM)
        s.expect("a second signal ends at once")  # two signals at the same moment would be one
        status, seconds = s.stop()
        self.assertEqual(status, 128 + signal.SIGTERM)
        self.assertLess(seconds, 50)

    def test_a_signal_while_loading(self):
        s = Server(wait=False)
        s.log += s.process.stderr.readline()
        self.assertIn("listening", s.log)
        status, seconds = s.stop()
        self.assertEqual(status, 0, s.log)
        self.assertLess(seconds, 30)

    def test_health_from_the_start(self):
        s = Server(wait=False)
        s.port = int(s.process.stderr.readline().split(",")[0].rsplit(":", 1)[1])
        seen = []
        while not seen or seen[-1] != 200:
            seen.append(s.json("GET", "/health")[0])
        self.assertTrue(set(seen) <= {200, 503}, seen)
        self.assertEqual(s.json("GET", "/v1/models")[0], 200)
        s.stop()


    def test_variables_rule_flags_of_stored_states(self):
        def settings(*args, env=None):
            s = Server(*args, env=env or {})
            try:
                rows = {r["name"]: r["value"] for r in s.json("GET", "/config")[1]["levers"]}
                return rows["ATOM_STATE_CHECKPOINT_INTERVAL_TOKENS"], rows["ATOM_STATE_CHECKPOINT_DEMAND"]
            finally:
                s.stop()
        self.assertEqual(settings("--state-checkpoint-interval-tokens", "512", "--no-state-checkpoint-demand"), ("512", "false"))
        env = {"ATOM_STATE_CHECKPOINT_INTERVAL_TOKENS": "64"}
        self.assertEqual(settings("--state_checkpoint_interval_tokens", "512", "--state-checkpoint-demand", env=env), ("64", "true"))

class Explain(unittest.TestCase):
    def test_what_shaped_a_request(self):
        s = Server("--data-parallel-size", "2", "--max-num-batched-tokens", "64", "--max-model-len", "1024")
        try:
            body = {"prompt": [i % 30000 + 100 for i in range(161)], "max_tokens": 3, "ignore_eos": True, "data_parallel_rank": 1}
            for i in range(2):
                self.assertEqual(s.json("POST", "/v1/completions", body, {"X-Request-Id": f"mine-{i}"})[0], 200)
            status, answer = s.json("GET", "/requests/cmpl-mine-0")
            self.assertEqual(status, 200)
            first = answer["requests"][0]
            self.assertEqual((first["state"], first["rank"], first["chunks"], first["cached_tokens"]), ("length", 1, 3, 0))
            self.assertEqual([d["kind"] for d in first["decisions"]], ["routed", "admitted", "chunk", "chunk", "chunk", "first_token", "finished"])
            second = s.json("GET", "/requests/mine-1")[1]["requests"][0]
            self.assertEqual((second["cached_tokens"], second["chunks"]), (160, 1), "a prompt of ten blocks and one token")
            self.assertEqual(len(s.json("GET", "/requests")[1]["requests"]), 2)
            self.assertEqual(s.json("GET", "/requests/nobody")[0], 404)
            self.assertEqual(s.json("GET", "/requests/" + "x" * 3000)[0], 404)
            url = f"http://127.0.0.1:{s.port}"
            text = run("explain", "mine-1", "--url", url)
            self.assertEqual(text.returncode, 0, text.stderr)
            for words in ("routed to rank 1 and charged 161 tokens: explicit rank", "160 of 161 tokens found in the cache", "computed 1 tokens from position 160"):
                self.assertIn(words, text.stdout)
            self.assertIn("cmpl-mine-0", run("explain", "--url", url).stdout)
            told = json.loads(run("explain", "mine-1", "--json", "--url", url).stdout)["requests"][0]
            self.assertEqual(told["label"], "cmpl-mine-1")
            reason = told["cache_reason"]  # of the part that was found; the words say the same
            self.assertEqual("not more of it cached: %s at token %d" % (reason["cause"], reason["position"]) if reason else "", reason and next(
                line.strip() for line in text.stdout.splitlines() if "not more of it cached" in line) or "")
            missing = run("explain", "nobody", "--url", url)
            self.assertEqual(missing.returncode, 1)
            self.assertIn("no request", missing.stderr)
        finally:
            status, _ = s.stop()
        self.assertEqual(status, 0, s.log)
        self.assertIn("cannot reach", run("explain", "--url", url).stderr)
        self.assertEqual(run("explain", "--url", "https://x").returncode, 2)

    def test_census_and_thresholds(self):
        s = Server(env={"ATOM_GC_THRESHOLD": "3,1,1", "ATOM_GC_DEBUG": "1"})
        try:
            for _ in range(30):
                s.json("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1})
            census = s.json("GET", "/debug/gc_census?top=2&types_per_owner=1")[1]
            self.assertEqual((census["thresholds"], len(census["by_type"])), ([3, 1, 1], 2))
            self.assertGreater(census["frozen"], 0)
            self.assertEqual(len(census["by_owner"]["engine"]["types"]), 1)
            metrics = s.request("GET", "/metrics").read().decode()
            self.assertIn('atom:gc_threshold{generation="0"} 3.0', metrics)
            self.assertIn('atom:gc_uncollectable_total{generation="2"} 0.0', metrics)
            self.assertNotIn('atom:gc_collections_total{generation="0"} 0.0', metrics)
        finally:
            s.stop()
        self.assertIn("[gc] server: froze", s.log)
        self.assertIn("[gc] server: gen-0 took", s.log)

    def test_without_the_freeze_nothing_is_exempt(self):
        s = Server(env={"ATOM_GC_FREEZE": "0", "ATOM_GC_THRESHOLD": "700,10"})
        self.assertEqual(s.json("GET", "/debug/gc_census")[1]["frozen"], 0)
        s.stop()
        self.assertEqual(s.log.count("ATOM_GC_THRESHOLD"), 1, "a wrong value is one warning and changes nothing")


class KvEvents(unittest.TestCase):
    def test_a_router_sees_who_publishes_and_in_which_blocks(self):  # field report X14: what a worker can do for a router that would guess
        on = {"ATOM_KV_EVENTS_ENABLE": "1", "ATOM_KV_EVENTS_ENDPOINT": "tcp://127.0.0.1:0"}
        for env, flags, publishes in [({}, ["--block-size", "32"], False), (on, ["--no-enable-prefix-caching"], False), (on, ["--block-size", "32"], True)]:
            s = Server(*flags, env=env)
            try:
                sources = s.json("GET", "/kv_event_sources")[1]
                self.assertEqual(sources.get("0", {}).get("enable_kv_cache_events", False), publishes)
                self.assertIn(f'block_size="{"32" if flags[0] == "--block-size" else "16"}"', s.request("GET", "/metrics").read().decode())
            finally:
                self.assertEqual(s.stop()[0], 0, s.log)
            self.assertEqual("no KV events are published" in s.log, bool(env) and not publishes, "asked for and impossible: the log says so")


class DataParallel(unittest.TestCase):
    def test_the_same_text_with_one_and_two_engines(self):
        texts = []
        for env in ({}, {"ATOM_DP_SIZE": "2"}):
            s = Server("--threads", "2", env=env)
            try:
                self.assertEqual(s.json("GET", "/server_info")[1]["dp_size"], 2 if env else 1)
                body = {"prompt": ["Once upon a time", "The sea", "Two and two", "A cat"], "max_tokens": 12, "temperature": 0.8, "seed": 5}
                texts.append([c["text"] for c in s.json("POST", "/v1/completions", body)[1]["choices"]])
                if env:
                    metrics = s.request("GET", "/metrics").read().decode()
                    self.assertIn('atom:dp_requests_routed_total{rank="1"} 2.0', metrics)
                    status, answer = s.json("POST", "/v1/completions", {"prompt": "a", "data_parallel_rank": 2})
                    self.assertEqual((status, answer["error"]["param"]), (400, "data_parallel_rank"))
                    self.assertEqual(s.json("POST", "/v1/completions", {"prompt": "a"}, {"X-Data-Parallel-Rank": "x"})[0], 400)
            finally:
                status, _ = s.stop()
            self.assertEqual(status, 0, s.log)
        self.assertEqual(texts[0], texts[1])

    def test_processes_that_step_together(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = str(free.getsockname()[1])
        group = {"ATOM_DP_SIZE": "2", "ATOM_DP_MASTER_PORT": port}
        servers = [Server("--threads", "1", "--dp-lockstep", wait=False, env={**group, "ATOM_DP_RANK": str(k)}) for k in (1, 0)]
        try:
            for s in servers:
                s.expect("listening on")
                s.port = int(s.log.split("listening on http://127.0.0.1:")[1].split(",")[0])
            for s in servers:
                s.expect("ready: ")
            self.assertIn(f"port {port}", servers[1].log, "rank 0 says where it waits")
            body = {"prompt": "Once upon a time", "max_tokens": 12, "temperature": 0.8, "seed": 5}
            texts = {s.json("POST", "/v1/completions", body)[1]["choices"][0]["text"] for s in servers}
            self.assertEqual(len(texts), 1)
            taken = Server("--dp-lockstep", wait=False, env={**group, "ATOM_DP_RANK": "0", "ATOM_DP_MASTER_PORT": str(servers[0].port)})
            self.assertNotEqual(taken.process.wait(PATIENCE), 0)
            self.assertIn(str(servers[0].port), taken.process.stderr.read())
            self.assertEqual(servers[1].stop()[0], 0)
            self.assertEqual(servers[0].json("POST", "/v1/completions", body)[1]["choices"][0]["text"], texts.pop(), "rank 1 goes on alone")
        finally:
            for s in servers:
                s.stop()

    def test_a_rank_outside_the_group_stops_the_start(self):
        s = Server(wait=False, env={"ATOM_DP_SIZE": "2", "ATOM_DP_RANK": "2"})
        self.assertNotEqual(s.process.wait(60), 0)
        self.assertIn("rank 2 of 2", s.process.stderr.read())


if __name__ == "__main__":
    need_model()
    unittest.main(warnings="ignore")
