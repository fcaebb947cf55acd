"""isotope run: one answer, pipes, the chat prompt. run_test.py PROGRAM"""
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

from support import ISOTOPE, MODEL, PATIENCE, Terminal, need_model, run

PARIS = "The capital of France is Paris. What is the capital of France?"


class OneShot(unittest.TestCase):
    def test_the_answer_alone_on_stdout(self):
        r = run("run", MODEL, "-p", PARIS, "-n", "24", "--temp", "0")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("Paris", r.stdout)
        self.assertEqual(r.stderr, "")
        self.assertTrue(r.stdout.endswith("\n"))

    def test_a_seed_repeats(self):
        a, b, c = (run("run", MODEL, "-p", "Tell me a story.", "-n", "20", "--temp", "1", "--seed", s).stdout for s in ("3", "3", "4"))
        self.assertEqual(a, b)
        self.assertNotEqual(a, c)

    def test_prompt_from_standard_input(self):
        want = run("run", MODEL, "-p", PARIS, "-n", "12", "--temp", "0").stdout
        self.assertEqual(run("run", MODEL, "-n", "12", "--temp", "0", text_in=PARIS + "\n").stdout, want)
        self.assertEqual(run("run", MODEL, "-p", "-", "-n", "12", "--temp", "0", text_in=PARIS).stdout, want)

    def test_raw_continues_the_text(self):
        r = run("run", MODEL, "--raw", "-p", "The capital of France is", "-n", "1", "--temp", "0")
        self.assertEqual(r.stdout, " Paris\n")

    def test_system_message_and_stop(self):
        a = run("run", MODEL, "-p", "Hello", "-n", "16", "--temp", "0").stdout
        b = run("run", MODEL, "-p", "Hello", "-n", "16", "--temp", "0", "--system", "You are a pirate. Answer like a pirate.").stdout
        self.assertNotEqual(a, b)
        first = a.split()[0]
        cut = run("run", MODEL, "-p", "Hello", "-n", "16", "--temp", "0", "--stop", first[-2:]).stdout
        self.assertTrue(a.startswith(cut.rstrip("\n")) and first not in cut, (a, cut))

    def test_verbose_tells_on_stderr(self):
        r = run("run", MODEL, "-p", "Hi", "-n", "3", "-v")
        self.assertIn("tokens/s", r.stderr)
        self.assertIn("seed", r.stderr)
        self.assertNotIn("tokens/s", r.stdout)

    def test_wrong_wishes(self):
        for args, status, text in [
            (["-p", "x", "--temp", "-1"], 2, "--temp"),
            (["-p", "x", "--top-p", "0"], 2, "--top-p"),
            (["-p", "x", "--chat-template", "/none"], 2, "--chat-template"),
            (["-p", ""], 2, "no prompt"),
            ([], 2, "no prompt"),
            (["-p", "word " * 9000], 2, "maximum context length"),
        ]:
            r = run("run", MODEL, *args)
            self.assertEqual((r.returncode, r.stdout), (status, ""), args[:2])
            self.assertIn(text, r.stderr)
        r = run("run", "no-such-model", "-p", "x")
        self.assertNotEqual(r.returncode, 0)
        self.assertIn("no-such-model", r.stderr)
        r = subprocess.run([ISOTOPE, "run", MODEL, "-p", "x"], capture_output=True, text=True, env={"HOME": "/nonexistent"})
        self.assertIn("scripts/fetch-model", r.stderr)

    def test_a_reader_that_leaves_is_no_error_message(self):
        # The pipe holds less than the answer, so the program is still writing when the reader leaves.
        p = subprocess.Popen([ISOTOPE, "run", MODEL, "-p", "Count to a thousand.", "-n", "4000", "--ignore-eos"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             bufsize=0, pipesize=4096)
        p.stdout.read(3)
        p.stdout.close()
        self.assertEqual(p.stderr.read(), b"")
        self.assertNotEqual(p.wait(PATIENCE), 0)
        p.stderr.close()

    def test_ctrl_c_ends_the_answer(self):
        p = subprocess.Popen([ISOTOPE, "run", MODEL, "-p", "Count to a thousand.", "-n", "4000", "--ignore-eos"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        p.stdout.read(3)
        p.send_signal(signal.SIGINT)
        self.assertTrue(p.stdout.read().endswith(b"\n"))
        self.assertEqual(p.wait(PATIENCE), 130)
        p.stdout.close()
        p.stderr.close()

    def test_ctrl_c_while_loading(self):
        # Before the program has its handler, while it loads, when it answers: the result is the same.
        for delay in (0, 0.03, 0.1, 0.3):
            p = subprocess.Popen([ISOTOPE, "run", MODEL, "-p", "Count.", "-n", "4000", "--ignore-eos"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(delay)
            p.send_signal(signal.SIGINT)
            self.assertIn(p.wait(PATIENCE), (130, -signal.SIGINT))


class Chat(unittest.TestCase):
    def chat(self, *args):
        folder = tempfile.mkdtemp()
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        os.makedirs(f"{folder}/isotope")
        os.symlink(f"{cache}/isotope/models", f"{folder}/isotope/models")
        t = Terminal("run", MODEL, "--temp", "0", *args, env={"XDG_CACHE_HOME": folder})
        t.folder = folder
        t.prompt()
        return t

    def test_conversation_and_commands(self):
        t = self.chat("-n", "16")
        t.send(PARIS + "\r")
        self.assertIn("Paris", t.prompt().split("\n", 1)[1])
        file = t.folder + "/talk.json"

        def command(line, answer=None):
            t.send(line + "\r")
            if answer:
                t.expect(answer)
            t.prompt()

        command(f"/save {file}", "messages written")
        with open(file) as f:
            talk = json.load(f)
        self.assertEqual([m["role"] for m in talk], ["user", "assistant"])
        command("/help", "/reset")
        command("/reset")
        command(f"/load {file}", "2 messages read")
        command("/temp x", "is no temperature")
        command("/what", "unknown command /what")
        command("/system Be brief.")
        command(f"/save {file}", "messages written")
        with open(file) as f:
            self.assertEqual(json.load(f), [{"role": "system", "content": "Be brief."}])
        t.send("/exit\r")
        self.assertEqual(t.status(), 0)
        with open(t.folder + "/isotope/history") as f:
            self.assertIn("capital", f.read())

    def test_ctrl_d_leaves(self):
        t = self.chat()
        t.send("\x04")
        self.assertEqual(t.status(), 0)

    def test_ctrl_c_twice_leaves(self):
        t = self.chat()
        t.send("half a line\x03")
        t.expect("Ctrl-C again")
        t.prompt()
        t.send("\x03")
        self.assertEqual(t.status(), 0)

    def test_ctrl_c_stops_the_answer_only(self):
        t = self.chat("-n", "3000", "--ignore-eos")
        t.send("Count to a thousand.\r")
        t.expect("\n.")
        t.send("\x03")
        t.expect("stopped")
        t.prompt()
        t.send("\x04")
        self.assertEqual(t.status(), 0)

    def test_editing_and_utf_8(self):
        t = self.chat("-n", "8")
        t.send("/temX\x7fp 0é\x7f.5\r")          # backspace removes whole characters
        t.prompt()
        t.send("/temp y\r")
        self.assertNotIn("'0", t.expect("'y' is no temperature"))
        t.send("/exit\r")
        self.assertEqual(t.status(), 0)


if __name__ == "__main__":
    need_model()
    unittest.main(warnings="ignore")
