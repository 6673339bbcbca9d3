//! `gguf-inspect show`: summaries, and lists of metadata and tensors.

use std::{fs, path::Path};

use crate::common::{Sandbox, golden, succeed, words};

#[test]
fn show_summarizes_then_lists_metadata_and_tensors() {
    let sandbox = Sandbox::with_converted("llama", "x.gguf", "q4_k_m");
    let shown = |options: &[&str]| {
        let ran = sandbox.inspect(&[&["show", "x.gguf"], options].concat());
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        ran.stdout
    };
    let all = shown(&["--list"]);
    let expected = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/gguf-inspect-show.txt");
    gguf_testkit::check_written(&expected, &all);
    let widest = all.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{all}");

    let summary = shown(&[]);
    assert!(all.starts_with(&summary) && !summary.contains("blk.0"), "{summary}");
    assert!(summary.lines().count() <= 24, "{summary}");
    let full = shown(&["--full"]);
    assert!(all.contains("(384 items)") && !full.contains("(384 items)"));
    assert!(full.len() > all.len() + 384 * 4);
}

/// Against the lines of `llama-imatrix --show-statistics`: layer, tensor, sum, min, max, mean, deviation, active, values, entropy,
/// the same by its largest value, outliers and similarity; then layer, sum, outliers and similarity of each layer.
#[test]
fn importance_statistics_match_reference() {
    let sandbox = Sandbox::new();
    for model in ["llama", "mixtral", "deepseek3-old"] {
        let file = format!("{model}.imatrix.gguf");
        fs::copy(golden("eval-cli").join(&file), sandbox.path(&file)).unwrap();
        let shown = succeed(sandbox.inspect(&["show", &file, "--json"])).json();
        let reference =
            fs::read_to_string(golden("eval-cli").join(format!("{model}.statistics.txt"))).unwrap();
        let rows: Vec<Vec<&str>> = reference
            .lines()
            .map(|line| line.split('\t').map(|cell| cell.trim().trim_end_matches('%')).collect())
            .collect();
        let near = |row: &[&str], found: &[(usize, f64, f64)]| {
            for (column, value, unit) in found {
                let expected: f64 = row[*column].parse().unwrap();
                // The last digit, and single precision.
                assert!(
                    (value - expected).abs() <= unit + 2e-5 * expected.abs(),
                    "{model} {column} {value}: {row:?}"
                );
            }
        };
        let (layers, tensors): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.len() == 4);
        let found = shown["importance"]["tensors"].as_array().unwrap();
        assert_eq!(found.len(), tensors.len(), "{model}");
        for row in tensors {
            let name = match row[0] {
                "-" => format!("{}.weight", row[1]),
                layer => format!("blk.{layer}.{}.weight", row[1]),
            };
            let tensor = found.iter().find(|tensor| tensor["tensor"] == name.as_str()).unwrap();
            let value = |key: &str| tensor[key].as_f64().unwrap_or(0.0);
            near(
                row,
                &[
                    (2, value("sum"), 0.01),
                    (3, value("min"), 1e-4),
                    (4, value("max"), 1e-4),
                    (5, value("mean"), 0.01),
                    (6, value("deviation"), 0.01),
                    (7, 100.0 * value("active"), 0.01),
                    (8, value("values"), 0.0),
                    (9, value("entropy"), 1e-4),
                    (10, 100.0 * value("evenness"), 0.01),
                    (11, 100.0 * value("outliers"), 0.01),
                    (12, value("similarity"), 1e-4),
                ],
            );
        }
        let found = shown["importance"]["layers"].as_array().unwrap();
        assert_eq!(found.len(), layers.len(), "{model}");
        for row in layers {
            let layer = found.iter().find(|layer| layer["layer"].as_u64() == row[0].parse().ok()).unwrap();
            let value = |key: &str| layer[key].as_f64().unwrap();
            let outliers = 100.0 * value("outliers");
            near(row, &[(1, value("sum"), 0.01), (2, outliers, 1e-4), (3, value("similarity"), 1e-4)]);
        }
    }
}

