"""A Hugging Face tokenizer folder from the tokenizer in a GGUF file, for clients that count tokens themselves."""
import json
import pathlib

import gguf
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

CONTROL, USER_DEFINED = 3, 4   # gguf.TokenType


def fields(path):
    reader = gguf.GGUFReader(path)
    return {name: field.contents() for name, field in reader.fields.items() if name.startswith("tokenizer.")}


def write(gguf_path, folder):
    """Byte-level BPE whose digits stand alone, which is the tokenizer of the built-in model. Returns `folder`."""
    f = fields(gguf_path)
    if (f["tokenizer.ggml.model"], f["tokenizer.ggml.pre"]) != ("gpt2", "smollm"):
        raise SystemExit(f"{gguf_path}: only the tokenizer of SmolLM2 is written here")
    tokens, kinds = f["tokenizer.ggml.tokens"], f["tokenizer.ggml.token_type"]
    t = Tokenizer(models.BPE(vocab={s: i for i, s in enumerate(tokens)}, merges=[tuple(m.split(" ")) for m in f["tokenizer.ggml.merges"]]))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s, k in zip(tokens, kinds) if k in (CONTROL, USER_DEFINED)])
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    t.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": tokens[f["tokenizer.ggml.bos_token_id"]], "eos_token": tokens[f["tokenizer.ggml.eos_token_id"]],
        "chat_template": f["tokenizer.chat_template"], "model_max_length": 8192, "add_bos_token": False, "clean_up_tokenization_spaces": False}))
    return folder
