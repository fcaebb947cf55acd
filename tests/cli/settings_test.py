"""Settings act, or are refused, in whatever command computes; warnings reach standard error. settings_test.py PROGRAM"""
import json
import os
import shutil
import struct
import subprocess
import tempfile
import unittest

from quantize_test import folder
from support import ISOTOPE, PATIENCE, run

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GOLDENS = os.path.join(REPO, "tests/oracle/goldens")


def flags():
    with open("/proc/cpuinfo") as f:
        return next((line.split() for line in f if line.startswith("flags")), [])


def rename_tensor(path, old, new):
    """The same file with another name for a tensor."""
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        header, data = f.read(size).decode(), f.read()
    assert f'"{old}"' in header
    header = header.replace(f'"{old}"', f'"{new}"').encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(header)) + header + data)


class Settings(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="isotope-settings-")
        cls.model, cls.text = f"{cls.dir}/model", f"{cls.dir}/text"
        folder(cls.model)
        with open(cls.text, "w") as f:
            f.write("Words of a text that is long enough for a window. " * 4)
        cls.commands = {"logits": ["logits", cls.model, "--ids", "5,17,3", "-o", f"{cls.dir}/out"],
                        "perplexity": ["perplexity", cls.model, "-f", cls.text, "--window", "32", "--json"],
                        "run": ["run", cls.model, "--raw", "-p", "ab", "-n", "2", "--temp", "0"],
                        "bench": ["bench", cls.model, "-p", "4", "-n", "0", "-r", "1", "--no-warmup"]}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir)

    def refused(self, args, words, status=None):
        r = run(*args)
        self.assertIn(r.returncode, (1, 2) if status is None else (status,), r.stderr)
        self.assertEqual(r.stdout, "")
        for w in [words] if isinstance(words, str) else words:
            self.assertIn(w, r.stderr)

    def logits(self, *args):
        r = run("logits", *args, "-o", f"{self.dir}/out")
        self.assertEqual(r.returncode, 0, r.stderr)
        with open(f"{self.dir}/out", "rb") as f:
            return f.read()

    def test_norms_rounded_as_the_model_was_trained(self):
        for_value = [self.logits("--set", f"ATOM_USE_MODEL_SENSITIVE_RMSNORM={v}", self.model, "--ids", "5,17,3,200,9") for v in "01"]
        self.assertNotEqual(*for_value)
        nll = [run("--set", f"ATOM_USE_MODEL_SENSITIVE_RMSNORM={v}", *self.commands["perplexity"]) for v in "01"]
        self.assertNotEqual(*(json.loads(r.stdout)["mean_nll"] for r in nll))

    def test_instruction_sets(self):
        for name, command in self.commands.items():
            with self.subTest(name):
                self.refused(["--set", "ISOTOPE_CPU_ISA=itanium", *command], "'itanium'", 2)
                if "amx_int8" not in flags():
                    self.refused(["--set", "ISOTOPE_CPU_ISA=avx512_amx", *command], "'avx512_amx' cannot run")
        r = json.loads(run("--set", "ISOTOPE_CPU_ISA=scalar", *self.commands["perplexity"]).stdout)
        self.assertIn("scalar", r["ops"])
        wrong = run(*self.commands["run"], "--isa", "foo").stderr
        can = {c["isa"]: c["runnable"] for c in json.loads(run("doctor", "--json", "-t", "1").stdout)["isa_candidates"]}
        self.assertEqual({isa: f" {isa} (" in wrong for isa in can}, can)

    def test_pools_of_glm_5_next(self):
        model = os.path.join(GOLDENS, "glm5_next")
        with open(f"{model}/config.json") as f:
            config = json.load(f)
        config = config.get("text_config", config)
        most = config["index_topk"]
        few, many = (",".join(["5"] * n) for n in (most // 2, most + config.get("index_kpool", 1) * most + 9))
        for name in ("ATOM_GLM5_KPOOL=0", "ATOM_GLM5_FORCE_DENSE_MLA=1"):
            self.refused(["--set", name, "logits", model, "--ids", many, "-o", f"{self.dir}/out"], ["unset " + name.split("=")[0], "the model's context holds"], 2)
            r = run("--set", name, "logits", model, "--ids", few, "-o", f"{self.dir}/out")
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertIn("isotope: " + name.split("=")[0] + ": contexts are cut", r.stderr)

    def test_warnings_reach_standard_error(self):
        rename_tensor(shutil.copytree(self.model, f"{self.dir}/more") + "/model.safetensors", "lm_head.weight", "lm_tail.weight")
        with open(f"{self.dir}/more/config.json") as f:
            config = json.load(f)
        with open(f"{self.dir}/more/config.json", "w") as f:
            json.dump({**config, "tie_word_embeddings": True}, f)
        for name, command in self.commands.items():
            with self.subTest(name):
                command = [a if a != self.model else f"{self.dir}/more" for a in command]
                r = run("--set", "ATOM_LOADER_STRICT_COVERAGE=false", *command)
                self.assertEqual(r.returncode, 0, r.stderr)
                self.assertEqual(r.stderr.count("lm_tail.weight"), 1, r.stderr)
                self.assertTrue(r.stderr.startswith("isotope: "), r.stderr)
                self.assertEqual(r.stderr.count("\n"), 1, "information is for -v: " + r.stderr)
                self.assertEqual(run("--set", "ATOM_LOADER_STRICT_COVERAGE=false", "--set", "ISOTOPE_LOG_LEVEL=error", *command).stderr, "")

    def test_a_missing_expert_is_told(self):
        rename_tensor(shutil.copytree(os.path.join(GOLDENS, "qwen3_moe"), f"{self.dir}/moe") + "/model.safetensors", "model.layers.0.mlp.experts.1.up_proj.weight", "no")
        os.remove(f"{self.dir}/moe/model.gguf")
        for command in (["logits", f"{self.dir}/moe", "--ids", "5", "-o", f"{self.dir}/out"], ["bench", f"{self.dir}/moe", "-p", "4", "-n", "0", "-r", "1"]):
            r = run("--set", "ATOM_LOADER_STRICT_COVERAGE=false", *command)
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertIn("experts are missing and count as zero", r.stderr)

    def test_models_without_a_tokenizer_end_before_their_weights_are_read(self):
        alone = f"{self.dir}/alone"
        os.makedirs(alone)
        shutil.copy(f"{self.model}/config.json", alone)
        dummy = ["--load_dummy", "xavier"]
        self.refused(["run", "-v", alone, "-p", "x", *dummy], ["no tokenizer", "isotope bench"], 1)
        r = subprocess.run([ISOTOPE, "serve", "--model", alone, "--port", "0", *dummy], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(r.returncode, 1)
        self.assertIn("no tokenizer", r.stderr)
        self.assertNotIn("dummy weights", r.stderr)
        self.assertEqual(run("bench", alone, "-p", "4", "-n", "0", "-r", "1", *dummy).returncode, 0)
        shutil.copy(f"{self.model}/tokenizer.json", alone)
        for given in (["--load_dummy"], ["--load-dummy", "zero"], ["--load_dummy=true"]):
            r = run("run", alone, "--raw", "-p", "x", "-n", "2", "--temp", "0", *given)
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertIn("dummy weights (", r.stderr)
        self.assertIn("safetensors", run("run", alone, "--raw", "-p", "x", "--load-dummy", "none").stderr)
        os.remove(shutil.copytree(self.model, f"{self.dir}/mute") + "/tokenizer.json")
        r = run("run", "-v", f"{self.dir}/mute", "-p", "x")
        self.assertEqual(r.returncode, 1)
        self.assertIn("no tokenizer", r.stderr)
        self.assertNotIn("loaded", r.stderr)

    def test_encoders(self):
        model = os.path.join(REPO, "tests/embeddings/goldens/bert-mean")
        self.assertTrue(os.path.isdir(model), model)
        for command in (["logits", model, "--ids", "5", "-o", f"{self.dir}/out"], ["perplexity", model, "-f", self.text], ["doctor", model, "-t", "1"]):
            self.refused(command, "is an encoder, which writes no text", 1)

    def test_wrong_values(self):
        run_it = self.commands["run"]
        for size in ("1", "8", "17", "48", "8192", "0", "-16", "x", ""):
            self.refused([*run_it, "--block-size", size], "--block-size", 2)
        for size in ("16", "2048"):
            self.assertEqual(run(*run_it, "--block-size", size).returncode, 0)
        bench = ["bench", self.model]
        for args, words in ((["-p", "0", "-n", "0"], "nothing to measure"), (["-p", "0,0", "-n", "0"], "nothing to measure"), (["-npl", "0"], "nothing to measure")):
            self.refused(bench + args, words, 2)
        self.refused(["bench", "--simulate", "synthetic:requests=1", "--sim-policy", "zz"], "--sim-policy", 2)
        for value in ('{"hidden_size": "abc"}', '{"num_hidden_layers": -3}', '{"hidden_act": "zz"}', '{"rope_scaling": {"rope_type": "zz"}}'):
            r = run(*run_it, "--hf-overrides", value)
            self.assertNotEqual(r.returncode, 0)
            self.assertIn("(--hf-overrides)", r.stderr)
            self.assertNotIn("config.json", r.stderr)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
