"""What the program says to command lines, files and streams that are not as they should be. usage_test.py PROGRAM"""
import json
import os
import stat
import struct
import subprocess
import tempfile
import time
import unittest

from support import ISOTOPE, MODEL, Terminal, need_model, run

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Cases(unittest.TestCase):
    def check(self, cases):
        """(arguments, exit status, words of the message): each ends with one message that begins with the program's name."""
        for args, status, words in cases:
            with self.subTest(args=args):
                r = run(*args)
                self.assertEqual((r.returncode, r.stdout), (status, ""), r.stderr)
                self.assertTrue(r.stderr.startswith("isotope: "), r.stderr)
                self.assertIn(words, r.stderr)


class CommandLine(Cases):
    def test_unknown_words(self):
        self.check([
            (["rnu", MODEL], 2, "there is no command 'rnu'; did you mean run?"),
            (["run", "--promt", "x", MODEL], 2, "unknown option --promt; did you mean --prompt?"),
            (["run", MODEL, "x", "y"], 2, "'x' is one argument too many"),
            (["run", MODEL, "--zzzzzzzz=1"], 2, "unknown option --zzzzzzzz\n"),
            (["completion", "csh"], 2, "csh"),
            (["inspect"], 2, "model is required"),
            (["inspect", "SmolLM2-135M"], 1, "did you mean smollm2-135m?"),
        ])

    def test_numbers(self):
        run_it = ["run", MODEL, "-p", "x", "-n", "1"]
        self.check([
            *[(run_it + ["--temp", v], 2, f"--temp: '{v}' is not a finite number") for v in ("nan", "inf", "-inf", "1e400", "", " 1", "1x")],
            *[(run_it + ["--top-k", v], 2, "is not a finite number") for v in ("nan", "")],
            *[(["run", MODEL, "-p", "x", "-n", v], 2, f"--max-tokens: '{v}' is not an integer") for v in ("1e3", "", "0x10", "-", "1.5")],
            (["run", MODEL, "-p", "x", "-n", "99999999999999999999"], 2, "--max-tokens"),
            (run_it + ["--gpu-memory-utilization", "nan"], 2, "is not a finite number"),
            (["serve", "--model", MODEL, "--max-body-mb", "nan"], 2, "is not a finite number"),
            (["serve", "--model", MODEL, "--port", ""], 2, "is not an integer"),
            *[([c, *rest, "-t", "-5"], 2, "--threads") for c, *rest in (["doctor"], ["run", MODEL], ["bench", "-m", MODEL])],
            (["doctor", "-t", "99999"], 2, "--threads"),
            *[(run_it + ["--seed", v], 2, f"--seed: '{v}' is no integer from") for v in ("18446744073709551616", "-9223372036854775809", "1e3", "", "x", "-")],
            (["logits", MODEL, "--ids", "", "-o", "/dev/null"], 2, "--ids: '' is not an integer"),
            (["logits", MODEL, "--ids", "1", "--greedy", "9000", "-o", "/dev/null"], 2, "9001 tokens, the model's context holds 8192"),
            (["logits", MODEL, "--ids", "-5", "-o", "/dev/null"], 2, "token id -5"),
            (["bench", "-m", MODEL, "-p", "9000", "-n", "0"], 2, "the context of 8192"),
            (["perplexity", MODEL, "-f", __file__, "--window", "9000"], 2, "--window"),
        ])

    def test_seeds_of_64_bits(self):
        texts = [run("run", MODEL, "-p", "Tell me a story.", "-n", "6", "--temp", "1", "-s", s) for s in ("18446744073709551615", "-1", "9223372036854775808", "-9223372036854775808")]
        self.assertEqual([t.returncode for t in texts], [0] * 4, texts[0].stderr)
        self.assertEqual(texts[0].stdout, texts[1].stdout)  # the same 64 bits
        self.assertEqual(texts[2].stdout, texts[3].stdout)

    def test_leading_zeros_are_decimal(self):
        a, b = (run("run", MODEL, "--raw", "-p", "The capital of France is", "--temp", "0", "-n", n).stdout for n in ("010", "10"))
        self.assertEqual(a, b)

    def test_many_threads_are_cut_with_a_warning(self):
        r = run("run", MODEL, "-p", "x", "-n", "1", "--temp", "0", "-t", "4000")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("4000 threads were asked for", r.stderr)

    def test_n_is_the_most_not_a_demand(self):
        r = run("run", MODEL, "--raw", "-p", "The capital of France is", "--temp", "0", "-n", "8000", "-c", "16", "--ignore-eos")
        self.assertEqual(r.returncode, 0, r.stderr)
        r = run("run", MODEL, "-p", "word " * 100, "-c", "64")
        self.assertEqual(r.returncode, 2)
        self.assertIn("shorten the prompt, or raise --ctx-size", r.stderr)
        self.assertNotIn("/reset", r.stderr)

    def test_help_names_the_settings_of_one_source_once(self):
        env = {**os.environ, "ATOM_DUAL_STREAM_MOE_TOKEN_THRESHOLD": "2"}
        r = subprocess.run([ISOTOPE, "levers", "--changed", "--set", "ATOM_DUAL_STREAM_MOE_TOKEN_THRESHOLD=3",
                            "--set", "ATOM_DUAL_STREAM_MOE_TOKEN_THRESHOLD=4"], capture_output=True, text=True, env=env)
        self.assertEqual(r.stderr.count("ATOM_DUAL_STREAM_MOE_TOKEN_THRESHOLD"), 1, r.stderr)


