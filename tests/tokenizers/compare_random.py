#!/usr/bin/env python3
"""Random text through Hugging Face `tokenizers` and through Isotope, id for id, for every tokenizer that make_goldens.py has made.

    compare_random.py --tokenizers FOLDER --ids PROGRAM [--seed N] [--megabytes 200] [--piece 65536] [--only a,b]

Pieces of text are made, sent and forgotten; only the number of ids and their checksum are compared. Where they differ, the text is halved until no
smaller one differs, and is printed. Exit status 1 after a difference."""
import argparse, glob, json, os, random, subprocess, sys, time, zlib
from array import array

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
from tokenizers import Tokenizer

# First and last code points of what texts are made of.
RANGES = [(0x20, 0x7E)] * 6 + [(0x61, 0x7A)] * 4 + [(0xA0, 0xFF), (0x100, 0x24F), (0x250, 0x2AF), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x4FF), (0x530, 0x58F),
    (0x590, 0x5FF), (0x600, 0x6FF), (0x900, 0x97F), (0x980, 0x9FF), (0xB80, 0xBFF), (0xE00, 0xE7F), (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x1200, 0x137F), (0x1780, 0x17FF),
    (0x1E00, 0x1EFF), (0x1F00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x218F), (0x2190, 0x23FF), (0x2460, 0x27BF), (0x3000, 0x30FF), (0x3130, 0x318F), (0x3200, 0x33FF),
    (0x4E00, 0x9FA5), (0x4E00, 0x9FA5), (0xA000, 0xABFF), (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFB00, 0xFDFF), (0xFE00, 0xFEFE), (0xFF00, 0xFFEF), (0x10000, 0x1007F),
    (0x10300, 0x1034F), (0x1D400, 0x1D7FF), (0x1F100, 0x1F1FF), (0x1F300, 0x1F6FF), (0x1F900, 0x1F9FF), (0x20000, 0x2A6DF), (0xE0000, 0xE01EF)]
BLANKS = [" ", " ", " ", "  ", "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u3000", "\u2028", " \n ", "   ", "\u200b"]
WORDS = "the of and to in is that it was for on are as with his they at be this from have or by one had not but what all were when we there can an your which".split()
ENDS = ["'s", "'T", "'re", "'ve", "'LL", "'d", "n't", ".", ",", "!?", "...", ":", ";", ")", "(", "\"", "=>", "_x", "/", "\\", "-", "#", "@a"]


def fragment(rnd, known):
    kind = rnd.random()
    if kind < 0.35:
        word = rnd.choice(WORDS)
        return rnd.choice((word, word.capitalize(), word.upper(), word + rnd.choice(ENDS)))
    if kind < 0.45:
        return str(rnd.randrange(10 ** rnd.randrange(1, 12)))
    if kind < 0.55:
        return rnd.choice(known)
    if kind < 0.65:
        return rnd.choice(BLANKS) * rnd.choice((1, 1, 1, 2, 3, 7, 33))
    if kind < 0.70:
        return rnd.choice("aA1!_=-. \n\u0301é中😀") * rnd.randrange(1, 40)
    low, high = rnd.choice(RANGES)
    n = rnd.randrange(1, 14)
    if kind < 0.75:  # from all over
        return "".join(chr(rnd.randrange(*rnd.choice(RANGES))) for _ in range(n))
    return "".join(chr(rnd.randint(low, high)) for _ in range(n))


def make_text(rnd, known, size):
    """Fresh fragments, some of them again and in other surroundings."""
    out, length, seen = [], 0, []
    while length < size:
        word = rnd.choice(seen) if seen and rnd.random() < 0.6 else fragment(rnd, known)
        if len(seen) < 4000:
            seen.append(word)
        if rnd.random() < 0.55:
            word += " "
        out.append(word)
        length += len(word.encode())
    return "".join(out)


class Isotope:
    def __init__(self, program, tokenizer):
        self.p = subprocess.Popen([program, tokenizer], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, text, word=""):
        data = text.encode()
        self.p.stdin.write(f"{len(data)} {word}\n".encode() + data)
        self.p.stdin.flush()
        line = self.p.stdout.readline()
        if not line:
            raise SystemExit(f"compare_random: {self.p.args} ended with status {self.p.wait()}")
        return line.decode()

    def sums(self, text):
        count, crc = self.ask(text).split()
        return int(count), int(crc)

    def ids(self, text):
        return [int(i) for i in self.ask(text, "ids").split()]

    def close(self):
        self.p.stdin.close()
        self.p.wait()


def expected(tok, text):
    ids = array("i", tok.encode(text).ids)
    return len(ids), zlib.crc32(ids.tobytes())


def shrink(tok, ours, text):
    """A small text that still differs."""
    step = len(text) // 2
    while step >= 1:
        at = 0
        while at < len(text):
            shorter = text[:at] + text[at + step:]
            if shorter and expected(tok, shorter) != ours.sums(shorter):
                text = shorter
            else:
                at += step
        step //= 2
    return text


def compare(name, path, a, share):
    rnd = random.Random(f"{a.seed} {name}")
    tok, ours = Tokenizer.from_file(path), Isotope(a.ids, path)
    with open(path) as f:
        known = [t["content"] for t in json.load(f)["added_tokens"]] + ["<|im_end|>", "<s>", "▁", "Ġ", "<0x41>", "##x"]
    done, tokens, begin = 0, 0, time.monotonic()
    while done < share:
        text = make_text(rnd, known, min(a.piece, share - done) if rnd.random() < 0.7 else rnd.randrange(1, 3000))
        want = expected(tok, text)
        if want != ours.sums(text):
            small = shrink(tok, ours, text)
            print(f"{name}: DIFFERENT on {json.dumps(small)}\n  tokenizers {tok.encode(small).ids}\n  isotope    {ours.ids(small)}", flush=True)
            ours.close()
            return False
        done, tokens = done + len(text.encode()), tokens + want[0]
    ours.close()
    print(f"{name:24} {done / 1e6:7.1f} MB {tokens:10} ids equal, {time.monotonic() - begin:.0f} s", flush=True)
    return True


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tokenizers", required=True)
    p.add_argument("--ids", required=True)
    p.add_argument("--seed", default="1")
    p.add_argument("--megabytes", type=float, default=200)
    p.add_argument("--piece", type=int, default=1 << 16)
    p.add_argument("--only", default="")
    a = p.parse_args()
    files = {os.path.basename(os.path.dirname(f)): f for f in sorted(glob.glob(os.path.join(a.tokenizers, "**", "tokenizer.json"), recursive=True))}
    if a.only:
        files = {n: f for n, f in files.items() if n in a.only.split(",")}
    if not files:
        raise SystemExit(f"compare_random: no tokenizer.json below {a.tokenizers}")
    share = int(a.megabytes * 1e6 / len(files)) + 1
    good = [compare(name, path, a, share) for name, path in files.items()]
    print(f"compare_random: {sum(good)} of {len(good)} tokenizers equal on {share / 1e6:.1f} MB each, seed {a.seed}")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