/// One run in both formats.
#[test]
fn older_importance_matrix_has_the_same_statistics() {
    let sandbox = Sandbox::new();
    for file in ["mixtral.gguf", "mixtral.dat"] {
        fs::copy(golden("recipes/imatrix").join(file), sandbox.path(file)).unwrap();
    }
    let show = |file: &str| succeed(sandbox.inspect(&["show", file, "--json"])).json();
    let (newer, older) = (show("mixtral.gguf"), show("mixtral.dat"));
    let [newer, older] = [&newer, &older].map(|shown| shown["importance"]["tensors"].as_array().unwrap());
    assert_eq!(newer.len(), older.len());
    let attention = |tensors: &[serde_json::Value]| {
        let tensor = tensors.iter().find(|tensor| tensor["tensor"] == "blk.0.attn_q.weight").unwrap();
        ["mean", "max", "entropy"].map(|key| tensor[key].as_f64().unwrap())
    };
    for (newer, older) in attention(newer).iter().zip(attention(older)) {
        assert!((newer - older).abs() < 1e-5 * newer.abs(), "{newer} {older}");
    }
    let text = succeed(sandbox.inspect(&["show", "mixtral.dat"])).stdout;
    assert!(text.starts_with("model       importance matrix in the older format\nsize "), "{text}");
    assert!(text.contains("\nattn_q.weight ") && !text.contains("blk."), "{text}");
    let full = succeed(sandbox.inspect(&["show", "mixtral.dat", "--full"])).stdout;
    assert!(full.contains("\nblk.0.attn_q.weight "), "{full}");
    let text = succeed(sandbox.inspect(&["show", "mixtral.gguf", "mixtral.gguf"])).stdout;
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.starts_with("mixtral.gguf:\nmodel       imatrix file\n"), "{text}");
    assert!(!text.contains("verdict") && !text.contains("bits/weight"), "{text}");
    assert_eq!(
        text.matches("\nsimilarity: cosine with the same tensor of the layer before\n").count(),
        2,
        "{text}"
    );
}

/// Two matrices with sums that are easy to compare: (1, 0) and (1, 1) have a cosine of 0.7071, and a multiple has 1.
#[test]
fn diff_of_importance_matrices_begins_with_similarities() {
    use gguf_imatrix::{Entry, Format, Sums};
    let sandbox = Sandbox::new();
    for (file, second) in [("a.gguf", [2.0, 0.0]), ("b.gguf", [3.0, 3.0])] {
        let mut sums = Sums::new(512);
        let names = ["blk.0.attn_q.weight", "blk.1.attn_q.weight", "blk.1.ffn_up.weight"];
        for (name, sums_of) in names.into_iter().zip([[second[0], second[0]], second, second]) {
            let entry = Entry { sums: sums_of.to_vec(), counts: vec![1] };
            sums.entries.insert(name.to_owned(), entry);
        }
        fs::write(sandbox.path(file), sums.to_bytes(Format::Gguf).unwrap()).unwrap();
    }
    let ran = sandbox.inspect(&["diff", "a.gguf", "b.gguf"]);
    let begin = "kind           similarity\nattn_q.weight      0.8536\nffn_up.weight      0.7071\n\n\
                 layer  similarity\n1          0.7071\n0          1.0000\n\n";
    assert!(ran.stdout.starts_with(begin), "{}", ran.stdout);
    let equal = sandbox.inspect(&["diff", "a.gguf", "a.gguf"]);
    assert_eq!((equal.code, &*equal.stdout, &*equal.stderr), (Some(0), "", "no differences\n"));
}

/// Against the listing that the reference's converter made of the same checkpoint.
#[test]
fn json_matches_reference_metadata() {
    let sandbox = Sandbox::with_converted("llama", "x.gguf", "f32");
    let ran = sandbox.inspect(&["show", "x.gguf", "--json"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let json = ran.json();
    let expected = fs::read_to_string(golden("arch/llama/expected.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&expected).unwrap();
    let rows = expected["metadata"].as_array().unwrap();
    let metadata = json["metadata"].as_object().unwrap();
    assert_eq!(metadata.len(), rows.len());
    for (row, (key, entry)) in rows.iter().zip(metadata) {
        assert_eq!(row[0], *key);
        assert_eq!(row[1], entry["type"], "{key}");
        match (&row[2], &entry["value"]) {
            (serde_json::Value::Object(array), value) => {
                assert_eq!(array["len"], value.as_array().unwrap().len(), "{key}");
            }
            (serde_json::Value::Number(expected), value) if expected.is_f64() => {
                assert_eq!(expected.as_f64().unwrap() as f32, value.as_f64().unwrap() as f32, "{key}");
            }
            (expected, value) => assert_eq!(expected, value, "{key}"),
        }
    }
    assert_eq!(json["tensors"].as_array().unwrap().len(), 21);
    assert_eq!(json["totals"]["f32"]["tensors"], 21);
    assert_eq!(json["bits_per_weight"], 32.0);
    assert_eq!(json["file_bytes"], 5_520_672);
}

#[test]
fn files_of_both_byte_orders_are_shown() {
    let sandbox = Sandbox::new();
    for (name, endian) in [("py-little.gguf", "little"), ("py-big.gguf", "big")] {
        fs::copy(golden("gguf").join(name), sandbox.path(name)).unwrap();
        let ran = sandbox.inspect(&["show", name, "--list"]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{name}");
        assert!(ran.stdout.contains(&format!("GGUF version 3, {endian} endian")), "{}", ran.stdout);
        let json = sandbox.inspect(&["show", name, "--json"]).json();
        assert_eq!(json["endian"], endian);
    }
}

#[test]
fn other_files_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("x.gguf", "GGML and more");
    sandbox.write("cut.gguf", b"GGUF\x03\0\0\0\x01");
    for (file, stderr) in [
        ("x.gguf", "error: x.gguf: not a GGUF file: expected `GGUF` at the start, found `GGML`\n"),
        (
            "cut.gguf",
            "error: cut.gguf: unexpected end of file in the number of tensors: expected 8 bytes at offset 8, found 1\n\
             hint: the file may be truncated; download or copy it again\n",
        ),
        ("none.gguf", "error: none.gguf: cannot open: No such file or directory (os error 2)\n"),
    ] {
        let ran = sandbox.inspect(&["show", file]);
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(1), "", stderr));
    }
    for args in [&[][..], &["show"], &["peek", "x.gguf"], &["show", "x.gguf", "--json", "--full"]] {
        assert_eq!(sandbox.inspect(args).code, Some(2), "{args:?}");
    }
    let script = succeed(sandbox.inspect(&["--completions", "bash"]));
    assert!(script.stdout.contains("gguf-inspect"));
}

#[test]
fn cpu_lists_levels_and_obeys_variable() {
    let inspect = || std::process::Command::new(env!("CARGO_BIN_EXE_gguf-inspect"));
    let output = inspect().args(["cpu", "--json"]).env("GGUF_CPU_LEVEL", "scalar").output().unwrap();
    assert!(output.status.success());
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["used"], "scalar");
    assert_eq!(report["available"][0], "scalar");

    let text = inspect().arg("cpu").env("GGUF_CPU_LEVEL", "scalar").output().unwrap();
    assert!(String::from_utf8(text.stdout).unwrap().starts_with("scalar   in use\n"));

    let refused = inspect().arg("cpu").env("GGUF_CPU_LEVEL", "mmx").output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("`mmx`"));
}

