// Tensors of multi-token-prediction heads beyond their layers, and those that nobody keeps.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/log.h"
#include "models/planner.h"
#include "weights/json.h"

namespace isotope::models {
namespace {

constexpr DraftNames kGguf = {.join = "nextn.eh_proj.weight", .embed_norm = "nextn.enorm.weight", .hidden_norm = "nextn.hnorm.weight",
                              .norm = "nextn.shared_head_norm.weight", .embed = "nextn.embed_tokens.weight", .head = "nextn.shared_head_head.weight"};
constexpr std::string_view kGgufOtherNorm = "layer_output_norm.weight";  ///< MiMo-V2

std::string filled(std::string_view pattern, int64_t head) {
  std::string out(pattern);
  if (const size_t at = out.find("{}"); at != out.npos) out.replace(at, 2, std::to_string(head));
  return out;
}

}  // namespace

bool holds_any(const Checkpoint& c, std::string_view prefix) {
  return std::any_of(c.tensors().begin(), c.tensors().end(), [&](const TensorEntry& e) { return e.name.starts_with(prefix); });
}

DraftPlace draft_place(const Checkpoint& c, const Arch& arch, int64_t layers, int64_t head) {
  const Names names = names_of(c);
  const DraftNames& d = *arch.drafts;
  if (names.gguf || d.layer.empty()) {
    const std::string layer = fmt::format("{}{}.", names.layer, layers / arch.sublayers + head);
    return {layer, layer};
  }
  const std::string layer = filled(d.layer, head), own = d.own.empty() ? layer : filled(d.own, head);
  if (!names.body.empty() && holds_any(c, names.body + layer)) return {names.body + layer, names.body + own};
  return {layer, own};
}

Result<void> Planner::add_draft(DraftHead& d, const std::string& own) {
  const DraftNames& n = names_.gguf ? kGguf : *arch_.drafts;
  const int64_t D = c_.hidden, width[] = {D};
  const auto name = [&](std::string_view part) { return own + std::string(part); };
  const float shift = names_.gguf ? 0 : arch_.hf_norm_shift;
  const auto shifted = [shift](std::vector<float>& v) { for (float& x : v) x += shift; };
  ISO_CHECK_OK(add_numbers(d.embed_norm, name(n.embed_norm), width, shifted));
  ISO_CHECK_OK(add_numbers(d.hidden_norm, name(n.hidden_norm), width, shifted));
  if (n.join.empty()) {
    ISO_CHECK_OK(add_matrix(d.from_embed, name(n.from_embed), D, D));
    ISO_CHECK_OK(add_matrix(d.from_hidden, name(n.from_hidden), D, D));
  } else {
    ISO_CHECK_OK(add_matrix(d.join, name(n.join), D, 2 * D));
  }
  std::string_view norm = n.norm;
  if (names_.gguf && !entry(name(norm))) norm = entry(name(kGgufOtherNorm)) ? kGgufOtherNorm : "";  // without one it is the model's
  if (!norm.empty()) ISO_CHECK_OK(add_numbers(d.norm, name(norm), width, shifted));
  if (!n.streams.empty()) {
    d.streams = std::make_unique<ops::Streams>();
    ISO_CHECK_OK(add_streams(*d.streams, name(n.streams), c_.hyper.streams, 1));
  }
  const auto global = [&](ops::Linear Globals::*weight, const std::string& prefix) -> const TensorEntry* {
    for (const GlobalRow& row : arch_.globals())
      if (row.weight == weight) return entry(prefix + std::string(names_.gguf ? row.gguf : row.hf));
    return nullptr;
  };
  const TensorEntry* const embed = global(&Globals::embed, names_.body);
  if (!n.embed.empty()) ISO_CHECK_OK(add_draft_table(d.embed, name(n.embed), embed));
  if (!n.head.empty()) ISO_CHECK_OK(add_draft_table(d.head, name(n.head), c_.tied_head ? embed : global(&Globals::head, names_.head)));
  return {};
}

Result<void> Planner::add_draft_table(ops::Linear& slot, const std::string& name, const TensorEntry* same) {
  const TensorEntry* const e = entry(name);
  if (!e) return {};
  const int64_t want[] = {c_.vocab, c_.hidden};
  ISO_CHECK_OK(expect_shape(*e, want));
  if (!same || same->dtype != e->dtype || same->bytes != e->bytes) {
    add_use(*e, pack_into(slot, 0, c_.vocab));
    return {};
  }
  if (!job_of_.try_emplace(e, jobs_.size()).second) return {};
  jobs_.push_back({e, {}});
  draft_entries_.emplace(e, packed_bytes(*e));
  draft_tables_.push_back({&slot, packed_bytes(*e)});
  pairs_.push_back({{e, same}, [&o = ops_, &slot](std::span<Checkpoint::Data> d) -> Result<void> {
                      if (std::memcmp(d[0].view.data, d[1].view.data, d[0].view.bytes) != 0) { ISO_TRY(slot.w, o.pack(d[0].view)); }
                      if (d[0].release) d[0].release(0, d[0].view.bytes);
                      return {};
                    }});
  return {};
}

uint64_t Planner::draft_bytes() const {
  uint64_t bytes = 0;
  for (const auto& [e, n] : draft_entries_) bytes += n;
  for (const auto& [slot, n] : draft_tables_)
    if (!*slot) bytes -= n;
  return bytes;
}

bool Planner::is_draft(const std::string& name, std::span<const DraftPlace> kept) const {
  for (const DraftPlace& p : kept)  // of a head that is kept every tensor has its place
    if (name.starts_with(p.layer) || (name.starts_with(p.own) && !name.starts_with(p.own + "layers."))) return false;
  if (name.starts_with("mtp.") || name.starts_with(names_.body + "mtp.")) return true;  // Qwen3-Next, Qwen3.5, DeepSeek V4; MiMo-V2, LongCat
  if (!name.starts_with(names_.layer)) return false;
  const int64_t l = std::atoll(name.c_str() + names_.layer.size()), first = c_.layers / arch_.sublayers;
  if (l < first) return false;
  return l < first + c_.draft_layers || ck_.find(fmt::format("{}{}.{}", names_.layer, l, names_.gguf ? kGguf.join : "eh_proj.weight"));
}

void Planner::log_left_out(const std::vector<std::string>& names) const {
  const std::string why = !arch_.drafts            ? fmt::format("those of '{}' are not known", arch_.name)
                          : !c_.no_drafts.empty()  ? c_.no_drafts
                          : c_.draft_layers == 0   ? "the configuration announces no such heads"
                                                   : fmt::format("the configuration announces {} such heads", c_.draft_layers);
  base::log(base::LogLevel::info, "{} tensors of multi-token-prediction heads are left out, {}: {}", names.size(), why, weights::listed(names));
}

}  // namespace isotope::models
