//! `gguf-quantize --calibrate`: the same bytes for any number of threads and at every CPU level, the same
//! size as the stock result, closer to the base; resuming; refusals and warnings.

use std::fs;

use crate::common::{Output, Sandbox, succeed, verify, words};
use serde_json::Value;

const TOKENS: &[&str] = &["--calibrate", "text", "--calibration-tokens", "2048"];
/// All but the attention of the first layer stays as it is: little to do where it is done often.
const FEW: &[&str] = &["--tensor-type", "ffn|blk.1|output.weight|token_embd=bf16"];
/// Threads and CPU levels of runs that have to agree. Scalar products of a complete model take minutes: `crates/refinement` and `crates/products`
/// test that level on small ones.
const LEVELS: [(&str, Option<&str>); 4] = [("1", None), ("2", None), ("3", Some("avx2")), ("7", None)];

/// [`LEVELS`] without the levels that this machine lacks, which `scripts/check` lists.
fn runnable_levels() -> Vec<(&'static str, Option<&'static str>)> {
    let available: Vec<&str> =
        gguf_quant::Level::available().into_iter().map(gguf_quant::Level::name).collect();
    gguf_testkit::require_levels(&available);
    LEVELS.into_iter().filter(|(_, level)| level.is_none_or(|level| available.contains(&level))).collect()
}

fn calibrated(sandbox: &Sandbox, args: &[&str]) -> Output {
    succeed(sandbox.quantize(&[args, TOKENS].concat()))
}

fn header_and_data(sandbox: &Sandbox, name: &str) -> (Vec<u8>, gguf_container::Model) {
    (sandbox.read(name), sandbox.model(name))
}

#[test]
fn bytes_do_not_depend_on_threads_or_cpu() {
    let sandbox = Sandbox::with_base_and_text();
    let args = ["base.gguf", "out/1", "q4_k_m,q2_k", "-q", "--no-verify"];
    let mut files = Vec::new();
    for (threads, level) in runnable_levels() {
        let out = format!("out/{threads}-{{ftype}}.gguf");
        let mut command = sandbox.command(env!("CARGO_BIN_EXE_gguf-quantize"));
        command.args([&["base.gguf", &out][..], &args[2..], FEW, TOKENS, &["-j", threads]].concat());
        if let Some(level) = level {
            command.env(gguf_quant::LEVEL_VARIABLE, level);
        }
        let ran = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(0), "{stderr}");
        files.push(["q4_k_m", "q2_k"].map(|ftype| sandbox.read(&format!("out/{threads}-{ftype}.gguf"))));
    }
    assert_eq!(files.len(), runnable_levels().len());
    assert!(files.iter().all(|file| *file == files[0]));
}

