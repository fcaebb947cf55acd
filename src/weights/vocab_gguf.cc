#include "weights/json.h"
#include "weights/vocab_source.h"

namespace isotope::weights {

namespace {

constexpr const char* kPrefix = "tokenizer.ggml.";
constexpr const char* kRemedy = "convert the model again with a current converter";

class Reader {
 public:
  explicit Reader(const Metadata& m) : m_(m) {}

  Result<VocabSource> read() {
    if (!m_.has(key("model"))) return std::move(v_);
    ISO_TRY(v_.gguf_model, text("model"));
    ISO_TRY(v_.gguf_pre, text("pre"));
    ISO_CHECK_OK(tables());
    ISO_CHECK_OK(ids());
    ISO_CHECK_OK(switches());
    ISO_CHECK_OK(templates());
    if (m_.has(key("precompiled_charsmap"))) {
      ISO_TRY(v_.precompiled_charsmap, m_.bytes(key("precompiled_charsmap")));
    }
    v_.vocab_size = int64_t(v_.tokens.size());
    return std::move(v_);
  }

 private:
  static std::string key(const char* name) { return std::string(kPrefix) + name; }
  Result<std::string> text(const char* name) const {
    ISO_TRY(const std::string_view s, m_.string_or(key(name), ""));
    return std::string(s);
  }

  Result<void> same_count(const char* name, size_t n) const {
    if (n == v_.tokens.size()) return {};
    return fail(Code::data_loss,
                "key " + quote_name(key(name)) + " has " + std::to_string(n) + " elements for " +
                    std::to_string(v_.tokens.size()) + " tokens",
                m_.source(), kRemedy);
  }

  Result<void> tables() {
    ISO_TRY(const auto tokens, m_.strings(key("tokens")));
    if (tokens.size() > size_t(INT32_MAX))
      return fail(Code::unsupported, "the vocabulary has more than 2^31 tokens", m_.source(), kRemedy);
    v_.tokens.assign(tokens.begin(), tokens.end());
    if (m_.has(key("merges"))) {
      ISO_TRY(const auto merges, m_.strings(key("merges")));
      v_.merges.assign(merges.begin(), merges.end());
    }
    if (m_.has(key("scores"))) {
      ISO_TRY(const auto scores, m_.numbers(key("scores")));
      ISO_CHECK_OK(same_count("scores", scores.size()));
      v_.scores.assign(scores.begin(), scores.end());
    }
    if (m_.has(key("token_type"))) {
      ISO_TRY(const auto types, m_.integers(key("token_type")));
      ISO_CHECK_OK(same_count("token_type", types.size()));
      v_.token_types.assign(types.begin(), types.end());
    }
    return {};
  }

  Result<void> ids() {
    struct Row {
      const char* name;
      int32_t VocabSource::*field;
      bool strict;  // the text layer acts on it; others may name a token that never existed
    };
    constexpr Row kRows[] = {{"bos_token_id", &VocabSource::bos_id, true},
                             {"eos_token_id", &VocabSource::eos_id, true},
                             {"eot_token_id", &VocabSource::eot_id, true},
                             {"unknown_token_id", &VocabSource::unk_id, false},
                             {"padding_token_id", &VocabSource::pad_id, false}};
    for (const Row& r : kRows) {
      ISO_TRY(const int64_t id, m_.integer_or(key(r.name), -1));
      const bool valid = id >= 0 && id < int64_t(v_.tokens.size());
      if (valid) v_.*r.field = int32_t(id);
      // Converters write 2^32-1 for "none".
      if (!valid && r.strict && id != -1 && id != 0xffffffff)
        return fail(Code::data_loss,
                    "key " + quote_name(key(r.name)) + " is " + std::to_string(id) + ", the vocabulary has " +
                        std::to_string(v_.tokens.size()) + " tokens",
                    m_.source(), kRemedy);
    }
    return {};
  }

  Result<void> switches() {
    struct Row {
      const char* name;
      std::optional<bool> VocabSource::*field;
    };
    constexpr Row kRows[] = {{"add_bos_token", &VocabSource::add_bos},
                             {"add_eos_token", &VocabSource::add_eos},
                             {"add_space_prefix", &VocabSource::add_space_prefix},
                             {"remove_extra_whitespaces", &VocabSource::remove_extra_whitespaces}};
    for (const Row& r : kRows)
      if (m_.has(key(r.name))) {
        ISO_TRY(v_.*r.field, m_.boolean(key(r.name)));
      }
    return {};
  }

  Result<void> templates() {
    constexpr std::string_view kNamed = "tokenizer.chat_template.";
    ISO_TRY(const std::string_view main, m_.string_or("tokenizer.chat_template", ""));
    v_.chat_template = main;
    for (const std::string& k : m_.keys())
      if (k.starts_with(kNamed)) {
        ISO_TRY(const std::string_view t, m_.string(k));
        v_.named_templates.emplace_back(k.substr(kNamed.size()), t);
      }
    return {};
  }

  const Metadata& m_;
  VocabSource v_;
};

}  // namespace

Result<VocabSource> vocab_from_gguf(const Metadata& m) { return Reader(m).read(); }

}  // namespace isotope::weights
