#!/usr/bin/env python3
"""Writes DIR/NAME/model.gguf beside the goldens, with llama.cpp's own converter, so that names, row order and metadata are those of published files.

    make_gguf.py --goldens DIR --llama-cpp TREE [--families a,b]

TREE is a source tree of llama.cpp (the source package of llama-cpp-python carries one under vendor/). Only the vocabulary is ours: the tiny models have
none, and the converter would ask for tokenizer files. Matrices are bfloat16, as in model.safetensors, so the same goldens hold.
"""
import argparse, json, logging, os, shutil, sys, tempfile
from pathlib import Path

os.environ["TQDM_DISABLE"] = "1"
from families import FAMILIES


def write_vocabulary(converter):
    """Stands in for set_vocab(): as many plain tokens as the model has rows."""
    n = converter.hparams["vocab_size"]
    w = converter.gguf_writer
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("default")
    w.add_token_list([f"<{i}>" for i in range(n)])
    w.add_token_types([3 if i < 3 else 1 for i in range(n)])
    w.add_token_merges([])
    w.add_bos_token_id(converter.hparams["bos_token_id"])
    w.add_eos_token_id(converter.hparams["eos_token_id"])


def convert(folder, out, spec):
    import gguf
    from conversion import get_model_class
    with tempfile.TemporaryDirectory() as tmp:
        for f in ("config.json", "model.safetensors"):
            shutil.copy(os.path.join(folder, f), tmp)
        config = json.load(open(os.path.join(tmp, "config.json")))
        vocab = {f"<{i}>": i for i in range(config.get("text_config", config)["vocab_size"])}
        json.dump({"model": {"vocab": vocab}, "added_tokens": []}, open(os.path.join(tmp, "tokenizer.json"), "w"))  # Gemma 3 counts its rows by it
        cls = get_model_class(config["architectures"][0])
        for c in (cls, *(c for c in vars(cls).values() if isinstance(c, type))):  # Mistral 3 hands the work to one of two classes within
            c.set_vocab, c.no_mtp = write_vocabulary, "mtp" not in spec
        hparams = {**config, **config.get("text_config", {}), "architectures": config["architectures"]} if spec.get("raw_config") else None
        cls(Path(tmp), gguf.LlamaFileType.MOSTLY_BF16, Path(out), model_name=os.path.basename(folder), fuse_qkv=spec.get("fuse_qkv", False),
            hparams=hparams).write()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--goldens", required=True)
    p.add_argument("--llama-cpp", required=True)
    p.add_argument("--families", default="", help="comma-separated; default all that GGUF can express")
    a = p.parse_args()
    sys.path[:0] = [os.path.join(a.llama_cpp, "gguf-py"), a.llama_cpp]
    import torch
    logging.disable(logging.WARNING)
    for name in [x for x in a.families.split(",") if x] or FAMILIES:
        if FAMILIES[name].get("gguf", True):
            folder = os.path.join(a.goldens, name)
            with torch.inference_mode():
                convert(folder, os.path.join(folder, "model.gguf"), FAMILIES[name])
            print(f"{name:18s} {os.path.getsize(os.path.join(folder, 'model.gguf')) / 1e3:6.0f} kB", flush=True)


if __name__ == "__main__":
    main()
