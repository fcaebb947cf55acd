// One function for each way in which models write tool calls. The texts they read are shown in the .cc files.
#pragma once

#include "serve/tools/reader.h"
#include "serve/tools/toolbox.h"

namespace isotope::serve {

Script read_hermes(Reader&, const Toolbox&);
Script read_llama3_json(Reader&, const Toolbox&);
Script read_pythonic(Reader&, const Toolbox&);
Script read_mistral(Reader&, const Toolbox&);
Script read_qwen3_coder(Reader&, const Toolbox&);
Script read_deepseek_v3(Reader&, const Toolbox&);    ///< also v3.1
Script read_deepseek_v32(Reader&, const Toolbox&);
Script read_kimi_k2(Reader&, const Toolbox&);
Script read_glm45(Reader&, const Toolbox&);          ///< also 4.7
Script read_minimax_m2(Reader&, const Toolbox&);
Script read_harmony(Reader&, const Toolbox&);        ///< reasoning, content and calls in one
Script read_functiongemma(Reader&, const Toolbox&);

}  // namespace isotope::serve
