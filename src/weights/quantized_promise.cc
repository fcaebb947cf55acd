#include "weights/quantized_promise.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <unordered_set>

#include "tensor/format.h"
#include "weights/eligible.h"
#include "weights/json.h"
#include "weights/metadata.h"

namespace isotope::weights {

namespace {

using nlohmann::json;
using tensor::DType;
using tensor::HostTensor;

constexpr const char* kFiles =
    "download config.json and weights of one release again, or correct config.json if the weights are right";

/// Of a HostTensor or a TensorEntry.
template <class T>
std::string shape_text(const T& t) {
  return fmt::format("[{}]", fmt::join(std::span(t.shape).first(size_t(std::max(t.rank, 0))), ", "));
}

const json* member(const json& j, const char* key) {
  const auto it = j.is_object() ? j.find(key) : j.end();
  return it == j.end() || it->is_null() ? nullptr : &*it;
}

std::string word(const json& j, const char* key) {
  const json* const v = member(j, key);
  return v && v->is_string() ? v->get<std::string>() : std::string();
}

Result<std::optional<int64_t>> whole(const json& j, std::initializer_list<const char*> keys, const std::string& source) {
  for (const char* key : keys) {
    const json* const v = member(j, key);
    if (!v) continue;
    if (!v->is_number_integer())
      return fail(Code::data_loss,
                  fmt::format("{} is {}", key, v->dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 80)), source,
                  "use an intact config.json");
    return v->get<int64_t>();
  }
  return std::nullopt;
}

Result<std::array<int64_t, 2>> block(const json& j, const char* key, const std::string& source) {
  const json* const v = member(j, key);
  if (!v) return std::array<int64_t, 2>{};
  const auto side = [&](size_t i) { return (*v)[i].is_number_integer() ? (*v)[i].get<int64_t>() : 0; };
  if (!v->is_array() || v->size() != 2 || side(0) < 1 || side(1) < 1)
    return fail(Code::data_loss,
                fmt::format("{} is {}, not two numbers of rows and columns", key,
                            v->dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 80)),
                source, "use an intact config.json");
  return std::array<int64_t, 2>{side(0), side(1)};
}

void names(const json& j, std::initializer_list<const char*> keys, std::vector<std::string>& out) {
  for (const char* key : keys)
    if (const json* const list = member(j, key); list && list->is_array())
      for (const json& name : *list)
        if (name.is_string()) out.push_back(name.get<std::string>());
}

Result<PromisedGroup> group_of(const json& weights, const std::string& source) {
  PromisedGroup g{.bits = {},
                  .group_size = {},
                  .type = word(weights, "type"),
                  .strategy = word(weights, "strategy"),
                  .block = {},
                  .targets = {}};
  ISO_TRY(g.bits, whole(weights, {"num_bits"}, source));
  ISO_TRY(g.group_size, whole(weights, {"group_size"}, source));
  ISO_TRY(g.block, block(weights, "block_structure", source));
  return g;
}

/// Whether a module is one that a pattern means. Generous, since writers and readers spell modules differently: parts of names
/// count, and fused names mean what they are fused of.
bool means(const std::string& pattern, const std::string& module) {
  if (pattern.starts_with("re:")) try {
      return std::regex_search(module, std::regex(pattern.substr(3)), std::regex_constants::match_continuous);
    } catch (const std::regex_error&) {
      return true;  // nobody knows what it means
    }
  const size_t layers = pattern.find("layers.");  // what is before it changes from version to version
  const std::string tail = layers == pattern.npos ? pattern : pattern.substr(layers);
  if (tail.find_first_of("*?[") != tail.npos) return ::fnmatch(("*" + tail + "*").c_str(), module.c_str(), 0) == 0;
  if (tail.empty() || module.find(tail) != module.npos) return true;
  constexpr std::pair<std::string_view, std::string_view> kFused[] = {{"qkv_proj", "q_proj"},
                                                                      {"qkv_proj", "k_proj"},
                                                                      {"qkv_proj", "v_proj"},
                                                                      {"gate_up_proj", "gate_proj"},
                                                                      {"gate_up_proj", "up_proj"}};
  for (const auto& [fused, part] : kFused)
    if (tail.ends_with(fused) && module.find(tail.substr(0, tail.size() - fused.size()) + std::string(part)) != module.npos)
      return true;
  return false;
}

bool meant(const std::vector<std::string>& patterns, const std::string& module) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& p) { return means(p, module); });
}

