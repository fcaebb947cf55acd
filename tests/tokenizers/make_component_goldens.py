#!/usr/bin/env python3
"""Goldens for single components of tokenizer.json, measured with Hugging Face tokenizers (0.23).

    python make_component_goldens.py OUT.json [--seed N] [--texts N]

Each row: {"kind": "normalizer" | "pre_tokenizer" | "decoder" | "tokenizer", "json": the component, "cases": [[input, output] …]}.
Outputs: a text, a list of pieces, a text, a list of ids. A component that the library itself refuses, or that fails on an input, is left out.
"""

import argparse
import json
import random

from tokenizers import Tokenizer

from tokenizers.models import BPE

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace("{1,3}", "")
QWEN35 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
UP, LOW, TAIL = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
WORDS = rf"[^\r\n\p{{L}}\p{{N}}]?{UP}*{LOW}+%s|[^\r\n\p{{L}}\p{{N}}]?{UP}+{LOW}*%s"
O200K = WORDS % (TAIL, TAIL) + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN = WORDS % ("", "") + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
KIMI = (
    r"[\p{Han}]+|"
    + (WORDS % (TAIL, TAIL)).replace(r"\p{M}]", r"\p{M}&&[^\p{Han}]]")
    + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
FAST = [GPT2, LLAMA3, QWEN2, QWEN35, O200K, TEKKEN, KIMI]
REGEXES = [
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    r"[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
    r"\s+$",
    r" ?[^(\s|[.,!?…。，、।۔،])]+",
    r"[0-9][0-9][0-9]",
    r"(?=(\d{3})+(?!\d))",
    r"\d{1,3}(?=(?:\d{3})*\b)",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    r"\w+|[^\w\s]+",
    r"\W",
    r"[\W\d]+",
    r"\bfoo\b|\B-",
    r"^.|.$",
    r"(?m).+",
    r"a{2}?",
    r"a{1,2}+b",
    r"a{,2}",
    r"a*?b",
    r"(?:ab)++c",
    r"(a|b)\1",
    r"(?<=a)b|(?<!a)c",
    r"(?>a+)b",
    r"x*",
    r"[^a-z&&[^b-d]]+",
    r"[a-z&&[aeiou]]",
    r"[[a-c][x-z]1]+",
    r"[^[a-c]\s]+",
    r"[a-z&&[^aeiou]&&[^xyz]]+",
    r"[[:alpha:]]+",
    r"[[:^alpha:]]",
    r"[[:punct:]]",
    r"[[:space:][:digit:]]+",
    r"[[:graph:]]+",
    r"[[:upper:]][[:lower:]]*",
    r"\p{Han}|\p{Hiragana}+|\p{katakana}+",
    r"\p{^Latin}",
    r"\P{Cyrillic}+",
    r"[\P{L}]",
    r"[\p{^L}\d]+",
    r"\p{Alphabetic}+",
    r"\p{Emoji}",
    r"\p{Uppercase}",
    r"\p{Lu}\p{Ll}+",
    r"\p{Sc}|\p{Sm}|\p{Sk}|\p{So}",
    r"\p{Mn}+",
    r"\p{Nl}|\p{No}",
    r"\p{Punct}",
    r"\p{Cn}",
    r"\p{C}",
    r"\p{Cf}",
    r"\p{Letter}",
    r"(?i)TRAE|k",
    r"(?i:K)",
    r"a(?i)b|c",
    r"(?x) a b # c",
    r"\u0041|\x42|\x{43}",
    r"\t|\n|\r|\f|\v|\a|\e",
    r"\R",
    r"\h+",
    r"\H",
    r"[\h\s]+",
    r"[]a]",
    r"[a-]+",
    r"[\]\-\\]",
    r"\A\S|\S\z|\S\Z",
    r"{|}|x{",
    r"(?:)",
    r"é{2}|😀+",
    r".",
    r"[\x{1F600}-\x{1F64F}]",
    r"[^\n]+|[\n]+",
    r"\p{L}\p{M}*(?: \p{L}\p{M}*)*",
]
BEHAVIORS = ["Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"]
SEQ = lambda *parts, key="pretokenizers": {"type": "Sequence", key: list(parts)}


def split(regex, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, "invert": invert}


def byte_level(prefix=False, regex=True):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


def metaspace(scheme, split_words=True):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split_words}


