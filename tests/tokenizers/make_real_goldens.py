#!/usr/bin/env python3
"""Goldens for the vocabularies of real GGUF files: real/smollm2-135m.json and real/gemma3-270m.json.

    python make_real_goldens.py FOLDER_WITH_GGUF_FILES

Needs transformers (5.24) and gguf. transformers rebuilds the tokenizer from the file; what a GGUF file does not say is set as in the published
tokenizer.json: SmolLM2 splits every digit before GPT-2's pattern. Gemma's merges follow from the order of its vocabulary, and give the published list.
"""

import json
import os
import sys

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import pre_tokenizers as P
from transformers import AutoTokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
RUNS = (30, 31, 32, 33, 34, 47, 61, 62, 63, 64, 65, 100, 129)
MORE = [
    "Kantō lǜshi",
    "4 ½ months",
    "Café déjà vu — 123 😊",
    "a:<s>->",
    "e\u0301\u0302\u0303\u0304 o\u0308\u0301",
    "\u0301\u0301\u0301",
]
MORE += (
    ["x" + " " * k + "y" for k in RUNS] + [" " * k for k in (31, 32, 33, 62, 63, 95)] + ["\n" * k for k in (2, 30, 31, 32, 63)]
)
MORE += ["\t" * k for k in (2, 31, 33)] + [
    "\n \n  \n",
    "a\n\n\n b\n\n",
    " \n\t \n",
    "<h1>T</h1>\n<table><tr><td>1</td></tr></table>",
]
MORE += [
    "<start_of_turn>user\nhi<end_of_turn>\n<start_of_turn>model\n",
    "<unused12><unused6241>",
    "▁▁▁a",
    "aaaa" * 20,
    "ababab" * 20,
    "0" * 50,
]
MORE += ["🏴󠁧󠁢󠁥󠁮󠁧󠁿🧑‍🚀" * 3, "Ελληνικά русский עברית العربية हिन्दी ไทย 日本語 한국어 中文 አማርኛ"]
MORE += [
    'import os\n\n\ndef main(argv: list[str]) -> int:\n    for i, a in enumerate(argv):\n        print(f"{i}: {a!r}")\n    return 0\n\n\n'
    "if __name__ == '__main__':\n    raise SystemExit(main(sys.argv))\n"
]


def main():
    strings = json.load(open(os.path.join(HERE, "golden", "strings.json")))
    texts = strings + [x for x in MORE if x not in strings]
    for name in ("smollm2-135m", "gemma3-270m"):
        tok = AutoTokenizer.from_pretrained(sys.argv[1], gguf_file=name + ".gguf").backend_tokenizer
        if name.startswith("smollm2"):
            tok.pre_tokenizer = P.Sequence(
                [P.Digits(individual_digits=True), P.ByteLevel(add_prefix_space=False, use_regex=True)]
            )
        rows = []
        for text in texts:
            ids = tok.encode(text, add_special_tokens=False).ids
            row = {"text": text, "ids": tok.encode(text, add_special_tokens=True).ids}
            tok.encode_special_tokens = True
            plain = tok.encode(text, add_special_tokens=False).ids
            tok.encode_special_tokens = False
            if plain != ids:
                row["plain"] = plain
            decoded = tok.decode(ids, skip_special_tokens=False)
            if decoded != text:
                row["dec"] = decoded
            rows.append(row)
        with open(os.path.join(HERE, "real", name + ".json"), "w") as f:
            json.dump({"rows": rows}, f, ensure_ascii=True, separators=(",", ":"))
        print(name, len(rows))


main()