/// The same for who has to choose: the pattern names the module, or one that the module lies in.
bool names_exactly(const std::string& pattern, const std::string& module) {
  if (!means(pattern, module)) return false;
  if (pattern.starts_with("re:")) return true;
  const size_t layers = pattern.find("layers.");
  const std::string tail = layers == pattern.npos ? pattern : pattern.substr(layers);
  if (tail.find_first_of("*?[") != tail.npos)
    return ::fnmatch(("*" + tail).c_str(), module.c_str(), 0) == 0 || ::fnmatch(("*" + tail + ".*").c_str(), module.c_str(), 0) == 0;
  const std::string inside = "." + module + ".";
  return tail.empty() || module.find(tail) == module.npos || inside.find("." + tail + ".") != inside.npos;
}

bool of_class(const std::string& target) { return !target.starts_with("re:") && target.find('.') == target.npos; }

/// "model.layers.#.mlp.up_proj.weight": what matrices of the same kind share.
std::string kind_of(std::string_view name) {
  std::string out;
  for (char c : name) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit || out.empty() || out.back() != '#') out += digit ? '#' : c;
  }
  return out;
}

int64_t layer_of(std::string_view name) {
  const size_t at = name.find("layers.");
  int64_t n = 0;
  for (size_t i = at == name.npos ? name.size() : at + 7; i < name.size() && name[i] >= '0' && name[i] <= '9' && n < 1'000'000;
       ++i)
    n = n * 10 + (name[i] - '0');
  return n;
}

std::string said(const PromisedGroup& g) {
  std::string s;
  const auto add = [&](std::string part) { s += (s.empty() ? "" : ", ") + std::move(part); };
  if (g.bits) add(fmt::format("{}{} bits", g.type.empty() ? "" : g.type + " of ", *g.bits));
  if (g.block[0])
    add(fmt::format("a scale for each {} x {}", g.block[0], g.block[1]));
  else if (g.group_size && *g.group_size > 0)
    add(fmt::format("groups of {} columns", *g.group_size));
  else if (g.group_size || !g.strategy.empty())
    add(g.strategy == "tensor"                          ? "a scale for all of a matrix"
        : g.strategy.empty() || g.strategy == "channel" ? "a scale for each row"
                                                        : "strategy " + g.strategy);
  return s;
}

int64_t ceil_div(int64_t a, int64_t b) {
  return a / b + (a % b != 0);
}

/// Scales of one matrix along its columns, and along its rows; [n, groups] but for gptq and awq, which are turned.
struct Count {
  int64_t down = 1, across = 1;
};
Count count_of(const QuantizedParts& p) {
  const HostTensor& s = p.scales;
  if (p.layout == Layout::gptq || p.layout == Layout::awq) return {p.n, s.shape[0]};
  if (s.elements() == p.matrices) return {};
  if (s.rank < 2) return {s.elements() / p.matrices, 1};
  return {s.shape[size_t(s.rank - 2)], s.shape[size_t(s.rank - 1)]};
}

bool of_floats(const QuantizedParts& p) { return p.layout == Layout::floats8 || p.layout == Layout::fp4; }
int64_t bits_of(const QuantizedParts& p) {
  return p.layout == Layout::floats8 || p.layout == Layout::bytes ? 8 : p.layout == Layout::fp4 ? 4 : p.bits;
}

bool keeps(const PromisedGroup& g, const QuantizedParts& p) {
  const Count c = count_of(p);
  if (g.bits && *g.bits != bits_of(p)) return false;
  if ((g.type == "float" && !of_floats(p)) || (g.type == "int" && of_floats(p))) return false;
  if (g.block[0])
    return p.layout != Layout::floats8 || (c.down == ceil_div(p.n, g.block[0]) && c.across == ceil_div(p.k, g.block[1]));
  if (p.layout == Layout::floats8 && g.strategy.empty()) return true;
  if (g.group_size && *g.group_size > 0) return c.across == ceil_div(p.k, *g.group_size);
  return (!g.group_size && g.strategy != "channel" && g.strategy != "tensor") || c.across == 1;
}

/// Not a linear layer that anybody would quantize, or one that stays as it is by custom.
bool never_quantized(const TensorEntry& e, const Checkpoint& c) {
  const bool stack = e.rank == 3 && e.name.find("experts") != e.name.npos &&
                     (e.dtype == DType::bf16 || e.dtype == DType::f16 || e.dtype == DType::f32) && !e.name.ends_with("bias");
  return !eligible(e, c) && !stack;
}

