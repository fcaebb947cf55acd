#include "weights/quantize_types.h"

#include <fnmatch.h>

#include <algorithm>
#include <cstdlib>

#include "weights/json.h"

namespace isotope::weights {

using tensor::DType;

namespace {

constexpr FileType kTypes[] = {
    {"F32", 0, DType::f32},      {"F16", 1, DType::f16},      {"BF16", 32, DType::bf16}, {"Q4_0", 2, DType::q4_0},    {"Q4_1", 3, DType::q4_1},
    {"Q5_0", 8, DType::q5_0},    {"Q5_1", 9, DType::q5_1},    {"Q8_0", 7, DType::q8_0},  {"Q4_K_S", 14, DType::q4_k}, {"Q4_K_M", 15, DType::q4_k},
    {"Q5_K_S", 16, DType::q5_k}, {"Q5_K_M", 17, DType::q5_k}, {"Q6_K", 18, DType::q6_k},
};

char upper(char c) { return c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c; }
bool same(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return upper(x) == upper(y); });
}

bool is_float(DType t) { return t == DType::f32 || t == DType::f16 || t == DType::bf16; }

/// The layers in which a mixture spends more bits: the first and last eighth, and every third between.
bool sensitive(int64_t layer, int64_t layers) { return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2; }

/// The number in "blk.N.", or -1.
int64_t layer_of(std::string_view name) { return name.starts_with("blk.") ? std::atoll(std::string(name.substr(4)).c_str()) : -1; }

/// Where a type's blocks do not fit.
struct Fallback {
  DType from, to;
};
constexpr Fallback kFallbacks[] = {{DType::q4_k, DType::q5_0}, {DType::q5_k, DType::q5_1}, {DType::q6_k, DType::q8_0}};

bool is_matrix(std::string_view name, std::span<const int64_t> shape) {
  if (shape.size() < 2 || !name.ends_with("weight")) return false;
  for (std::string_view part : {"_norm.weight", "ffn_gate_inp", "ssm_conv1d", "shortconv.conv", "position_embd", "token_types", "rope_freqs",
                                "rope_factors", "altup", "laurel", "per_layer_model_proj", "attn_rel_b", "time_mix_"})
    if (name.find(part) != name.npos) return false;
  return true;
}

/// The mixture named by the file type, before anybody's wishes.
DType mixed(const TypeOptions& o, std::string_view name) {
  const DType main = o.type->main;
  if (is_float(main) || o.pure) return main;
  const bool output = name == "output.weight" || (o.tied && name == "token_embd.weight");
  if (output) return main == DType::q8_0 ? main : DType::q6_k;
  const int64_t layer = layer_of(name);
  const std::string_view t = o.type->name;
  if (name.ends_with("attn_v.weight")) {
    if (o.experts == 8 && main != DType::q6_k && t.find("_K_") != t.npos) return DType::q8_0;  // few heads, and the rest of the file is large
    if (t == "Q4_K_S" && layer < 4) return DType::q5_k;
    if (t.ends_with("_M") && sensitive(layer, o.layers)) return DType::q6_k;
  }
  if (name.ends_with("attn_k.weight") && o.experts == 8 && main != DType::q6_k && t.find("_K_") != t.npos) return DType::q8_0;
  if (name.ends_with("attn_qkv.weight") && t.ends_with("_M")) return t == "Q4_K_M" ? DType::q5_k : DType::q6_k;
  if (name.ends_with("attn_output.weight") && o.experts == 8 && main == DType::q4_k) return DType::q5_k;
  if (name.find("ffn_down") != name.npos) {
    if (t == "Q4_K_S" && layer < o.layers / 8) return DType::q5_k;
    if (t.ends_with("_M") && sensitive(layer, o.layers)) return DType::q6_k;
  }
  return main;
}

}  // namespace

std::span<const FileType> file_types() { return kTypes; }

const FileType* file_type_by_name(std::string_view name) {
  for (const FileType& f : kTypes)
    if (same(f.name, name) || (f.name.ends_with("_K_M") && same(f.name.substr(0, 4), name))) return &f;
  return nullptr;
}

std::string file_type_names() {
  std::string out;
  for (const FileType& f : kTypes) out.append(out.empty() ? "" : " ").append(f.name);
  return out;
}

Result<TypeChoice> type_of(const TypeOptions& o, std::string_view name, std::span<const int64_t> shape, DType from) {
  if (!is_matrix(name, shape)) return TypeChoice{from == DType::f32 || from == DType::f16 || from == DType::bf16 ? DType::f32 : from};
  if (from == DType::i8 || from == DType::i16 || from == DType::i32 || from == DType::i64) return TypeChoice{from};  // tables of numbers (DeepSeek V4)
  TypeChoice c{mixed(o, name)};
  const auto ask = [&](DType t) { c = {t, "asked for"}; };
  const auto pattern = std::find_if(o.by_name.begin(), o.by_name.end(),
                                    [&](const auto& p) { return ::fnmatch(p.first.c_str(), std::string(name).c_str(), 0) == 0; });
  if (pattern != o.by_name.end())
    ask(pattern->second);
  else if (name == "output.weight" && o.output)
    ask(*o.output);
  else if (name == "token_embd.weight" && (o.embedding || (o.tied && o.output)))
    ask(o.embedding ? *o.embedding : *o.output);
  const int64_t k = shape.back();
  for (const Fallback& f : kFallbacks)
    if (c.dtype == f.from && k % tensor::format(f.from).block) c = {f.to, "rows do not fill blocks of 256"};
  if (k % tensor::format(c.dtype).block) c = {DType::f16, "rows do not fill blocks of 32"};
  return c;
}

}  // namespace isotope::weights
