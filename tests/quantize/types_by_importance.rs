//! `gguf-quantize --imatrix --target-size` without calibration texts: types by the errors of the weights, their importance and the
//! roles of the matrices. The model is not run.

use std::{collections::BTreeSet, fs};

use crate::common::{Output, Sandbox, succeed, verify, words};

/// A sandbox with `base.gguf` of this checkpoint in bf16, a text, and `imatrix.gguf`.
fn with_imatrix(name: &str) -> Sandbox {
    let sandbox = Sandbox::with_converted(name, "base.gguf", "bf16");
    sandbox.add_text();
    succeed(sandbox.eval(&words("imatrix base.gguf --text text -o imatrix.gguf --chunks 2 -q")));
    sandbox
}

fn size(sandbox: &Sandbox, name: &str) -> u64 {
    fs::metadata(sandbox.path(name)).unwrap().len()
}

fn dtypes(sandbox: &Sandbox, name: &str) -> Vec<(String, &'static str)> {
    sandbox.model(name).tensors().map(|(_, info)| (info.name.clone(), info.dtype.name())).collect()
}

fn quantize(sandbox: &Sandbox, args: &str) -> Output {
    succeed(sandbox.quantize(&words(&format!("--imatrix imatrix.gguf base.gguf {args}"))))
}

#[test]
fn importance_matrix_suffices_for_target_size() {
    let sandbox = with_imatrix("llama");
    quantize(&sandbox, "stock.gguf q4_k_m -q");
    let target = size(&sandbox, "stock.gguf");
    for threads in ["1", "2"] {
        let ran =
            quantize(&sandbox, &format!("ours-{threads}.gguf q4_k_m --target-size {target} -j {threads}"));
        ran.says("estimated KL divergence ");
        ran.says(" (Q4_K_M of ");
    }
    assert_eq!(sandbox.read("ours-1.gguf"), sandbox.read("ours-2.gguf"));
    let planned = "dry.gguf q4_k_m --dry-run --json --tensor-type attn_v=q8_0 --target-size";
    let report = quantize(&sandbox, &format!("{planned} {target}")).json();
    let tensors = report["outputs"][0]["tensors"].as_array().unwrap().iter();
    let reasons: BTreeSet<&str> = tensors.map(|tensor| tensor["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons.into_iter().collect::<Vec<_>>(), ["kept", "requested: `attn_v`", "target size"]);
    let found = size(&sandbox, "ours-1.gguf");
    assert!(found <= target && found > target * 9 / 10, "{found} of {target}");
    assert_ne!(dtypes(&sandbox, "ours-1.gguf"), dtypes(&sandbox, "stock.gguf"));
    let text = |key: &str| {
        let model = sandbox.model("ours-1.gguf");
        model.get(key).and_then(gguf_container::Value::as_str).map(str::to_owned)
    };
    assert_eq!(text("gguf_tools.chosen_types").as_deref(), Some("imatrix1"));
    assert_eq!(text("quantize.imatrix.file").as_deref(), Some("imatrix.gguf"));
    assert_eq!(text("gguf_tools.calibration"), None);
    let (code, problems, report) = verify(&sandbox, &["ours-1.gguf", "--strict", "--against", "base.gguf"]);
    assert_eq!((code, problems.len()), (Some(0), 0), "{report}");

    // A checkpoint gets the same types in one call.
    let args = "llama out/direct.gguf -t q4_k_m --imatrix imatrix.gguf -q --target-size";
    succeed(sandbox.convert(&words(&format!("{args} {target}"))));
    assert_eq!(dtypes(&sandbox, "out/direct.gguf"), dtypes(&sandbox, "ours-1.gguf"));

    // The limit is for all shards together.
    quantize(&sandbox, &format!("out/split.gguf q4_k_m --target-size {target} --split-max-size 300K -q"));
    let shards: Vec<String> =
        sandbox.listing("out").into_keys().filter(|name| name.starts_with("split")).collect();
    assert!(shards.len() > 1, "{shards:?}");
    let set =
        |name: &str| -> BTreeSet<(String, &'static str)> { dtypes(&sandbox, name).into_iter().collect() };
    assert_eq!(set(&format!("out/{}", shards[0])), set("ours-1.gguf"));
}

#[test]
fn types_that_need_importance_are_chosen_where_known() {
    let sandbox = with_imatrix("llama");
    quantize(&sandbox, "ours.gguf q4_k_m --target-bpw 4 --allow-types iq2_xs,q6_k -q");
    let of = |part: &str| -> Vec<&'static str> {
        let all = dtypes(&sandbox, "ours.gguf");
        all.into_iter().filter(|(name, _)| name.contains(part)).map(|(_, dtype)| dtype).collect()
    };
    assert!(of("ffn").contains(&"iq2_xs"), "{:?}", of("ffn"));
    // The matrix has no entry for embeddings.
    assert_eq!(of("token_embd"), ["q6_K"]);
}

#[test]
fn experts_count_by_their_tokens() {
    let sandbox = with_imatrix("qwen3moe");
    quantize(&sandbox, "stock.gguf q4_k_m -q");
    let target = size(&sandbox, "stock.gguf");
    quantize(&sandbox, &format!("ours.gguf q4_k_m --target-size {target} -q"));
    let found = size(&sandbox, "ours.gguf");
    assert!(found <= target && found > target * 8 / 10, "{found} of {target}");
    assert!(dtypes(&sandbox, "ours.gguf").iter().any(|(name, _)| name.contains("_exps")));
}

#[test]
fn target_size_needs_texts_or_importance_matrix() {
    let sandbox = Sandbox::with_converted("llama", "base.gguf", "bf16");
    for option in ["--target-size 1M", "--target-bpw 4", "--no-larger-than-type q4_0"] {
        let ran = sandbox.quantize(&words(&format!("base.gguf x.gguf q4_k_m {option}")));
        ran.ends_and_says(2, "needs calibration texts or an importance matrix");
        let ran = sandbox.convert(&words(&format!("llama out/x.gguf -t q4_k_m {option}")));
        ran.ends_and_says(2, "needs calibration texts or an importance matrix");
    }
}
