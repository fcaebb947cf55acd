#!/usr/bin/env python3
"""Small quantized matrices in the layouts of published checkpoints, and what they stand for.

    make_goldens.py --out DIR [--seed N]

DIR/METHOD/ holds config.json and model.safetensors as a quantizer writes them, DIR/METHOD/expected/ the float32 values: from compressed-tensors' own code
for its formats, from torch's float8 for FP8, and for GPTQ and AWQ from the few lines below, written from the formats' descriptions (AutoGPTQ's and
AutoAWQ's packing). Needs torch, safetensors, numpy, compressed-tensors.
"""
import argparse, json, os

import numpy as np
import torch
from safetensors.torch import save_file

N, K = 32, 128
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def write(folder, quantization, tensors, expected):
    os.makedirs(os.path.join(folder, "expected"), exist_ok=True)
    json.dump({"architectures": ["LlamaForCausalLM"], "quantization_config": quantization}, open(os.path.join(folder, "config.json"), "w"), indent=1)
    save_file({k: v.contiguous() for k, v in tensors.items()}, os.path.join(folder, "model.safetensors"))
    save_file({k: v.float().contiguous() for k, v in expected.items()}, os.path.join(folder, "expected", "model.safetensors"))
    json.dump({"architectures": ["LlamaForCausalLM"]}, open(os.path.join(folder, "expected", "config.json"), "w"))


def words(values, axis, bits=4):
    """uint32 words along an axis, first value in the low bits."""
    per = 32 // bits
    v = np.moveaxis(values.astype(np.uint32), axis, -1)
    v = v.reshape(*v.shape[:-1], -1, per)
    return np.moveaxis((v << (np.arange(per, dtype=np.uint32) * bits)).sum(-1, dtype=np.uint32).astype(np.int64).astype(np.uint32), -1, axis).view(np.int32)


def fp8(out, rng):
    codes = torch.from_numpy(rng.normal(0, 40, (N, K)).astype(np.float32)).to(torch.float8_e4m3fn)
    for name, shape, spread in [("tensor", (), (N, K)), ("channel", (N, 1), (1, K))]:
        s = torch.from_numpy(np.asarray(rng.uniform(0.001, 0.01, shape), dtype=np.float32))
        method = {"quant_method": "fp8"} if name == "tensor" else {"quant_method": "compressed-tensors", "format": "float-quantized"}
        write(f"{out}/fp8_{name}", method, {"a.weight": codes, "a.weight_scale": s, "a.input_scale": torch.tensor(0.5), "b.weight": torch.ones(4, 32)},
              {"a.weight": codes.float() * s, "b.weight": torch.ones(4, 32)})
    n, k = 136, 192  # blocks of 128 are cut on both sides
    codes = torch.from_numpy(rng.normal(0, 40, (n, k)).astype(np.float32)).to(torch.float8_e4m3fn)
    s = torch.from_numpy(rng.uniform(0.001, 0.01, (2, 2)).astype(np.float32))
    whole = s.repeat_interleave(128, 0)[:n].repeat_interleave(128, 1)[:, :k]
    write(f"{out}/fp8_block", {"quant_method": "fp8", "weight_block_size": [128, 128]}, {"a.weight": codes, "a.weight_scale_inv": s}, {"a.weight": codes.float() * whole})
    power = torch.from_numpy(rng.integers(110, 125, (2, 2)).astype(np.uint8))
    scale = torch.exp2(power.float() - 127).repeat_interleave(128, 0)[:n].repeat_interleave(128, 1)[:, :k]
    write(f"{out}/fp8_block_e8m0", {"quant_method": "fp8", "weight_block_size": [128, 128], "scale_fmt": "ue8m0"},
          {"a.weight": codes, "a.weight_scale_inv": power.view(torch.float8_e8m0fnu)}, {"a.weight": codes.float() * scale})
    codes = torch.from_numpy(rng.normal(0, 40, (2, 64, 64)).astype(np.float32)).to(torch.float8_e4m3fn)
    s = torch.from_numpy(rng.uniform(0.001, 0.01, (2, 1, 1)).astype(np.float32))
    write(f"{out}/fp8_experts", {"quant_method": "fp8", "weight_block_size": [128, 128]}, {"mlp.experts.down_proj": codes, "mlp.experts.down_proj_scale_inv": s},
          {"mlp.experts.down_proj": codes.float() * s})


