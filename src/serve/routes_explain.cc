// GET /requests and /requests/ID: the decisions that shaped a request, as `isotope explain` shows them.
#include "serve/answer.h"
#include "serve/answer_format.h"
#include "serve/api.h"

namespace isotope::serve {

namespace {

constexpr size_t kListed = 50, kFound = 4096;

std::string_view kind_name(Decision::Kind k) {
  constexpr std::string_view kNames[] = {"routed", "held", "admitted", "chunk", "preempted", "first_token", "finished", "awaited", "stored"};
  return kNames[size_t(k)];
}

std::string_view state_name(FinishReason r) {
  constexpr std::string_view kNames[] = {"alive", "stop", "length", "abort", "error"};
  return kNames[size_t(r)];
}

Json decision_json(const Decision& d) {
  Json j = {{"at_s", d.at_s}, {"kind", kind_name(d.kind)}, {"tokens", d.tokens}, {"position", d.position}, {"step", d.step}};
  if (d.count > 1) j["count"] = d.count, j["last_s"] = d.last_s;
  if (!d.reason.empty()) j["reason"] = d.reason;
  return j;
}

Json summary_json(const RequestRecord& r) {
  const RequestStats& s = r.stats;
  return {{"id", r.id},
          {"label", r.label},
          {"rank", r.rank},
          {"state", state_name(r.finish)},
          {"prompt_tokens", s.prompt_tokens},
          {"cached_tokens", s.cached_tokens},
          {"cache_reason", cache_reason_json(s)},
          {"replayed_tokens", s.replayed_tokens},
          {"checkpoint_waits", s.checkpoint_waits},
          {"output_tokens", s.output_tokens},
          {"chunks", s.chunks},
          {"preemptions", s.preemptions},
          {"queue_s", s.queue_s},
          {"prefill_s", s.prefill_s},
          {"decode_s", s.decode_s},
          {"ttft_s", s.ttft_s},
          {"seed", s.seed}};
}

Json record_json(const RequestRecord& r) {
  Json j = summary_json(r);
  j["decisions"] = Json::array();
  for (const Decision& d : r.decisions) j["decisions"].push_back(decision_json(d));
  j["decisions_dropped"] = r.dropped;
  return j;
}

}  // namespace

Reply ApiHandler::requests(HttpCall&) {
  Json list = Json::array();
  for (const RequestRecord& r : front()->engine().records({}, kListed)) list.push_back(summary_json(r));
  return json_response({{"requests", std::move(list)}});
}

Reply ApiHandler::request(HttpCall& call) {
  const std::string name = call.path.substr(std::string_view("/requests/").size());
  Json list = Json::array();
  for (const RequestRecord& r : front()->engine().records(name, kFound)) list.push_back(record_json(r));
  if (list.empty())
    return error_response(Error{Code::not_found, "no request " + shown(Json(name)) + " is alive or among the last that ended", {},
                                "use an id of GET /requests, or of an answer"});
  return json_response({{"name", name}, {"requests", std::move(list)}});
}

}  // namespace isotope::serve