#[test]
fn calibration_lowers_error_at_same_size() {
    let sandbox = Sandbox::with_base_and_text();
    let json = calibrated(&sandbox, &words("base.gguf ours.gguf q4_k_m --json --keep-types")).json();
    let gained = &json["calibration"][0];
    for (role, of) in gained["roles"].as_object().unwrap() {
        let (stock, ours) = (of["held_out_stock"].as_f64().unwrap(), of["held_out"].as_f64().unwrap());
        assert!(ours < stock, "{role}: {ours} of {stock}");
    }
    assert_eq!(gained["roles"].as_object().unwrap().len(), 8);
    let verified = &gained["verified"];
    assert!(verified["chunks"].as_u64().unwrap() >= 2, "{gained}");
    assert!(verified["ratio"]["value"].as_f64().unwrap() < 1.0, "{gained}");
    assert_eq!(sandbox.listing(".").keys().filter(|name| name.contains("stock")).count(), 0);

    // Against the file that the same importance matrix makes without it.
    succeed(sandbox.eval(&words("imatrix base.gguf --text text -o imatrix.gguf --chunks 4 -q")));
    succeed(sandbox.quantize(&words("--imatrix imatrix.gguf base.gguf stock.gguf q4_k_m -q")));
    let ((ours, ours_model), (stock, stock_model)) =
        (header_and_data(&sandbox, "ours.gguf"), header_and_data(&sandbox, "stock.gguf"));
    let mut n_changed = 0;
    for ((file, of_stock), (our_file, of_ours)) in stock_model.tensors().zip(ours_model.tensors()) {
        let what =
            |info: &gguf_container::TensorInfo| (info.name.clone(), info.dtype, info.shape, info.n_bytes);
        assert_eq!(what(of_stock), what(of_ours));
        n_changed += usize::from(file.data(of_stock).unwrap() != our_file.data(of_ours).unwrap());
    }
    assert_eq!(n_changed, 15, "the matrices of both layers and the output");
    // No file name is invented: the calibration has a separate key.
    let keys = |model: &gguf_container::Model| -> Vec<String> {
        model.metadata().iter().map(|(key, _)| key.to_owned()).collect()
    };
    let expected: Vec<String> = keys(&stock_model)
        .into_iter()
        .filter(|key| key != "quantize.imatrix.file")
        .chain(["gguf_tools.calibration".to_owned()])
        .collect();
    let (mut found, mut expected) = (keys(&ours_model), expected);
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    let name = ours_model.get("gguf_tools.calibration").and_then(gguf_container::Value::as_str).unwrap();
    assert!(name.starts_with("cbs5-"), "{name}");
    assert!(ours.len() <= stock.len() + 64, "{} of {}", ours.len(), stock.len());
    for key in ["entries_count", "chunks_count", "dataset"] {
        let key = format!("quantize.imatrix.{key}");
        assert!(ours_model.get(&key).is_some(), "{key}");
        assert_eq!(ours_model.get(&key), stock_model.get(&key), "{key}");
    }
    // Where the weights come from another file, that is named, and a key says the rest.
    let args =
        [&["--imatrix", "imatrix.gguf", "base.gguf", "both.gguf", "q4_0", "-q", "--no-verify"][..], FEW];
    succeed(sandbox.quantize(&[&args.concat()[..], TOKENS].concat()));
    let both = sandbox.model("both.gguf");
    let text = |key: &str| both.get(key).and_then(gguf_container::Value::as_str).map(str::to_owned);
    assert_eq!(text("quantize.imatrix.file").as_deref(), Some("imatrix.gguf"));
    assert!(text("gguf_tools.calibration").unwrap().starts_with("cbs5-"));

    for more in [&[][..], &["--against", "base.gguf"]] {
        let (code, problems, report) = verify(&sandbox, &[&["ours.gguf", "--strict"], more].concat());
        assert_eq!((code, problems.len()), (Some(0), 0), "{report}");
    }
}

#[test]
fn sharded_model_is_verified() {
    let sandbox = Sandbox::with_base_and_text();
    let split = ["--split-max-size", "1M", "--json", "-q"];
    let args = [&["base.gguf", "out/ours.gguf", "q4_0"][..], &split, FEW].concat();
    let json = calibrated(&sandbox, &args).json();
    assert!(json["calibration"][0]["verified"]["chunks"].as_u64().unwrap() >= 2, "{json}");
    // The shards and nothing else.
    let names: Vec<String> = sandbox.listing("out").into_keys().collect();
    assert!(names.len() > 1 && names.iter().all(|name| name.starts_with("ours-0000")), "{names:?}");
}

