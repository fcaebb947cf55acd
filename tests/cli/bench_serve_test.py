"""isotope bench serve: the load client against the real server and against servers that misbehave. bench_serve_test.py PROGRAM"""
import http.server
import json
import os
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import xml.dom.minidom

from support import ISOTOPE, MODEL, Server, Terminal, run

TOKEN = b'data: {"choices":[{"index":0,"text":"x","finish_reason":null}]}\n\n'
LAST = b'data: {"choices":[{"index":0,"text":"","finish_reason":"length"}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":3}}\n\n'
DONE = b"data: [DONE]\n\n"


class Fake:
    """A server whose answers to POST are what `answer(handler, number)` does; it counts and keeps the bodies."""

    def __init__(self, answer, health=200):
        fake = self
        fake.bodies, fake.headers, fake.health = [], [], health
        lock = threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                status = fake.health if self.path == "/health" else 200
                body = json.dumps({"data": [{"id": "fake-model"}]}).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with lock:
                    number = len(fake.bodies)
                    fake.bodies.append(json.loads(body))
                    fake.headers.append((self.path, dict(self.headers)))
                self.close_connection = True
                try:
                    answer(self, number)
                except OSError:
                    pass  # the client has gone

            def log_message(self, *args):
                pass

        class Threads(socketserver.ThreadingMixIn, http.server.HTTPServer):
            daemon_threads, request_queue_size = True, 64

        self.server = Threads(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def stream(handler, *pieces, kind="text/event-stream", pause=0.0, status=200):
    """Pieces as chunks of a chunked answer."""
    handler.send_response(status)
    handler.send_header("Content-Type", kind)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    for p in pieces:
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(p), p))
        handler.wfile.flush()
        time.sleep(pause)
    handler.wfile.write(b"0\r\n\r\n")


def load(fake, *args, timeout=60):
    return run("bench", "serve", "--port", str(fake.port), "--output-len", "3", "--input-len", "4", "-n", "4", "-c", "2", *args, timeout=timeout)


