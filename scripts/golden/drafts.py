"""Makes golden/drafts/: tokens that llama.cpp's speculative decoding proposes and accepts with tiny draft models.

Needs a C++ compiler and what arch.py needs. DRAFTS of the families' golden.py has for each draft its kind, as in `--spec-type`, and
its target; both are checkpoints of golden/arch, in f32. The target can differ from that of the draft's recipe, which is often too
small to run. Weights and caches are f32, and flash attention is off. NAME.json has the target, the prompt, the maximum number of
proposed tokens per step, and the steps: proposed tokens, number of accepted tokens, and the token after them.
"""

import json
import subprocess

import numpy as np

import arch
from logits_reference import build_program

PROGRAM = r"""
#include "arg.h"
#include "common.h"
#include "sampling.h"
#include "speculative.h"
#include <cstdio>
#include <cstdlib>
#include <sstream>

// Options of llama.cpp; PROMPT has ids, STEPS the number of steps.
int main(int argc, char ** argv) {
    common_params params;
    common_init();
    if (!common_params_parse(argc, argv, params, LLAMA_EXAMPLE_SPECULATIVE)) return 1;
    llama_tokens text;
    std::istringstream ids(getenv("PROMPT"));
    for (llama_token id; ids >> id; ) text.push_back(id);
    const auto limits = common_speculative_get_output_limits(params.n_batch, 1, common_speculative_n_max(&params.speculative));
    params.n_outputs_max = limits.total;
    params.n_outputs_max_per_seq = limits.per_seq;
    auto target = common_init_from_params(params);
    llama_context * context = target->context();
    common_params of_draft = common_base_params_to_speculative(params);
    auto draft = common_speculative_init_from_params(of_draft, target->model(), context);
    params.speculative.draft.ctx_tgt = context;
    params.speculative.draft.ctx_dft = draft->context();
    common_sampler_ptr sampler(common_sampler_init(target->model(), params.sampling));
    common_speculative_ptr speculation(common_speculative_init(params.speculative, 1));
    if (!speculation) return 2;

    // The last token of the text is always one that the target has not run.
    llama_token last = text.back();
    text.pop_back();
    common_batch batch(context);
    for (size_t i = 0; i < text.size(); ++i) batch.add(text[i], i, 0, false);
    if (llama_process(context, LLAMA_PROCESS_TYPE_DECODE, batch.get())) return 3;
    if (!common_speculative_process(speculation.get(), batch)) return 4;
    common_speculative_begin(speculation.get(), 0, text);
    for (int step = 0; step < atoi(getenv("STEPS")); ++step) {
        llama_tokens proposed;
        const int n_past = text.size();
        common_speculative_get_draft_params(speculation.get(), 0) = { true, -1, n_past, last, &text, &proposed };
        common_speculative_draft(speculation.get());
        llama_memory_seq_rm(llama_get_memory(params.speculative.draft.ctx_dft), 0, n_past, -1);
        batch.clear();
        batch.add(last, n_past, 0, true);
        for (size_t i = 0; i < proposed.size(); ++i) batch.add(proposed[i], n_past + 1 + i, 0, true);
        if (llama_process(context, LLAMA_PROCESS_TYPE_DECODE, batch.get())) return 5;
        if (!common_speculative_process(speculation.get(), batch)) return 6;
        const llama_tokens kept = common_sampler_sample_and_accept_n(sampler.get(), context, proposed);
        common_speculative_accept(speculation.get(), 0, kept.size() - 1);
        printf("step %zu %d", kept.size() - 1, kept.back());
        for (llama_token id : proposed) printf(" %d", id);
        printf("\n");
        for (llama_token id : kept) {
            text.push_back(last);
            last = id;
        }
        llama_memory_seq_rm(llama_get_memory(context), 0, text.size(), -1);
        llama_memory_seq_rm(llama_get_memory(params.speculative.draft.ctx_dft), 0, text.size(), -1);
    }
    return 0;
}
"""

N_STEPS, N_PROPOSED = 12, 5


def build(ctx):
    """The program, with the library that llama.cpp's programs share."""
    (ctx.scratch / "drafts.cpp").write_text(PROGRAM)
    parts = ["include", "ggml/include", "common", "vendor"]
    subprocess.run(["c++", "-O1", "-std=c++17", *(f"-I{ctx.reference / part}" for part in parts), ctx.scratch / "drafts.cpp", "-o",
        ctx.scratch / "drafts", f"-L{ctx.libraries}", "-lllama-common", "-lllama", "-lggml", "-lggml-base",
        f"-Wl,-rpath,{ctx.libraries}"], check=True)
    return ctx.scratch / "drafts"


def make(ctx):
    from families import CHECKPOINTS, DRAFTS
    program = build(ctx)
    out = ctx.golden / "drafts"
    out.mkdir(exist_ok=True)

    def file_of(name, **options):
        pre = json.loads((ctx.golden / "arch" / name / "expected.json").read_text())["pre"]
        folder = ctx.scratch / f"{name}.of-draft"
        folder.mkdir(exist_ok=True)
        return arch.convert(ctx.checkpoint(name), folder, "f32", pre, CHECKPOINTS[name], **options)

    for name, (kind, target_name) in DRAFTS.items():
        if not ctx.wants(name):
            continue
        of_target = {} if kind == "draft-simple" else dict(target_model_dir=ctx.checkpoint(target_name))
        draft = file_of(name, **of_target)
        target = file_of(target_name)
        prompt = np.random.default_rng(20261127).integers(10, 380, 24).tolist()
        command = [program, "-m", target, "-md", draft, "--spec-type", kind, "--spec-draft-n-max", str(N_PROPOSED), "--temp", "0",
            "-p", "x", "-c", "256", "-b", "256", "-ub", "256", "-ctk", "f32", "-ctv", "f32", "-ctkd", "f32", "-ctvd", "f32", "-fa",
            "off", "-t", "1", "--spec-draft-p-min", "0"]
        environment = {"PROMPT": " ".join(map(str, prompt)), "STEPS": str(N_STEPS)}
        ran = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment)
        if ran.returncode:
            raise ValueError(f"{name}: llama.cpp fails ({ran.returncode}): {ran.stderr[-1500:]}")
        lines = [list(map(int, line.split()[1:])) for line in ran.stdout.splitlines() if line.startswith("step ")]
        steps = [dict(accepted=accepted, next=following, proposed=proposed) for accepted, following, *proposed in lines]
        golden = dict(target=target_name, prompt=prompt, n_proposed=N_PROPOSED)
        text = json.dumps(golden)[:-1] + ', "steps": [\n ' + ",\n ".join(map(json.dumps, steps)) + "\n]}\n"
        (out / f"{name}.json").write_text(text)