#[test]
fn statistics_are_kept_and_bound_to_model() {
    let sandbox = Sandbox::with_base_and_text();
    let with = |args: &[&'static str]| {
        [args, &["q4_0", "-q", "--no-verify", "--statistics", "kept"][..], FEW, TOKENS].concat()
    };
    succeed(sandbox.quantize(&with(&["base.gguf", "a.gguf"])));
    let kept = sandbox.listing("kept");
    assert!(!kept.is_empty());
    succeed(sandbox.quantize(&with(&["base.gguf", "b.gguf"])));
    assert_eq!(sandbox.listing("kept"), kept);
    assert_eq!(sandbox.read("a.gguf"), sandbox.read("b.gguf"));

    // A copy is the same model, by whatever name and of whatever time.
    fs::copy(sandbox.path("base.gguf"), sandbox.path("copy.gguf")).unwrap();
    succeed(sandbox.quantize(&with(&["copy.gguf", "d.gguf"])));
    assert_eq!(sandbox.listing("kept"), kept);

    succeed(sandbox.convert(&words("llama other.gguf -t f16 -q")));
    // One bit of one weight, with the length and the time that the file had.
    let mut bytes = sandbox.read("base.gguf");
    let data = sandbox.model("base.gguf").shards()[0].1.data_offset() as usize;
    // At 256 equally spaced places, the last byte before the next one, at least 4 kB on.
    let step = (bytes.len() - data) / 256;
    assert!(step > 8192, "{step}");
    bytes[data + 100 * step - 1] ^= 1;
    let time = fs::metadata(sandbox.path("base.gguf")).unwrap().modified().unwrap();
    sandbox.write("bit.gguf", bytes);
    fs::File::options().write(true).open(sandbox.path("bit.gguf")).unwrap().set_modified(time).unwrap();
    for other in ["other.gguf", "bit.gguf"] {
        let ran = sandbox.quantize(&with(&[other, "c.gguf"]));
        ran.ends_and_says(1, "another model");
        assert!(!sandbox.path("c.gguf").exists());
    }
}

#[test]
fn invalid_calibrations_are_refused_or_warned() {
    let sandbox = Sandbox::with_base_and_text();
    // Before the model runs.
    let ran = sandbox.quantize(&[&["base.gguf", "base.gguf", "q4_0", "--force"][..], TOKENS].concat());
    ran.begins("error: output `base.gguf` is also the input\n");
    sandbox.write("short", "a few words");
    let ran = sandbox.quantize(&words("base.gguf x.gguf q4_0 --calibrate short"));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("short") && ran.stderr.contains("tokens"), "{}", ran.stderr);
    let ran = sandbox.quantize(&words("base.gguf x.gguf q4_0 --calibrate none"));
    ran.begins("error: none: cannot open: ");
    let ran = sandbox.quantize(&["base.gguf", "x.gguf", "q4_0", "--no-verify"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(sandbox.outputs().is_empty() && !sandbox.path("x.gguf").exists());

    succeed(sandbox.quantize(&["base.gguf", "q8.gguf", "q8_0", "-q"]));
    let ran = calibrated(
        &sandbox,
        &[&["--allow-requantize", "q8.gguf", "x.gguf", "q4_0", "--no-verify"][..], FEW].concat(),
    );
    ran.says("16 tensors are already quantized");
    // More was asked for than there is.
    let args = words("base.gguf y.gguf q4_0 --no-verify --calibrate text --calibration-tokens 100000");
    let ran = succeed(sandbox.quantize(&args));
    ran.says("expected 100000 tokens");
}

#[cfg(unix)]
#[test]
fn killed_run_resumes_to_same_bytes() {
    let sandbox = Sandbox::with_base_and_text();
    // Types of codebooks take longest: rows are noted before all are done.
    let args = ["base.gguf", "out/x.gguf", "iq3_xxs", "-q", "-j", "1", "--no-verify", "--statistics", "kept"];
    let args = [&args[..], &["--keep-types"], TOKENS].concat();
    let journal = sandbox.path("out/.x.gguf.journal");
    let child = sandbox.spawn(env!("CARGO_BIN_EXE_gguf-quantize"), &args);
    let mut child = crate::common::wait_until(child, 600, || crate::common::has_finished_rows(&journal));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!sandbox.path("out/x.gguf").exists());
    // With another text there is nothing to resume.
    sandbox.write("more", sandbox.read("text").repeat(2));
    let other: Vec<&str> = args
        .iter()
        .map(|arg| match *arg {
            "text" => "more",
            "kept" => "kept too",
            arg => arg,
        })
        .collect();
    let ran = sandbox.quantize(&[&other[..], &["--resume"]].concat());
    ran.ends_and_says(1, "`--calibrate` was `text` and is now `more`");
    succeed(sandbox.quantize(&[&args[..], &["--resume"]].concat()));
    let whole: Vec<&str> =
        args.iter().map(|arg| if *arg == "out/x.gguf" { "whole.gguf" } else { *arg }).collect();
    succeed(sandbox.quantize(&whole));
    assert_eq!(sandbox.read("out/x.gguf"), sandbox.read("whole.gguf"));
}