def pre_tokenizers(rnd):
    yield from (split(r) for r in FAST + REGEXES)
    for r in rnd.sample(FAST + REGEXES, 12):
        yield split(r, rnd.choice(BEHAVIORS), rnd.random() < 0.5)
    for b in BEHAVIORS:
        for inv in (False, True):
            yield split(r"[aeiou\s]", b, inv)
            yield {"type": "Split", "pattern": {"String": rnd.choice([" ", "a", "ab", "."])}, "behavior": b, "invert": inv}
        yield {"type": "Punctuation", "behavior": b}
    for individual in (False, True):
        yield {"type": "Digits", "individual_digits": individual}
        yield byte_level(individual, True)
        yield byte_level(individual, False)
        for scheme in ("always", "never", "first"):
            yield metaspace(scheme, individual)
    yield from ({"type": t} for t in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer", "UnicodeScripts"))
    yield {"type": "CharDelimiterSplit", "delimiter": "a"}
    yield {"type": "FixedLength", "length": 3}
    yield SEQ({"type": "WhitespaceSplit"}, metaspace("first"))
    yield SEQ({"type": "WhitespaceSplit"}, metaspace("always"))
    yield SEQ({"type": "Digits", "individual_digits": True}, byte_level())
    yield SEQ(
        {"type": "Punctuation", "behavior": "Contiguous"},
        byte_level(),
        {"type": "Digits", "individual_digits": False},
        split("[0-9][0-9][0-9]"),
    )
    yield SEQ(byte_level(), byte_level(True, False))
    yield SEQ()


def normalizers(rnd):
    yield from ({"type": t} for t in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel"))
    for left in (False, True):
        for right in (False, True):
            yield {"type": "Strip", "strip_left": left, "strip_right": right}
    for clean in (False, True):
        for chinese in (False, True):
            for lower in (False, True):
                yield {
                    "type": "BertNormalizer",
                    "clean_text": clean,
                    "handle_chinese_chars": chinese,
                    "strip_accents": rnd.choice([None, True, False]),
                    "lowercase": lower,
                }
    yield {"type": "Prepend", "prepend": "▁"}
    for pattern in (
        {"String": " "},
        {"String": "ab"},
        {"Regex": " {2,}"},
        {"Regex": r"\p{M}"},
        {"Regex": "x*"},
        {"Regex": r"[\s&&[^\n]]"},
    ):
        yield {"type": "Replace", "pattern": pattern, "content": rnd.choice(["▁", "", "zz", " "])}
    yield SEQ({"type": "NFD"}, {"type": "Lowercase"}, {"type": "StripAccents"}, key="normalizers")
    yield SEQ(key="normalizers")


def decoders():
    replace = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    strip = lambda a, b: {"type": "Strip", "content": " ", "start": a, "stop": b}
    meta = lambda scheme: {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": True}
    plain = lambda t: {"type": t}
    yield from (byte_level(), plain("ByteFallback"), plain("Fuse"), replace, meta("always"), meta("never"), meta("first"))
    yield {"type": "Replace", "pattern": {"Regex": r"[▁\s]+"}, "content": "_"}
    yield from ({"type": "WordPiece", "prefix": "##", "cleanup": c} for c in (False, True))
    yield from ({"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": c} for c in (False, True))
    yield {"type": "BPEDecoder", "suffix": "</w>"}
    yield SEQ(replace, plain("ByteFallback"), plain("Fuse"), strip(1, 0), key="decoders")
    yield SEQ(replace, plain("ByteFallback"), plain("Fuse"), key="decoders")
    yield SEQ(replace, plain("Fuse"), strip(2, 1), key="decoders")
    yield SEQ(plain("Fuse"), replace, key="decoders")
    yield SEQ(plain("ByteFallback"), meta("always"), key="decoders")
    yield SEQ(plain("ByteFallback"), {"type": "WordPiece", "prefix": "##", "cleanup": True}, key="decoders")
    yield SEQ(byte_level(), replace, key="decoders")
    yield SEQ(plain("Fuse"), byte_level(), key="decoders")
    yield SEQ(plain("Fuse"), plain("ByteFallback"), key="decoders")
    yield SEQ(key="decoders")


POOL = [
    "a",
    "b",
    "ab",
    "c",
    "x",
    "A",
    "B",
    "foo",
    "word",
    "Hello",
    "HTTP",
    "camelCase",
    " ",
    "  ",
    "   ",
    "\n",
    "\r\n",
    "\t",
    "\u00a0",
    "\u3000",
    "\u2028",
    "\x85",
    "\x00",
    "\x0b",
    "\x1c",
    ".",
    ",",
    "!",
    "?",
    "'s",
    "'S",
    "'ſ",
    "'ll",
    "'LL",
    "'re",
    "'",
    '"',
    "-",
    "_",
    "/",
    "//",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "|",
    "\\",
    "$",
    "+",
    "<",
    ">",
    "=",
    "^",
    "`",
    "~",
    "0",
    "1",
    "12",
    "123",
    "1234567",
    "²",
    "½",
    "Ⅷ",
    "٣",
    "１",
    "é",
    "e\u0301",
    "ñ",
    "ß",
    "ẞ",
    "ſ",
    "K",
    "K",
    "k",
    "İ",
    "ı",
    "ǅ",
    "ǆ",
    "ʰ",
    "ª",
    "ﬁ",
    "Å",
    "中",
    "中文",
    "〇",
    "々",
    "⼀",
    "ひ",
    "カ",
    "ー",
    "한",
    "ㅎ",
    "ж",
    "Ж",
    "ъ",
    "α",
    "Ω",
    "ς",
    "א",
    "ב\u05b0",
    "ع",
    "\u064b",
    "न",
    "क्ष",
    "ก",
    "ำ",
    "\u0301",
    "\u0323",
    "\u0307",
    "\u200d",
    "\u200b",
    "\u200c",
    "\u00ad",
    "\ufeff",
    "😀",
    "👍🏽",
    "❤️",
    "🇩🇪",
    "1️⃣",
    "\ue000",
    "\U000e0041",
    "\u180e",
    "€",
    "∑",
    "°",
    "¨",
    "̈",
    "￼",
    "\ufffd",
    "▁",
    "▁▁",
    "Ġ",
    "𝕳",
    "𠮷",
    "\U0001f9ff",
    "\U00031350",
    "\u1e9b",
    "ﷺ",
    "㎏",
    "\U00011930\U00011935",
    "ꟊ",
    "\U00016ea0",
    "\u0897",
    "ᲊ",
    "<0x41>",
    "<s>",
    "##",
    "xyz",
    "aeiou",
    "\x07",
    "\x1b",
    "\f",
]


def texts(rnd, n):
    out = ["", " ", "a", "\n"]
    while len(out) < n:
        out.append("".join(rnd.choice(POOL) for _ in range(rnd.choice((1, 2, 3, 5, 8, 13, 25)))))
    return out


def load(section, component):
    shell = json.loads(Tokenizer(BPE({}, [])).to_str())
    shell[section] = component
    return Tokenizer.from_str(json.dumps(shell))


def attempt(f):
    try:
        return f()
    except BaseException as e:
        if isinstance(e, (KeyboardInterrupt, SystemExit)):
            raise
        return None


def component_rows(rnd, n):
    for c in normalizers(rnd):
        t = attempt(lambda: load("normalizer", c))
        if t:
            yield {"kind": "normalizer", "json": c, "cases": [[s, t.normalizer.normalize_str(s)] for s in texts(rnd, n)]}
    for c in pre_tokenizers(rnd):
        t = attempt(lambda: load("pre_tokenizer", c))
        if not t:
            continue
        cases = [[s, attempt(lambda: [p for p, _ in t.pre_tokenizer.pre_tokenize_str(s)])] for s in texts(rnd, n)]
        yield {"kind": "pre_tokenizer", "json": c, "cases": [x for x in cases if x[1] is not None]}
    tokens = [
        "a",
        "▁a",
        "▁",
        "▁▁b",
        " c",
        "##d",
        "e</w>",
        "</w>f</w>",
        "Ġg",
        "ĠÃ©",
        "Ã",
        "©",
        "ð",
        "Ł",
        "<0xE4>",
        "<0xBD>",
        "<0xA0>",
        "<0xFF>",
        "<0x41>",
        "<0xe2>",
        "<0x96>",
        "<0x81>",
        "<0x+A>",
        "<pad>",
        "|",
        "'s",
        "n't",
        "!",
        ".",
        " .",
        "do not",
        "é",
        "😀",
        "",
        " ",
        "  ",
        "中",
        "<s>",
        "a",
        "a",
    ]
    for c in decoders():
        t = attempt(lambda: load("decoder", c))
        if not t:
            continue
        lists = [[rnd.choice(tokens) for _ in range(rnd.randrange(0, 9))] for _ in range(n * 2)]
        cases = [[l, attempt(lambda: t.decoder.decode(l))] for l in lists]
        yield {"kind": "decoder", "json": c, "cases": [x for x in cases if x[1] is not None]}


def alphabet():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(b) if b in printable else chr(256 + sum(x not in printable for x in range(b))) for b in range(256)]


def added(rnd, contents):
    flag = lambda p=0.3: rnd.random() < p
    return [
        {
            "id": 10000 + i,
            "content": c,
            "single_word": flag(),
            "lstrip": flag(),
            "rstrip": flag(),
            "normalized": flag(0.4),
            "special": flag(0.5),
        }
        for i, c in enumerate(contents)
    ]


def tokenizer(rnd):
    """A random small tokenizer: a model over a few letters, added tokens with random flags."""
    letters = ["a", "b", "c", "x", "▁", "é", "中", " ", "A"]
    pieces = letters + list({"".join(rnd.choice(letters) for _ in range(rnd.randrange(2, 5))) for _ in range(25)})
    kind = rnd.choice(["bpe", "bpe", "bpe", "bytes", "bytes", "unigram", "unigram", "wordpiece", "wordlevel"])
    bytes_ = [f"<0x{i:02X}>" for i in range(256)] if rnd.random() < 0.4 else []
    t = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "normalizer": rnd.choice(
            [
                None,
                None,
                {"type": "Lowercase"},
                {"type": "NFC"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
                SEQ(
                    {"type": "Prepend", "prepend": "▁"},
                    {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
                    key="normalizers",
                ),
            ]
        ),
        "pre_tokenizer": rnd.choice(
            [
                None,
                {"type": "WhitespaceSplit"},
                {"type": "Whitespace"},
                metaspace("always"),
                metaspace("first"),
                metaspace("first", False),
                metaspace("never"),
                {"type": "BertPreTokenizer"},
            ]
        ),
        "post_processor": None,
        "decoder": None,
    }
    if kind in ("bpe", "bytes"):
        prefix, suffix = (rnd.choice([None, None, "##"]), rnd.choice([None, None, "</w>"])) if kind == "bpe" else (None, None)
        vocab = ["<unk>"] + [p for p in (alphabet() if kind == "bytes" else letters) if kind == "bytes" or rnd.random() < 0.9]
        if prefix:
            vocab += [prefix + p for p in letters if rnd.random() < 0.9]
        if suffix:
            vocab += [p + suffix for p in letters if rnd.random() < 0.9] + [
                (prefix or "") + p + suffix for p in letters if rnd.random() < 0.9
            ]
        vocab = list(dict.fromkeys(vocab + bytes_))
        merges = []
        for _ in range(rnd.randrange(0, 60)):
            a, b = rnd.choice(vocab[1:]), rnd.choice(vocab[1:])
            if kind == "bytes" and rnd.random() < 0.9:
                a, b = (rnd.choice([v for v in vocab if set(v) <= set("abcxĠÃ©ä¸ŃA")]) for _ in "ab")
            if a in bytes_ or b in bytes_ or (suffix and suffix in a) or (prefix and not b.startswith(prefix)):
                continue
            new = a + b[len(prefix or "") :]
            if len(new) < 12:
                merges.append([a, b])
                if new not in vocab:
                    vocab.append(new)
        t["model"] = {
            "type": "BPE",
            "dropout": None,
            "unk_token": rnd.choice([None, "<unk>"]),
            "continuing_subword_prefix": prefix,
            "end_of_word_suffix": suffix,
            "fuse_unk": rnd.random() < 0.5,
            "byte_fallback": bool(bytes_) and kind == "bpe",
            "ignore_merges": rnd.random() < 0.3,
            "vocab": {v: i for i, v in enumerate(vocab)},
            "merges": merges,
        }
        if kind == "bytes":
            t["pre_tokenizer"] = rnd.choice(
                [byte_level(), byte_level(True), SEQ(split(QWEN2), byte_level(False, False)), byte_level(False, False)]
            )
    elif kind == "unigram":
        vocab = ["<unk>"] + pieces + bytes_
        rnd.shuffle(vocab)
        t["model"] = {
            "type": "Unigram",
            "unk_id": vocab.index("<unk>"),
            "byte_fallback": bool(bytes_),
            "vocab": [[v, round(-rnd.random() * 10, 3)] for v in vocab],
        }
    else:
        vocab = ["<unk>"] + pieces + (["##" + p for p in pieces] if kind == "wordpiece" else [])
        t["model"] = {
            "type": "WordPiece",
            "unk_token": "<unk>",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 8,
            "vocab": {v: i for i, v in enumerate(vocab)},
        }
        if kind == "wordlevel":
            t["model"] = {"type": "WordLevel", "unk_token": "<unk>", "vocab": {v: i for i, v in enumerate(vocab)}}
    t["added_tokens"] = added(
        rnd,
        rnd.sample(
            ["<s>", "<S>", "ab", "a", "x x", "  ", "中", "▁▁", "<s>x", "\n", "aA", "é", "e\u0301", "<s", "b"], rnd.randrange(0, 6)
        ),
    )
    if t["normalizer"]:  # of two added tokens with the same normalized text the library picks one by the order of a random hash
        norm, seen = load("normalizer", t["normalizer"]).normalizer, set()
        for a in list(t["added_tokens"]):
            key = norm.normalize_str(a["content"]) if a["normalized"] else None
            if key in seen:
                t["added_tokens"].remove(a)
            elif key:
                seen.add(key)
    cls = rnd.choice(list(t["model"]["vocab"])) if isinstance(t["model"]["vocab"], dict) else t["model"]["vocab"][0][0]
    pair = [cls, 1]
    t["post_processor"] = rnd.choice(
        [
            None,
            {"type": "BertProcessing", "sep": pair, "cls": pair},
            {"type": "RobertaProcessing", "sep": pair, "cls": pair, "trim_offsets": True, "add_prefix_space": True},
            {
                "type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": cls, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {cls: {"id": cls, "ids": [1, 2], "tokens": [cls, cls]}},
            },
        ]
    )
    return t


TOKENIZER_POOL = [
    "a",
    "b",
    "c",
    "x",
    "A",
    "ab",
    "abc",
    "aA",
    " ",
    " ",
    "  ",
    "é",
    "e\u0301",
    "中",
    "▁",
    "<s>",
    "<S>",
    "<s",
    "\n",
    "z",
    "zz",
    "😀",
    "<0x41>",
    ".",
    "x x",
    "<unk>",
]


def tokenizer_rows(rnd, count, n):
    for _ in range(count):
        t = tokenizer(rnd)
        made = attempt(lambda: Tokenizer.from_str(json.dumps(t)))
        if not made:
            continue
        cases = []
        for _ in range(n):
            s = "".join(rnd.choice(TOKENIZER_POOL) for _ in range(rnd.randrange(0, 14)))
            made.encode_special_tokens = False
            ids = attempt(lambda: made.encode(s, add_special_tokens=True).ids)
            made.encode_special_tokens = True
            plain = attempt(lambda: made.encode(s, add_special_tokens=False).ids)
            if ids is None or plain is None:
                continue
            dec = attempt(lambda: made.decode(ids, skip_special_tokens=True))
            cases.append([s, {"ids": ids, "plain": plain, "dec": dec}])
        yield {"kind": "tokenizer", "json": t, "cases": cases}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("out")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--texts", type=int, default=12)
    ap.add_argument("--tokenizers", type=int, default=60)
    a = ap.parse_args()
    rnd = random.Random(a.seed)
    rows = list(component_rows(rnd, a.texts)) + list(tokenizer_rows(rnd, a.tokenizers, a.texts))
    with open(a.out, "w") as f:
        json.dump(rows, f, ensure_ascii=True, separators=(",", ":"))
    print(len(rows), "rows,", sum(len(r["cases"]) for r in rows), "cases")


main()