class Simulator(unittest.TestCase):
    GROUP = ["bench", "--simulate", "synthetic:requests=60,rate=200,prompt=600,output=20,prefixes=0", "--sim-ranks", "4", "--sim-lockstep"]

    def lines(self, *args):
        r = run(*self.GROUP, *args)
        self.assertEqual(r.returncode, 0, r.stderr)
        return dict(line.split(None, 1) for line in r.stdout.splitlines() if not line.startswith("computed in"))

    def test_settings_of_balancing_act(self):
        even = self.lines("--set", "ATOM_DP_PREFILL_BALANCE_MIN_TOKENS=16", "--set", "ATOM_DP_PREFILL_BALANCE_SLACK=0")
        self.assertGreater(float(even["balance_shrunk_tokens"]), 0)
        self.assertEqual(float(self.lines("--set", "ATOM_DP_PREFILL_BALANCE_MIN_TOKENS=16", "--set", "ATOM_DP_PREFILL_BALANCE_SLACK=9")["balance_shrunk_tokens"]), 0)
        self.assertEqual(float(self.lines("--set", "ATOM_DP_PREFILL_BALANCE_SLACK=0")["balance_shrunk_tokens"]), 0, "a step has fewer than 4096 tokens")
        self.assertNotEqual(even, self.lines("--set", "ATOM_DP_PREFILL_BALANCE_MIN_TOKENS=16", "--set", "ATOM_DP_PREFILL_BALANCE_SLACK=0",
                                             "--set", "ATOM_DP_PREFILL_BALANCE_TOKEN_WEIGHT=1"))

    def test_odd_inputs(self):
        for args, text in [(["--sim-cost", "step_us=5x"], "step_us is '5x'"), (["--sim-faults", "cancel=0.5x"], "cancel is '0.5x'"), (["--sim-faults", "x=1"], "cancel"),
                           (["--simulate", "/"], "folder"), (["--simulate", "/none"], "/none"), (["--simulate", "synthetic:rate"], "rate")]:
            r = run("bench", "--simulate", "synthetic:requests=1", *args) if args[0] != "--simulate" else run("bench", *args)
            self.assertIn(r.returncode, (1, 2), args)
            self.assertIn(text, r.stderr)


