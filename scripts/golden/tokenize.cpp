// Prints the token ids of texts, with the vocabulary code of a llama.cpp tree and without its graphs:
//
//     tokenize FILE.gguf TEXTS
//
// TEXTS is a file as `tests/test-tokenizer-0.cpp` reads it. Build, with LLAMA_CPP as the root of the tree:
//
//     echo '#define GGML_VERSION ""' > ggml-version.h && echo '#define GGML_COMMIT ""' >> ggml-version.h
//     cc -I. -I$LLAMA_CPP/ggml/include -D_GNU_SOURCE -c $LLAMA_CPP/ggml/src/{ggml,ggml-alloc,ggml-quants}.c
//     c++ -std=c++17 -I. -I$LLAMA_CPP/{include,src,ggml/include,ggml/src} (one -I each) -o tokenize tokenize.cpp *.o \
//         $LLAMA_CPP/src/{llama-vocab,unicode,unicode-data,llama-model-loader,llama-mmap,llama-impl,llama-arch,llama-hparams}.cpp \
//         $LLAMA_CPP/ggml/src/{gguf,ggml-threading,ggml-backend,ggml-backend-reg,ggml-backend-dl,ggml-backend-meta}.cpp -ldl
#include "llama-arch.h"
#include "llama-model-loader.h"
#include "llama-vocab.h"

#include <cstdio>
#include <fstream>
#include <iterator>

// Names of shards, which nothing asks for here.
extern "C" int32_t llama_split_path(char *, size_t, const char *, int32_t, int32_t) { return 0; }
extern "C" int32_t llama_split_prefix(char *, size_t, const char *, int32_t, int32_t) { return 0; }

int main(int, char ** argv) {
    std::vector<std::string> splits;
    llama_model_loader loader(nullptr, nullptr, nullptr, argv[1], splits, nullptr, (llama_load_mode) 0, false, true, false, nullptr, nullptr);
    llama_vocab vocab;
    vocab.load(loader, LLM_KV(llm_arch_from_string(loader.get_arch_name())));
    std::ifstream file(argv[2]);
    const std::string texts((std::istreambuf_iterator<char>(file)), {}), between = "\n__ggml_vocab_test__\n";
    for (size_t at = 0, end = 0; end != std::string::npos; at = end + between.size()) {
        end = texts.find(between, at);
        for (llama_token id : vocab.tokenize(texts.substr(at, end == std::string::npos ? end : end - at), false, false)) {
            printf(" %d", id);
        }
        printf("\n");
    }
}
