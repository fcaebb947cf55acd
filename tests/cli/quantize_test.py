"""isotope quantize as people run it."""
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

from support import ISOTOPE, Terminal, run

CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 2, "vocab_size": 300, "max_position_embeddings": 256, "tie_word_embeddings": False, "rms_norm_eps": 1e-5, "bos_token_id": 256, "eos_token_id": 257}


def byte_alphabet():
    """The characters that byte-level BPE writes bytes with."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(rest)) for b in range(256)]


def tokenizer():
    vocab = {c: i for i, c in enumerate(byte_alphabet())}
    added = [{"id": 256 + i, "content": t, "special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False} for i, t in enumerate(["<s>", "</s>"])]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {"version": "1.0", "added_tokens": added, "normalizer": None, "pre_tokenizer": level, "post_processor": None, "decoder": level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "", "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False,
                      "vocab": vocab, "merges": []}}


def folder(path, scale=1.0):
    """A model of two layers with weights of a fixed pattern, in bfloat16."""
    os.makedirs(path)
    shapes = {"model.embed_tokens.weight": (300, 256), "lm_head.weight": (300, 256), "model.norm.weight": (256,)}
    for i in range(2):
        at = f"model.layers.{i}."
        shapes.update({at + "self_attn.q_proj.weight": (256, 256), at + "self_attn.k_proj.weight": (128, 256), at + "self_attn.v_proj.weight": (128, 256),
                       at + "self_attn.o_proj.weight": (256, 256), at + "mlp.gate_proj.weight": (512, 256), at + "mlp.up_proj.weight": (512, 256),
                       at + "mlp.down_proj.weight": (256, 512), at + "input_layernorm.weight": (256,), at + "post_attention_layernorm.weight": (256,)})
    header, data, state = {}, bytearray(), 1
    for name, shape in shapes.items():
        n = 1
        for d in shape:
            n *= d
        begin = len(data)
        if len(shape) == 1:
            data += struct.pack("<H", 0x3f80) * n
        else:
            for _ in range(n):
                state = (state * 1103515245 + 12345) & 0x7fffffff
                data += struct.pack("<f", (state / 0x40000000 - 1) * 0.1 * scale)[2:]
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(f"{path}/model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
    for name, content in (("config.json", CONFIG), ("tokenizer.json", tokenizer()), ("tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"})):
        with open(f"{path}/{name}", "w") as f:
            json.dump(content, f)


class Quantize(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="isotope-quantize-")
        cls.model = f"{cls.dir}/model"
        folder(cls.model)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir)

    def path(self, name):
        return f"{self.dir}/{name}"

    def works(self, *args):
        r = run("quantize", *args)
        self.assertEqual(r.returncode, 0, r.stderr)
        return r.stdout

    def test_a_gguf_file_says_what_it_will_be(self):
        out = self.works(self.model, self.path("a.gguf"), "Q4_K_M")
        for text in ("attention", "feed-forward", "embedding", "output", "norms", "bits a weight: 16.", "Q4_K_M alone has 4.50", "memory:", "Q6_K", "wrote "):
            self.assertIn(text, out)
        facts = json.loads(run("inspect", "--json", "--tensors", self.path("a.gguf")).stdout)
        self.assertEqual(facts["file_type"], "Q4_K_M")
        types = {t["name"]: t["type"] for t in facts["tensors"]}
        self.assertEqual((types["output.weight"], types["blk.0.attn_q.weight"], types["blk.0.attn_norm.weight"]), ("Q6_K", "Q4_K", "F32"))
        answer = run("run", "--model", self.path("a.gguf"), "--raw", "-p", "ab", "-n", "4", "--temp", "0")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        ids = [run("tokenize", m, "--ids", "-p", "Hello, world! été") for m in (self.path("a.gguf"), self.model)]
        self.assertEqual(ids[0].stdout, ids[1].stdout, ids[0].stderr + ids[1].stderr)

    def test_a_folder_has_all_that_belongs_to_the_model(self):
        for kind in ("fp8", "int8", "int4", "mxfp4"):
            out = self.path(kind)
            self.works(self.model, out, kind)
            with open(f"{out}/config.json") as f:
                config = json.load(f)
            self.assertEqual(config["quantization_config"]["quant_method"], "compressed-tensors")
            self.assertIn("lm_head", config["quantization_config"]["ignore"])
            self.assertEqual(config["hidden_size"], 256)
            self.assertTrue(os.path.exists(f"{out}/tokenizer.json"))
            answer = run("run", "--model", out, "--raw", "-p", "ab", "-n", "4", "--temp", "0")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            again = run("quantize", self.model, out, kind)
            self.assertEqual(again.returncode, 2)
            self.assertIn("exists already", again.stderr)

    def test_a_config_as_python_writes_it(self):
        source, out = self.path("infinite"), self.path("infinite-int8")
        shutil.copytree(self.model, source)
        with open(f"{source}/config.json", "w") as f:
            json.dump({**CONFIG, "time_step_limit": [0.0, float("inf")]}, f)
        self.works(source, out, "int8")
        with open(f"{out}/config.json") as f:
            self.assertGreater(json.load(f)["time_step_limit"][1], 1e308)
        self.assertEqual(run("inspect", out).returncode, 0)

    def test_a_dry_run_writes_nothing(self):
        out = self.works(self.model, self.path("dry.gguf"), "--dry-run", "--type", "q8_0")
        self.assertIn("Q8_0 alone has 8.50", out)
        self.assertFalse(os.path.exists(self.path("dry.gguf")))

    def test_wishes_for_single_tensors(self):
        self.works(self.model, self.path("w.gguf"), "Q4_K_M", "--tensor-type", "blk.1.*=Q8_0", "--output-tensor-type", "F16", "--ignore", "blk.0.attn_k.weight")
        types = {t["name"]: t["type"] for t in json.loads(run("inspect", "--json", "--tensors", self.path("w.gguf")).stdout)["tensors"]}
        self.assertEqual((types["blk.1.ffn_up.weight"], types["output.weight"], types["blk.0.attn_k.weight"], types["blk.0.attn_q.weight"]), ("Q8_0", "F16", "BF16", "Q4_K"))

    def test_wrong_wishes(self):
        for args, text in ((["Q9_X"], "Q4_K_M"), (["fp8"], "folder"), (["--tensor-type", "x"], "PATTERN=TYPE"), (["--tensor-type", "x=IQ2_S"], "IQ2_S"), (["--pre", "nope"], "nope")):
            r = run("quantize", self.model, self.path("x.gguf"), *args)
            self.assertNotEqual(r.returncode, 0, args)
            self.assertIn(text, r.stderr)
        self.assertIn("GGUF", run("quantize", self.model, self.path("y"), "Q4_K_M").stderr.upper())
        self.assertIn("/none", run("quantize", "/none", self.path("x.gguf")).stderr)
        self.assertIn("/no/such", run("quantize", self.model, "/no/such/x.gguf").stderr)
        self.assertFalse([n for n in os.listdir(self.dir) if "part" in n])

    def test_wishes_that_nothing_comes_of(self):
        gguf, out = self.path("idle.gguf"), self.path("idle")
        for to, args, text in ((gguf, ["--tensor-type", "layers.*=Q8_0"], "'layers.*' names no tensor"), (gguf, ["--shard-gb", "1"], "--shard-gb"),
                               (out, ["--tensor-type", "blk.*=Q8_0"], "--tensor-type"), (out, ["--output-tensor-type", "F16"], "--output-tensor-type"),
                               (out, ["--token-embedding-type", "F16"], "--token-embedding-type"), (out, ["--pure"], "--pure"), (out, ["--force"], "--force"), (out, ["--pre", "gpt-2"], "--pre"),
                               (out, ["--allow-requantize"], "--allow-requantize"), (out, ["--ignore", "re:("], "'re:(' is no regular expression")):
            r = run("quantize", self.model, to, "--dry-run", *args)
            self.assertEqual(r.returncode, 2, args)
            self.assertIn(text, r.stderr)
        for to in (gguf, out):
            self.assertIn("--ignore 'vision.*' names no tensor", self.works(self.model, to, "--dry-run", "--ignore", "vision.*"))
            self.assertNotIn("names no tensor", self.works(self.model, to, "--dry-run", "--ignore", "*up*"))

    def test_a_quantized_source_is_not_taken_silently(self):
        self.works(self.model, self.path("q8.gguf"), "Q8_0")
        r = run("quantize", self.path("q8.gguf"), self.path("q4.gguf"), "Q4_0")
        self.assertEqual(r.returncode, 2)
        self.assertIn("--allow-requantize", r.stderr)
        self.works(self.path("q8.gguf"), self.path("q4.gguf"), "Q4_0", "--allow-requantize")
        self.assertIn("itself", run("quantize", self.path("q8.gguf"), self.path("q8.gguf"), "Q4_0", "--allow-requantize").stderr)
        for kind in ("fp8", "int8", "int4", "mxfp4", "ptpc_fp8"):
            source = self.path(f"again-{kind}")
            self.works(self.model, source, kind)
            for to in ("Q4_K_M", "Q8_0", "F16"):
                r = run("quantize", source, self.path("again.gguf"), to, "--dry-run")
                self.assertEqual(r.returncode, 2, (kind, to))
                self.assertIn("--allow-requantize", r.stderr)
            self.works(source, self.path("again.gguf"), "Q4_K_M", "--dry-run", "--allow-requantize")
            r = run("quantize", source, self.path("again"), "fp8", "--dry-run")
            self.assertEqual(r.returncode, 2, kind)
            self.assertIn("quantized already", r.stderr)

    def test_a_terminal_shows_a_bar_and_a_pipe_does_not(self):
        r = run("quantize", self.model, self.path("p.gguf"), "Q4_K_M")
        self.assertEqual(r.stderr, "")
        t = Terminal("quantize", self.model, self.path("t.gguf"), "Q4_K_M")
        t.expect(r"quantizing \[#+\.*\] +\d+ %")
        t.expect("wrote ")

    def test_online_quantization_and_dummy_weights(self):
        plain = run("run", "--model", self.model, "--raw", "-p", "ab", "-n", "4", "--temp", "0")
        for config in ('{"global_quant_config": "ptpc_fp8"}', '{"global_quant_config": "int4", "exclude_layer": ["*.down_proj"]}'):
            r = run("--set", "ISOTOPE_LOG_LEVEL=info", "--set", "ATOM_ONLINE_QUANT_STREAMING=true", "run", "-v", "--model", self.model, "--online_quant_config", config, "--raw", "-p", "ab", "-n", "4", "--temp", "0")
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertIn("online quantization: ", r.stderr)
            self.assertIn("quantized during the load", r.stderr)
        self.assertEqual(plain.returncode, 0, plain.stderr)
        os.remove(shutil.copytree(self.model, self.path("dummy")) + "/model.safetensors")
        r = run("run", "--model", self.path("dummy"), "--load_dummy", "xavier", "--raw", "-p", "ab", "-n", "4", "--temp", "0")
        self.assertEqual(r.returncode, 0, r.stderr)

    def test_a_limit_on_file_sizes_leaves_nothing(self):
        for out, kind in (("limit.gguf", "Q8_0"), ("limit", "int8")):
            r = subprocess.run([ISOTOPE, "quantize", self.model, self.path(out), kind], capture_output=True, text=True, timeout=120,
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000)))
            self.assertIn(r.returncode, (1, 2), r.stderr)
            self.assertIn("File too large", r.stderr)
        self.assertFalse([n for n in os.listdir(self.dir) if n.startswith("limit")])

    def test_an_interrupt_leaves_nothing(self):
        for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            for name, kind in (("interrupted.gguf", "Q4_K_M"), ("interrupted", "int4")):
                with self.subTest(signal=sig, kind=kind):
                    out = self.path(f"{int(sig)}-{name}")
                    p = subprocess.Popen([ISOTOPE, "quantize", self.model, out, kind, "--threads", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                    while not any(".part-" in n for n in os.listdir(self.dir)) and p.poll() is None:
                        time.sleep(0.0005)
                    p.send_signal(sig)
                    p.communicate(timeout=120)
                    if p.returncode != 0:  # it may have been faster than the signal
                        self.assertEqual(p.returncode, 128 + sig)
                        self.assertFalse(os.path.exists(out))
                    self.assertFalse([n for n in os.listdir(self.dir) if ".part-" in n])

    def test_a_hangup_that_is_ignored_stays_so(self):
        p = subprocess.Popen(["nohup", ISOTOPE, "quantize", self.model, self.path("nohup.gguf"), "Q4_K_M", "--threads", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while not any(n.startswith("nohup.gguf") for n in os.listdir(self.dir)) and p.poll() is None:
            time.sleep(0.0005)
        p.send_signal(signal.SIGHUP)
        p.communicate(timeout=120)
        self.assertEqual(p.returncode, 0)

    def test_what_exists_is_not_replaced_unasked(self):
        out = self.path("old.gguf")
        with open(out, "w") as f:
            f.write("mine")
        r = run("quantize", self.model, out, "Q8_0")
        self.assertEqual(r.returncode, 2)
        self.assertIn("exists already", r.stderr)
        self.assertIn("--force", r.stderr)
        with open(out) as f:
            self.assertEqual(f.read(), "mine")
        self.works(self.model, out, "Q8_0", "--force")
        self.assertEqual(run("inspect", out).returncode, 0)
        self.works(self.model, self.path("new.gguf"), "Q8_0", "--force")


if __name__ == "__main__":
    unittest.main()
