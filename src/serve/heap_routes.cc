#include "serve/heap_routes.h"

#include <malloc.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "base/heap_keeper.h"
#include "serve/answer.h"
#include "serve/api.h"
#include "telemetry/metrics.h"

namespace isotope::serve {

namespace {

using telemetry::Kind;
using telemetry::Row;

constexpr std::string_view kGenerations[] = {"0", "1", "2"};
enum RowId : size_t { kCollections, kCollected, kUncollectable, kThreshold };
constexpr Row kRows[] = {
    {"atom:gc_collections", Kind::counter, "Sweeps over the tracked objects.", "generation", kGenerations, {}, false},
    {"atom:gc_collected", Kind::counter, "Objects whose memory a sweep gave back.", "generation", kGenerations, {}, false},
    {"atom:gc_uncollectable", Kind::counter, "Objects found alive after their request had ended; always 0.", "generation", kGenerations, {}, false},
    {"atom:gc_threshold", Kind::gauge, "What has to gather before a sweep.", "generation", kGenerations, {}, false},
};

/// A number of the query string, or `fallback`; at least `least`.
int64_t query_number(std::string_view query, std::string_view name, int64_t fallback, int64_t least) {
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view part = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (!part.starts_with(name) || part.size() <= name.size() || part[name.size()] != '=') continue;
    const std::string_view digits = part.substr(name.size() + 1);
    int64_t n = 0;
    const auto [at, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
    if (error == std::errc() && at == digits.data() + digits.size()) fallback = n;
  }
  return std::max(least, fallback);
}

Json owners_json(const base::HeapCensus& c, int64_t types_per_owner) {
  struct Owner {
    int64_t count = 0;
    Json types = Json::object();
  };
  std::map<std::string_view, Owner> owners;
  for (const auto& t : c.types) {
    Owner& o = owners[t.owner];
    o.count += t.count;
    if (int64_t(o.types.size()) < types_per_owner) o.types[std::string(t.type)] = t.count;
  }
  Json out = Json::object();
  for (auto& [name, o] : owners) out[std::string(name)] = {{"count", o.count}, {"types", std::move(o.types)}};
  return out;
}

}  // namespace

std::string heap_metrics() {
  telemetry::Registry r(kRows, {});
  const auto counts = base::HeapKeeper::process().counts();
  const auto t = base::HeapKeeper::process().thresholds();
  const int64_t thresholds[] = {t.young, t.middle, t.full};
  for (size_t g = 0; g < counts.size(); ++g) {
    r.set(kCollections, double(counts[g].collections), g);
    r.set(kCollected, double(counts[g].collected), g);
    r.set(kUncollectable, double(counts[g].uncollectable), g);
    r.set(kThreshold, double(thresholds[g]), g);
  }
  return r.prometheus();
}

Reply ApiHandler::gc_census(HttpCall& call) {
  const int64_t top = query_number(call.query, "top", 30, 1), types_per_owner = query_number(call.query, "types_per_owner", 5, 0);
  const base::HeapCensus c = base::HeapKeeper::process().census();
  Json by_type = Json::array(), generations = Json::array();
  for (size_t i = 0; i < c.types.size() && int64_t(i) < top; ++i)
    by_type.push_back({{"type", c.types[i].type}, {"owner", c.types[i].owner}, {"count", c.types[i].count}});
  for (const auto& g : c.generations)
    generations.push_back({{"size", g.size}, {"collections", g.collections}, {"collected", g.collected}, {"uncollectable", g.uncollectable}});
  const struct mallinfo2 m = mallinfo2();
  return json_response({{"tracked", c.tracked},
                        {"frozen", c.frozen},
                        {"thresholds", {c.thresholds.young, c.thresholds.middle, c.thresholds.full}},
                        {"generations", std::move(generations)},
                        {"by_type", std::move(by_type)},
                        {"by_owner", owners_json(c, types_per_owner)},
                        {"allocator", {{"in_use_bytes", m.uordblks}, {"free_bytes", m.fordblks}, {"mapped_bytes", m.hblkhd}}}});
}

}  // namespace isotope::serve
