"""gguf_to_hf.py FILE.gguf FOLDER: dequantizes a GGUF into a Hugging Face folder in bfloat16. Needs torch, transformers, accelerate and gguf."""
import os, sys

import torch, transformers


def main(source, out):
    folder, name = os.path.split(os.path.abspath(source))
    # Newer versions keep the weights packed unless told otherwise; older ones unpack always.
    unpack = {"quantization_config": transformers.GgufConfig(dequantize=True)} if hasattr(transformers, "GgufConfig") else {}
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.bfloat16, **unpack)
    model.save_pretrained(out)
    transformers.AutoTokenizer.from_pretrained(folder, gguf_file=name).save_pretrained(out)


if __name__ == "__main__":
    main(*sys.argv[1:3])
