#include "serve/pool_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "serve/call.h"
#include "serve/field_table.h"
#include "serve/pool_input.h"

namespace isotope::serve {
namespace {

constexpr const char* kKinds = "a string, an array of strings, an array of token ids or an array of such arrays";

Json usage(int64_t tokens) { return {{"prompt_tokens", tokens}, {"completion_tokens", 0}, {"total_tokens", tokens}}; }

std::string base64(std::string_view bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const auto at = [&](size_t k) { return k < bytes.size() ? uint32_t(static_cast<unsigned char>(bytes[k])) : 0u; };
    const uint32_t v = at(i) << 16 | at(i + 1) << 8 | at(i + 2);
    for (int k = 0; k < 4; ++k) out += i + size_t(k) <= bytes.size() ? kDigits[v >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

class EmbeddingWriter final : public PoolWriter {
 public:
  PoolNames names;
  int64_t tokens = 0;
  size_t dimensions = 0;      ///< of what is written; 0 = all
  bool as_base64 = false, unit = false;

  bool write(const PoolRequest::Vectors& vectors, size_t most, std::string& out) override {
    if (next_ == 0) out += fmt::format(R"({{"id":{},"object":"list","created":{},"model":{},"data":[)", dump(names.id), names.created, dump(names.model));
    for (const size_t end = std::min(vectors.size(), next_ + most); next_ < end; ++next_) {
      out += fmt::format(R"({}{{"object":"embedding","index":{},"embedding":)", next_ ? "," : "", next_);
      add(shortened_vector(vectors[next_]), out);
      out += '}';
    }
    if (next_ < vectors.size()) return false;
    out += fmt::format(R"(],"usage":{}}})", dump(usage(tokens)));
    return true;
  }

 private:
  std::vector<float> shortened_vector(std::vector<float> v) const {
    if (dimensions == 0 || dimensions >= v.size()) return v;
    v.resize(dimensions);
    double squares = 0;
    for (const float x : v) squares += double(x) * double(x);
    const double length = std::max(std::sqrt(squares), 1e-12);
    for (float& x : v) x = unit ? float(double(x) / length) : x;
    return v;
  }
  void add(const std::vector<float>& v, std::string& out) const {
    if (as_base64) {
      std::string bytes(v.size() * sizeof(float), '\0');
      std::memcpy(bytes.data(), v.data(), bytes.size());  // little-endian, as the machines this runs on
      out += '"' + base64(bytes) + '"';
      return;
    }
    char sign = '[';
    for (const float x : v) fmt::format_to(std::back_inserter(out), "{}{}", sign, x), sign = ',';
    out += v.empty() ? "[]" : "]";
  }
  size_t next_ = 0;
};

/// How two vectors, or a pair's own output, become a score.
double score_of(const std::vector<float>& a, const std::vector<float>& b) {
  double dot = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) dot += double(a[i]) * double(b[i]), aa += double(a[i]) * double(a[i]), bb += double(b[i]) * double(b[i]);
  return dot / std::max(std::sqrt(aa) * std::sqrt(bb), 1e-12);
}

/// Pairs of texts: one input each for a cross-encoder, one for each text otherwise.
struct Pairs {
  bool cross = false;
  std::vector<std::pair<size_t, size_t>> of;  ///< indices of the vectors to compare

  std::vector<double> scores(const PoolRequest::Vectors& v) const {
    std::vector<double> out;
    if (cross) for (const auto& one : v) out.push_back(double(one[0]));
    else for (const auto& [a, b] : of) out.push_back(score_of(v[a], v[b]));
    return out;
  }
};

class RerankWriter final : public PoolWriter {
 public:
  PoolNames names;
  int64_t tokens = 0;
  Pairs pairs;
  std::vector<Json> documents;  ///< empty: they are not returned
  size_t top = 0;

  bool write(const PoolRequest::Vectors& vectors, size_t, std::string& out) override {
    const std::vector<double> scores = pairs.scores(vectors);
    std::vector<size_t> order(scores.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    order.resize(std::min(order.size(), top));
    Json results = Json::array();
    for (const size_t i : order) {
      Json one = {{"index", i}, {"relevance_score", scores[i]}};
      if (!documents.empty()) one["document"] = documents[i];
      results.push_back(std::move(one));
    }
    out += dump(Json{{"id", names.id}, {"object", "list"}, {"model", names.model}, {"usage", usage(tokens)}, {"results", std::move(results)}});
    return true;
  }
};

class ScoreWriter final : public PoolWriter {
 public:
  PoolNames names;
  int64_t tokens = 0;
  Pairs pairs;

  bool write(const PoolRequest::Vectors& vectors, size_t, std::string& out) override {
    Json data = Json::array();
    for (const double s : pairs.scores(vectors)) data.push_back({{"index", data.size()}, {"object", "score"}, {"score", s}});
    out += dump(Json{{"id", names.id}, {"object", "list"}, {"created", names.created}, {"model", names.model}, {"data", std::move(data)}, {"usage", usage(tokens)}});
    return true;
  }
};

Api<std::vector<PoolInput>> read_inputs(const Fields& f, const char* name, Frontend& front, PoolReader& reader) {
  const Json& in = *f.find(name);
  std::vector<PoolInput> out;
  if (in.is_string()) {
    ISO_TRY(auto one, reader.text(in.get_ref<const std::string&>(), name));
    out.push_back(std::move(one));
    return out;
  }
  if (!in.is_array()) return tl::unexpected(field_error(name, Fields::mismatch(kKinds, in)));
  if (in.empty()) return tl::unexpected(field_error(name, "there is no input", std::string("send ") + kKinds));
  if (in[0].is_number()) {
    ISO_TRY(auto ids, f.ids(name, 0, front.vocab_size() - 1));
    ISO_TRY(auto one, reader.ids(std::move(ids), name));
    out.push_back(std::move(one));
    return out;
  }
  for (size_t i = 0; i < in.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", name, i);
    const bool fits = in[i].type() == in[0].type() && (in[i].is_string() || in[i].is_array());
    if (!fits) return tl::unexpected(field_error(at, Fields::mismatch(i > 0 && in[0].is_array() ? "an array of token ids" : "a string", in[i]), "do not mix kinds of inputs"));
    if (in[i].is_string()) {
      ISO_TRY(auto one, reader.text(in[i].get_ref<const std::string&>(), at));
      out.push_back(std::move(one));
      continue;
    }
    const Json one = {{at, in[i]}};
    ISO_TRY(auto ids, Fields(one).ids(at, 0, front.vocab_size() - 1));
    ISO_TRY(auto read, reader.ids(std::move(ids), at));
    out.push_back(std::move(read));
  }
  return out;
}

Result<void> check_dimensions(const PoolingInfo& info, int64_t wanted) {
  if (wanted == info.dimensions) return {};
  const bool known = info.lengths.empty() || std::find(info.lengths.begin(), info.lengths.end(), wanted) != info.lengths.end();
  if (info.shortens && wanted < info.dimensions && known) return {};
  std::string lengths;
  for (const int64_t n : info.lengths) lengths += fmt::format("{}{}", lengths.empty() ? "" : ", ", n);
  return bad_field("dimensions", fmt::format("dimensions is {}, the model's vectors have {}", wanted, info.dimensions),
                   !info.shortens ? "leave it out: the model was not trained to have its vectors cut" : lengths.empty() ? "ask for at most that many" : "it was trained for " + lengths);
}

Result<void> check_embeds(const PoolReader& r) {
  if (r.info().labels == 0) return {};
  return fail(Code::unsupported, "the model is a cross-encoder: it scores pairs of texts and makes no embeddings", "model", "use /v1/rerank or /v1/score");
}

/// A document is a text, or an object with one.
Result<std::string> document_text(const Json& d, const std::string& at) {
  if (d.is_string()) return d.get<std::string>();
  if (d.is_object() && d.contains("text") && d["text"].is_string()) return d["text"].get<std::string>();
  return bad_field(at, Fields::mismatch("a string or {\"text\": string}", d));
}

Result<std::vector<std::string>> texts_of(const Json& v, const std::string& name) {
  std::vector<std::string> out;
  if (v.is_array()) {
    for (size_t i = 0; i < v.size(); ++i) {
      ISO_TRY(auto text, document_text(v[i], fmt::format("{}[{}]", name, i)));
      out.push_back(std::move(text));
    }
    return out;
  }
  ISO_TRY(auto text, document_text(v, name));
  out.push_back(std::move(text));
  return out;
}

/// `first` has one text, or as many as `second`.
Api<Pairs> add_pairs(const std::vector<std::string>& first, const std::vector<std::string>& second, const char* names[2], PoolReader& reader, PoolRequest& request) {
  Pairs pairs{.cross = reader.info().labels > 0};
  if (pairs.cross && reader.info().labels != 1) {
    return tl::unexpected(Error{Code::unsupported, fmt::format("the model's head has {} labels, a score is one", reader.info().labels), "model", "serve a cross-encoder with one label"});
  }
  request.classify = pairs.cross;
  if (!pairs.cross) {
    for (size_t i = 0; i < first.size(); ++i) {
      ISO_TRY(auto in, reader.text(first[i], first.size() > 1 ? fmt::format("{}[{}]", names[0], i) : names[0]));
      request.inputs.push_back(std::move(in));
    }
  }
  for (size_t i = 0; i < second.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", names[1], i);
    const size_t partner = first.size() == 1 ? 0 : i;
    ISO_TRY(auto in, pairs.cross ? reader.pair(first[partner], second[i], at) : reader.text(second[i], at));
    request.inputs.push_back(std::move(in));
    pairs.of.emplace_back(partner, first.size() + i);
  }
  return pairs;
}

/// use_activation, or its older name. Cosines have none to use.
Result<bool> wants_activation(const Fields& f) {
  ISO_TRY(const auto now, f.boolean("use_activation"));
  ISO_TRY(const auto older, f.boolean("activation"));
  if (now && older && *now != *older) return bad_field("activation", fmt::format("activation is {}, use_activation is {}", *older, *now), "send use_activation alone");
  return now.value_or(older.value_or(true));
}

/// The first of these names that the request has.
const char* given(const Fields& f, std::initializer_list<const char*> names) {
  for (const char* n : names)
    if (f.has(n)) return n;
  return *names.begin();
}

Result<std::vector<std::string>> required_texts(const Fields& f, const char* name) {
  const Json* v = f.find(name);
  if (v == nullptr) return bad_field(name, std::string("the request has no ") + name, "send a text or an array of texts");
  ISO_TRY(auto texts, texts_of(*v, name));
  if (texts.empty()) return bad_field(name, std::string(name) + " is empty", "send at least one text");
  return texts;
}

template <class Writer>
PoolCall answered_by(std::unique_ptr<Writer> writer, PoolCall call, PoolNames names, const PoolReader& reader) {
  writer->names = std::move(names);
  writer->tokens = reader.tokens();
  call.writer = std::move(writer);
  return call;
}

}  // namespace

Api<PoolCall> parse_embedding(const Json& body, Frontend& front, PoolNames names) {
  const Fields f(body);
  ISO_CHECK_OK(check_fields(f, kInEmbedding));
  ISO_TRY(auto reader, PoolReader::create(f, front));
  ISO_CHECK_OK(check_embeds(reader));
  auto writer = std::make_unique<EmbeddingWriter>();
  ISO_TRY(const auto format, f.string("encoding_format"));
  if (format && *format != "float" && *format != "base64")
    return tl::unexpected(field_error("encoding_format", "encoding_format is " + shown(Json(*format)), "send \"float\" or \"base64\""));
  writer->as_base64 = format == "base64";
  PoolCall call;
  ISO_TRY(call.request.normalize, f.boolean("normalize"));
  ISO_TRY(const auto llama, f.integer("embd_normalize", -1, 2));
  if (llama && *llama != -1 && *llama != 2) return tl::unexpected(field_error("embd_normalize", fmt::format("embd_normalize is {}", *llama), "send 2 (length 1) or -1 (as it is)"));
  if (llama) call.request.normalize = *llama == 2;
  ISO_TRY(const auto dimensions, f.integer("dimensions", 1, 1 << 20));
  if (dimensions) {
    ISO_CHECK_OK(check_dimensions(reader.info(), *dimensions));
    writer->dimensions = size_t(*dimensions);
    writer->unit = call.request.normalize.value_or(reader.info().normalize);
  }
  if (f.has("messages") && !f.has("input")) {
    ISO_TRY(const auto chat, parse_chat_input(body));
    ISO_TRY(auto ids, front.chat_ids(chat));
    ISO_TRY(auto one, reader.ids(std::move(ids), "messages"));
    call.request.inputs.push_back(std::move(one));
  } else {
    const char* name = given(f, {"input", "content"});
    if (!f.has(name)) return tl::unexpected(field_error("input", "the request has no input", std::string("send ") + kKinds));
    ISO_TRY(call.request.inputs, read_inputs(f, name, front, reader));
  }
  return answered_by(std::move(writer), std::move(call), std::move(names), reader);
}

Api<PoolCall> parse_rerank(const Json& body, Frontend& front, PoolNames names) {
  const Fields f(body);
  ISO_CHECK_OK(check_fields(f, kInRerank));
  ISO_TRY(auto reader, PoolReader::create(f, front));
  ISO_TRY(const auto query, f.string("query"));
  if (!query) return tl::unexpected(field_error("query", "the request has no query", "send a text"));
  const char* name = given(f, {"documents", "texts"});
  ISO_TRY(const auto documents, required_texts(f, name));
  ISO_TRY(const auto top, f.integer("top_n", 0, INT32_MAX));
  ISO_TRY(const auto returned, f.boolean("return_documents"));
  auto writer = std::make_unique<RerankWriter>();
  PoolCall call;
  ISO_TRY(call.request.activation, wants_activation(f));
  const char* at[2] = {"query", name};
  ISO_TRY(writer->pairs, add_pairs({*query}, documents, at, reader, call.request));
  if (returned.value_or(true))
    for (const std::string& d : documents) writer->documents.push_back({{"text", d}});
  writer->top = top && *top > 0 ? size_t(*top) : documents.size();
  return answered_by(std::move(writer), std::move(call), std::move(names), reader);
}

Api<PoolCall> parse_score(const Json& body, Frontend& front, PoolNames names) {
  const Fields f(body);
  ISO_CHECK_OK(check_fields(f, kInScore));
  ISO_TRY(auto reader, PoolReader::create(f, front));
  const char* at[2] = {given(f, {"text_1", "queries", "data_1"}), given(f, {"text_2", "documents", "data_2"})};
  ISO_TRY(const auto first, required_texts(f, at[0]));
  ISO_TRY(const auto second, required_texts(f, at[1]));
  if (first.size() != 1 && first.size() != second.size()) {
    return tl::unexpected(field_error(at[1], fmt::format("{} has {} texts, {} has {}", at[0], first.size(), at[1], second.size()), "send one text first, or as many on both sides"));
  }
  auto writer = std::make_unique<ScoreWriter>();
  PoolCall call;
  ISO_TRY(call.request.activation, wants_activation(f));
  ISO_TRY(writer->pairs, add_pairs(first, second, at, reader, call.request));
  return answered_by(std::move(writer), std::move(call), std::move(names), reader);
}

}  // namespace isotope::serve