tl::unexpected<Error> plain(const Promise& p, const Checkpoint& c, const TensorEntry& e, bool all) {
  const std::string how = p.groups.empty() ? "" : said(p.groups[0]);
  return fail(Code::data_loss,
              fmt::format("{} promises {} weights{}, the tensor is plain {} {}, and {}", p.source, p.method,
                          how.empty() ? "" : " (" + how + ")", tensor::format(e.dtype).name, shape_text(e),
                          all ? "no matrix of the files is quantized" : "others of its kind are quantized"),
              place_of(c, e),
              all ? "if these are the unquantized weights, remove quantization_config from config.json; else put the quantized "
                    "files of its release here"
                  : "list the module under ignore or modules_to_not_convert in config.json if it is meant to be plain; else "
                    "download the files of one release again");
}

}  // namespace

const json* quantization_config(const Metadata& m) {
  const json* const root = m.tree();
  if (!root) return nullptr;
  for (const json* at : {root, member(*root, "text_config")})
    for (const char* key : {"quantization_config", "compression_config"})
      if (const json* const q = at ? member(*at, key) : nullptr; q && q->is_object()) return q;
  return nullptr;
}

std::string quantization_method(const json& q) { return word(q, "quant_method"); }

const PromisedGroup* group_for(const Promise& p, const std::string& module) {
  const auto named = [&](const std::string& pattern) { return names_exactly(pattern, module); };
  if (!p.weights || std::any_of(p.kept.begin(), p.kept.end(), named)) return nullptr;
  for (const PromisedGroup& g : p.groups)  // names go before classes
    if (std::any_of(g.targets.begin(), g.targets.end(), [&](const std::string& t) { return !of_class(t) && named(t); })) return &g;
  for (const PromisedGroup& g : p.groups)
    if (g.targets.empty() || std::any_of(g.targets.begin(), g.targets.end(), of_class)) return &g;
  return nullptr;
}

Result<Promise> read_promise(const json& q, std::string method, std::string source) {
  Promise p{.source = std::move(source), .method = std::move(method), .groups = {}, .kept = {}, .only = {}};
  names(q, {"ignore", "ignored_layers", "modules_to_not_convert", "exclude_modules"}, p.kept);
  for (const char* key : {"dynamic", "extra_config", "modules_in_block_to_quantize"})
    if (const json* const own = member(q, key); own && !own->empty()) p.per_module = true;
  if (const json* const groups = member(q, "config_groups"); groups && groups->is_object()) {
    bool classes = false;
    for (const auto& [key, group] : groups->items()) {
      const json* const weights = member(group, "weights");
      if (!weights) continue;
      ISO_TRY(PromisedGroup g, group_of(*weights, p.source));
      p.groups.push_back(std::move(g));
      std::vector<std::string>& targets = p.groups.back().targets;
      names(group, {"targets"}, targets);
      classes |= targets.empty() || std::any_of(targets.begin(), targets.end(), of_class);
      p.only.insert(p.only.end(), targets.begin(), targets.end());
    }
    if (classes) p.only.clear();
    p.weights = !p.groups.empty() && word(q, "format") != "dense";
    return p;
  }
  if (p.method == "compressed-tensors" || (p.method == "modelopt" && word(q, "quant_algo").empty())) p.weights = false;
  if (p.method == "modelopt") return p;  // what it says of groups is of one of its formats, which it may mix
  PromisedGroup g{};
  ISO_TRY(g.bits, whole(q, {"bits", "w_bit"}, p.source));
  ISO_TRY(g.group_size, whole(q, {"group_size", "q_group_size"}, p.source));
  ISO_TRY(g.block, block(q, "weight_block_size", p.source));
  if (p.method == "fp8") g.bits = {}, g.group_size = {};  // experts may have four bits
  p.groups.push_back(std::move(g));
  return p;
}

Result<void> check_kind(const Promise& p, const TensorEntry& codes, Layout layout, const std::string& where) {
  const bool words = layout == Layout::gptq || layout == Layout::awq, packed = codes.name.ends_with(".weight_packed");
  const bool asked = p.method == "gptq" || p.method == "awq";
  const bool good = words    ? asked
                    : packed ? p.method == "compressed-tensors" || p.method == "modelopt"
                             : !asked && !(p.method == "fp8" && layout == Layout::bytes);
  if (good) return {};
  const char* const found = words    ? "words of gptq or awq"
                            : packed ? "packed by compressed-tensors"
                                     : "codes of 8 bits with scales";
  return fail(
      Code::data_loss,
      fmt::format("{} promises {} weights, the tensor is {} {}: {}", p.source, p.method, tensor::format(codes.dtype).name,
                  shape_text(codes), found),
      where, kFiles);
}