#[test]
fn budgeted_types_fill_budget_and_replay() {
    let sandbox = Sandbox::with_base_and_text();
    let budget = |out: &'static str, budget: [&'static str; 2]| {
        let args = ["base.gguf", out, "q4_k_m", "--json", "--no-verify", "--statistics", "kept"];
        sandbox.quantize(&[&args[..], &budget, TOKENS].concat())
    };
    succeed(sandbox.quantize(&["base.gguf", "stock.gguf", "q4_k_m", "-q"]));
    let size = |name: &str| fs::metadata(sandbox.path(name)).unwrap().len();
    let args = ["base.gguf", "ours.gguf", "q4_k_m", "--json", "--no-verify", "--statistics", "kept"];
    let more = ["--target-size", "800K", "--save-recipe", "recipe.json"];
    let json = succeed(sandbox.quantize(&[&args[..], &more, TOKENS].concat())).json();
    let types = &json["calibration"][0]["types"];
    let figure = |name: &str| types[name].as_f64().unwrap();
    assert_eq!((figure("budget"), figure("bytes")), (800_000.0, size("ours.gguf") as f64));
    assert!(size("ours.gguf") <= 800_000);
    assert!(figure("predicted") > 0.0 && figure("predicted_of_recipe") > 0.0);
    // The recipe alone makes the same types.
    succeed(sandbox.quantize(&words("--recipe recipe.json base.gguf again.gguf -q")));
    let dtypes = |name: &str| -> Vec<(String, String)> {
        let model = sandbox.model(name);
        model.tensors().map(|(_, it)| (it.name.clone(), it.dtype.name().to_owned())).collect()
    };
    assert_eq!(dtypes("again.gguf"), dtypes("ours.gguf"));
    assert_ne!(dtypes("stock.gguf"), dtypes("ours.gguf"));

    // No larger than the file of the type that anyone makes.
    succeed(budget("as.gguf", ["--no-larger-than-type", "q4_k_m"]));
    assert!(size("as.gguf") <= size("stock.gguf"), "{} of {}", size("as.gguf"), size("stock.gguf"));
}

#[test]
fn types_are_probed_once() {
    let sandbox = Sandbox::with_base_and_text();
    let made = |out: &str, dtype: &str, more: &[&str]| {
        let args = ["base.gguf", out, dtype, "--json", "--no-verify", "--statistics", "kept"];
        let ran = calibrated(&sandbox, &[&args[..], more].concat());
        let json = ran.json();
        (json["calibration"][0]["types"].clone(), ran.stderr)
    };
    for dtype in ["q4_k_m", "iq2_xs"] {
        let (types, stderr) = made("ours.gguf", dtype, &["--force"]);
        assert!(
            types["predicted"].as_f64().unwrap() < types["predicted_of_recipe"].as_f64().unwrap(),
            "{stderr}"
        );
        // The same as where it is asked for.
        made("asked.gguf", dtype, &["--no-larger-than-type", dtype, "--force"]);
        assert!(sandbox.read("ours.gguf") == sandbox.read("asked.gguf"), "{dtype}");
        let (types, _) = made("kept.gguf", dtype, &["--keep-types", "--force"]);
        assert!(types.is_null());
        assert!(sandbox.read("ours.gguf").len() <= sandbox.read("kept.gguf").len(), "{dtype}");
        assert!(sandbox.read("ours.gguf") != sandbox.read("kept.gguf"), "{dtype}");
    }
    // Probes for the first file are reused for all; a missing one is measured again with the same result.
    let probes = sandbox.path("kept/probes.json");
    let known = fs::read_to_string(&probes).unwrap();
    let mut halved: Value = serde_json::from_str(&known).unwrap();
    // Gates are found again with what they let through, of which half of the same probe is known.
    let is_removed = |tensor: &str| tensor.starts_with("blk.0.") || tensor.contains("ffn_gate");
    let is_found_again = |tensor: &str| is_removed(tensor) || tensor.contains("ffn_up");
    for (tensor, of_tensor) in halved["nats"].as_object_mut().unwrap() {
        if is_removed(tensor) {
            *of_tensor = serde_json::json!({})
        } else {
            of_tensor
                .as_object_mut()
                .unwrap()
                .values_mut()
                .for_each(|nats| *nats = (nats.as_f64().unwrap() * 2.0).into())
        }
    }
    fs::write(&probes, halved.to_string()).unwrap();
    let (types, _) = made("ours.gguf", "q4_k_m", &["--force"]);
    let found: Value = serde_json::from_str(&fs::read_to_string(&probes).unwrap()).unwrap();
    let first: Value = serde_json::from_str(&known).unwrap();
    for (tensor, nats) in first["nats"].as_object().unwrap() {
        let factor = if is_found_again(tensor) { 1.0 } else { 2.0 };
        for (dtype, nats) in nats.as_object().unwrap() {
            assert_eq!(
                found["nats"][tensor][dtype].as_f64().unwrap(),
                factor * nats.as_f64().unwrap(),
                "{tensor} {dtype}"
            );
        }
    }
    assert!(types["predicted"].as_f64().unwrap() > 0.0);

    // For several types, and where types are given, none is chosen.
    let several = ["base.gguf", "out/{ftype}.gguf", "q4_k_m,q2_k", "--no-verify", "--statistics", "kept"];
    let ran = calibrated(&sandbox, &several);
    ran.says("note: types are not optimized: this needs a single file type");
    succeed(sandbox.quantize(&words("--dry-run --save-recipe recipe.json base.gguf q4_0")));
    for more in [&["q4_0", "--pure"][..], &["f16"], &["--recipe", "recipe.json"]] {
        let args = ["base.gguf", "x.gguf", "--no-verify", "--force", "--statistics", "kept", "--json"];
        let ran = calibrated(&sandbox, &[&args[..2], more, &args[2..]].concat());
        assert!(
            !ran.stdout.contains("predicted_of_recipe") && !ran.stderr.contains("types are"),
            "{}",
            ran.stderr
        );
    }
}