class Files(Cases):
    def setUp(self):
        self.folder = tempfile.mkdtemp()

    def path(self, name, content=None):
        path = os.path.join(self.folder, name)
        if content is not None:
            with open(path, "wb") as f:
                f.write(content)
        return path

    def test_what_is_no_readable_file(self):
        folder, bad = self.folder, self.path("bad", b"abc \xff\xfe def" * 100)
        self.check([
            (["perplexity", MODEL, "-f", folder], 2, f"'{folder}' is a folder"),
            (["perplexity", MODEL, "--ids-file", folder], 2, f"'{folder}' is a folder"),
            (["perplexity", MODEL, "-f", "/none/x"], 1, "'/none/x' cannot be opened"),
            (["perplexity", MODEL, "-f", bad], 2, f"'{bad}' is not UTF-8"),
            *[(["perplexity", MODEL, "--ids-file", self.path(f"ids{i}", text)], 2, words) for i, (text, words) in enumerate((
                (b"[1,2", "is no JSON array"), (b"[1,\"2\"]", "is no token id"), (b"[1,-2]", "is no token id"), (b"[1e9]", "is no token id"),
                (b"1 2 x", "is no token id"), (b"[1,99999999999]", "is no token id"), (b"1 2 3", "the text has 3 tokens")))],
            (["run", MODEL, "-p", "x", "--chat-template", folder], 2, f"'{folder}' is a folder"),
            (["--config", folder, "levers"], 2, f"'{folder}' is a folder"),
            (["--config", "/none/x", "levers"], 1, "'/none/x' cannot be opened"),
            (["inspect", "/dev/null"], 2, "the path leads to a device or pipe"),
            (["inspect", folder], 1, "the folder holds neither"),
        ])

    def test_inspect_of_a_config_alone(self):
        llama = {"architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
                 "vocab_size": 100, "max_position_embeddings": 512, "tie_word_embeddings": False, "rms_norm_eps": 1e-5}
        layer = 64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 128 + 2 * 64
        config = self.path("config.json", json.dumps(llama).encode())
        for model in (config, os.path.dirname(config)):
            facts = json.loads(run("inspect", "--json", model).stdout)
            self.assertEqual((facts["architecture"], facts["container"], facts["parameters"]), ("LlamaForCausalLM", "none", 2 * layer + 2 * 100 * 64 + 64))
            self.assertEqual(facts["weight_bytes"], 2 * facts["parameters"])
            self.assertEqual(facts["config"]["layers"], 2)
            self.assertEqual(facts["memory"][-1]["kv_bytes"], 512 * 2 * 2 * 2 * 2 * 16)
            r = run("inspect", model)
            self.assertIn("config.json alone", r.stdout)
            self.assertEqual((r.returncode, r.stderr), (0, ""))
        self.check([(["inspect", "--check-tensors", config], 2, "no weights to check")])
        quantized = self.path("fp8.json", json.dumps(dict(llama, hidden_size=128, quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128]})).encode())
        self.assertLess(json.loads(run("inspect", "--json", quantized).stdout)["bits_per_weight"], 14)
        latent = json.loads(run("inspect", "--json", os.path.join(REPO, "tests/oracle/goldens/deepseek_v3/config.json")).stdout)
        one = latent["metadata"]["kv_lora_rank"] + latent["metadata"]["qk_rope_head_dim"]
        self.assertEqual(latent["memory"][-1]["kv_bytes"], latent["config"]["context_length"] * (latent["config"]["layers"] + latent["config"]["mtp_heads"]) * one * 2)
        for golden, token, state in (("kimi_linear", 80, 69888), ("deepseek_v2_lite", 160, 0), ("deepseek_v32", 336, 0), ("minimax_m3", 832, 0), ("mixtral", 256, 0)):
            facts = json.loads(run("inspect", "--json", os.path.join(REPO, "tests/oracle/goldens", golden, "config.json")).stdout)["memory"][-1]
            self.assertEqual((facts["kv_bytes"], facts["state_bytes"]), (token * facts["context"], state), golden)
        mamba = os.path.join(REPO, "tests/oracle/goldens/mamba")
        self.assertEqual(json.loads(run("inspect", "--json", mamba).stdout)["memory"][-1]["kv_bytes"], 0)
        self.assertIn("Recurrent state: 15.0 KiB a sequence", run("inspect", mamba).stdout)
        unknown = run("inspect", self.path("unknown.json", b'{"architectures": ["NobodyForCausalLM"], "hidden_size": 4}'))
        self.assertEqual(unknown.returncode, 0)
        self.assertIn("cannot run: architectures names 'NobodyForCausalLM'", unknown.stdout)
        self.check([(["inspect", self.path("broken.json", b"{")], 1, "broken.json")])

    def test_inspect_checks_values(self):
        values = bytearray(struct.pack("<6f", *[1.0] * 6))
        header = json.dumps({"a.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}).encode()
        self.path("config.json", b"{}")
        folder = os.path.dirname(self.path("model.safetensors", struct.pack("<Q", len(header)) + header + values))
        good = run("inspect", "--check-tensors", folder)
        self.assertEqual(good.returncode, 0, good.stderr)
        self.assertIn("0 of 1 tensors, 6 values looked at", good.stdout)
        values[16:20] = struct.pack("<f", float("nan"))
        self.path("model.safetensors", struct.pack("<Q", len(header)) + header + values)
        self.assertEqual(run("inspect", folder).returncode, 0)
        for flag in ("--check", "--check-tensors"):
            bad = run("inspect", flag, "--json", folder)
            self.assertEqual(bad.returncode, 1)
            self.assertIn("1 of 1 tensors have values that are no numbers: 1 NaN, 0 infinite, the first at [1, 1]", bad.stderr)
            self.assertIn("model.safetensors, tensor 'a.weight'", bad.stderr)
            self.assertEqual(json.loads(bad.stdout)["values"]["bad"][0]["first"], [1, 1])

    def test_output_files(self):
        self.check([
            (["logits", MODEL, "--ids", "1", "-o", self.folder], 2, "is a folder"),
            (["logits", MODEL, "--ids", "1", "-o", "/none/x"], 2, "'/none/x' cannot be written"),
            (["logits", MODEL, "--ids", "1", "-o", "/dev/full"], 1, "'/dev/full' cannot be written: No space left"),
            (["perplexity", MODEL, "-f", __file__, "--write-ids", "/none/x"], 2, "'/none/x' cannot be written"),
        ])
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/full").st_mode))
        real, link = self.path("real"), self.path("link")
        os.symlink("real", link)
        for out in (real, link):
            self.assertEqual(run("logits", MODEL, "--ids", "1,2", "-o", out).returncode, 0)
        self.assertTrue(os.path.islink(link))
        with open(real, "rb") as f:
            whole = f.read()
        self.assertIn(b'"logits"', whole[:200])
        self.assertEqual(sorted(os.listdir(self.folder)), ["link", "real"])
        r = subprocess.run([ISOTOPE, "logits", MODEL, "--ids", "1,2", "-o", "/dev/stdout"], capture_output=True)
        self.assertEqual((r.returncode, r.stdout), (0, whole))

    def test_a_few_windows_of_a_long_text(self):
        text = self.path("text", b"".join(b"Line %d tells of the number %d and of nothing else.\n" % (i, i * i) for i in range(4000)))
        a, b = (json.loads(run("perplexity", MODEL, "-f", f, "--window", "16", "--max-windows", "2", "--json").stdout)
                for f in (text, self.path("short", open(text, "rb").read()[:20000])))
        self.assertEqual(a["window_mean_nll"], b["window_mean_nll"])


class Streams(unittest.TestCase):
    def test_standard_output_that_cannot_be_written(self):
        for args in (["--help"], ["--version"], ["levers"], ["inspect", MODEL, "--tensors"], ["tokenize", MODEL, "-p", "x y"], ["completion", "bash"],
                     ["run", MODEL, "-p", "Count to a thousand.", "-n", "3000", "--ignore-eos"]):
            for command, words in ((["sh", "-c", '"$@" > /dev/full', "sh"], "No space left"), (["sh", "-c", '"$@" >&-', "sh"], "Bad file descriptor")):
                with self.subTest(args=args, words=words):
                    r = subprocess.run([*command, ISOTOPE, *args], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=60)
                    self.assertEqual(r.returncode, 1)
                    self.assertEqual(r.stderr.count("\n"), 1, r.stderr)
                    self.assertIn("isotope: standard output cannot be written: " + words, r.stderr)


class Completion(unittest.TestCase):
    def complete(self, *words):
        script = run("completion", "bash").stdout
        code = script + f"\nCOMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _isotope; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        return subprocess.run(["bash", "-c", code], capture_output=True, text=True).stdout.split()

    def test_words(self):
        self.assertIn("serve", self.complete("isotope", "se"))
        self.assertIn("--port", self.complete("isotope", "--config", "x", "serve", "--po"))
        self.assertIn("smollm2-135m", self.complete("isotope", "run", "smo"))
        self.assertIn("gemma3-270m", self.complete("isotope", "bench", "-m", "gem"))


class Make(unittest.TestCase):
    def test_texts_reach_the_program_as_written(self):
        if not os.path.exists(REPO + "/Makefile"):
            self.skipTest("no source tree")
        probe = 'probe:\n\t@printf "%s|%s" "$$PROMPT" "$$MODEL"\n'
        prompt = 'a `echo b` $HOME "c" \'d\' $(shell echo e)'
        r = subprocess.run(["make", "-s", "-C", REPO, "-f", "Makefile", "-f", "-", "probe", "PROMPT=" + prompt, "MODEL=/a b.gguf"], input=probe, capture_output=True, text=True)
        self.assertEqual(r.stdout, prompt + "|/a b.gguf", r.stderr)


class Chat(unittest.TestCase):
    def test_a_paste_stays_together_and_a_folder_is_no_conversation(self):
        folder = tempfile.mkdtemp()
        t = Terminal("run", MODEL, "--temp", "0", "-n", "4", "-c", "512", env={"XDG_CONFIG_HOME": folder})
        t.prompt()
        t.send("\x1b[200~Hello\n\tthere\ryou\x1b[201~!\r")
        t.prompt()
        t.send("/load /tmp\r")
        t.expect("'/tmp' is a folder")
        t.prompt()
        t.send(f"/save {folder}/talk.json\r")
        t.expect("2 messages written")
        t.prompt()
        with open(folder + "/talk.json") as f:
            self.assertEqual(json.load(f)[0]["content"], "Hello\n\tthere\nyou!")
        t.send("\x1b")  # a lone escape key is no paste
        time.sleep(0.2)
        t.send("/none\r")
        t.prompt()
        t.send("/exit\r")
        self.assertEqual(t.status(), 0)


if __name__ == "__main__":
    need_model()
    unittest.main(warnings="ignore")