def gptq(out, rng):
    for name, bits, group, act_order, version in [("gptq", 4, 32, False, 1), ("gptq_v2", 4, 64, False, 2), ("gptq_act_order", 4, 64, True, 1), ("gptq_8bit", 8, 128, False, 1)]:
        q = rng.integers(0, 1 << bits, (K, N))
        z = rng.integers(1, 1 << bits, (K // group, N))
        s = torch.from_numpy(rng.uniform(0.001, 0.01, (K // group, N)).astype(np.float16))
        g = np.arange(K) // group
        if act_order:
            g = rng.permutation(g)
        value = (q - z[g]).astype(np.float32) * s.float().numpy()[g]
        write(f"{out}/{name}", {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": act_order, "checkpoint_format": "gptq" if version == 1 else "gptq_v2"},
              {"a.qweight": torch.from_numpy(words(q, 0, bits)), "a.qzeros": torch.from_numpy(words(z - 1 if version == 1 else z, 1, bits)), "a.scales": s,
               "a.g_idx": torch.from_numpy(g.astype(np.int32)), "a.bias": torch.ones(N)},
              {"a.weight": torch.from_numpy(value.T.copy()), "a.bias": torch.ones(N)})


def awq(out, rng):
    group = 64
    q, z = rng.integers(0, 16, (K, N)), rng.integers(0, 16, (K // group, N))
    s = torch.from_numpy(rng.uniform(0.001, 0.01, (K // group, N)).astype(np.float16))
    mixed = lambda v: words(v.reshape(v.shape[0], -1, 8)[:, :, AWQ_ORDER].reshape(v.shape), 1)
    g = np.arange(K) // group
    value = (q - z[g]).astype(np.float32) * s.float().numpy()[g]
    write(f"{out}/awq", {"quant_method": "awq", "bits": 4, "group_size": group, "version": "gemm", "zero_point": True},
          {"a.qweight": torch.from_numpy(mixed(q)), "a.qzeros": torch.from_numpy(mixed(z)), "a.scales": s}, {"a.weight": torch.from_numpy(value.T.copy())})


def compressed_tensors(out, rng):
    from compressed_tensors.compressors import (IntQuantizationCompressor, MXFP4PackedCompressor, NVFP4PackedCompressor, PackedQuantizationCompressor,
                                                unpack_fp4_from_uint8)
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.lifecycle.forward import dequantize

    weight = torch.from_numpy(rng.normal(0, 0.02, (N, K)).astype(np.float32))
    floats = lambda *shape: torch.from_numpy(rng.uniform(0.002, 0.006, shape).astype(np.float32))
    cases = [("ct_int4", PackedQuantizationCompressor, "pack-quantized", dict(num_bits=4, type="int", symmetric=True, strategy="group", group_size=32)),
             ("ct_int4_asym", PackedQuantizationCompressor, "pack-quantized", dict(num_bits=4, type="int", symmetric=False, strategy="group", group_size=64)),
             ("ct_int8_packed", PackedQuantizationCompressor, "pack-quantized", dict(num_bits=8, type="int", symmetric=True, strategy="channel")),
             ("ct_int8", IntQuantizationCompressor, "int-quantized", dict(num_bits=8, type="int", symmetric=True, strategy="channel")),
             ("ct_nvfp4", NVFP4PackedCompressor, "nvfp4-pack-quantized", dict(num_bits=4, type="float", symmetric=True, strategy="tensor_group", group_size=16)),
             ("ct_mxfp4", MXFP4PackedCompressor, "mxfp4-pack-quantized", dict(num_bits=4, type="float", symmetric=True, strategy="group", group_size=32))]
    for name, compressor, form, kind in cases:
        args = QuantizationArgs(**kind)
        scheme = QuantizationScheme(targets=["Linear"], weights=args)
        groups = K // (kind.get("group_size") or K)
        state = {"weight": weight}
        if "fp4" in name:
            scales = torch.exp2(torch.from_numpy(rng.integers(-9, -6, (N, groups)).astype(np.float32))) if name == "ct_mxfp4" else floats(N, groups) * 3e4
            state["weight_scale"] = scales
            if name == "ct_nvfp4":
                state["weight_scale"] = scales.to(torch.float8_e4m3fn).float()
                state["weight_global_scale"] = torch.tensor([3e4])
        else:
            state["weight_scale"] = floats(N, groups) / (16 if kind["num_bits"] == 8 else 1)
            state["weight_zero_point"] = torch.from_numpy(rng.integers(-8 if not kind["symmetric"] else 0, 8 if not kind["symmetric"] else 1, (N, groups)).astype(np.int8))
        packed = dict(compressor.compress(state, scheme))
        if "fp4" in name:
            codes = unpack_fp4_from_uint8(packed["weight_packed"], N, K, dtype=torch.float32)
            expected = dequantize(x_q=codes, scale=state["weight_scale"], args=args, global_scale=state.get("weight_global_scale"), dtype=torch.float32)
        else:
            expected = compressor.decompress(packed, scheme)["weight"]
        write(f"{out}/{name}", {"quant_method": "compressed-tensors", "format": form, "config_groups": {"group_0": {"weights": kind}}},
              {"a." + k: v for k, v in packed.items()}, {"a.weight": expected})


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", required=True)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    rng = np.random.default_rng(a.seed)
    fp8(a.out, rng)
    gptq(a.out, rng)
    awq(a.out, rng)
    compressed_tensors(a.out, rng)


if __name__ == "__main__":
    main()