/// A tied embedding is rounded for both of its uses: the statistics cover both.
#[test]
fn tied_embedding_is_rounded() {
    let sandbox = Sandbox::with_converted("llama-tied", "base.gguf", "bf16");
    sandbox.add_text();
    // And four small matrices, which the importance matrix is about.
    let alone = ["--keep-types", "--tensor-type", "ffn|blk.1=bf16", "--token-embedding-type", "q4_0"];
    let json =
        calibrated(&sandbox, &[&["base.gguf", "ours.gguf", "q4_0", "--json"][..], &alone].concat()).json();
    let gained = &json["calibration"][0];
    let roles = gained["roles"].as_object().unwrap();
    assert_eq!(roles.keys().collect::<Vec<_>>(), ["attn_k", "attn_output", "attn_q", "attn_v", "token_embd"]);
    assert!(gained["verified"]["ratio"]["value"].as_f64().unwrap() < 0.9, "{gained}");
}

/// The loss of token embeddings, whose input is unknown, is predicted from the error of their rows; a type
/// that needs importance weights is not chosen for them.
#[test]
fn embedding_types_are_chosen_by_loss() {
    let sandbox = Sandbox::with_base_and_text();
    const EMBEDDING: &str = "token_embd.weight";
    // The cheapest of all types under this budget, with what it is predicted to cost: one type for all.
    let cost = |allowed: &str| {
        let args =
            ["base.gguf", "x.gguf", "q8_0", "--json", "--no-verify", "--force", "--statistics", "kept"];
        let more = ["--target-size", "10M", "--allow-types", allowed];
        let json = succeed(sandbox.quantize(&[&args[..], &more, TOKENS].concat())).json();
        let chosen = &json["calibration"][0]["types"]["tensors"][EMBEDDING];
        (chosen[0].as_str().unwrap().to_owned(), chosen[1].as_f64().unwrap())
    };
    let lost = |dtype: &str| {
        let args = ["base.gguf", "plain.gguf", dtype, "--pure", "-q", "--force"];
        succeed(sandbox.quantize(&args));
        let values = |name: &str| {
            let model = sandbox.model(name);
            let (file, info) = model.tensor(EMBEDDING).unwrap();
            let mut values = vec![0.0; info.shape.n_elems() as usize];
            gguf_quant::decode(
                info.dtype,
                gguf_quant::Level::detect(),
                file.data(info).unwrap(),
                &mut values,
            )
            .unwrap();
            values
        };
        let square = |(a, b): (f32, f32)| (f64::from(a) - f64::from(b)).powi(2);
        values("base.gguf").into_iter().zip(values("plain.gguf")).map(square).sum::<f64>()
    };
    // Of two types that nearer to 4.5 bits is probed, and the finer one chosen: the budget has room for all.
    let (probed, measured) = cost("q4_k");
    let (finer, predicted) = cost("q4_k,q8_0");
    assert_eq!((probed.as_str(), finer.as_str()), ("q4_K", "q8_0"));
    let (found, expected) = (predicted / measured, lost("q8_0") / lost("q4_k"));
    // Rows are sampled there, and all are read here.
    assert!((found / expected - 1.0).abs() < 0.2, "{found}, by the rows {expected}");
    // IQ2_XS needs importance weights, which embeddings have none of: Q8_0 is the type of the recipe.
    assert_eq!(cost("iq2_xs").0, "q8_0");
}

