// Requests for embeddings, rerankings and scores: what they ask, and how their answers are written.
#pragma once

#include "serve/pool_answer.h"

namespace isotope::serve {

struct PoolNames {
  std::string id, model;
  int64_t created = 0;
};

/// /v1/embeddings as OpenAI and vLLM define it, and llama-server's `content`.
Api<PoolCall> parse_embedding(const Json& body, Frontend&, PoolNames);
/// /rerank as Jina, Cohere and vLLM define it.
Api<PoolCall> parse_rerank(const Json& body, Frontend&, PoolNames);
/// vLLM's /score.
Api<PoolCall> parse_score(const Json& body, Frontend&, PoolNames);

}  // namespace isotope::serve