#[test]
fn page_shows_texts_of_the_file_as_text() {
    let sandbox = Sandbox::with_converted("llama", "base.gguf", "f32");
    let hostile = "</script><img src=x onerror=\"alert(1)\">";
    let template = format!(
        "{{% for m in messages %}}<{{{{ m.role }}}}>{{{{ m.content }}}}{{% endfor %}}{{% if 0 %}}{hostile}{{% endif %}}"
    );
    let (name, template) = (format!("general.name={hostile}"), format!("tokenizer.chat_template={template}"));
    succeed(sandbox.quantize(&["base.gguf", "x.gguf", "q4_k_m", "-q"]));
    succeed(sandbox.inspect(&["set", "x.gguf", &name, &template, "--output", "hostile.gguf"]));
    let page = |options: &[&str]| {
        let args = ["show", "hostile.gguf", "--html", "page.html", "--force"];
        succeed(sandbox.inspect(&[&args[..], options].concat()));
        sandbox.text("page.html")
    };
    let plain = page(&[]);
    assert!(!plain.contains("<img") && plain.contains("&lt;img src=x"), "{plain}");
    assert_eq!(plain.matches("<script>").count(), 1);
    assert_eq!(plain.matches("</script>").count(), 1);
    for elsewhere in ["http:", "https:", "url(", "@import", "<link", "src="] {
        let escaped = plain.replace("&lt;img src=x", "").replace("&#x2f;", "/");
        let in_values =
            escaped.lines().filter(|line| !line.starts_with("<tr><td>")).any(|line| line.contains(elsewhere));
        assert!(!in_values, "{elsewhere}");
    }
    // The verdict, the rendered prompt, a type of the picture, a key and a tensor.
    for text in [
        "<tbody>\n<tr><td>verdict</td><td>header ok; weights not checked: run <code>gguf-inspect verify</code></td>",
        "&lt;user&gt;{prompt}",
        "blk.0.attn_v.weight",
        "<title>token_embd.weight [256, 384] ",
        "q6_K",
        "tokenizer.ggml.tokens",
    ] {
        assert!(plain.contains(text), "{text}");
    }
    assert!(!plain.contains(" dB</td>") && page(&["--base", "base.gguf"]).contains(" dB</td>"));
}

#[test]
fn page_is_not_written_over_its_input() {
    let sandbox = Sandbox::with_converted("llama", "x.gguf", "f32");
    let before = fs::read(sandbox.path("x.gguf")).unwrap();
    for (call, code, says) in [
        ("show x.gguf --html x.gguf --force", 1, "output `x.gguf` is also the input"),
        ("show x.gguf x.gguf --html a.html", 2, "expected one file for --html"),
        ("show x.gguf --base x.gguf", 2, "--html <PAGE>"),
    ] {
        sandbox.inspect(&words(call)).ends_and_says(code, says);
    }
    assert_eq!(fs::read(sandbox.path("x.gguf")).unwrap(), before);
    assert!(!sandbox.path("a.html").exists());
}