#[test]
fn chats_are_used_to_choose_types() {
    let sandbox = Sandbox::with_base_and_text();
    let template = "{% for message in messages %}{{ message.content }}\n{% endfor %}";
    let template = format!("tokenizer.chat_template=str:{template}");
    let args = ["llama", "base.gguf", "-t", "bf16", "-q", "--force", "--override-kv", &template];
    succeed(sandbox.convert(&args));
    // No chat is as long as a window.
    let license = sandbox.text("text");
    let chats: Vec<String> = license
        .as_bytes()
        .chunks(300)
        .map(|part| {
            let question = String::from_utf8_lossy(part);
            let turn = |role: &str, content: &str| serde_json::json!({"role": role, "content": content});
            serde_json::json!({"messages": [turn("user", &question), turn("assistant", "Yes.")]}).to_string()
        })
        .collect();
    sandbox.write("chats.jsonl", chats.join("\n"));
    let args =
        ["base.gguf", "ours.gguf", "q4_k_m", "--json", "--calibrate", "chats.jsonl", "--target-size", "800K"];
    let json = succeed(sandbox.quantize(&[&args[..], &["--calibration-tokens", "2048"]].concat())).json();
    let types = &json["calibration"][0]["types"];
    assert!(types["predicted"].as_f64().unwrap() > 0.0, "{types}");
    assert!(fs::metadata(sandbox.path("ours.gguf")).unwrap().len() <= 800_000);
}

/// From a checkpoint in one call: the file is that of two, and what lay between them is gone.
#[test]
fn checkpoint_is_calibrated_in_one_call() {
    let sandbox = Sandbox::with_base_and_text();
    let more = [&["-q", "--no-verify"][..], FEW, TOKENS].concat();
    let convert = |args: &[&str]| sandbox.convert(&[&["llama"][..], args, &more[..]].concat());
    succeed(convert(&["out/one.gguf", "-t", "q4_k_m"]));
    succeed(sandbox.quantize(&[&["base.gguf", "two.gguf", "q4_k_m"][..], &more[..]].concat()));
    assert_eq!(sandbox.read("out/one.gguf"), sandbox.read("two.gguf"));
    assert_eq!(sandbox.outputs(), ["one.gguf"]);
    // Rounded on the way, it is another base.
    succeed(convert(&words("out/via.gguf -t q4_k_m --via f16")));
    assert_ne!(sandbox.read("out/via.gguf"), sandbox.read("two.gguf"));
    // Types are chosen as they are for a GGUF file.
    let size = format!("{}", fs::metadata(sandbox.path("two.gguf")).unwrap().len() - 1000);
    let ran = succeed(
        sandbox.convert(
            &[
                &["llama", "out/small.gguf", "-t", "q4_k_m", "--target-size", &size, "--no-verify"][..],
                TOKENS,
            ]
            .concat(),
        ),
    );
    assert!(
        fs::metadata(sandbox.path("out/small.gguf")).unwrap().len() < size.parse().unwrap(),
        "{}",
        ran.stderr
    );

    // A failed run leaves no file.
    sandbox.write("short", "a few words");
    let ran = sandbox.convert(&words("llama out/x.gguf -t q4_0 --calibrate short"));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert_eq!(sandbox.outputs(), ["one.gguf", "small.gguf", "via.gguf"]);
    for args in [&["--repack"][..], &["--vocab-only"], &["--with-mmproj"]] {
        let ran = sandbox
            .convert(&[&["llama", "out/x.gguf", "-t", "q4_0", "--calibrate", "text"][..], args].concat());
        ran.ends_and_says(2, "--calibrate");
    }
    let ran = sandbox.convert(&words("plan plan.json llama out/x.gguf -t q4_0 --calibrate text"));
    ran.ends_and_says(2, "--calibrate");
    let ran = sandbox.convert(&words("llama out/x.gguf -t q4_0 --target-size 1M"));
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
}

