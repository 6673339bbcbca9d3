//! `gguf-eval compare`, `check`, `imatrix` and `score` on tiny models, compared with the reference's tools
//! (`golden/eval-cli/`, made by `scripts/golden/eval_cli.sh`).

use std::{collections::BTreeMap, fs, path::PathBuf};

use crate::common::{Sandbox, golden, succeed, words};
use gguf_imatrix::{Format, Sums};
use gguf_runtime::logits_file::LogitsFile;
use serde_json::Value;

/// The files of the golden's maker: a model in f32, and after Q4_0 and back; and its text.
fn sandbox(name: &str) -> Sandbox {
    let sandbox = Sandbox::with_golden(name);
    let expected = fs::read_to_string(sandbox.path(name).join("expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&expected).unwrap();
    let pre = match expected["pre"].as_str().unwrap() {
        "default" => vec![],
        pre => vec!["--pre", pre],
    };
    succeed(sandbox.convert(&[&[name, "base.gguf", "--type", "f32", "--quiet"], &pre[..]].concat()));
    sandbox.add_text();
    sandbox
}

fn quantize(sandbox: &Sandbox, args: &[&str]) {
    succeed(sandbox.quantize(args));
}

fn llama_and_back() -> Sandbox {
    let sandbox = sandbox("llama");
    quantize(&sandbox, &["base.gguf", "q4_0.gguf", "q4_0", "--quiet"]);
    quantize(&sandbox, &words("--allow-requantize q4_0.gguf back.gguf f32 --quiet"));
    sandbox
}

fn golden_path(name: &str) -> String {
    golden("eval-cli").join(name).to_str().unwrap().to_owned()
}

/// Metrics that the reference printed, by name: value and error.
fn reference() -> BTreeMap<String, (f64, Option<f64>)> {
    let text = fs::read_to_string(golden_path("compare.txt")).unwrap();
    let mut figures = BTreeMap::new();
    for line in text.lines() {
        let (name, rest) = line.rsplit_once(':').unwrap();
        let number = |text: &str| text.trim().trim_end_matches('%').trim().parse::<f64>().unwrap();
        let (value, error) = rest.split_once('±').map_or((rest, None), |(value, error)| (value, Some(error)));
        let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
        figures.insert(name, (number(value), error.map(number)));
    }
    figures
}

/// Fails unless a figure and its error are the reference's within a share of it, and what its
/// last printed digit cannot tell.
fn same(found: &Value, expected: (f64, Option<f64>), scale: f64, share: f64, digit: f64, what: &str) {
    let near = |found: &Value, expected: f64| {
        let found = found.as_f64().unwrap() * scale;
        assert!((found - expected).abs() <= share * expected.abs() + digit, "{what}: {found}, {expected}");
    };
    match expected.1 {
        Some(error) => {
            near(&found["value"], expected.0);
            near(&found["error"], error);
        }
        None => near(found, expected.0),
    }
}

fn check_figures(json: &str, share: f64) {
    let report: Value = serde_json::from_str(json).unwrap();
    let found = &report["files"][0]["predictions"];
    let reference = reference();
    let expect = |name: &str, key: &str, scale: f64, digit: f64| {
        same(&found[key], reference[name], scale, share, digit, name);
    };
    expect("Mean PPL(Q)", "perplexity", 1.0, 1e-4);
    expect("Mean PPL(base)", "base_perplexity", 1.0, 1e-4);
    expect("Cor(ln(PPL(Q)), ln(PPL(base)))", "correlation", 100.0, 0.01);
    expect("Mean ln(PPL(Q)/PPL(base))", "ln_perplexity_ratio", 1.0, 1e-5);
    expect("Mean PPL(Q)/PPL(base)", "perplexity_ratio", 1.0, 1e-5);
    expect("Mean PPL(Q)-PPL(base)", "perplexity_difference", 1.0, 2e-3);
    expect("Mean KLD", "kl", 1.0, 2e-6);
    expect("Mean Δp", "p_diff", 100.0, 1e-3);
    expect("RMS Δp", "p_diff_rms", 100.0, 1e-3);
    expect("Same top p", "same_top", 100.0, 1e-3);
    let names = [
        ("Maximum", "maximum"),
        ("99.9%", "p99_9"),
        ("99.0%", "p99"),
        ("95.0%", "p95"),
        ("90.0%", "p90"),
        ("Median", "median"),
        ("10.0%", "p10"),
        ("5.0%", "p5"),
        ("1.0%", "p1"),
        ("0.1%", "p0_1"),
        ("Minimum", "minimum"),
    ];
    for (name, key) in names {
        let kl = reference[&format!("{name} KLD")];
        same(&found["kl_quantiles"][key], kl, 1.0, share, 2e-6, name);
        let p_diff = reference[&format!("{name} Δp")];
        same(&found["p_diff_quantiles"][key], p_diff, 100.0, share, 1e-3, name);
    }
}

#[test]
fn comparisons_match_reference() {
    let sandbox = llama_and_back();
    let direct =
        ["compare", "base.gguf", "back.gguf", "--text", "text", "-c", "64", "--chunks", "4", "--json", "-q"];
    // The reference has the base in 16 bits.
    check_figures(&succeed(sandbox.eval(&direct)).stdout, 2e-3);
    let saved = succeed(sandbox.eval(&["compare", &golden_path("llama.kld"), "back.gguf", "--json", "-q"]));
    check_figures(&saved.stdout, 1e-4);
}

#[test]
fn saved_predictions_match_reference() {
    let sandbox = llama_and_back();
    let args = words("compare base.gguf --text text -c 64 --chunks 4 --save-logits our.kld -q");
    succeed(sandbox.eval(&args));
    let ours = LogitsFile::open(&sandbox.path("our.kld")).unwrap();
    let theirs = LogitsFile::open(&PathBuf::from(golden_path("llama.kld"))).unwrap();
    assert_eq!(ours.layout(), theirs.layout());
    assert_eq!(ours.tokens().unwrap(), theirs.tokens().unwrap());
    for window in 0..4 {
        for position in 0..ours.layout().n_positions() {
            let (ours, theirs) = (ours.position(window, position), theirs.position(window, position));
            let worst =
                ours.decode().iter().zip(theirs.decode()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst < 1e-4, "window {window}, position {position}: {worst}");
        }
    }
    let again = sandbox.eval(&args);
    assert!(again.code == Some(1) && again.stderr.contains("our.kld"), "{}", again.stderr);
}

#[test]
fn equal_files_do_not_diverge() {
    let sandbox = llama_and_back();
    let args =
        ["compare", "base.gguf", "base.gguf", "q4_0.gguf", "--text", "text", "-c", "64", "--chunks", "2"];
    let report = succeed(
        sandbox.eval(&[&args[..], &["--json", "--html", "page.html", "--csv", "files.csv", "-q"]].concat()),
    )
    .json();
    let same = &report["files"][0];
    assert_eq!(same["predictions"]["kl"]["value"], 0.0);
    assert_eq!(same["predictions"]["same_top_k"]["value"], 1.0);
    assert!(same["tensors"]["tensors"].as_array().unwrap().iter().all(|it| it["snr_db"].is_null()));
    let other = &report["files"][1]["tensors"]["tensors"];
    for tensor in other.as_array().unwrap() {
        let snr = tensor["snr_db"].as_f64();
        match tensor["dtype"].as_str().unwrap() {
            "f32" => assert_eq!(snr, None),
            // Normal weights in blocks of 32: about 21 dB with 4 bits, about 36 with 6.
            "q4_0" => assert!((18.0..24.0).contains(&snr.unwrap()), "{tensor}"),
            "q6_K" => assert!((31.0..41.0).contains(&snr.unwrap()), "{tensor}"),
            other => panic!("{other}"),
        }
    }
    let csv = sandbox.text("files.csv");
    let header: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    let row: Vec<&str> = csv.lines().nth(2).unwrap().split(',').collect();
    let cell =
        |name: &str| row[header.iter().position(|column| *column == name).unwrap()].parse::<f64>().unwrap();
    let kl = &report["files"][1]["predictions"]["kl"];
    assert_eq!(
        [cell("kl"), cell("kl_error")],
        [&kl["value"], &kl["error"]].map(|value| value.as_f64().unwrap())
    );
    let page = sandbox.text("page.html");
    assert_eq!(page.matches("<svg").count(), 3, "position, chunk, tensors of one file");
    assert!(page.contains("q4_0.gguf") && page.contains("blk.1.ffn_down.weight"));
    // The page has the words of the command line, and zeros without a sign.
    for label in ["KL divergence, mean", "perplexity / base", "same top token", "change in probability, RMS"]
    {
        assert!(page.contains(label), "{label}");
    }
    assert!(!page.contains("-0.000 %") && !page.contains(">-0.000000<"));
    // Each metric of the table has its error.
    let table = succeed(sandbox.eval(&args)).stdout;
    let row = table.lines().find(|line| line.starts_with("q4_0 ")).unwrap();
    assert_eq!(row.matches(" ± ").count(), 3, "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    // The paired difference by chunk, and its standard error.
    let by_chunk = |file: usize| -> Vec<f64> {
        let values = report["files"][file]["kl_by_chunk"].as_array().unwrap().iter();
        values.map(|value| value.as_f64().unwrap()).collect()
    };
    let [a, b] = by_chunk(1).iter().zip(by_chunk(0)).map(|(x, y)| x - y).collect::<Vec<_>>()[..] else {
        panic!()
    };
    let found = &report["files"][1]["kl_difference"];
    assert!((found["value"].as_f64().unwrap() - (a + b) / 2.0).abs() < 1e-12, "{found}");
    assert!((found["error"].as_f64().unwrap() - (a - b).abs() / 2.0).abs() < 1e-9, "{found}");
    assert!(report["files"][0]["kl_difference"].is_null() && report["chunks"] == 2);
    let alone = succeed(sandbox.eval(&words("compare base.gguf q4_0.gguf --tensors -q")));
    assert!(alone.stdout.contains("blk.0.attn_q.weight") && !alone.stdout.contains("perplexity"));
}

#[test]
fn calls_without_a_measurement_are_refused() {
    let sandbox = sandbox("llama");
    for (args, message) in [
        (&["compare", "base.gguf"][..], "missing files to compare with the base"),
        (&["compare", "base.gguf", "base.gguf"], "missing text"),
        (&["compare", &golden_path("llama.kld"), "base.gguf", "--tensors"], "the base is a logits file"),
        (&["imatrix", "base.gguf", "-o", "x"], "--text"),
        (&["score", "base.gguf"], "--hellaswag"),
    ] {
        let ran = sandbox.eval(args);
        assert!(ran.code == Some(2) && ran.stderr.contains(message), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn check_fails_for_a_worse_file() {
    let sandbox = llama_and_back();
    let args = |file, baseline| ["check", file, "--baseline", baseline, "--text", "text", "-q"];
    let save = ["--save", "-c", "64", "--chunks", "2"];
    let base = ["--base", "base.gguf"];
    let saved = succeed(sandbox.eval(&[&args("back.gguf", "b.json")[..], &base, &save].concat())).stdout;
    assert!(saved.starts_with("saved b.json: KL 0.") && saved.ends_with(", 2 chunks\n"), "{saved}");
    let again = succeed(sandbox.eval(&[&args("back.gguf", "b.json")[..], &base].concat()));
    let starts = |start: &str| again.stdout.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!((starts("ok: KL divergence "), starts("- perplexity ")), (1, 1), "{}", again.stdout);
    quantize(&sandbox, &words("--pure base.gguf q2_k.gguf q2_k --quiet"));
    let worse = sandbox.eval(&[&args("q2_k.gguf", "b.json")[..], &base].concat());
    assert_eq!(worse.code, Some(3));
    assert!(worse.stdout.contains("worse: KL divergence "), "{}", worse.stdout);
    worse.begins("error: q2_k.gguf: ");
    // With a base, perplexity has a limit only if one is requested.
    assert!(
        worse.stdout.contains("- perplexity ") && worse.stdout.contains(", no limit\n"),
        "{}",
        worse.stdout
    );
    let narrow = [&args("q2_k.gguf", "b.json")[..], &base, &["--perplexity-margin", "0"]].concat();
    let limited = sandbox.eval(&narrow).stdout;
    assert!(
        limited.lines().any(|line| line.contains(": perplexity ") && line.contains(", at most ")),
        "{limited}"
    );
    // On these few tokens, the worse file has the lower perplexity.
    succeed(sandbox.eval(&[&args("q2_k.gguf", "alone.json")[..], &save].concat()));
    let alone = sandbox.eval(&args("back.gguf", "alone.json"));
    assert_eq!(
        (alone.code, alone.stdout.starts_with("worse: perplexity ")),
        (Some(3), true),
        "{}",
        alone.stdout
    );
    let ignored = sandbox.eval(&[&args("back.gguf", "alone.json")[..], &base].concat());
    ignored.ends_and_says(2, "the baseline was saved without a base");
    // As much worse as the margin allows is not worse.
    let wide = ["--divergence-margin", "100000%", "--perplexity-margin", "1000"];
    succeed(sandbox.eval(&[&args("q2_k.gguf", "b.json")[..], &base, &wide].concat()));
    let other_base = sandbox.eval(&[&args("back.gguf", "b.json")[..], &["--base", "q2_k.gguf"]].concat());
    assert_eq!(other_base.code, Some(1));
    other_base.begins("error: q2_k.gguf: the weights differ from those of the base of the baseline\n");
    other_base.says("to compare the divergences from both bases, pass --new-base");
    // A new base: the same loss is not worse, a larger one is if all chunks agree.
    let new_base = |file, base, baseline| {
        sandbox.eval(&[&args(file, baseline)[..], &["--base", base, "--new-base", "--json"]].concat())
    };
    let same = succeed(new_base("back.gguf", "back.gguf", "b.json")).json();
    assert_eq!(
        (&same["is_worse"], &same["is_new_base"], &same["chunks"]),
        (&false.into(), &true.into(), &2.into())
    );
    assert!(same["metrics"][1]["difference"]["value"].as_f64().unwrap() < 0.0, "{same}");
    let unchanged = new_base("q2_k.gguf", "base.gguf", "b.json");
    assert_eq!((unchanged.code, &unchanged.json()["is_new_base"]), (Some(3), &false.into()));
    succeed(sandbox.eval(
        &[&args("back.gguf", "many.json")[..], &["--base", "back.gguf", "--save", "-c", "16"]].concat(),
    ));
    let lost = new_base("q2_k.gguf", "base.gguf", "many.json");
    assert_eq!((lost.code, &lost.json()["is_worse"]), (Some(3), &true.into()), "{}", lost.stderr);
    // Metadata of the base do not matter.
    succeed(sandbox.inspect(&["set", "base.gguf", "general.name=str:Other"]));
    let renamed = [&args("back.gguf", "b.json")[..], &base, &["--markdown", "s.md"]].concat();
    succeed(sandbox.eval(&renamed));
    sandbox.eval(&[&args("q2_k.gguf", "b.json")[..], &base, &["--markdown", "s.md"]].concat());
    let tables = sandbox.text("s.md");
    assert!(tables.contains("### `back.gguf`: as good as the baseline\n"), "{tables}");
    assert!(tables.contains("### `q2_k.gguf`: worse than the baseline allows\n"), "{tables}");
    assert_eq!(tables.lines().filter(|line| line.starts_with("| KL divergence |")).count(), 2, "{tables}");
    let baseline = sandbox.text("b.json");
    assert!(baseline.contains(&format!("\"version\": \"{}\"", env!("CARGO_PKG_VERSION"))), "{baseline}");
    let older = baseline.replacen(env!("CARGO_PKG_VERSION"), "0.0.1", 1);
    sandbox.write("older.json", older);
    let noted =
        succeed(sandbox.eval(&words("check back.gguf --base base.gguf --baseline older.json --text text")));
    assert!(noted.stderr.contains("the baseline was saved by version 0.0.1; this is"), "{}", noted.stderr);
    let without = sandbox.eval(&args("back.gguf", "b.json"));
    assert_eq!((without.code, without.stderr.contains("--base")), (Some(2), true));
    sandbox.write("text", "another text");
    let other = sandbox.eval(&[&args("back.gguf", "b.json")[..], &base].concat());
    assert!(
        other.code == Some(1) && other.stderr.contains("the text differs from the text of the baseline"),
        "{}",
        other.stderr
    );
}

#[test]
fn importance_matrices_match_reference() {
    for model in ["llama", "mixtral", "deepseek3-old"] {
        let sandbox = sandbox(model);
        let args =
            ["imatrix", "base.gguf", "--text", "text", "-c", "64", "--chunks", "5", "-q", "-o", "our.gguf"];
        succeed(sandbox.eval(&args));
        let ours = Sums::open(&sandbox.path("our.gguf")).unwrap();
        let theirs = Sums::open(&PathBuf::from(golden_path(&format!("{model}.imatrix.gguf")))).unwrap();
        assert_eq!(ours.datasets, theirs.datasets);
        assert_eq!((ours.n_chunks, ours.chunk_tokens), (theirs.n_chunks, theirs.chunk_tokens));
        assert!(ours.entries.keys().eq(theirs.entries.keys()), "{model}");
        for (name, theirs) in &theirs.entries {
            let ours = &ours.entries[name];
            assert_eq!(ours.counts, theirs.counts, "{name}");
            for (our, their) in ours.sums.iter().zip(&theirs.sums) {
                assert!((our - their).abs() <= 1e-4 * their.abs() + 1e-6, "{model} {name}: {our} {their}");
            }
        }
    }
}

#[test]
fn matrices_are_resumed_and_added() {
    let sandbox = sandbox("llama");
    let args = |output, n| {
        let args = ["imatrix", "base.gguf", "--text", "text", "-c", "64", "-q", "-o", output, "--chunks", n];
        args.map(str::to_owned)
    };
    let run = |args: &[String]| {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        sandbox.eval(&args)
    };
    succeed(run(&args("whole.gguf", "4")));
    succeed(run(&args("part.gguf", "1")));
    assert_eq!(run(&args("part.gguf", "4")).code, Some(1), "it exists");
    let resume =
        [&args("part.gguf", "4")[..], &["--resume".to_owned(), "--save-every".to_owned(), "1".to_owned()]]
            .concat();
    succeed(run(&resume));
    let (whole, part) =
        (Sums::open(&sandbox.path("whole.gguf")).unwrap(), Sums::open(&sandbox.path("part.gguf")).unwrap());
    assert_eq!((whole.n_chunks, &whole.datasets), (part.n_chunks, &part.datasets));
    for (name, whole) in &whole.entries {
        let part = &part.entries[name];
        assert_eq!(whole.counts, part.counts, "{name}");
        assert!(whole.sums.iter().zip(&part.sums).all(|(a, b)| (a - b).abs() <= 1e-5 * a.abs()), "{name}");
    }
    let merged = words("imatrix --merge whole.gguf part.gguf -o both.dat --format dat -c 64 -q");
    let summary = succeed(sandbox.eval(&[&merged[..], &["--json"]].concat())).json();
    assert_eq!(
        (&summary["chunks"], &summary["entries"]),
        (&Value::from(8), &Value::from(whole.entries.len()))
    );
    let both = Sums::open(&sandbox.path("both.dat")).unwrap();
    assert_eq!((both.format, both.n_chunks), (Format::Legacy, 8));
    let finished = sandbox.read("part.gguf");
    let quiet = |args: &[String]| args.iter().filter(|arg| *arg != "-q").cloned().collect::<Vec<_>>();
    succeed(run(&quiet(&resume))).says("part.gguf is already finished");
    let fewer = [&args("part.gguf", "2")[..], &["--resume".to_owned()]].concat();
    run(&fewer).ends_and_says(1, "computed from 4 chunks, expected at most 2");
    assert!(sandbox.read("part.gguf") == finished);
    // Statistics of another text are not continued.
    sandbox.write("other", sandbox.read("text"));
    let mut other = resume.clone();
    other[3] = "other".to_owned();
    assert!(run(&other).stderr.contains("its text is text"));
    // The other program reads the matrix.
    quantize(&sandbox, &words("--imatrix part.gguf base.gguf small.gguf iq2_xs --quiet"));
}

/// A binary file of tasks is not a text, and a model that cannot be scored is named before another one runs.
#[test]
fn score_names_the_file_at_fault() {
    let sandbox = Sandbox::with_converted("llama", "base.gguf", "f32");
    sandbox.add_golden("bert");
    succeed(sandbox.convert(&words("bert bert.gguf -t f32 -q")));
    let ran = succeed(sandbox.eval(&[
        "score",
        "base.gguf",
        "--multiple-choice",
        &golden_path("multiple-choice.bin"),
    ]));
    assert!(!ran.stderr.contains("UTF"), "{}", ran.stderr);
    let tasks = golden_path("hellaswag.txt");
    for files in [&["bert.gguf"][..], &["base.gguf", "bert.gguf"]] {
        let ran = sandbox.eval(&[&["score", "--hellaswag", &tasks], files].concat());
        ran.ends_and_says(1, "error: bert.gguf: architecture `bert` does not predict tokens");
        assert!(!ran.stderr.contains("accuracy"), "{}", ran.stderr);
    }
    sandbox.write("bad.txt", "one\n");
    sandbox.eval(&words("score base.gguf --hellaswag bad.txt")).ends_and_says(1, "error: bad.txt: ");
}

#[test]
fn scores_match_reference() {
    let sandbox = sandbox("llama");
    let reference = fs::read_to_string(golden_path("scores.txt")).unwrap();
    for (name, file) in [
        ("hellaswag", "hellaswag.txt"),
        ("winogrande", "winogrande.csv"),
        ("multiple-choice", "multiple-choice.bin"),
    ] {
        let lines: Vec<Vec<&str>> = reference
            .lines()
            .filter_map(|line| Some(line.strip_prefix(name)?.split_whitespace().collect()))
            .collect();
        assert!(!lines.is_empty());
        let option = format!("--{name}");
        let ran = succeed(sandbox.eval(&["score", "base.gguf", &option, &golden_path(file), "--json", "-q"]));
        let found = ran.json();
        let answers = found["answers"].as_array().unwrap();
        assert_eq!(answers.len(), lines.len(), "{name}");
        let mut n_right = 0.0;
        for (index, (answer, line)) in answers.iter().zip(&lines).enumerate() {
            n_right += f64::from(u8::from(answer["is_right"].as_bool().unwrap()));
            let accuracy: f64 = line[1].trim_end_matches('%').parse().unwrap();
            let ours = 100.0 * n_right / (index + 1) as f64;
            assert!((ours - accuracy).abs() < 1e-4, "{name} {}: {ours} {accuracy}", index + 1);
            if name == "winogrande" {
                for (ours, theirs) in answer["scores"].as_array().unwrap().iter().zip(&line[2..4]) {
                    let theirs: f64 = theirs.parse().unwrap();
                    assert!((ours.as_f64().unwrap() - theirs).abs() < 1e-4, "{index}: {ours} {theirs}");
                }
                assert_eq!(answer["chosen"].as_u64().unwrap() + 1, line[4].parse::<u64>().unwrap());
            }
        }
    }
}

#[test]
fn accuracies_of_several_files_are_compared_by_task() {
    let sandbox = llama_and_back();
    let word = |i: usize| ["tree", "river", "stone", "lamp", "house"][i % 5];
    let task =
        |i: usize| format!("{i},The {} is near _ and old,the {},a {},1\n", word(i), word(i / 5), word(i + 2));
    sandbox.write("tasks", (0..40).map(task).collect::<String>() + "\n");
    let args = words("score base.gguf q4_0.gguf base.gguf --winogrande tasks -q");
    let all = succeed(sandbox.eval(&[&args[..], &["--json"]].concat())).json();
    let right = |file: usize| -> Vec<f64> {
        let answers = all[file]["answers"].as_array().unwrap().iter();
        answers.map(|answer| f64::from(u8::from(answer["is_right"].as_bool().unwrap()))).collect()
    };
    let changes: Vec<f64> = right(1).iter().zip(right(0)).map(|(other, base)| other - base).collect();
    let n = changes.len() as f64;
    let mean = changes.iter().sum::<f64>() / n;
    let variance = changes.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    assert!(n == 40.0 && changes.iter().any(|change| *change != 0.0), "no answer differs");
    let found = &all[1]["difference"];
    assert!((found["value"].as_f64().unwrap() - mean).abs() < 1e-12, "{found}, {mean}");
    assert!((found["error"].as_f64().unwrap() - (variance / n).sqrt()).abs() < 1e-12, "{found}");
    let difference =
        all[1]["score"]["accuracy"].as_f64().unwrap() - all[0]["score"]["accuracy"].as_f64().unwrap();
    assert!((difference - mean).abs() < 1e-12);
    assert!(all[0].get("difference").is_none());
    assert_eq!(all[2]["difference"], serde_json::json!({"value": 0.0, "error": 0.0}));
    let alone = succeed(sandbox.eval(&words("score q4_0.gguf --winogrande tasks -q"))).stdout;
    let lines = succeed(sandbox.eval(&args)).stdout;
    let line = format!("q4_0.gguf: {}, difference {:.2} ± ", alone.trim_end(), mean * 100.0);
    assert!(lines.lines().nth(1).unwrap().starts_with(&line), "{lines}{line}");
}