Result<void> check_words_kept(const Promise& p, const QuantizedParts& m, const std::string& where) {
  const HostTensor &codes = m.codes, &s = m.scales, &z = m.zeros;
  if (codes.rank != 2 || s.rank != 2 || codes.elements() < 1 || s.elements() < 1 || (z.rank == 2 && z.elements() < 1)) return {};
  const bool awq = m.layout == Layout::awq;
  if (s.shape[1] == codes.shape[1] * (awq ? 1 : 8))
    return fail(
        Code::data_loss,
        fmt::format("{} promises {} weights, codes {} and scales {} are {}'s", p.source, p.method, shape_text(codes),
                    shape_text(s), awq ? "gptq" : "awq"),
        where,
        fmt::format("set quant_method to \"{}\" in config.json if the weights are right, or download both of one release again",
                    awq ? "gptq" : "awq"));
  if (z.rank != 2 || z.dtype != DType::i32 || z.shape[0] != s.shape[0] || (m.bits != 4 && m.bits != 8) || p.per_module) return {};
  if (z.shape[1] == ceil_div(s.shape[1] * m.bits, 32) || z.shape[1] > s.shape[1] || z.shape[1] * 32 % s.shape[1]) return {};
  const int64_t proved = z.shape[1] * 32 / s.shape[1];
  return fail(
      Code::data_loss,
      fmt::format("{} promises {} bits, zero points {} for scales {} are of {} bits", p.source, m.bits, shape_text(z),
                  shape_text(s), proved),
      where,
      fmt::format("set bits to {} in config.json if the weights are right, or download both of one release again", proved));
}

Result<void> check_sizes_kept(const Promise& p, const QuantizedParts& m, const std::string& where) {
  if (p.groups.empty() || p.per_module) return {};
  if (std::any_of(p.groups.begin(), p.groups.end(), [&](const PromisedGroup& g) { return keeps(g, m); })) return {};
  std::string all;
  for (const PromisedGroup& g : p.groups) all += (all.empty() ? "" : "; or ") + said(g);
  const Count c = count_of(m);
  const std::string columns = c.across == 1    ? "all columns"
                              : m.k % c.across ? fmt::format("{} groups of columns", c.across)
                                               : fmt::format("each {} columns", m.k / c.across);
  const std::string rows = c.down > 1 && c.down < m.n && m.n % c.down == 0 ? fmt::format("{} rows by ", m.n / c.down) : "";
  return fail(Code::data_loss,
              fmt::format("{} promises {}; codes {} {} and scales {} are {} of {} bits, [{}, {}] with a scale for {}{}", p.source,
                          all, tensor::format(m.codes.dtype).name, shape_text(m.codes), shape_text(m.scales),
                          of_floats(m) ? "floats" : "whole numbers", bits_of(m), m.n, m.k, rows, columns),
              where, kFiles);
}

Result<void> check_plain(const Promise& p, const Checkpoint& c, const std::vector<std::string>& quantized) {
  if (!p.weights) return {};
  // Readers of gptq and awq take a module without codes as plain unless config.json lists those that are.
  const bool each = !quantized.empty() && p.method != "gptq" && (p.method != "awq" || !p.kept.empty()) && !p.per_module;
  if (!quantized.empty() && !each) return {};
  std::unordered_set<std::string> kinds;
  for (const std::string& name : quantized) kinds.insert(kind_of(name));
  for (const TensorEntry& e : c.tensors()) {
    if (never_quantized(e, c) || layer_of(e.name) >= p.layers || (each && !kinds.contains(kind_of(e.name)))) continue;
    const std::string module(e.rank == 3 ? std::string_view(e.name) : module_of(e.name));
    if (meant(p.kept, module) || (!p.only.empty() && !meant(p.only, module))) continue;
    return plain(p, c, e, !each);
  }
  return {};
}

Result<void> check_unannounced(const Checkpoint& c) {
  for (const TensorEntry& e : c.tensors()) {
    const bool words = e.dtype == DType::i32 && (e.name.ends_with(".qweight") || e.name.ends_with(".weight_packed"));
    const bool pairs = e.dtype == DType::u8 && e.name.ends_with(".weight_packed");
    const bool bytes =
        (e.dtype == DType::f8_e4m3 || e.dtype == DType::i8 || e.dtype == DType::u8) && e.rank >= 2 &&
        e.name.ends_with(".weight") &&
        (c.find(e.name + "_scale") || c.find(e.name + "_scale_inv") || c.find(std::string(module_of(e.name)) + ".scale"));
    if (!words && !pairs && !bytes) continue;
    return fail(
        Code::data_loss,
        fmt::format(
            "the tensor is {} {}, which is a quantized matrix, and {} has no quantization_config that says of what method",
            tensor::format(e.dtype).name,
            shape_text(e), c.metadata().source()),
        place_of(c, e), "use the config.json (or hf_quant_config.json) that was published with these weights");
  }
  return {};
}

}  // namespace isotope::weights