#[test]
fn both_sides_do_not_depend_on_threads_or_level() {
    let sandbox = Sandbox::with_base_and_text();
    let mut files = Vec::new();
    for (threads, level) in runnable_levels() {
        let out = format!("out/{threads}.gguf");
        let mut command = sandbox.command(env!("CARGO_BIN_EXE_gguf-quantize"));
        let args = ["base.gguf", &out, "q4_k_m", "--json"];
        command.args([&args[..], FEW, TOKENS, &["-j", threads]].concat());
        if let Some(level) = level {
            command.env(gguf_quant::LEVEL_VARIABLE, level);
        }
        let ran = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(0), "{stderr}");
        let json: Value = serde_json::from_slice(&ran.stdout).unwrap();
        let roles = json["calibration"][0]["roles"].as_object().unwrap();
        let n_both: u64 = roles.values().map(|of| of["both_sides"].as_u64().unwrap()).sum();
        assert!(n_both >= 1, "{roles:?}");
        files.push(sandbox.read(&out));
    }
    assert_eq!(files.len(), runnable_levels().len());
    assert!(files.iter().all(|file| *file == files[0]));
    calibrated(
        &sandbox,
        &[&["base.gguf", "one.gguf", "q4_k_m", "-q", "--no-verify", "--inputs-only"][..], FEW].concat(),
    );
    assert!(files[0] != sandbox.read("one.gguf"));
    let key = |name: &str| {
        let (_, model) = header_and_data(&sandbox, name);
        model.get("gguf_tools.calibration").and_then(gguf_container::Value::as_str).unwrap().to_owned()
    };
    assert!(key("out/1.gguf").starts_with("cbs5-"));
    assert!(key("one.gguf").starts_with("cal3-"));
}