class Fakes(unittest.TestCase):
    def serve(self, answer, **kw):
        fake = Fake(answer, **kw)
        self.addCleanup(fake.close)
        return fake

    def test_numbers_come_from_the_stream(self):
        fake = self.serve(lambda h, n: stream(h, TOKEN, TOKEN, TOKEN, LAST, USAGE, DONE, pause=0.02))
        r = load(fake, "--json", "--save-detailed")
        self.assertEqual(r.returncode, 0, r.stderr)
        j = json.loads(r.stdout)
        self.assertEqual((j["completed"], j["total_output_tokens"], j["total_input_tokens"], j["model_id"]), (4, 12, 16, "fake-model"))
        self.assertEqual(j["generated_texts"], ["xxx"] * 4)
        self.assertEqual([len(x) for x in j["itls"]], [2] * 4)  # the event that only ends is no token
        self.assertGreater(j["mean_itl_ms"], 10)
        self.assertLessEqual(j["mean_ttft_ms"], j["mean_e2el_ms"])
        self.assertEqual(r.stderr, "")

    def test_what_is_sent(self):
        fake = self.serve(lambda h, n: stream(h, TOKEN * 3 + LAST + DONE))
        r = load(fake, "--prefix-len", "2", "--api-key", "k", "--extra-body", '{"top_k": 1, "temperature": 0.5}', "-m", "other", "--endpoint", "v2/x", "--num-warmups", "2")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual(len(fake.bodies), 6)
        prompts = [b["prompt"] for b in fake.bodies]
        self.assertEqual(len({json.dumps(p) for p in prompts}), 6)
        self.assertEqual({len(p) for p in prompts}, {6})
        self.assertEqual(len({tuple(p[:2]) for p in prompts[2:]}), 1)
        body = fake.bodies[-1]
        self.assertEqual({k: body[k] for k in ("model", "max_tokens", "temperature", "top_k", "ignore_eos", "stream")},
                         {"model": "other", "max_tokens": 3, "temperature": 0.5, "top_k": 1, "ignore_eos": True, "stream": True})
        path, headers = fake.headers[-1]
        self.assertEqual((path, headers["Authorization"], headers["Host"]), ("/v2/x", "Bearer k", f"127.0.0.1:{fake.port}"))

    def test_the_key_may_come_from_the_environment(self):
        fake = self.serve(lambda h, n: stream(h, TOKEN * 3, LAST, DONE))
        p = subprocess.run([ISOTOPE, "bench", "serve", "--port", str(fake.port), "-n", "1", "--output-len", "3"], capture_output=True, text=True, env={**os.environ, "OPENAI_API_KEY": "sk-1"})
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertEqual(fake.headers[0][1]["Authorization"], "Bearer sk-1")
        self.assertNotIn("sk-1", p.stdout + p.stderr)

    def test_requests_go_out_at_their_rate(self):
        fake = self.serve(lambda h, n: stream(h, TOKEN * 3, LAST, DONE))
        r = run("bench", "serve", "--port", str(fake.port), "--output-len", "3", "--input-len", "4", "-n", "20", "--request-rate", "20", "--json", "--save-detailed", "--percentile-metrics", "ttft,e2el", "--metric-percentiles", "50,99.9", "--goodput", "ttft:60000", "--goodput",
                 "e2el:60000", "--label", "night", "--metadata", "node=a")
        self.assertEqual(r.returncode, 0, r.stderr)
        j = json.loads(r.stdout)
        self.assertGreaterEqual(j["duration"], 0.9)
        self.assertEqual((j["request_rate"], j["completed"], j["label"], j["node"]), (20, 20, "night", "a"))
        self.assertEqual(j["start_times"], sorted(j["start_times"]))
        self.assertAlmostEqual(j["request_goodput"], j["request_throughput"])
        self.assertTrue({"p50_ttft_ms", "p99.9_e2el_ms"} <= set(j) and not {"mean_itl_ms", "p99_ttft_ms"} & set(j))
        self.assertGreater(len({round(b - a, 3) for a, b in zip(j["start_times"], j["start_times"][1:])}), 5)
        self.assertIsNone(json.loads(load(fake, "--json").stdout)["request_goodput"])

    def test_vllm_spellings(self):
        fake = self.serve(lambda h, n: stream(h, TOKEN * 3, LAST, DONE))
        with tempfile.TemporaryDirectory() as folder:
            r = load(fake, "--backend", "vllm", "--ignore-eos", "--trust-remote-code", "--disable-tqdm", "--tokenizer", "x", "--result-dir", folder, "--result-filename", "r.json", "--save-result")
            self.assertEqual((r.returncode, r.stderr), (0, ""))
            with open(os.path.join(folder, "r.json")) as f:
                self.assertEqual(json.load(f)["completed"], 4)
            self.assertEqual(load(fake, "--save-result", "--result-dir", folder, "--request-rate", "50").returncode, 0)
            self.assertTrue(any(n.startswith("openai-50qps-fake-model-") for n in os.listdir(folder)), os.listdir(folder))
        self.assertFalse(json.loads(load(fake, "--json", "--no-ignore-eos").stdout)["failed"])
        self.assertEqual([b["ignore_eos"] for b in (fake.bodies[0], fake.bodies[-1])], [True, False])

    def test_results_that_cannot_be_written_are_told_first(self):
        fake = self.serve(lambda h, n: stream(h, TOKEN * 3, LAST, DONE))
        for flag in ("--save-result", "--plot"):
            r = load(fake, flag, "/nonexistent/x")
            self.assertEqual((r.returncode, fake.bodies), (2, []))
            self.assertIn(flag, r.stderr)

    def test_words_and_servers_that_would_be_ignored(self):
        for args, told in ((["word"], "'word' is no option"), (["--port", "1", "--base-url", "http://127.0.0.1:2"], "excludes"), (["--host", "a", "--url", "http://b"], "excludes")):
            r = run("bench", "serve", *args, timeout=20)
            self.assertEqual(r.returncode, 2, r.stderr)
            self.assertIn(told, r.stderr)
        r = run("bench", "-m", "x", "serve", timeout=20)
        self.assertEqual(r.returncode, 2)
        self.assertIn("behind serve", r.stderr)

    def test_ctrl_c_while_waiting_for_a_turn(self):
        fake = self.serve(lambda h, n: stream(h, TOKEN * 3, LAST, DONE))
        p = subprocess.Popen([ISOTOPE, "bench", "serve", "--port", str(fake.port), "--output-len", "3", "-n", "9", "--request-rate", "0.01", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(2)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=20)
        self.assertEqual((p.returncode, json.loads(out)["completed"]), (130, 0))
        self.assertIn("9 requests were not sent", err)

    def test_a_trace_has_its_own_times_and_lengths(self):
        fake = self.serve(lambda h, n: stream(h, TOKEN * 3, LAST, DONE))
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/trace.jsonl", "w") as f:
                f.write('{"timestamp": 900, "prompt": "late", "output_length": 3}\n{"timestamp": 0, "input_length": 6, "output_length": 3}\n')
            r = run("bench", "serve", "--port", str(fake.port), "--dataset-name", "trace", "--dataset-path", f"{folder}/trace.jsonl", "--json", "--save-detailed")
        self.assertEqual(r.returncode, 0, r.stderr)
        j = json.loads(r.stdout)
        self.assertGreater(j["start_times"][1] - j["start_times"][0], 0.8)
        self.assertEqual([b["prompt"] if isinstance(b["prompt"], str) else len(b["prompt"]) for b in fake.bodies], [6, "late"])
        self.assertEqual({b["max_tokens"] for b in fake.bodies}, {3})

    def test_chats_and_shared_beginnings(self):
        delta = b'data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}\n\n'
        role = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n'
        last = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\n\n'
        fake = self.serve(lambda h, n: stream(h, role, delta, delta, delta, last, DONE))
        r = load(fake, "--backend", "openai-chat", "--dataset-name", "prefix_repetition", "--prefix-repetition-prefix-len", "5", "--prefix-repetition-suffix-len", "4",
                 "--prefix-repetition-num-prefixes", "2", "--json", "--save-detailed")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual(r.stderr, "")
        j = json.loads(r.stdout)
        self.assertEqual((j["total_output_tokens"], j["generated_texts"], j["total_input_tokens"]), (12, ["xxx"] * 4, 36))
        self.assertEqual({path for path, _ in fake.headers}, {"/v1/chat/completions"})
        words = [b["messages"][0]["content"].split() for b in fake.bodies]
        self.assertEqual(({len(w) for w in words}, len({tuple(w[:5]) for w in words}), len({tuple(w) for w in words})), ({9}, 2, 4))

    def test_pictures_and_records_for_other_databases(self):
        fake = self.serve(lambda h, n: stream(h, TOKEN * 3, LAST, DONE))
        with tempfile.TemporaryDirectory() as folder:
            args = [ISOTOPE, "bench", "serve", "--port", str(fake.port), "-n", "3", "--output-len", "3"]
            for setting, there in (("yes", True), ("1", True), (None, False)):
                env = {k: v for k, v in os.environ.items() if k != "SAVE_TO_PYTORCH_BENCHMARK_FORMAT"}
                env.update({} if setting is None else {"SAVE_TO_PYTORCH_BENCHMARK_FORMAT": setting})
                p = subprocess.run([*args, "--save-result", f"{folder}/r.json", "--plot", f"{folder}/r.svg"], capture_output=True, text=True, env=env)
                self.assertEqual(p.returncode, 0, p.stderr)
                self.assertEqual(os.path.exists(f"{folder}/r.pytorch.json"), there, setting)
                if there:
                    with open(f"{folder}/r.pytorch.json") as f:
                        self.assertEqual(len(json.load(f)), 12)
                    os.remove(f"{folder}/r.pytorch.json")
            xml.dom.minidom.parse(f"{folder}/r.svg")
            p = subprocess.run(args, capture_output=True, text=True, env={**os.environ, "SAVE_TO_PYTORCH_BENCHMARK_FORMAT": "1"})
            self.assertEqual(p.returncode, 0)
            self.assertIn("--save-result", p.stderr)

    def test_failures_are_told_and_counted(self):
        long = b"data: " + b"x" * (1 << 20)
        cases = {
            "HTTP 500: out of luck": lambda h, n: stream(h, b'{"error": {"message": "out of luck"}}', kind="application/json", status=500),
            "no event stream": lambda h, n: stream(h, b'{"choices": []}', kind="application/json"),
            "no JSON object": lambda h, n: stream(h, TOKEN, b"data: {oops\n\n", LAST),
            "engine died": lambda h, n: stream(h, TOKEN, b'data: {"error": {"message": "engine died"}}\n\n'),
            "ended before": lambda h, n: stream(h, TOKEN),
            "no tokens": lambda h, n: stream(h, DONE),
            "no answer": lambda h, n: h.wfile.write(b"this is not HTTP\r\n\r\n"),
            "broke off": lambda h, n: (h.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 999\r\n\r\n" + TOKEN)),
            "no end": lambda h, n: stream(h, *[long] * 17),
            "connection was closed": lambda h, n: None,
        }
        for text, answer in cases.items():
            with self.subTest(text):
                r = load(self.serve(answer), "--json")
                self.assertEqual(r.returncode, 1, r.stderr)
                self.assertIn(text, r.stderr)
                j = json.loads(r.stdout)
                self.assertEqual((j["completed"], j["failed"], j["output_throughput"]), (0, 4, 0))

    def test_one_bad_answer_among_good_ones(self):
        fake = self.serve(lambda h, n: stream(h, b"no", status=503, kind="text/plain") if n == 1 else stream(h, TOKEN, TOKEN, LAST, DONE))
        r = load(fake, "--json")
        j = json.loads(r.stdout)
        self.assertEqual((r.returncode, j["completed"], j["failed"]), (1, 3, 1))
        self.assertIn("3 answers do not have the 3 tokens", r.stderr)

    def test_silence_has_an_end(self):
        fake = self.serve(lambda h, n: time.sleep(30))
        begin = time.time()
        r = load(fake, "--timeout", "0.5")
        self.assertLess(time.time() - begin, 20)
        self.assertIn("nothing came for 0.5 s", r.stderr)

    def test_ctrl_c_tells_what_there_is(self):
        fake = self.serve(lambda h, n: stream(h, TOKEN * 3, LAST, DONE) if n < 2 else time.sleep(60))
        for sig in (signal.SIGINT, signal.SIGTERM):
            fake.bodies.clear()
            p = subprocess.Popen([ISOTOPE, "bench", "serve", "--port", str(fake.port), "--output-len", "3", "-n", "9", "-c", "2", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            end = time.time() + 20
            while len(fake.bodies) < 4 and time.time() < end:
                time.sleep(0.05)
            p.send_signal(sig)
            out, err = p.communicate(timeout=20)
            self.assertEqual(p.returncode, 130)
            self.assertEqual((json.loads(out)["completed"], json.loads(out)["failed"]), (2, 2))
            self.assertIn("5 requests were not sent", err)

    def test_waiting_for_health(self):
        fake = self.serve(lambda h, n: stream(h, TOKEN * 3, LAST, DONE), health=503)
        r = load(fake, "--wait", "0.5")
        self.assertEqual(r.returncode, 1)
        self.assertIn("still answers 503", r.stderr)
        threading.Timer(1, lambda: setattr(fake, "health", 200)).start()
        self.assertEqual(load(fake, "--wait", "30").returncode, 0)

    def test_a_bar_on_a_terminal(self):
        fake = self.serve(lambda h, n: stream(h, TOKEN, TOKEN, TOKEN, LAST, DONE, pause=0.15))
        t = Terminal("bench", "serve", "--port", str(fake.port), "-n", "6", "-c", "2", "--output-len", "3")
        t.expect(r"\[#+\.+\] \d/6  2 running")
        t.expect("output tokens a second")
        self.assertEqual(t.status(), 0)

    def test_wrong_wishes(self):
        for args, status, text in [(["--url", "https://h"], 2, "TLS"), (["--url", "nowhere.invalid:1"], 1, "nowhere.invalid"), (["--input-len", "0"], 2, "no tokens"),
                                   (["--token-range", "5,5"], 2, "token-range"), (["--extra-body", "[1]"], 2, "no JSON object"), (["--api-key", "a\nb"], 2, "API key")]:
            r = run("bench", "serve", "-m", "m", *args)
            self.assertEqual(r.returncode, status, (args, r.stderr))
            self.assertIn(text, r.stderr)
        for args, text in [(["--request-rate", "0"], "--request-rate"), (["--request-rate", "x"], "--request-rate"), (["--goodput", "ttft"], "--goodput"), (["--metadata", "x"], "--metadata"),
                           (["--metric-percentiles", "101"], "--metric-percentiles"), (["--dataset-name", "jsonl"], "--dataset-path"), (["--dataset-name", "sharegpt", "--dataset-path", "/none"], "/none")]:
            r = run("bench", "serve", "-m", "m", *args)
            self.assertEqual(r.returncode, 2, (args, r.stderr))
            self.assertIn(text, r.stderr)
        for args in (["--dataset-name", "x"], ["--burstiness", "0"], ["--request-rat", "3"], ["--percentile-metrics", "x"], ["-n", "zero"]):
            r = run("bench", "serve", *args)
            self.assertEqual(r.returncode, 2, (args, r.stderr))
            self.assertIn("`isotope bench serve --help` tells more", r.stderr)
        self.assertIn("did you mean --request-rate?", run("bench", "serve", "--request-rat", "3").stderr)
        for args in (["-n", "0"], ["--max-concurrency", "0"], ["--port", "0"], ["--token-range", "5"], ["--seed", "x"]):
            self.assertNotEqual(run("bench", "serve", *args).returncode, 0, args)
        self.assertIn("--model (or --simulate) is required", run("bench").stderr)

    def test_the_result_file(self):
        fake = self.serve(lambda h, n: stream(h, TOKEN * 3, LAST, DONE))
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(load(fake, "--save-result", f"{folder}/r.json").returncode, 0)
            with open(f"{folder}/r.json") as f:
                self.assertEqual(json.load(f)["completed"], 4)
            r = load(fake, "--save-result", f"{folder}/none/r.json")
        self.assertEqual(r.returncode, 2)
        self.assertIn("none/r.json", r.stderr)


class Real(unittest.TestCase):
    def setUp(self):
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        if not os.path.exists(f"{cache}/isotope/models/{MODEL}.gguf"):
            self.skipTest(f"run scripts/fetch-model {MODEL}")

    def test_the_texts_do_not_depend_on_the_load(self):
        s = Server()
        try:
            args = ["bench", "serve", "--port", str(s.port), "-n", "5", "--input-len", "20", "--prefix-len", "16", "--output-len", "6", "--json", "--save-detailed"]
            alone, together = (json.loads(run(*args, "-c", c).stdout) for c in ("1", "5"))
        finally:
            s.stop()
        self.assertEqual((alone["completed"], alone["total_output_tokens"], alone["total_input_tokens"]), (5, 30, 180))
        self.assertEqual(alone["generated_texts"], together["generated_texts"])


if __name__ == "__main__":
    unittest.main()
