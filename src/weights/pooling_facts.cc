#include "weights/pooling_facts.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/mapped_file.h"
#include "weights/json.h"
#include "weights/metadata.h"

namespace isotope::weights {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr uint64_t kMaxFile = uint64_t{1} << 20;

/// Null for a file that is not there.
Result<json> optional_json(const fs::path& path) {
  std::error_code ec;
  if (!fs::exists(path, ec)) return json();
  ISO_TRY(const std::string text, base::read_text_file(path.string(), kMaxFile));
  return parse_json(text, path.string());
}

tl::unexpected<Error> refuse(std::string what, const fs::path& where) {
  return fail(Code::unsupported, std::move(what), where.string(), "known: mean, cls, lasttoken or max pooling, then at most a normalisation; or name one with --pooling");
}

struct Mode {
  const char *flag, *name;
  std::optional<Pooling> pooling;
};
constexpr Mode kModes[] = {{"pooling_mode_cls_token", "cls", Pooling::cls},
                           {"pooling_mode_mean_tokens", "mean", Pooling::mean},
                           {"pooling_mode_max_tokens", "max", Pooling::max},
                           {"pooling_mode_lasttoken", "lasttoken", Pooling::last},
                           {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", {}},
                           {"pooling_mode_weightedmean_tokens", "weightedmean", {}}};

Result<Pooling> read_pooling(const json& j, const fs::path& where) {
  if (!j.is_object()) return refuse("the file holds no JSON object", where);
  std::optional<Pooling> found;
  const std::string named = j.contains("pooling_mode") && j["pooling_mode"].is_string() ? j["pooling_mode"].get<std::string>() : "";
  for (const Mode& m : kModes) {
    const auto flag = j.find(m.flag);
    if (named.empty() ? flag == j.end() || !flag->is_boolean() || !flag->get<bool>() : named != m.name) continue;
    if (!m.pooling) return refuse(fmt::format("the pooling is {}", m.name), where);
    if (found) return refuse("two poolings are joined", where);
    found = m.pooling;
  }
  if (!found) return refuse(named.empty() ? "no pooling is chosen" : "the pooling is " + quote_name(named), where);
  return *found;
}

Result<void> read_modules(const fs::path& dir, PoolingFacts& out) {
  const fs::path list = dir / "modules.json";
  ISO_TRY(const json modules, optional_json(list));
  if (modules.is_null()) return {};
  if (!modules.is_array()) return refuse("the file holds no JSON array", list);
  out.normalize = false;
  for (const json& m : modules) {
    const std::string type = m.is_object() ? m.value("type", json()).is_string() ? m["type"].get<std::string>() : "" : "";
    const std::string kind = type.substr(type.rfind('.') + 1);
    if (kind == "Transformer") continue;
    if (kind == "Normalize") out.normalize = true;
    else if (kind == "Pooling") {
      const std::string folder = m.contains("path") && m["path"].is_string() ? m["path"].get<std::string>() : "";
      const fs::path file = (dir / fs::path(folder).filename() / "config.json");
      ISO_TRY(const json config, optional_json(file));
      ISO_TRY(out.pooling, read_pooling(config, file));
    } else {
      return refuse("there is a step of type " + quote_name(type), list);
    }
  }
  return {};
}

Result<void> read_length(const fs::path& dir, PoolingFacts& out) {
  for (const char* name : {"sentence_bert_config.json", "sentence_roberta_config.json", "sentence_distilbert_config.json", "sentence_xlm-roberta_config.json"}) {
    ISO_TRY(const json j, optional_json(dir / name));
    if (!j.is_object() || !j.contains("max_seq_length") || !j["max_seq_length"].is_number_integer()) continue;
    out.max_length = j["max_seq_length"].get<int64_t>();
    if (out.max_length < 1) return fail(Code::data_loss, fmt::format("max_seq_length is {}", out.max_length), (dir / name).string(), "use the published file");
    return {};
  }
  return {};
}

Result<void> read_lengths(const Metadata& m, PoolingFacts& out) {
  ISO_TRY(out.shortens, m.boolean_or("is_matryoshka", false));
  if (!m.has("matryoshka_dimensions")) return {};
  ISO_TRY(out.lengths, m.integers("matryoshka_dimensions"));
  out.shortens = true;
  return {};
}

Result<PoolingFacts> from_gguf(const Metadata& m) {
  PoolingFacts out;
  ISO_TRY(const std::string_view arch, m.string("general.architecture"));
  const std::string key = std::string(arch) + ".pooling_type";
  ISO_TRY(const int64_t type, m.integer_or(key, 0));
  static constexpr std::array<std::optional<Pooling>, 5> kTypes = {std::nullopt, Pooling::mean, Pooling::cls, Pooling::last, Pooling::cls};
  if (type < 0 || size_t(type) >= kTypes.size())
    return fail(Code::unsupported, fmt::format("{} is {}", key, type), m.source(), "known: 0 (none), 1 (mean), 2 (cls), 3 (last), 4 (rank)");
  out.pooling = kTypes[size_t(type)];
  return out;
}

}  // namespace

Result<PoolingFacts> pooling_facts(const Checkpoint& ck, const std::string& path) {
  if (ck.container() == "gguf") return from_gguf(ck.metadata());
  PoolingFacts out;
  const fs::path dir(path);
  ISO_CHECK_OK(read_modules(dir, out));
  ISO_CHECK_OK(read_length(dir, out));
  ISO_CHECK_OK(read_lengths(ck.metadata(), out));
  return out;
}

}  // namespace isotope::weights