#[test]
fn trained_scales_lower_divergence_and_do_not_depend_on_threads() {
    let sandbox = Sandbox::with_base_and_text();
    let attention = ["--tensor-type", "blk.1|output.weight|token_embd=bf16", "--keep-types"];
    let mut files = Vec::new();
    for (threads, level) in [("1", None), ("3", Some("avx2"))] {
        let out = format!("out/{threads}.gguf");
        let mut command = sandbox.command(env!("CARGO_BIN_EXE_gguf-quantize"));
        let args = ["base.gguf", &out, "q2_k", "--train-scales", "--no-verify", "--json", "-j", threads];
        command.args([&args[..], &attention, TOKENS].concat());
        if level.is_some_and(|level| runnable_levels().iter().any(|(_, found)| *found == Some(level))) {
            command.env(gguf_quant::LEVEL_VARIABLE, "avx2");
        }
        let ran = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(0), "{stderr}");
        let json: Value = serde_json::from_slice(&ran.stdout).unwrap();
        let training = &json["calibration"][0]["training"];
        let held_out: Vec<f64> =
            training["held_out"].as_array().unwrap().iter().map(|of| of.as_f64().unwrap()).collect();
        let kept = training["kept_pass"].as_u64().unwrap() as usize;
        assert!(kept >= 1 && held_out[kept] < held_out[0], "{training}");
        files.push(sandbox.read(&out));
    }
    assert!(files[0] == files[1]);
    // Only scales of matrices differ from the same file without training, and nothing is left next to it.
    calibrated(
        &sandbox,
        &[&["base.gguf", "out/rounded.gguf", "q2_k", "-q", "--no-verify"][..], &attention].concat(),
    );
    let (trained, rounded) = (sandbox.model("out/1.gguf"), sandbox.model("out/rounded.gguf"));
    let mut n_trained = 0;
    for (file, info) in rounded.tensors() {
        let (of_trained, trained) = trained.tensor(&info.name).unwrap();
        assert_eq!(trained.dtype, info.dtype);
        let (ours, before) = (of_trained.data(trained).unwrap(), file.data(info).unwrap());
        if ours != before {
            assert!(info.dtype.is_quantized(), "{}", info.name);
            n_trained += 1;
            let scales = gguf_quant::half_scales(info.dtype);
            let n = info.dtype.block_bytes() as usize;
            for (ours, before) in ours.chunks(n).zip(before.chunks(n)) {
                let of_scales = |at: usize| scales.iter().any(|scale| (*scale..scale + 2).contains(&at));
                assert!((0..n).all(|at| ours[at] == before[at] || of_scales(at)), "{}", info.name);
            }
        }
    }
    assert!(n_trained >= 4, "{n_trained}");
    let name = trained.get("gguf_tools.calibration").and_then(gguf_container::Value::as_str).unwrap();
    assert!(name.starts_with("cbt2-"), "{name}");
    let left: Vec<String> = sandbox.outputs().into_iter().filter(|name| name.starts_with('.')).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn training_of_scales_makes_one_file() {
    let sandbox = Sandbox::with_base_and_text();
    let ran = sandbox
        .quantize(&[&words("base.gguf out/{ftype}.gguf q4_0,q8_0 --train-scales")[..], TOKENS].concat());
    ran.ends_and_says(2, "one file type");
    let sandbox = Sandbox::with_converted("gpt-oss", "base.gguf", "bf16");
    sandbox.add_text();
    let few = ["--tensor-type", "exps|blk.1|output.weight|token_embd=bf16", "--no-verify"];
    let ran =
        sandbox.quantize(&[&["base.gguf", "x.gguf", "q4_k_m", "--train-scales"][..], &few, TOKENS].concat());
    ran.ends_and_says(1, "no backward pass");
    assert!(!sandbox.path("x.gguf").exists());
}

#[test]
fn experts_pass_gradients_and_use_one_side() {
    let sandbox = Sandbox::with_converted("mixtral", "base.gguf", "bf16");
    sandbox.add_text();
    let few = ["--tensor-type", "blk.1|output.weight|token_embd=bf16", "--no-verify", "--json"];
    let ran = calibrated(&sandbox, &[&["base.gguf", "both.gguf", "q4_k_m"][..], &few].concat());
    let json = ran.json();
    let roles = json["calibration"][0]["roles"].as_object().unwrap();
    let n_both = |is_of: fn(&str) -> bool| -> u64 {
        let of = roles.iter().filter(|(role, _)| is_of(role));
        of.map(|(_, found)| found["both_sides"].as_u64().unwrap()).sum()
    };
    assert!(n_both(|role| role.starts_with("attn")) >= 1, "{roles:?}");
    assert!(roles.keys().any(|role| role.contains("exps")), "{roles:?}");
    assert_eq!(n_both(|role| role.contains("exps")), 0, "{roles:?}");
}

#[test]
fn missing_backward_pass_falls_back_to_one_side() {
    let sandbox = Sandbox::with_converted("gpt-oss", "base.gguf", "bf16");
    sandbox.add_text();
    let few = ["--tensor-type", "exps|blk.1|output.weight|token_embd=bf16", "--no-verify"];
    calibrated(&sandbox, &[&["base.gguf", "one.gguf", "q4_k_m", "-q", "--inputs-only"][..], &few].concat());
    let ran = calibrated(&sandbox, &[&["base.gguf", "both.gguf", "q4_k_m"][..], &few].concat());
    let message =
        "rounding with input statistics alone: architecture `gpt-oss`: no backward pass for its experts";
    ran.says(message);
    assert!(sandbox.read("one.gguf") == sandbox.read("both.gguf"));
}
