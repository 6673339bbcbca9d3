//! `--calibrate builtin` and `--calibrate self`: texts that are not files.

use gguf_runtime::{
    Model, Options,
    generate::{Sampler, Sampling, generate},
};
use gguf_toolkit::calibration_text::{built_in_chunks, sampled_chunks};

use crate::common::{Sandbox, succeed, words};

/// All but the attention of the first layer stays as it is.
const FEW: &[&str] = &["--tensor-type", "ffn|blk.1|output.weight|token_embd=bf16"];

/// The tiny llama with a chat template.
fn with_template(template: &str) -> Sandbox {
    let sandbox = Sandbox::with_base_and_text();
    let template = format!("tokenizer.chat_template=str:{template}");
    let args = ["llama", "base.gguf", "-t", "bf16", "-q", "--force", "--override-kv", &template];
    succeed(sandbox.convert(&args));
    sandbox
}

fn open(sandbox: &Sandbox, threads: usize) -> Model {
    let options = Options { threads: Some(threads), ..Options::new(gguf_models::GRAPHS) };
    Model::open(&sandbox.path("base.gguf"), &options).unwrap()
}

#[test]
fn bytes_depend_on_the_text_but_not_on_threads() {
    let sandbox = Sandbox::with_base_and_text();
    let run = |text: &str, threads: &str| {
        let output = format!("out/{text}-{threads}.gguf");
        let args = words("q4_k_m --no-verify --keep-types --calibration-tokens 2048 -q");
        let own = ["base.gguf", &output, "--threads", threads, "--calibrate", text];
        succeed(sandbox.quantize(&[&own[..2], &args, FEW, &own[2..]].concat()));
        sandbox.read(&output)
    };
    let files: Vec<_> = ["builtin", "self", "text"].map(|text| run(text, "1")).into();
    assert!(run("builtin", "3") == files[0] && run("self", "3") == files[1]);
    let args = words(
        "base.gguf out/no-value.gguf q4_k_m --calibrate --no-verify --keep-types --calibration-tokens 2048 -q",
    );
    succeed(sandbox.quantize(&[&args, FEW].concat()));
    assert!(sandbox.read("out/no-value.gguf") == files[0]);
    assert!(files[0] != files[1] && files[0] != files[2] && files[1] != files[2]);
}

#[test]
fn samples_are_those_of_plain_generation() {
    let sandbox = Sandbox::with_base_and_text();
    let model = open(&sandbox, 2);
    let chunks = sampled_chunks(&model, 150, 64, &()).unwrap();
    assert_eq!(chunks.iter().map(Vec::len).collect::<Vec<_>>(), [64; 3]);
    let bos = model.tokenizer().bos().unwrap();
    for (seed, chunk) in chunks.iter().enumerate() {
        let sampling =
            Sampling { temperature: 1.0, top_k: 0, top_p: 1.0, seed: seed as u64, ..Default::default() };
        let made = generate(&model, &[bos], 63, &mut Sampler::new(sampling), &mut |_| true).unwrap();
        assert!(made.len() > 5, "{made:?}");
        assert_eq!((chunk[0], &chunk[1..=made.len()]), (bos, &made[..]));
        // Another one follows a sample that ended.
        if made.len() < 63 {
            let eos = model.tokenizer().eos().unwrap();
            assert_eq!(chunk[made.len() + 1], eos);
            assert!(chunk.get(made.len() + 2).is_none_or(|token| *token == bos));
        }
    }
    assert!(chunks[0] != chunks[1] && chunks[1] != chunks[2]);
    assert_eq!(sampled_chunks(&open(&sandbox, 1), 150, 64, &()).unwrap(), chunks);
}

#[test]
fn built_in_text_follows_the_chat_template() {
    let model = open(&Sandbox::with_base_and_text(), 1);
    let plain = built_in_chunks(&model, 512, &()).unwrap();
    // Chats, too.
    assert!(model.tokenizer().adds_bos());
    assert!(plain.iter().all(|chunk| Some(chunk[0]) == model.tokenizer().bos() && chunk.len() <= 512));
    assert!(plain.iter().map(Vec::len).sum::<usize>() > 40_000);
    let text = |sandbox: &Sandbox| {
        let model = open(sandbox, 1);
        let chunks = built_in_chunks(&model, 512, &()).unwrap();
        String::from_utf8_lossy(&model.tokenizer().decode(&chunks.concat()).unwrap()).into_owned()
    };
    let all = "{{ tools or [] }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ m.tool_calls or [] }}{% endfor %}";
    let with_tools = text(&with_template(all));
    assert!(with_tools.contains("<user>Why does bread go stale") && with_tools.contains("get_weather"));
    // A template without tools and without system messages, as that of Gemma.
    let refuses = "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}\
                   <{{ m.role }}>{{ m.content }}{% endfor %}";
    let sandbox = with_template(refuses);
    let without = text(&sandbox);
    assert!(without.contains("<user>Why does bread go stale") && !without.contains("get_weather"));
    assert!(!without.contains("You are a travel guide"));
    let args = words("base.gguf x.gguf q4_0 --calibrate builtin --calibration-tokens 2048 --no-verify");
    succeed(sandbox.quantize(&[&args, FEW].concat())).says("built-in chats are not used");
}

#[test]
fn words_are_texts_of_other_commands() {
    let sandbox = Sandbox::with_base_and_text();
    let args = words("imatrix base.gguf --text builtin -o x.gguf --chunks 3 -q");
    succeed(sandbox.eval(&args));
    let args = words("imatrix base.gguf --text self -o y.gguf --chunks 3 -q");
    sandbox.eval(&args).ends_and_says(2, "`self` is not supported here");
    sandbox.write("builtin", "a file");
    let ran = sandbox.quantize(&words("base.gguf z.gguf q4_0 --calibrate builtin"));
    ran.ends_and_says(2, "`builtin` is ambiguous");
    ran.says("./builtin");
    let ran = sandbox.quantize(&words("base.gguf z.gguf q4_0 --calibrate ./builtin"));
    ran.ends_and_says(1, "./builtin");
}
